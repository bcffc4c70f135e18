package runner

import (
	"context"
	"strings"
	"testing"

	"holon/runner/engine"
	"holon/state"
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
