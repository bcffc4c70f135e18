// Package hosttools_test puts agentd's side of host.sock and the host's together,
// and breaks what lies between them.
package hosttools_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"holon/agentd/mcp"
	"holon/agentd/tools"
	"holon/agentd/turntoken"
	"holon/runner/hosttools"
	"holon/test/expect"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// host is the host's server behind a relay, on whose socket agentd connects.
type host struct {
	t       *testing.T
	options hosttools.Options
	server  *hosttools.Server
	front   *net.UnixListener
	path    string

	mu    sync.Mutex
	cut   string // answers that hold this are lost, and the host with them; "" for none
	lost  chan struct{}
	conns []net.Conn
	relay sync.WaitGroup
}

func newHost(t *testing.T) *host {
	t.Helper()
	dir, err := os.MkdirTemp("", "ht") // t.TempDir's paths are too long for a socket
	expect.NoError(t, err)
	h := &host{t: t, path: filepath.Join(dir, "front.sock"), lost: make(chan struct{}, 8)}
	h.options = hosttools.Options{Socket: filepath.Join(dir, "ipc", "host.sock"),
		Notes: filepath.Join(dir, "notes.ndjson"), Log: slog.New(slog.DiscardHandler)}
	h.start()
	if h.front, err = net.ListenUnix("unix", &net.UnixAddr{Name: h.path, Net: "unix"}); err != nil {
		t.Fatal(err)
	}
	h.relay.Go(h.accept)
	t.Cleanup(func() {
		_ = h.front.Close()
		h.breakAll()
		h.relay.Wait()
		if err := errors.Join(h.server.Close(), os.RemoveAll(dir)); err != nil {
			t.Error(err)
		}
	})
	return h
}

func (h *host) start() {
	h.t.Helper()
	var err error
	if h.server, err = hosttools.Serve(context.WithoutCancel(h.t.Context()), h.options); err != nil {
		h.t.Error(err)
		return
	}
	h.server.Grant(turnID, sha256.Sum256([]byte(token)))
}

// The one turn that calls.
const turnID, token = "turn_1", "hmt_0123456789"

// restart is what a host does that was killed and started again.
func (h *host) restart() {
	h.t.Helper()
	if err := h.server.Close(); err != nil {
		h.t.Error(err)
	}
	h.start()
}

func (h *host) breakAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.conns {
		_ = c.Close()
	}
	h.conns = nil
}

func (h *host) accept() {
	for {
		in, err := h.front.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("unix", h.options.Socket)
		if err != nil {
			_ = in.Close()
			continue
		}
		h.mu.Lock()
		h.conns = append(h.conns, in, out)
		h.mu.Unlock()
		h.relay.Go(func() {
			_, _ = io.Copy(out, in)
			_ = out.Close()
		})
		h.relay.Go(func() {
			defer in.Close()
			h.answers(in, out)
		})
	}
}

// answers passes on what the host says, up to what is to be lost.
func (h *host) answers(in io.Writer, out io.Reader) {
	buf := make([]byte, 64<<10)
	for {
		n, err := out.Read(buf)
		if err != nil {
			return
		}
		h.mu.Lock()
		cut := h.cut != "" && strings.Contains(string(buf[:n]), h.cut)
		h.mu.Unlock()
		if cut {
			h.lost <- struct{}{}
			return
		}
		if _, err := in.Write(buf[:n]); err != nil {
			return
		}
	}
}

// tool connects as agentd does and returns turn_note.
func (h *host) tool() tools.Tool {
	h.t.Helper()
	m := mcp.Open(mcp.Options{HostSocket: h.path, Version: "test",
		Log: slog.New(slog.NewTextHandler(h.t.Output(), nil))})
	h.t.Cleanup(func() { _ = m.Close() })
	offer, err := m.Offer(h.t.Context(), nil)
	if err != nil || len(offer.Tools) != 1 {
		h.t.Fatalf("offer %+v, %v", offer, err)
	}
	return offer.Tools[0]
}

func call(ctx context.Context, tool tools.Tool, id, text string) tools.Output {
	arguments, _ := json.Marshal(map[string]string{"text": text}) // of strings: no error
	return tool.Run(turntoken.With(ctx, token), tools.Env{TurnID: turnID},
		tools.Call{ID: id, Name: "turn_note", Arguments: arguments})
}

func (h *host) texts() string {
	var list []string
	for _, n := range h.server.Notes() {
		list = append(list, n.Text)
	}
	return strings.Join(list, "|")
}

// The host is killed after it noted and before it answered. The call waits until
// it is there again and is made once.
func TestRestartBeforeTheAnswer(t *testing.T) {
	h := newHost(t)
	tool := h.tool()
	if out := call(t.Context(), tool, "c0", "before"); out.Error != nil || out.Summary != "Noted (1)." {
		t.Fatalf("the call has the summary %q and the error %v, want the host's line and none", out.Summary, out.Error)
	}
	h.mu.Lock()
	h.cut = "Noted (2)"
	h.mu.Unlock()
	restarted := make(chan struct{})
	go func() {
		defer close(restarted)
		<-h.lost
		h.mu.Lock()
		h.cut = ""
		h.mu.Unlock()
		h.breakAll()
		h.restart()
	}()
	out := call(t.Context(), tool, "c1", "once")
	<-restarted
	if out.Error != nil {
		t.Errorf("the call failed: %v", out.Error)
	}
	expect.Equal(t, "notes", h.texts(), "before|once")
	switch out := call(t.Context(), tool, "c1", "other"); {
	case out.Error == nil:
		t.Error("the same id with other arguments: out.Error = nil, want a value")
	case out.Error.Kind != "call_conflict":
		t.Errorf(`the same id with other arguments: out.Error.Kind = %q, want "call_conflict"`, out.Error.Kind)
	case !strings.Contains(out.Error.Message, "used for another note"):
		t.Errorf(`the same id with other arguments: out.Error.Message = %q, want it to contain "used for another note"`,
			out.Error.Message)
	}
}

// A host that does not come back costs a call its time, and a turn that is ended
// none.
func TestHostGone(t *testing.T) {
	h := newHost(t)
	tool := h.tool()
	expect.NoError(t, h.server.Close())
	h.breakAll()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if out := call(ctx, tool, "c1", "lost"); out.Error == nil || out.Error.Kind != tools.KindCanceled {
		t.Errorf("the call: %+v", out.Error)
	}
	h.start()
	if out := call(t.Context(), tool, "c2", "back"); out.Error != nil {
		t.Errorf("afterwards: %v", out.Error)
	}
	if got := h.texts(); !strings.HasSuffix(got, "back") {
		t.Errorf("notes %q", got)
	}
}

// A host that was away while its tools were needed again and again has them for the
// next turn as soon as it is back: nothing waits out a pause.
func TestHostComesBack(t *testing.T) {
	h := newHost(t)
	expect.NoError(t, h.server.Close())
	m := mcp.Open(mcp.Options{HostSocket: h.path, Version: "test", Log: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() { _ = m.Close() })
	offered := func() int {
		offer, err := m.Offer(t.Context(), nil)
		expect.NoError(t, err)
		return len(offer.Tools)
	}
	for range 12 {
		if n := offered(); n != 0 {
			t.Fatalf("%d tools of a host that is away", n)
		}
	}
	h.start()
	for range 3 { // an attempt may have failed just before
		if offered() > 0 {
			return
		}
	}
	t.Errorf("the host is back and has no tools: %+v", m.Health())
}
