package clients

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"holon/responses"
	"holon/test/expect"
	"holon/test/load"
	"holon/test/programs"
)

var codeBlock = regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?)^```$")

// blocks are the code blocks of a guide in a language, "" for what a shell runs.
func blocks(t *testing.T, guide, language string) (list []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "guides", guide))
	expect.NoError(t, err)
	for _, block := range codeBlock.FindAllStringSubmatch(string(text), -1) {
		if block[1] == language {
			list = append(list, block[2])
		}
	}
	if len(list) == 0 {
		t.Fatalf("%s has no block of %q", guide, language)
	}
	return list
}

const done = "It is done."

// provider is an OpenAI whose gpt-5 says that it is done.
func provider(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked struct{ Model string }
		if json.NewDecoder(r.Body).Decode(&asked) != nil || asked.Model != "gpt-5" || r.URL.Path != "/v1/responses" {
			http.Error(w, "no such model", http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		em, err := responses.NewEmitter(responses.Response{ID: "resp_provider", Model: "gpt-5"},
			func(kind string, data []byte) error {
				_, err := fmt.Fprintf(w, "event: %s\ndata: %s\n\n", kind, data)
				return err
			})
		if err == nil {
			err = errors.Join(em.Begin(), em.BeginMessage(""), em.Text(done), em.EndItem(),
				em.Complete(responses.Usage{}, time.Now().Unix()))
		}
		if err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL + "/v1"
}

// The programs of the guide for clients run as they are written, each against a daemon that has its user's directories.
func TestGuideForClients(t *testing.T) {
	t.Parallel()
	installNode(t)
	upstream := provider(t)
	s := serveDoor(t, "local", "clients", func(dir string, o *load.Options) {
		expect.NoError(t, os.MkdirAll(filepath.Join(dir, "src", "app"), 0o755))
		o.Model, o.Roots = "openai/gpt-5", []string{filepath.Join(dir, "src")}
		o.Env = append(o.Env, "OPENAI_BASE_URL="+upstream, "OPENAI_API_KEY=sk-guide")
	})
	scratch, err := os.MkdirTemp(filepath.Join("node", "node_modules"), ".guide-") // where the packages are found
	expect.NoError(t, err)
	t.Cleanup(func() { expect.NoError(t, os.RemoveAll(scratch)) })
	run := func(what string, name string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Env = append(os.Environ(), "HOME="+s.dir, "OPENAI_BASE_URL="+s.tcp, "OPENAI_API_KEY=unused", "CGO_ENABLED=0")
		for _, kept := range []string{"GOCACHE", "GOMODCACHE"} { // which are in the user's home otherwise
			dir, err := exec.CommandContext(t.Context(), "go", "env", kept).Output()
			expect.NoError(t, err)
			cmd.Env = append(cmd.Env, kept+"="+strings.TrimSpace(string(dir)))
		}
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), done) {
			t.Errorf("%s: %v\n%s", what, err, out)
		}
	}
	for i, block := range blocks(t, "clients.md", "js") {
		file := filepath.Join(scratch, fmt.Sprint(i, ".mjs"))
		expect.NoError(t, os.WriteFile(file, []byte(block), 0o600))
		run(block, "node", file)
	}
	file := filepath.Join(scratch, "main.go")
	expect.NoError(t, os.WriteFile(file, []byte(blocks(t, "clients.md", "go")[0]), 0o600))
	run("openai-go", "go", "run", "-trimpath", file)
	run("curl", "sh", "-ec", blocks(t, "clients.md", "")[1])

	config := blocks(t, "clients.md", "toml")[0]
	for _, want := range []string{`base_url = "http://127.0.0.1:7878/v1"`, `wire_api = "responses"`,
		`model_provider = "holon"`, "[model_providers.holon]"} {
		if !strings.Contains(config, want+"\n") {
			t.Errorf("the settings of Codex lack %s", want)
		}
	}
}

// The command in the settings of Zed speaks the editor's protocol.
func TestGuideForEditors(t *testing.T) {
	t.Parallel()
	var settings struct {
		Servers map[string]struct {
			Command string
			Args    []string
		} `json:"agent_servers"`
	}
	expect.NoError(t, json.Unmarshal([]byte(blocks(t, "editors.md", "json")[0]), &settings))
	zed := settings.Servers["Holon"]
	expect.Equal(t, "command", zed.Command, "holon")
	s := serveDoor(t, "local", "clients") // else the command would start a daemon that stays
	cmd := exec.CommandContext(t.Context(), programs.Must("holon"), zed.Args...)
	for i, arg := range cmd.Args {
		if strings.HasPrefix(arg, "/home/") {
			cmd.Args[i] = s.dir
		}
	}
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.dir, "HOLON_HOME=" + filepath.Join(s.dir, "h"),
		"OPENAI_API_KEY=sk-guide"}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	cmd.Stdin = strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}` + "\n")
	out, err := cmd.Output()
	var answer struct {
		Result struct{ ProtocolVersion int }
	}
	if json.Unmarshal(out, &answer) != nil || answer.Result.ProtocolVersion != 1 {
		t.Errorf("holon acp: %v\n%s%s", err, out, stderr.String())
	}
}
