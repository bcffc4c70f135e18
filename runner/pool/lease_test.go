package pool_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"holon/runner"
	"holon/runner/engine"
	"holon/runner/pool"
	"holon/runner/sessions"
	"holon/state"
	"holon/state/ledger"
	"holon/test/expect"
)

// switched are leases that this process has, or another one.
type switched struct{ ours atomic.Bool }

func (s *switched) Held(string) bool { return s.ours.Load() }

func (s *switched) Check(context.Context, string) error {
	if s.ours.Load() {
		return nil
	}
	return &state.Error{Code: ledger.CodeElsewhere, Message: "another process runs it"}
}

// A pool touches no container of an agent that another process runs. When that is gone it finds what was left.
func TestTheContainerOfAnotherProcess(t *testing.T) {
	t.Parallel()
	l := newLab(t, "docker", working)
	l.agent("ada")
	l.crash("docker", "began")
	leases := new(switched)
	k := l.pool(removed, func(o *pool.Options) { o.Leases = leases })
	l.sweep(k)
	expect.Equal(t, "containers while another process runs the agent", len(l.containers()), 1)
	turn := pool.Turn{AgentID: "ada"}
	for name, err := range map[string]error{"attend": k.Attend(t.Context(), turn), "stop": k.Stop(t.Context(), "ada")} {
		if !state.IsCode(err, ledger.CodeElsewhere) {
			t.Errorf("%s: %v", name, err)
		}
	}
	leases.ours.Store(true)
	expect.NoError(t, k.Inherit(leases.Held))
	l.sweep(k)
	expect.Equal(t, "containers of an agent that was removed", len(l.containers()), 0)
}

// sharing is an engine that has a container of another home.
type sharing struct {
	engine.Engine
	removed []string
}

func (s *sharing) Others(_ context.Context, labels map[string]string) ([]engine.Summary, error) {
	labels[runner.LabelLease], labels[runner.LabelFence] = "ada", "1"
	return []engine.Summary{{Handle: engine.Handle{Name: "left"}, Labels: labels}}, nil
}

func (s *sharing) Remove(_ context.Context, h engine.Handle) error {
	s.removed = append(s.removed, h.Name)
	return nil
}

// A sweep removes what another home left of an agent whose lease this process has by now.
func TestTheContainerOfAnotherHome(t *testing.T) {
	t.Parallel()
	l := newLab(t, "local", working)
	shared := &sharing{Engine: l.engine}
	fence := int64(0)
	k := l.pool(func(o *pool.Options) {
		o.Engine, o.Claim = shared, &sessions.Claim{Ledger: "a", Fence: func(string) int64 { return fence }}
	})
	l.sweep(k)
	expect.Equal(t, "removed without the lease", len(shared.removed), 0)
	fence = 2
	l.clock.pass(time.Hour)
	l.sweep(k)
	expect.Equal(t, "removed with the lease", strings.Join(shared.removed, " "), "left")
}
