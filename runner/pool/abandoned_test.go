package pool_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"holon/responses/tasks"
	"holon/runner/pool"
	"holon/test/expect"
)

// Whatever a caller has left undone when its context ends, a sweep at the end of the daemon among them, costs no
// container in which a task runs.
func TestAbandonedCallsEndNoTask(t *testing.T) {
	t.Parallel()
	l := newLab(t, "docker", "rounds: [{text: done}]\n")
	ended := new(atomic.Pointer[func()]) // is called when the pool looks at its clock
	k := l.pool(func(o *pool.Options) {
		o.Now = func() time.Time {
			if f := ended.Load(); f != nil {
				(*f)()
			}
			return l.clock.Now()
		}
	})
	turn := pool.Turn{AgentID: l.agent("ada")}
	id := tasks.Prefix + "0123456789abcdef"
	expect.NoError(t, k.StartTask(t.Context(), turn,
		tasks.Start{TaskID: id, Cmd: "while [ ! -e go ]; do sleep 0.02; done"}))
	l.sweep(k)
	before := l.only()
	for name, call := range map[string]func(context.Context) error{
		"sweep":  k.Sweep,
		"attend": func(ctx context.Context) error { return k.Attend(ctx, turn) },
		"output": func(ctx context.Context) error { _, err := k.TaskOutput(ctx, turn, id, 0); return err },
		"start":  func(ctx context.Context) error { return k.StartTask(ctx, turn, tasks.Start{TaskID: id, Cmd: "true"}) },
	} {
		for n := 1; n <= 4; n++ { // it ends when the clock is looked at for the nth time
			l.clock.pass(time.Minute) // whatever was known of the container is old
			ctx, cancel := context.WithCancel(t.Context())
			looks := 0
			end := func() {
				if looks++; looks == n {
					cancel()
				}
			}
			ended.Store(&end)
			_ = call(ctx) // it may have come to its end before
			ended.Store(nil)
			cancel()
			if list := l.containers(); len(list) != 1 || list[0].Handle != before.Handle {
				t.Fatalf("%s that ended at look %d: containers %v, want %v", name, n, list, before)
			}
		}
	}
	if out, err := k.TaskOutput(t.Context(), turn, id, 0); err != nil || out.Task.Status.Terminal() {
		t.Fatalf("the task: %+v, %v", out, err)
	}
	l.write("go")
	for k.Tasks("ada") > 0 {
		l.sweep(k)
	}
}
