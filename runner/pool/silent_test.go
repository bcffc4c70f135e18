package pool_test

import (
	"context"
	"path/filepath"
	"sync/atomic"
	"testing"

	"holon/runner/engine"
	"holon/runner/pool"
	"holon/test/expect"
)

// silentEngine does not answer for some calls about a container.
type silentEngine struct {
	engine.Engine
	left atomic.Int32
}

func (e *silentEngine) Inspect(ctx context.Context, h engine.Handle) (engine.State, error) {
	if e.left.Add(-1) >= 0 {
		return engine.State{}, &engine.Error{Code: engine.CodeUnreachable, Message: "it does not answer"}
	}
	return e.Engine.Inspect(ctx, h)
}

// A container that does not answer when it is to be taken up keeps running, and is taken up when it does. One that does
// not for long is stopped, and nothing of it is left but what it wrote.
func TestSilent(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ silent, sweeps, containers int }{
		"it answers soon": {2, 3, 1},
		"it does not":     {3, 3, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, "docker", working)
			l.agent("ada")
			l.crash("docker", "running")
			e := &silentEngine{Engine: l.engine}
			k := l.pool(func(o *pool.Options) { o.Engine = e })
			e.left.Store(int32(tc.silent))
			for range tc.sweeps - 1 {
				expect.NoError(t, k.Sweep(t.Context()))
				expect.Equal(t, "containers meanwhile", len(l.containers()), 1)
			}
			expect.NoError(t, k.Sweep(t.Context()))
			expect.Equal(t, "containers", len(l.containers()), tc.containers)
			sockets, err := filepath.Glob(l.home.IPCDir("*"))
			expect.NoError(t, err)
			expect.Equal(t, "directories of sockets", len(sockets), tc.containers)
			if tc.containers > 0 {
				l.recover(k, live)
			}
		})
	}
}
