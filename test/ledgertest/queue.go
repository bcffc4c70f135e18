package ledgertest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"holon/state/ledger"
	"holon/test/expect"
)

func testQueue(t *testing.T, open Reopener) {
	s := opened(t, open, "a", "b")
	for n, p := range []ledger.Priority{ledger.Background, ledger.Normal, ledger.Interject, ledger.Next, ledger.Normal,
		"unheard-of"} {
		write(t, s, func(tx ledger.Tx) error { return tx.Insert(message("a", int64(n+1), p)) })
	}
	admit(t, s, "b", 1)
	order := func(want ...int64) {
		t.Helper()
		look(t, s, func(v ledger.View) {
			expect.Equal(t, "queue", names(t, numberOf)(v.Queued("a", 100)), fmt.Sprint(want))
			n, err := v.CountQueued("a")
			expect.NoError(t, err)
			expect.Equal(t, "count", n, len(want))
			head, ok, err := v.Head("a")
			expect.NoError(t, err)
			if ok != (len(want) > 0) || ok && head.Number != want[0] {
				t.Errorf("head %v, %v", head, ok)
			}
		})
	}
	order(3, 4, 2, 5, 1, 6)
	write(t, s, func(tx ledger.Tx) error {
		return tx.Insert(&ledger.Attempt{ID: "t", AgentID: "a", Status: ledger.AttemptOpen})
	})
	dispose(t, s, "msg_000003_a", ledger.Dequeued, "t")
	dispose(t, s, "msg_000002_a", ledger.Dequeued, "t")
	order(4, 5, 1, 6)
	look(t, s, func(v ledger.View) {
		expect.Equal(t, "held", names(t, numberOf)(v.Held("a")), "[2 3]")
		expect.Equal(t, "first two", names(t, numberOf)(v.Queued("a", 2)), "[4 5]")
	})
	dispose(t, s, "msg_000003_a", ledger.Processed, "t")
	dispose(t, s, "msg_000002_a", ledger.Queued, "") // it came back, to its place
	order(4, 2, 5, 1, 6)
	block := func(id string, change func(*ledger.Entry)) {
		t.Helper()
		write(t, s, func(tx ledger.Tx) error {
			e, err := tx.Entry(id)
			change(&e)
			return errors.Join(err, tx.Update(&e))
		})
	}
	block("msg_000004_a", func(e *ledger.Entry) {
		e.Block()
		e.Reason, e.Code = "there is no key", "missing_credentials"
	})
	order(2, 5, 1, 6, 4)
	look(t, s, func(v ledger.View) {
		blocked, err := v.BlockedEntries("a")
		expect.NoError(t, err)
		if len(blocked) != 1 || blocked[0].Number != 4 || !blocked[0].Blocked() {
			t.Errorf("blocked %v, want message 4", blocked)
		}
		expect.Equal(t, "the code of the reason", blocked[0].Code, "missing_credentials")
	})
	block("msg_000004_a", func(e *ledger.Entry) { e.NotBefore = nil })
	order(4, 2, 5, 1, 6)
	look(t, s, func(v ledger.View) {
		expect.Equal(t, "held", names(t, numberOf)(v.Held("a")), "[]")
	})
}

func testReady(t *testing.T, open Reopener) {
	s := opened(t, open, "a", "b", "c", "d", "e")
	ready := func(want string) {
		t.Helper()
		look(t, s, func(v ledger.View) {
			got, err := v.Ready()
			expect.NoError(t, err)
			expect.Equal(t, "ready", fmt.Sprint(got), want)
		})
		write(t, s, func(tx ledger.Tx) error {
			got, err := tx.Ready()
			expect.Equal(t, "ready within an update", fmt.Sprint(got), want)
			return err
		})
	}
	ready("[]")
	for _, id := range []string{"a", "b", "c", "e"} {
		admit(t, s, id, 3)
	}
	ready("[a b c e]")
	write(t, s, func(tx ledger.Tx) error {
		return tx.Insert(&ledger.Attempt{ID: "t", AgentID: "b", Status: ledger.AttemptOpen})
	})
	stop(t, s, "c", true)
	ready("[a e]")
	for n := range 3 {
		dispose(t, s, fmt.Sprintf("msg_%06d_a", n+1), ledger.Dropped, "")
	}
	write(t, s, func(tx ledger.Tx) error {
		return tx.Update(&ledger.Attempt{ID: "t", AgentID: "b", Status: ledger.AttemptSettled})
	})
	stop(t, s, "c", false)
	ready("[b c e]")
}

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
