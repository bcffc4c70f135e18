package pool_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"holon/runner"
	"holon/runner/pool"
	"holon/test/expect"
)

// Agents that wait get containers in the order in which they came, but an agent whose operator waits comes first, and
// one whose tree has as many as it may holds up nobody else.
func TestOrder(t *testing.T) {
	t.Parallel()
	l := newLab(t, "local", working)
	// one turn keeps its place until all others are over, so that each next one gets the place of the one before
	scenario := func(name string) (file, gate string) {
		file, gate = filepath.Join(l.home.Dir(), name+".yaml"), filepath.Join(l.home.Dir(), name)
		expect.NoError(t, os.WriteFile(file, fmt.Appendf(nil,
			"rounds:\n  - calls: [{tool: ExecCommand, arguments: {cmd: 'while [ ! -e %s ]; do sleep 0.02; done', "+
				"yield_time_ms: 900000}}]\n  - text: done\n", gate), 0o644))
		return file, gate
	}
	scenarioOfAll, gateOfAll := scenario("all")
	scenarioOfOther, gateOfOther := scenario("other")
	k := l.pool(func(o *pool.Options) {
		o.MaxContainers = 2
		o.Configure = func(_ context.Context, turn pool.Turn) (runner.Config, io.Closer, error) {
			models := runner.Models{Model: "scripted/x", Scenario: scenarioOfAll}
			if turn.AgentID == "other" {
				models.Scenario = scenarioOfOther
			}
			return runner.Config{Models: models, Confinement: runner.Confinement{Memory: 512 << 20}}, nil, nil
		}
	})
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
	expect.NoError(t, os.WriteFile(gateOfAll, nil, 0o644))
	until("all turns began", count(6))
	expect.NoError(t, os.WriteFile(gateOfOther, nil, 0o644))
	group.Wait()
	expect.Equal(t, "the turns began as", strings.Join(began, " "), "root other operators root.a1b2c3 third fourth")
}
