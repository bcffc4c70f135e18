package agent_test

import (
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"holon/runner/agent"
	"holon/runner/agent/scheduler"
	"holon/test/expect"
	"holon/test/memory"
)

// A timer that came due while the machine was suspended fires soon after it goes on: the clock of timers stands
// still meanwhile and only the time of day moves on.
func TestSuspended(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var slept atomic.Int64 // nanoseconds of suspension
		l := newAlone(t, filepath.Join(memory.Dir(t), "ledger.db"), stillHomes{}, func(c *agent.Config) {
			c.Now = func() time.Time { return time.Now().Round(0).Add(time.Duration(slept.Load())) }
		})
		defer l.close()
		_, _, err := l.runtime.Scheduler().CreateTimer(t.Context(),
			scheduler.NewTimer{AgentID: "main", After: 8 * time.Hour, Summary: "good morning"})
		expect.NoError(t, err)
		time.Sleep(time.Hour) // of the bubble
		synctest.Wait()
		if n := l.played.turns.Load(); n != 0 {
			t.Fatalf("%d turns before the time", n)
		}
		slept.Store(int64(7 * time.Hour))
		time.Sleep(30 * time.Second)
		synctest.Wait()
		expect.Equal(t, "turns half a minute after the machine went on", l.played.turns.Load(), 1)
	})
}
