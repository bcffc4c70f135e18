package pool_test

import (
	"context"
	"sync/atomic"
	"testing"

	"holon/runner/pool"
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
