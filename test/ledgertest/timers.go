package ledgertest

import (
	"fmt"
	"testing"
	"time"

	"holon/state/ledger"
	"holon/test/expect"
)

func testDue(t *testing.T, open Reopener) {
	s := opened(t, open, "a", "b")
	in := func(d time.Duration) *time.Time { at := now.Add(d); return &at }
	timer := func(id, agentID string, next *time.Time, status ledger.TimerStatus) *ledger.Timer {
		return &ledger.Timer{ID: id, AgentID: agentID, Status: status, NextFireAt: next}
	}
	wait := func(id, owner string, wake, expiry *time.Time, status ledger.WaitStatus) ledger.Wait {
		return ledger.Wait{ID: id, AgentID: "a", Owner: owner, Status: status, WakeAt: wake, ExpiresAt: expiry}
	}
	write(t, s, func(tx ledger.Tx) error {
		for _, timer := range []*ledger.Timer{
			timer("t3", "a", in(3*time.Second), ledger.TimerActive),
			timer("t1", "b", in(time.Second), ledger.TimerActive),
			timer("t0", "a", in(0), ledger.TimerCancelled), timer("t-", "a", nil, ledger.TimerActive),
		} {
			expect.NoError(t, tx.Insert(timer))
		}
		for _, wait := range []ledger.Wait{
			wait("w2", "1", in(2*time.Second), nil, ledger.WaitActive),
			wait("w4", "2", in(9*time.Second), in(4*time.Second), ledger.WaitActive),
			wait("w5", "3", nil, in(5*time.Second), ledger.WaitActive), wait("w-", "4", nil, nil, ledger.WaitActive),
			wait("w0", "5", in(0), in(0), ledger.WaitTriggered),
		} {
			expect.NoError(t, tx.Insert(&wait))
		}
		return nil
	})
	due := func(after time.Duration, want string, next *time.Time) {
		t.Helper()
		look(t, s, func(v ledger.View) {
			timers, waits, err := v.Due(now.Add(after))
			expect.NoError(t, err)
			got := names(t, func(x ledger.Timer) string { return x.ID })(timers, nil) + names(t, waitID)(waits, nil)
			expect.Equal(t, fmt.Sprint("due after ", after), got, want)
			at, ok, err := v.NextDue(now.Add(after))
			expect.NoError(t, err)
			if ok != (next != nil) || ok && !at.Equal(next.UTC().Truncate(time.Millisecond)) {
				t.Errorf("next after %v: %v, %v, want %v", after, at, ok, next)
			}
		})
	}
	due(0, "[][]", in(time.Second))
	due(time.Second, "[t1][]", in(2*time.Second))
	due(3*time.Second, "[t1 t3][w2]", in(4*time.Second))
	due(time.Minute, "[t1 t3][w2 w4 w5]", nil)
	stop(t, s, "a", true)
	due(0, "[][]", in(time.Second))
	due(time.Minute, "[t1][]", nil)
	write(t, s, func(tx ledger.Tx) error { // what is made or changed while it is stopped stands still too
		expect.NoError(t, tx.Insert(timer("t2", "a", in(2*time.Second), ledger.TimerActive)))
		return tx.Update(timer("t3", "a", in(4*time.Second), ledger.TimerActive))
	})
	due(time.Minute, "[t1][]", nil)
	stop(t, s, "a", false)
	due(time.Minute, "[t1 t2 t3][w2 w4 w5]", nil)
}
