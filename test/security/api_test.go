package security

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"holon/runner"
	"holon/runner/engine"
	"holon/state"
	"holon/test/expect"
)

// served is a session whose agentd is attacked through its socket.
type served struct {
	*runner.Session
	socket, dir string
	http        *http.Client
}

func (l *lab) serve() *served {
	l.t.Helper()
	cfg := l.config()
	expect.NoError(l.t, os.MkdirAll(l.home, 0o700))
	cfg.ID = state.NewRunID()
	cfg.Dir, cfg.SocketDir = filepath.Join(l.home, cfg.ID), filepath.Join(l.home, "ipc", cfg.ID)
	s, err := runner.Start(l.t.Context(), cfg)
	expect.NoError(l.t, err)
	l.t.Cleanup(func() {
		// The test's context is over by now.
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := errors.Join(s.Stop(ctx), s.Close(ctx)); err != nil {
			l.t.Error(err)
		}
	})
	at := &served{Session: s, dir: cfg.Dir, socket: filepath.Join(cfg.SocketDir, "ipc", "agent.sock")}
	at.http = &http.Client{Timeout: patience, Transport: &http.Transport{DialContext: at.dial, DisableKeepAlives: true}}
	return at
}

func (s *served) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "unix", s.socket)
}

// ask sends a request whose path is taken byte for byte.
func (s *served) ask(t *testing.T, method, path, body string) (status int, answer string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://agentd/", strings.NewReader(body))
	expect.NoError(t, err)
	req.URL = &url.URL{Scheme: "http", Host: "agentd", Opaque: path}
	req.Header.Set("Content-Type", "application/json")
	resp, err := s.http.Do(req)
	if err != nil {
		t.Fatalf("%s %q: %v", method, path, err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	expect.NoError(t, err)
	return resp.StatusCode, string(data)
}

// The socket is for agentd and the group of the host alone, and so is the way to it.
func TestSocketMode(t *testing.T) {
	t.Parallel()
	s := newLab(t).serve()
	for path, mode := range map[string]fs.FileMode{s.socket: fs.ModeSocket | 0o660,
		filepath.Dir(s.socket): fs.ModeDir | 0o700} {
		info, err := os.Lstat(path)
		expect.NoError(t, err)
		expect.Equal(t, filepath.Base(path)+": has mode", info.Mode(), mode)
		want := engine.User{UID: 65533, GID: os.Getgid()}
		if want.GID == 0 {
			want = engine.User{UID: 65533, GID: 65533}
		}
		if st := info.Sys().(*syscall.Stat_t); int(st.Uid) != want.UID || int(st.Gid) != want.GID {
			t.Errorf("%s belongs to %d:%d, want %v", filepath.Base(path), st.Uid, st.Gid, want)
		}
	}
}

var evilIDs = []string{
	"..", "%2e%2e", "..%2f..%2f..%2fetc%2fpasswd", "%2fetc%2fpasswd", "%00", "a%00b", "turn_%2e%2e%2f%2e%2e",
	"resp_..%2fx", "%0d%0aX-Evil:%201", "%ff%fe", "%1b%5b2J",
	strings.Repeat("a", 5000), "resp_" + strings.Repeat("0", 300), "%25%32%65", "..%5c..%5cx",
	"turns%2f..%2f..%2fstate%2flock", "~root", "$(id)", "*",
}

// Every route of the contract refuses a malformed id: nothing outside is shown,
// created or changed, and nothing breaks.
func TestIDTraversal(t *testing.T) {
	t.Parallel()
	s := newLab(t).serve()
	before, tried := s.files(t), 0
	for path, methods := range s.document(t) {
		if !strings.Contains(path, "{") {
			continue
		}
		for method := range methods {
			if method == "parameters" {
				continue
			}
			for _, id := range evilIDs {
				full := path
				for strings.Contains(full, "{") {
					from := strings.Index(full, "{")
					full = full[:from] + id + full[from+strings.Index(full[from:], "}")+1:]
				}
				tried++
				status, answer := s.ask(t, strings.ToUpper(method), full, "{}")
				if status < 400 || status >= 500 {
					t.Errorf("%s %.200q: %d %.200s", method, full, status, answer)
				}
				if strings.Contains(answer, "root:") || strings.ContainsAny(answer, "\x1b\x00") {
					t.Errorf("%s %.200q answers with what is not its own: %.300q", method, full, answer)
				}
			}
		}
	}
	if tried < 100 {
		t.Errorf("%d requests: is the contract read?", tried)
	}
	if after := s.files(t); after != before {
		t.Errorf("files changed:\n%s\nwere:\n%s", after, before)
	}
	if status, _ := s.ask(t, http.MethodGet, "/health", ""); status != http.StatusOK {
		t.Errorf("afterwards /health answers %d", status)
	}
}

// document reads the whole contract.
func (s *served) document(t *testing.T) map[string]map[string]json.RawMessage {
	t.Helper()
	resp, err := s.http.Get("http://agentd/openapi.json")
	expect.NoError(t, err)
	defer resp.Body.Close()
	var contract struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	expect.NoError(t, json.NewDecoder(resp.Body).Decode(&contract))
	return contract.Paths
}

// files lists what lies in the session's directory.
func (s *served) files(t *testing.T) string {
	t.Helper()
	var list strings.Builder
	err := filepath.WalkDir(s.dir, func(path string, d fs.DirEntry, err error) error {
		fmt.Fprintln(&list, strings.TrimPrefix(path, s.dir), d.Type())
		return err
	})
	expect.NoError(t, err)
	return list.String()
}

// Every field of a request that becomes part of a path stays below its root.
func TestPathFields(t *testing.T) {
	t.Parallel()
	s := newLab(t).serve()
	before := s.files(t)
	values := []string{"/", "/etc", "/proc/1/root", "..", "../..", "/holon/output/../state", "/holon/output/../../etc",
		"a\x00b", strings.Repeat("a/", 3000), "/holon/input/../ipc"}
	for _, field := range []string{"input_dir", "output_dir", "workspace_dir", "turn_id", "session_id"} {
		for _, value := range values {
			body, err := json.Marshal(map[string]any{"model": "scripted/demo", "input": "x",
				"holon": map[string]any{field: value}})
			expect.NoError(t, err)
			status, answer := s.ask(t, http.MethodPost, "/responses", string(body))
			switch {
			case status < 400:
				t.Errorf("%.120q: status = %d, want at least 400", value, status)
			case status >= 500:
				t.Errorf("%.120q: status = %d, want less than 500", value, status)
			case !strings.Contains(answer, field):
				t.Errorf("%.120q: answer = %q, want it to contain %q", value, answer, field)
			}
		}
	}
	for _, value := range append(values, "resp_../x", "resp_01") {
		body, err := json.Marshal(map[string]any{"model": "scripted/demo", "input": "x", "previous_response_id": value})
		expect.NoError(t, err)
		if status, answer := s.ask(t, http.MethodPost, "/responses", string(body)); status < 400 || status >= 500 {
			t.Errorf("previous_response_id %.60q: %d %.300s", value, status, answer)
		}
	}
	if after := s.files(t); after != before {
		t.Errorf("files changed:\n%s\nwere:\n%s", after, before)
	}
}

// One session's ids say nothing to another.
func TestOtherSessionsIDs(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	mine, other := l.serve(), l.serve()
	turn := other.Turn(t.Context(), runner.NewTurn("turn_x", "x"), quiet{})
	if turn.Response == nil {
		t.Fatalf("%+v", turn)
	}
	for _, path := range []string{"/responses/" + turn.Response.ID, "/responses/" + turn.Response.ID + "/input_items",
		"/turns/" + turn.TurnID, "/turns/" + turn.TurnID + "/events"} {
		if status, _ := other.ask(t, http.MethodGet, path, ""); status != http.StatusOK {
			t.Errorf("its own session answers %d to %s", status, path)
		}
		if status, answer := mine.ask(t, http.MethodGet, path, ""); status != http.StatusNotFound {
			t.Errorf("another session answers %d to %s: %.200s", status, path, answer)
		}
	}
}

// Who sends little, or nothing, holds a connection for a while and not for ever;
// who sends too much is told so, and others are served meanwhile.
func TestSlowAndOversized(t *testing.T) {
	t.Parallel()
	s := newLab(t).serve()
	for name, head := range map[string]string{
		"half a head": "GET /health HTTP/1.1\r\nHost: x\r\nX: ",
		"half a body": "POST /responses HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: " +
			"1000\r\n\r\n{",
	} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() {
				t.Skip("full tier: it waits until agentd's own patience is over")
			}
			t.Parallel()
			conn, err := s.dial(t.Context(), "", "")
			expect.NoError(t, err)
			defer conn.Close()
			if _, err := conn.Write([]byte(head)); err != nil {
				t.Fatal(err)
			}
			expect.NoError(t, conn.SetReadDeadline(time.Now().Add(patience)))
			answer, err := io.ReadAll(conn)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("held for %v: %.200s", patience, answer)
			}
		})
	}
	t.Run("too large", func(t *testing.T) {
		t.Parallel()
		for name, request := range map[string]struct{ head, want string }{
			"head": {"GET /health HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 1<<20) + "\r\n\r\n", "431"},
			"body": {"POST /responses HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: " +
				"1000000000000\r\n\r\n", "413"},
			"encoded": {"POST /responses HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Encoding: " +
				"gzip\r\nContent-Length: 2\r\n\r\n{}", "415"},
			"both": {"POST /responses HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nTransfer-Encoding: " +
				"chunked\r\nTransfer-Encoding: identity\r\n\r\n{}", "400|501"},
		} {
			conn, err := s.dial(t.Context(), "", "")
			expect.NoError(t, err)
			expect.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
			_, _ = conn.Write([]byte(request.head)) // the server may hang up before its end
			answer := make([]byte, 12)
			if _, err := io.ReadFull(conn, answer); err != nil || !strings.Contains(request.want, string(answer[9:])) {
				t.Errorf("%s: %q %v, want %s", name, answer, err, request.want)
			}
			conn.Close()
		}
		deep := bytes.Repeat([]byte("["), 1<<20)
		if status, answer := s.ask(t, http.MethodPost, "/responses",
			`{"model":"scripted/demo","input":`+string(deep)); status != http.StatusBadRequest {
			t.Errorf("deep JSON: %d %.200s", status, answer)
		}
		if status, _ := s.ask(t, http.MethodGet, "/health", ""); status != http.StatusOK {
			t.Errorf("afterwards /health answers %d", status)
		}
	})
}
