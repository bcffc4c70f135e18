package runner

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holon/internal/bridge"
	"holon/internal/transfer"
	"holon/runner/engine"
	"holon/state"
	"holon/test/expect"
)

// logged is an engine of which only the log of a container is asked for.
type logged struct {
	engine.Engine
	name, text string
}

func (l logged) Name() string { return l.name }

func (l logged) Logs(context.Context, engine.Handle, int64) ([]byte, error) {
	return []byte(l.text), nil
}

// The last line of a log says why agentd ended by itself. It cannot say so of one that a signal ended.
func TestDiedError(t *testing.T) {
	const line = `level=WARN msg="settled a turn that a crash interrupted" turn=turn_another`
	for _, c := range []struct {
		code   int
		quoted bool
	}{{1, true}, {2, true}, {137, false}, {143, false}, {-1, false}} {
		s := &Session{exit: &engine.Exit{Code: c.code}}
		s.cfg.Engine = logged{name: "docker", text: line + "\n"}
		err := s.diedError(t.Context(), "the container ended during the turn")
		if got := strings.Contains(err.Error(), line); got != c.quoted {
			t.Errorf("exit code %d: %q quotes the log: %v, want %v", c.code, err, got, c.quoted)
		}
	}
	evicted := &Session{exit: &engine.Exit{Code: 137, Error: "Evicted: low on memory"}}
	evicted.cfg.Engine = logged{name: "kubernetes"}
	if got := evicted.diedError(t.Context(), "the container ended"); !strings.HasSuffix(got.Error(), "low on memory") {
		t.Errorf("%q does not say why the engine ended it", got)
	}
	s := &Session{exit: &engine.Exit{Code: -1}}
	s.cfg.Engine = logged{name: "local"}
	if got, want := s.diedError(t.Context(), "the container ended during the turn").Error(),
		"agentd ended during the turn"; !strings.Contains(got, want) || strings.Contains(got, "-1") {
		t.Errorf("without a container: %q, want %q and no code", got, want)
	}
}

// A process that takes a session up waits until agentd listens, or the container ends: the process before may have ended
// while it started the container, and an engine may lose a program that is stopped then.
func TestTakenUpBeforeItListens(t *testing.T) {
	s := &Session{seam: seam{t.TempDir()}, resumed: true, exited: make(chan struct{}), last: engine.Exit{Code: 1}}
	s.cfg.Engine = logged{name: "docker"}
	s.client = s.newClient()
	defer s.client.Close()
	close(s.exited)
	if _, _, err := s.Working(t.Context()); !state.IsCode(err, CodeContainerGone) {
		t.Errorf("Working() = %v, want the end of the container", err)
	}
}

// unfilled is an engine whose first container is this process, and whose second one holon did not come to fill.
type unfilled struct {
	engine.Engine
	engine.Linker
	removed bool
}

func (*unfilled) Name() string { return "docker" }

func (*unfilled) Exec(context.Context, engine.Handle, engine.User, []string) (io.ReadWriteCloser, error) {
	here, there := net.Pipe()
	b, err := bridge.New(there, bridge.Side{Serve: map[string]func(context.Context, io.ReadWriter){transfer.Service: func(
		ctx context.Context, stream io.ReadWriter) {
		_ = transfer.Serve(ctx, stream)
	}}}, false)
	go func() { _ = b.Run(context.Background()) }()
	return here, err
}

func (*unfilled) Inspect(context.Context, engine.Handle) (engine.State, error) {
	return engine.State{}, nil
}

func (*unfilled) Read(context.Context, engine.Handle, string) (io.ReadCloser, error) {
	var data bytes.Buffer
	tw := tar.NewWriter(&data)
	err := errors.Join(tw.WriteHeader(&tar.Header{Name: "home/", Typeflag: tar.TypeDir, Mode: 0o700}), tw.Close())
	return io.NopCloser(&data), err
}

func (u *unfilled) Remove(context.Context, engine.Handle) error {
	u.removed = true
	return nil
}

// Nothing comes from a container that was never started: holon may have been killed while it gave it the files.
func TestUnstartedContainerTakesNothing(t *testing.T) {
	dir, eng := t.TempDir(), new(unfilled)
	kept := filepath.Join(dir, "kept")
	expect.NoError(t, os.WriteFile(kept, nil, 0o600))
	s := &Session{handle: engine.Handle{Link: engine.LinkStream}, created: true, resumed: true, exited: make(chan struct{}),
		cfg:    Config{Dir: t.TempDir(), Engine: eng, Log: slog.New(slog.DiscardHandler)},
		mounts: []engine.Mount{{Source: dir, Target: t.TempDir()}}}
	s.cfg.AgentHome = dir
	expect.NoError(t, s.openLink(t.Context())) // to the first one
	expect.NoError(t, s.closeLink())
	s.link.files = nil
	expect.NoError(t, s.bury(t.Context(), &engine.State{Status: engine.StatusCreated}))
	_, err := os.Stat(kept)
	expect.NoError(t, err)
	expect.Equal(t, "the container is removed", eng.removed, true)
}
