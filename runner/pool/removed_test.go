package pool_test

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"

	"holon/runner"
	"holon/runner/engine"
	"holon/runner/pool"
	"holon/test/expect"
)

// removed says of every agent that it was removed.
func removed(o *pool.Options) {
	o.Removed = func(context.Context, string) (bool, error) { return true, nil }
}

// A sweep ends the container of an agent that was removed, also one that another process left before it could stop it,
// and one that cannot be taken up any more. The record is told of its end.
func TestTheContainerOfARemovedAgent(t *testing.T) {
	t.Parallel()
	unconfigured := func(o *pool.Options) {
		o.Configure = func(context.Context, pool.Turn) (runner.Config, io.Closer, error) {
			return runner.Config{}, nil, errors.New("the key is not set")
		}
	}
	for name, c := range map[string]struct {
		change func(*pool.Options)
		want   string
	}{
		"it is taken up":          {func(*pool.Options) {}, "created started ready exited removed"},
		"it cannot be configured": {unconfigured, "removed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, "docker", working)
			l.agent("ada")
			l.crash("docker", "began")
			told := new(changes)
			k := l.pool(removed, c.change, func(o *pool.Options) { o.Changes = told })
			if err := k.Sweep(t.Context()); err != nil {
				t.Error(err)
			}
			told.want(t, "the first sweep", c.want)
			expect.Equal(t, "containers are left", len(l.containers()), 0)
		})
	}
}

// cutOff is an engine that ends no container while it is cut off.
type cutOff struct {
	engine.Engine
	off atomic.Bool
}

func (e *cutOff) Remove(ctx context.Context, h engine.Handle) error {
	if e.off.Load() {
		return errors.New("no engine answers")
	}
	return e.Engine.Remove(ctx, h)
}

// A container that could not be ended, because the engine did not answer, goes with a later sweep.
func TestTheContainerThatCouldNotBeEnded(t *testing.T) {
	t.Parallel()
	l := newLab(t, "docker", counting)
	eng := &cutOff{Engine: l.engine}
	k := l.pool(removed, func(o *pool.Options) { o.Engine = eng })
	(&conversation{lab: l, pool: k, agent: l.agent("ada")}).say("one")
	eng.off.Store(true)
	if err := k.Stop(t.Context(), "ada"); err == nil {
		t.Error("it is ended")
	}
	eng.off.Store(false)
	l.sweep(k)
	expect.Equal(t, "containers are left", len(l.containers()), 0)
}
