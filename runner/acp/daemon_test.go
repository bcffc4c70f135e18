package acp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"holon/internal/unixsocket"
	"holon/responses/client"
	"holon/test/expect"
	"holon/test/gittest"
	"holon/test/memory"
	"holon/test/programs"
)

func TestMain(m *testing.M) {
	gittest.Isolate()
	os.Exit(m.Run())
}

const patience = 2 * time.Minute

// daemon has what an editor needs of one: the responses of an agentd below /v1, and sessions on real git trees.
type daemon struct {
	t      *testing.T
	dir    string
	agentd http.RoundTripper
	socket string

	mu       sync.Mutex
	sessions map[string]*daemonSession
	accepted chan struct{} // when not nil: it is closed for a response that is made, which its client never gets
}

type daemonSession struct {
	ID          string   `json:"id"`
	Name        string   `json:"name"`
	Model       string   `json:"model"`
	Workspace   string   `json:"workspace"`
	ResponseIDs []string `json:"response_ids"`
	tree        string
}

// startDaemon starts a real agentd, and what is before it.
func startDaemon(t *testing.T) *daemon {
	t.Helper()
	dir, err := os.MkdirTemp(memory.Place(), "acp") // t.TempDir's paths are too long for a socket
	expect.NoError(t, err)
	t.Cleanup(func() { expect.NoError(t, os.RemoveAll(dir)) })
	d := &daemon{t: t, dir: dir, sessions: map[string]*daemonSession{}, socket: filepath.Join(dir, "holon.sock")}
	for _, name := range []string{"input", "output", "state", "workspace"} {
		expect.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o700))
	}
	for _, name := range []string{"turns.yaml", "slow.yaml", "plan.yaml", "fails.yaml"} {
		data, err := os.ReadFile(filepath.Join("testdata", name))
		expect.NoError(t, err)
		expect.NoError(t, os.WriteFile(filepath.Join(dir, "workspace", name), data, 0o600))
	}
	d.startAgentd()
	listener, err := net.Listen("unix", d.socket)
	expect.NoError(t, err)
	server := &http.Server{Handler: d.routes(), ReadHeaderTimeout: patience}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return d
}

func (d *daemon) startAgentd() {
	at := func(name string) string { return filepath.Join(d.dir, name) }
	cmd := exec.Command(programs.Must("agentd"), "serve", "--socket", at("s"), "--min-free-bytes", "0", "--input-dir",
		at("input"), "--output-dir", at("output"), "--state-dir", at("state"), "--workspace-dir", at("workspace"))
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + d.dir, "HOLON_RETRY_FOR=0s"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	log := &strings.Builder{}
	cmd.Stderr = log
	expect.NoError(d.t, cmd.Start())
	d.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil || d.t.Failed() {
			d.t.Logf("agentd: %v\n%s", err, log)
		}
	})
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return unixsocket.Dial(ctx, at("s"))
	}}
	d.t.Cleanup(transport.CloseIdleConnections)
	d.agentd = transport
	c := client.Unix(at("s"))
	defer c.Close()
	for until := time.Now().Add(patience); ; {
		if _, err := c.Health(d.t.Context()); err == nil {
			return
		} else if time.Now().After(until) {
			d.t.Fatal(err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (d *daemon) routes() http.Handler {
	proxy := &httputil.ReverseProxy{Transport: d.agentd, FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: "http", Host: "agentd"})
	}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/responses", d.create)
	mux.Handle("/v1/", http.StripPrefix("/v1", proxy))
	mux.HandleFunc("GET /sessions/{id}", d.of(func(*daemonSession) (int, any) { return 0, nil }))
	mux.HandleFunc("GET /sessions/{id}/diff", d.of(d.diff))
	mux.HandleFunc("POST /control/sessions/{id}/apply", func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			AllowExecuted bool `json:"allow_executed"`
		}
		expect.NoError(d.t, json.NewDecoder(r.Body).Decode(&body))
		d.of(func(s *daemonSession) (int, any) { return d.apply(s, body.AllowExecuted) })(w, r)
	})
	return mux
}

// create opens the session that a request names, and passes the request on.
func (d *daemon) create(w http.ResponseWriter, r *http.Request) {
	var body map[string]any
	expect.NoError(d.t, json.NewDecoder(r.Body).Decode(&body))
	holon, ok := body["holon"].(map[string]any)
	if body["model"] == "agent/main" {
		if ok || body["previous_response_id"] != nil {
			d.t.Errorf("an agent is asked with %v", body)
		}
		body["model"], holon = "scripted/plan", map[string]any{"session_id": "agent"}
	}
	if reasoning, ok := body["reasoning"].(map[string]any); holon["session_id"] != "agent" && (!ok ||
		reasoning["summary"] != "auto") {
		d.t.Errorf("no thoughts are asked for: %v", body)
	}
	name := holon["session_id"].(string)
	d.mu.Lock()
	s := d.sessions[name]
	if s == nil && name == "agent" {
		s = &daemonSession{tree: filepath.Join(d.dir, "workspace")}
	} else if s == nil {
		s = &daemonSession{ID: "ses_" + name, Name: name, Model: body["model"].(string),
			Workspace: holon["workspace"].(string), tree: filepath.Join(d.dir, "workspace", name), ResponseIDs: []string{}}
		gittest.Run(d.t, s.Workspace, "git", "clone", "-q", s.Workspace, s.tree)
		d.sessions[name] = s
	}
	d.mu.Unlock()
	delete(holon, "workspace")
	holon["workspace_dir"] = s.tree
	data, err := json.Marshal(body)
	expect.NoError(d.t, err)
	req, err := http.NewRequestWithContext(r.Context(), http.MethodPost, "http://agentd/responses",
		strings.NewReader(string(data)))
	expect.NoError(d.t, err)
	req.Header = r.Header.Clone()
	resp, err := d.agentd.RoundTrip(req)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	expect.NoError(d.t, err)
	var made struct {
		ID string `json:"id"`
	}
	if json.Unmarshal(answer, &made) == nil && made.ID != "" {
		d.mu.Lock()
		s.ResponseIDs = append(s.ResponseIDs, made.ID)
		d.mu.Unlock()
	}
	if d.accepted != nil {
		close(d.accepted)
		<-r.Context().Done()
		return
	}
	w.WriteHeader(resp.StatusCode)
	_, _ = w.Write(answer)
}

// of makes a route about a session, which it answers with when do has no answer.
func (d *daemon) of(do func(*daemonSession) (int, any)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		d.mu.Lock()
		defer d.mu.Unlock()
		s := d.sessions[r.PathValue("id")]
		if s == nil {
			d.answer(w, 404, failure("not_found", "there is no such session"))
			return
		}
		status, answer := do(s)
		if status == 0 {
			status, answer = 200, s
		}
		d.answer(w, status, answer)
	}
}

func (d *daemon) diff(s *daemonSession) (int, any) {
	patch := d.patch(s)
	files := []map[string]string{}
	for line := range strings.Lines(gittest.Run(d.t, s.tree, "git", "diff", "--cached", "--name-only")) {
		files = append(files, map[string]string{"path": strings.TrimSpace(line)})
	}
	file := filepath.Join(d.dir, s.Name+".patch")
	expect.NoError(d.t, os.WriteFile(file, []byte(patch), 0o600))
	return 200, map[string]any{"session_id": s.ID, "changes": map[string]any{"patch": file, "files": files,
		"result_tree": gittest.Run(d.t, s.tree, "git", "write-tree")}}
}

func (d *daemon) patch(s *daemonSession) string {
	gittest.Run(d.t, s.tree, "git", "add", "--all")
	return gittest.Run(d.t, s.tree, "git", "diff", "--cached", "--binary", "--full-index")
}

func (d *daemon) apply(s *daemonSession, allowExecuted bool) (int, any) {
	patch := d.patch(s)
	if strings.Contains(patch, "+++ b/Makefile") && !allowExecuted {
		return 409, failure("executed_files", "Makefile is executed by make")
	}
	cmd := exec.Command("git", "-C", s.Workspace, "apply", "-")
	cmd.Stdin = strings.NewReader(patch)
	if out, err := cmd.CombinedOutput(); err != nil {
		return 409, failure("patch_conflict", string(out))
	}
	gittest.Run(d.t, s.tree, "git", "commit", "-q", "-m", "applied")
	return 200, map[string]any{"written": []string{}, "deleted": []string{}}
}

func failure(code, message string) any {
	return map[string]any{"ok": false, "error": map[string]any{"code": code, "message": message}}
}

func (d *daemon) answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(v); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}
