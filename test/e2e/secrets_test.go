package e2e

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"holon/test/expect"
)

// secretKey has a character for every way of escaping.
const secretKey = `sk-S3nt1nel/+9c1e=55d0<4b6e>"8a21\7f3a&x`

// tokenPrefix begins every token of a turn.
const tokenPrefix = "hmt_"

// formsOf are the ways in which a key could be written down: as it is, base64 at
// each offset, hex, and escaped.
func formsOf(key string) map[string]string {
	quoted, _ := json.Marshal(key) // a string always encodes
	forms := map[string]string{
		"raw": key, "hex": hex.EncodeToString([]byte(key)),
		"upper hex": strings.ToUpper(hex.EncodeToString([]byte(key))),
		"query":     url.QueryEscape(key), "path": url.PathEscape(key), "json": strings.Trim(string(quoted), `"`),
		"json without html": strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key),
	}
	for offset := range 3 {
		for name, encoding := range map[string]*base64.Encoding{"base64": base64.RawStdEncoding,
			"base64url": base64.RawURLEncoding} {
			whole := encoding.EncodeToString([]byte(strings.Repeat("\x00", offset) + key))
			forms[fmt.Sprintf("%s at %d", name, offset)] = whole[(offset*8+5)/6 : (offset+len(key))*8/6]
		}
	}
	return forms
}

// leaks says in which forms text holds the key, or a token of a turn.
func leaks(text string) (found []string) {
	for name, form := range formsOf(secretKey) {
		if strings.Contains(text, form) {
			found = append(found, name)
		}
	}
	if strings.Contains(text, tokenPrefix) {
		found = append(found, "the turn's token")
	}
	return found
}

// echo is a provider that says the key it was given wherever it can: in an
// error, in headers, and in streams that are cut anywhere.
type echo struct {
	asked   atomic.Int64
	strange atomic.Int64 // requests that did not bring the key, or brought it in the body
}

func (e *echo) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if r.Header.Get("Authorization") != "Bearer "+secretKey || len(leaks(string(body))) > 0 {
		e.strange.Add(1)
	}
	all := r.Header.Get("Authorization")
	for _, form := range formsOf(secretKey) {
		all += " " + form
	}
	said, _ := json.Marshal(all) // a string always encodes
	w.Header().Set("X-Request-Id", secretKey)
	n := e.asked.Add(1)
	if n == 1 {
		w.Header().Set("Retry-After-Ms", "1")
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintf(w, `{"error":{"message":%s,"type":"server_error","code":%s}}`, said, said)
		return
	}
	events := lookAround("call_look")
	if n > 2 {
		message := `{"id":"msg_1","type":"message","role":"assistant","status":"completed","content":[{"type":` +
			`"output_text","text":` + string(said) + `,"annotations":[]}]}`
		events = []string{
			`{"type":"response.created","response":{"id":"resp_2","object":"response","created_at":1,` +
				`"status":"in_progress","model":"gpt-test","output":[]}}`,
			`{"type":"response.output_text.delta","item_id":"msg_1","output_index":0,"content_index":0,"delta":` +
				string(said) + `}`,
			`{"type":"response.completed","response":{"id":"resp_2","object":"response","created_at":1,` +
				`"status":"completed","model":"gpt-test","output":[` + message + `],"usage":{"input_tokens":3,` +
				`"output_tokens":4,"total_tokens":7}}}`,
		}
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, event := range events {
		text := "data: " + event + "\n\n"
		for len(text) > 0 { // in pieces that cut every form somewhere
			cut := min(len(text), 7)
			_, _ = io.WriteString(w, text[:cut]) // a client that leaves is its own affair
			_ = http.NewResponseController(w).Flush()
			text = text[cut:]
		}
	}
}

// A provider that repeats the key everywhere, and an agent that looks everywhere:
// neither the key, in any of its forms, nor the turn's token is in the container,
// in the engine's data about it, in the output of holon, or in any file that is left.
func TestSecretsAreNowhere(t *testing.T) {
	t.Parallel()
	provider := &echo{}
	server := httptest.NewServer(provider)
	t.Cleanup(server.Close)
	h, repo := newHome(t, "OPENAI_API_KEY="+secretKey, "OPENAI_BASE_URL="+server.URL+"/v1"), repository(t, "echo a > a")
	p := h.begin(repo, "run", "--model", "openai/gpt-test", "look for a key")
	await(t, "the agent's command", func() bool { return exists(h, "cache/trees/*/*/tree/started") })
	for _, id := range h.containers() {
		for what, text := range map[string]string{
			"docker inspect": docker(t, "inspect", id), "docker logs": docker(t, "logs", id),
			"docker top": docker(t, "top", id, "-eo", "pid,args"),
			"its files": docker(t, "exec", id, "sh", "-c",
				`find / -xdev -type f -size -1000k -not -path '/proc/*' -not -path '/sys/*' -not -path '/usr/*' `+
					`-exec cat {} + 2>/dev/null; env`),
			"agentd's own proc": docker(t, "exec", id, "sh", "-c",
				`cat /proc/1/environ /proc/1/cmdline /proc/1/mem /proc/1/maps /proc/1/fd/* 2>&1; true`),
		} {
			if found := leaks(text); len(found) > 0 {
				t.Errorf("%s: %v", what, found)
			}
		}
	}
	searchFiles(t, h.dir) // while all directories of the session are there
	release(t, h)
	r := p.wait()
	if r.code != 0 {
		t.Fatalf("exit code %d\n%s", r.code, r.stderr)
	}
	checkRecord(t, r)
	if found := leaks(r.stdout + r.stderr); len(found) > 0 {
		t.Errorf("printed: %v\n%s\n%s", found, r.stdout, r.stderr)
	}
	if !strings.Contains(r.stdout, "[redacted]") {
		t.Errorf("the answer shows nothing of what was taken out: %s", r.stdout)
	}
	if !strings.Contains(r.read(t, "tools/call_look/stdout.log"), "/holon/ipc") {
		t.Error("the agent's command did not look around")
	}
	searchFiles(t, h.dir)
	searchFiles(t, r.dir)
	if provider.asked.Load() != 3 || provider.strange.Load() != 0 {
		t.Errorf("the provider was asked %d times, %d of them strangely", provider.asked.Load(),
			provider.strange.Load())
	}
}

// searchFiles looks for secrets in the name and content of every file beneath dir.
func searchFiles(t *testing.T, dir string) {
	t.Helper()
	count := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil // it vanished, or is not a regular file
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return nil
		}
		count++
		if found := leaks(path + "\n" + string(data)); len(found) > 0 {
			t.Errorf("%s: %v", path, found)
		}
		return nil
	})
	if err != nil || count == 0 {
		t.Errorf("%s: %d files, %v", dir, count, err)
	}
}

// While a run goes on no command line of the machine holds a value of --env: not
// holon's own, which had it, and none of what it starts, in either engine.
func TestSecretsInCommandLines(t *testing.T) {
	t.Parallel()
	for _, engine := range []string{"docker", "local"} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			secret := fmt.Sprintf("sesame-%x-", os.Getpid()) + rand.Text()
			h := newHome(t, "THIRD="+secret)
			dir, vars := repository(t, "echo a > a"), filepath.Join(t.TempDir(), "vars")
			expect.NoError(t, os.WriteFile(vars, []byte("FOURTH="+secret+"\n"), 0o600))
			p := h.beginPlay(dir, "commandlines", "--engine", engine, "--env", "FIRST="+secret, "--env=SECOND="+secret,
				"--env", "THIRD", "--env-file", vars, "--env", "EXPECTED="+secret)
			own, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.cmd.Process.Pid))
			switch {
			case err != nil:
				t.Errorf("unexpected error: %v", err)
			case !strings.Contains(string(own), "--env\x00FIRST=***"):
				t.Errorf(`string(own) = %q, want it to contain "--env\x00FIRST=***"`, string(own))
			case !strings.Contains(string(own), "--env=SECOND=***"):
				t.Errorf(`string(own) = %q, want it to contain "--env=SECOND=***"`, string(own))
			case !strings.Contains(string(own), "commandlines.yaml"):
				t.Errorf(`string(own) = %q, want it to contain "commandlines.yaml"`, string(own))
			}
			lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
			expect.NoError(t, err)
			for _, path := range lines {
				line, err := os.ReadFile(path) // one that has ended meanwhile shows nothing
				if err == nil && strings.Contains(string(line), secret) {
					t.Errorf("%s is %q", path, line)
				}
			}
			release(t, h)
			if r := p.wait(); r.code != 0 {
				t.Errorf("the commands did not get the values: exit code %d\n%s", r.code, r.stderr)
			}
		})
	}
}
