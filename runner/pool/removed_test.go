package pool_test

import (
	"context"
	"errors"
	"io"
	"testing"

	"holon/runner"
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
