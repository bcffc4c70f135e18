package pool_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"holon/runner/pool"
	"holon/test/expect"
)

// Agents that wait get containers in the order in which they came, but an agent whose operator waits comes first, and
// one whose tree has as many as it may holds up nobody else.
func TestOrder(t *testing.T) {
	t.Parallel()
	l := newLab(t, "local", working)
	gate := filepath.Join(l.home.Dir(), "gate")
	expect.NoError(t, os.WriteFile(l.scenario, fmt.Appendf(nil,
		"rounds:\n  - calls: [{tool: ExecCommand, arguments: {cmd: 'while [ ! -e %s ]; do sleep 0.02; done', "+
			"yield_time_ms: 900000}}]\n  - text: done\n", gate), 0o644))
	k := l.pool(func(o *pool.Options) { o.MaxContainers = 2 })
	var group sync.WaitGroup
	var mu sync.Mutex
	var began []string
	turn := func(id string, first bool, tree int) {
		l.agent(id)
		group.Go(func() {
			ask := turnOf(id, "turn_1", "x")
			ask.First, ask.TreeContainers = first, tree
			_, err := k.Turn(t.Context(), ask, func() {
				mu.Lock()
				defer mu.Unlock()
				began = append(began, id)
			}, new(lines))
			expect.NoError(t, err)
		})
	}
	until := func(what string, holds func() bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !holds(); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("not within a minute: %s", what)
			}
		}
	}
	count := func(n int) func() bool {
		return func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(began) == n
		}
	}
	turn("root", false, 1)
	until("the first turn", count(1))
	turn("root.a1b2c3", false, 1)
	until("a child waits, since its tree has one", func() bool { return pool.Waiting(k) == 1 })
	turn("other", false, 0)
	until("another agent does not wait for it", count(2))
	for i, id := range []string{"third", "fourth", "operators"} {
		turn(id, id == "operators", 0)
		until(id+" waits", func() bool { return pool.Waiting(k) == i+2 })
	}
	expect.NoError(t, os.WriteFile(gate, nil, 0o644))
	group.Wait()
	at := func(id string) int { return slices.Index(began, id) }
	if at("operators") > at("third") || at("third") > at("fourth") || len(began) != 6 {
		t.Errorf("the turns began as %v", began)
	}
}
