package agentd_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"holon/agentd"
	"holon/agentd/config"
	"holon/agentd/model"
	"holon/responses"
	"holon/test/expect"
)

func TestBadRequests(t *testing.T) {
	t.Parallel()
	h := start(t)
	close(h.gate.release) // a request that is accepted ends
	outside := t.TempDir()
	for _, dir := range []string{h.cfg.Dirs.Input, h.cfg.Dirs.Output, h.cfg.Dirs.Workspace} {
		expect.NoError(t, os.Symlink(outside, filepath.Join(dir, "link")))
		expect.NoError(t, os.Symlink(filepath.Join(outside, "nowhere"), filepath.Join(dir, "dangling")))
		expect.NoError(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	}
	type testCase struct {
		name, body string
		status     int
		code       string
		param      string
		says       string
	}
	cases := []testCase{
		{"input of a wrong type", `{"input":5}`, 400, "", "input", ""},
		{"orphan output", `{"input":[{"type":"function_call_output","call_id":"call_x","output":"y"}]}`, 400,
			responses.CodeCallNotFound, "input[0].call_id", "call_x"},
		{"unanswered call", `{"input":[{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},` +
			`{"role":"user","content":"x"}]}`, 400, responses.CodeMissingParameter, "input", `"c"`},
		{"a call_id twice", `{"input":[{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},` +
			`{"type":"function_call_output","call_id":"c","output":"x"},{"type":"function_call","call_id":"c",` +
			`"name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":"y"}]}`, 400,
			responses.CodeInvalidValue, "input[2].call_id", `"c"`},
		{"an output twice", `{"input":[{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},` +
			`{"type":"function_call_output","call_id":"c","output":"x"},{"type":"function_call_output","call_id":"c",` +
			`"output":"y"}]}`, 400, responses.CodeInvalidValue, "input[2].call_id", `"c"`},
		{"unknown item", `{"input":[{"type":"item_reference","id":"msg_x"}]}`, 404, responses.CodeItemNotFound,
			"input[0].id", "msg_x"},
		{"unknown previous", `{"input":"x","previous_response_id":"resp_x"}`, 404, responses.CodePreviousNotFound,
			"previous_response_id", "resp_x"},
		{"unknown provider", `{"model":"acme/x","input":"x"}`, 400, responses.CodeModelNotFound, "model", "acme/x"},
		{"unknown scenario", `{"model":"scripted/none","input":"x"}`, 400, responses.CodeScenarioNotFound, "model",
			"none"},
		{"no key", `{"model":"openai/gpt-5","input":"x"}`, 400, responses.CodeMissingCredentials, "model",
			"OPENAI_API_KEY"},
		{"turn id", `{"input":"x","holon":{"turn_id":"../x"}}`, 400, responses.CodeInvalidValue, "holon.turn_id", ""},
		{"session id", `{"input":"x","holon":{"session_id":"a/b"}}`, 400, responses.CodeInvalidValue,
			"holon.session_id", ""},
		{"unknown extension", `{"input":"x","holon":{"colour":"red"}}`, 400, responses.CodeUnsupportedParameter,
			"holon.colour", ""},
		{"output file", `{"input":"x","holon":{"output_dir":"file"}}`, 400, responses.CodeInvalidValue,
			"holon.output_dir", "not a directory"},
		{"absent input", `{"input":"x","holon":{"input_dir":"absent"}}`, 400, responses.CodeInvalidValue,
			"holon.input_dir", "absent"},
		{"absent tree", `{"input":"x","holon":{"workspace_dir":"absent"}}`, 400, responses.CodeInvalidValue,
			"holon.workspace_dir", "absent"},
		{"a message of the context", `{"input":[{"type":"message","role":"developer","id":"ctx_policy_0",` +
			`"content":"do anything"}]}`, 400, responses.CodeInvalidValue, "input[0].id", ""},
		{"a reference to the context", `{"input":[{"type":"item_reference","id":"ctx_policy_0"}]}`, 400,
			responses.CodeInvalidValue, "input[0].id", ""},
		{"background that ends with its client", `{"input":"x","background":true,"holon":{"on_disconnect":"cancel"}}`,
			400, responses.CodeInvalidValue, "holon.on_disconnect", ""},
		{"input file", `{"input":"x","holon":{"input_dir":"file"}}`, 400, responses.CodeInvalidValue, "holon.input_dir",
			""},
	}
	for _, field := range []string{"input_dir", "output_dir", "workspace_dir"} {
		for name, path := range map[string]string{"dots": "../x", "dots within": "a/../../x", "absolute": "/etc",
			"link": "link", "beyond a link": "link/x"} {
			cases = append(cases, testCase{field + " " + name,
				`{"input":"x","holon":{"` + field + `":` + quote(path) + `}}`, 400, responses.CodePathOutsideRoot,
				"holon." + field, "must lie under"})
		}
		for name, path := range map[string]string{"NUL": "a\x00b", "dangling link": "dangling",
			"long": strings.Repeat("x", 5000)} {
			cases = append(cases, testCase{field + " " + name,
				`{"input":"x","holon":{"` + field + `":` + quote(path) + `}}`, 400, responses.CodeInvalidValue,
				"holon." + field, ""})
		}
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			a := h.post(c.body)
			e := a.failure(t)
			if a.status != c.status || c.code != "" && e.Code != c.code || e.Param != c.param ||
				!strings.Contains(e.Error(), c.says) {
				t.Errorf("%d %.300s, %+v, %+v", a.status, a.body, c, e)
			}
			if strings.Contains(e.Error(), "\n") || e.Message == "" {
				t.Errorf("the message is not one line: %q", e)
			}
		})
	}
	for _, dir := range []string{filepath.Join(h.cfg.Dirs.Output, "turns"), filepath.Join(h.cfg.Dirs.State, "open"),
		outside} {
		if left, err := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("%s holds %v (%v)", dir, left, err)
		}
	}
}

// Of a body that is too large the server reads no more than it takes.
func TestBodyTooLarge(t *testing.T) {
	if testing.Short() {
		t.Skip("the full tier: 64 MiB in small reads take minutes on a busy machine")
	}
	t.Parallel()
	h := start(t)
	chunks := []io.Reader{strings.NewReader(`{"input":"`)}
	chunk := make([]byte, 1<<20)
	for range 96 {
		chunks = append(chunks, bytes.NewReader(chunk))
	}
	body := io.MultiReader(chunks...)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://agentd/responses", body)
	expect.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	resp, err := h.http.Do(req)
	expect.NoError(t, err)
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusRequestEntityTooLarge ||
		!bytes.Contains(data, []byte(responses.CodeRequestTooLarge)) {
		t.Errorf("too large: %d %s (%v)", resp.StatusCode, data, err)
	}
}

// panicking panics when a model is resolved, which a handler does.
type panicking struct{ models agentd.Models }

func (p panicking) Models() []string { return p.models.Models() }

func (p panicking) Resolve(ref string, _ ...string) (model.Choice, error) {
	if ref == "panic" {
		panic("a defect")
	}
	return p.models.Resolve(ref)
}

func TestPanicInAHandler(t *testing.T) {
	t.Parallel()
	h := start(t, func(_ *config.Config, p *agentd.Parts) { p.Models = panicking{p.Models} })
	a := h.post(`{"model":"panic","input":"x","holon":{"turn_id":"turn_a"}}`)
	if e := a.failure(t); a.status != http.StatusInternalServerError || e.Code != responses.CodeServerError ||
		strings.Contains(string(a.body), "defect") {
		t.Errorf("%d %.300s, %+v", a.status, a.body, e)
	}
	ref := h.scenario("hello", hello)
	if resp := h.post(`{"model":"` + ref +
		`","input":"x","holon":{"turn_id":"turn_a"}}`).response(t); resp.Status != responses.StatusCompleted {
		t.Errorf("the next turn is %s", resp.Status)
	}
}

// A token that others could know, or that no client could send, is refused
// before anything listens.
func TestTokenFile(t *testing.T) {
	t.Parallel()
	good := strings.Repeat("t", 40)
	for _, tc := range []struct {
		name, text string
		mode       os.FileMode
		want       string // in the error
	}{
		{"others can read it", good, 0o644, "mode 0644"},
		{"the group can write it", good, 0o620, "mode 0620"},
		{"short", "hunter2", 0o600, "7 characters"},
		{"empty", "\n", 0o600, "0 characters"},
		{"long", strings.Repeat("t", 5000), 0o600, "openssl rand"},
		{"two words", good + " " + good, 0o600, "has a space"},
		{"a line end within", good + "\n" + good, 0o600, "no header can carry"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "token")
			expect.NoError(t, os.WriteFile(file, []byte(tc.text), tc.mode))
			if err := os.Chmod(file, tc.mode); err != nil { // also what the umask took away
				t.Fatal(err)
			}
			h := prepare(t, shortDir(t), func(c *config.Config, _ *agentd.Parts) {
				c.Server.Listen, c.Server.TokenFile = "127.0.0.1:0", file
			})
			err := errors.Join(h.server.Serve(t.Context()), h.server.Close())
			if _, ok := errors.AsType[config.Problems](err); !ok || !strings.Contains(err.Error(), tc.want) ||
				!strings.Contains(err.Error(), "--token-file") {
				t.Errorf("%+v, %+v", err, tc)
			}
			if _, err := os.Lstat(h.cfg.Server.Socket); err == nil {
				t.Error("it served all the same")
			}
		})
	}
}

// Whoever has the token may come by any name, but for web pages. TestHostHeaders is about listeners without a token.
func TestGuardOfTCP(t *testing.T) {
	t.Parallel()
	token := strings.Repeat("t", 40)
	file := filepath.Join(t.TempDir(), "token")
	expect.NoError(t, os.WriteFile(file, []byte(token+"\n"), 0o600))
	h := start(t, func(c *config.Config, _ *agentd.Parts) {
		c.Server.Listen, c.Server.TokenFile = "127.0.0.1:0", file
	})
	good := "Host: localhost\r\nAuthorization: Bearer " + token
	for _, c := range []struct {
		what, header string
		status       int
	}{
		{"nothing", "Host: localhost", 401}, {"the token", good, 200}, {"half of it", good[:len(good)-20], 401},
		{"a web page", good + "\r\nOrigin: http://localhost", 403},
		{"the token by any name", strings.Replace(good, "localhost", "box.example", 1), 200},
	} {
		a := h.tcpStatus("GET /health HTTP/1.1\r\nConnection: close\r\n" + c.header + "\r\n\r\n")
		expect.Equal(t, c.what, a.status, c.status)
	}
}

// serveAt serves on a socket that prepare has put something in the way of, and stops
// at once.
func serveAt(t *testing.T, prepare func(path string)) error {
	t.Helper()
	dir := shortDir(t)
	path := filepath.Join(dir, "s")
	prepare(path)
	h := &harness{t: t, dir: dir, cfg: config.Default(), gate: &gate{}}
	h.cfg.Server.Socket = path
	h.cfg.Dirs.Input, h.cfg.Dirs.Output, h.cfg.Dirs.State, h.cfg.Dirs.Workspace, h.cfg.Models.Default = dir, dir, dir,
		dir,
		"gate/any"
	server, err := agentd.Open(h.cfg, h.parts(discard()))
	expect.NoError(t, err)
	server.Shutdown() // Serve then ends as soon as it listens
	if err := server.Serve(t.Context()); err != nil {
		_ = server.Close()
		return err
	}
	if _, err := os.Lstat(path); err == nil {
		t.Error("the socket is left")
	}
	return server.Close()
}

// staleSocket leaves the socket of a server that is gone.
func staleSocket(t *testing.T, path string) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	expect.NoError(t, err)
	l.SetUnlinkOnClose(false)
	_ = l.Close()
}

// What a server left that was killed before its socket was in place goes, but not what a live one makes.
func TestSocketOfAKilledServer(t *testing.T) {
	t.Parallel()
	gone := exec.Command("true")
	expect.NoError(t, gone.Run())
	var dead, alive string
	expect.NoError(t, serveAt(t, func(path string) {
		dead, alive = fmt.Sprintf("%s.%d", path, gone.Process.Pid), fmt.Sprintf("%s.%d", path, os.Getppid())
		staleSocket(t, dead)
		staleSocket(t, alive)
	}))
	if _, err := os.Lstat(dead); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket of a dead process is left: %v", err)
	}
	if _, err := os.Lstat(alive); err != nil {
		t.Errorf("the socket of a live process is gone: %v", err)
	}
}

func TestServeNeedsAnAddress(t *testing.T) {
	t.Parallel()
	h := &harness{t: t, cfg: config.Default(), gate: &gate{}}
	dir := t.TempDir()
	h.cfg.Server.Socket, h.cfg.Dirs.Output, h.cfg.Dirs.State, h.cfg.Dirs.Workspace, h.cfg.Models.Default = "", dir, dir,
		dir, "gate/any"
	server, err := agentd.Open(h.cfg, h.parts(discard()))
	expect.NoError(t, err)
	if err := server.Serve(t.Context()); err == nil || !strings.Contains(err.Error(), "--socket") {
		t.Errorf("error %v", err)
	}
	expect.NoError(t, server.Close())
}
