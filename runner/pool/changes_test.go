package pool_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"holon/runner/pool"
	"holon/state"
	"holon/test/expect"
)

// changes records the reported changes of containers.
type changes struct {
	mu   sync.Mutex
	list []state.ContainerChange
}

func (c *changes) ContainerChanged(_ context.Context, _ string, change state.ContainerChange) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = append(c.list, change)
	return nil
}

// phases are those that were told since the last call, of how many containers. What is told twice is recorded once.
func (c *changes) phases() (list []string, containers int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ids := map[string]bool{}
	for _, change := range c.list {
		list, ids[change.ID] = append(list, string(change.Phase)), true
	}
	c.list = nil
	return slices.Compact(list), len(ids)
}

// want fails the test unless these phases of one container were told.
func (c *changes) want(t *testing.T, when, want string) {
	t.Helper()
	if got, n := c.phases(); strings.Join(got, " ") != want || n != min(len(got), 1) {
		t.Errorf("%s: told %v of %d containers, want %s", when, got, n, want)
	}
}

// The record is told of a container from its creation to its removal, and of nothing in between.
func TestChanges(t *testing.T) {
	t.Parallel()
	for _, eng := range []string{"local", "docker"} {
		t.Run(eng, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, eng, counting)
			told := new(changes)
			k := l.pool(func(o *pool.Options) { o.Changes = told })
			c := &conversation{lab: l, pool: k, agent: l.agent("ada")}
			c.say("one")
			list := slices.Clone(told.list)
			told.want(t, "the first turn", "created started ready")
			if in := list[1].Isolation; in == nil || list[0].Engine != eng || list[0].ID != l.only().Handle.ID {
				t.Errorf("the container was told as %+v, %+v", list[0], list[1])
			}
			c.say("two")
			told.want(t, "the second turn", "")
			expect.NoError(t, k.Stop(t.Context(), "ada"))
			told.want(t, "the end", "exited removed")
		})
	}
}

// The container of a process that was killed is told of when another process finds it.
func TestChangesAfterCrash(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		gone bool
		want string
	}{
		"it has ended":    {false, "created started lost removed"},
		"it has vanished": {true, "lost"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, "local", working)
			l.agent("ada")
			l.crash("local", "began")
			if c.gone {
				expect.NoError(t, l.engine.Remove(t.Context(), l.only().Handle))
			}
			told := new(changes)
			k := l.pool(func(o *pool.Options) { o.Changes = told })
			if err := k.Sweep(t.Context()); err != nil {
				t.Error(err)
			}
			told.want(t, "the first sweep", c.want)
			if err := k.Sweep(t.Context()); err != nil {
				t.Error(err)
			}
			told.want(t, "the second sweep", "")
		})
	}
}
