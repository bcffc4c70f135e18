package ledgertest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"holon/state/ledger"
)

func testPages(t *testing.T, open Reopener) {
	s := opened(t, open, "a", "b")
	levels := []int{1, 4, 4, 3, 4, 5, 2, 4, 4, 4} // of events 1 to 10
	var events []ledger.Event
	for _, level := range levels {
		events = append(events, told(1, level, 0)...)
	}
	write(t, s, appendEvents("a", events...))
	write(t, s, appendEvents("b", told(3, 4, 0)...))
	look(t, s, func(v ledger.View) {
		for _, c := range []struct {
			q            ledger.EventQuery
			want         string
			older, newer bool
		}{
			{ledger.EventQuery{}, "[1 2 3 4 5 6 7 8 9 10]", false, false},
			{ledger.EventQuery{Limit: 3}, "[1 2 3]", false, true},
			{ledger.EventQuery{Limit: 3, Descending: true}, "[10 9 8]", true, false},
			{ledger.EventQuery{After: 4, Limit: 2}, "[5 6]", true, true},
			{ledger.EventQuery{Before: 4, Limit: 2, Descending: true}, "[3 2]", true, true},
			{ledger.EventQuery{After: 2, Before: 5}, "[3 4]", true, true},
			{ledger.EventQuery{After: 10}, "[]", true, false},
			{ledger.EventQuery{After: 99}, "[]", true, false},
			{ledger.EventQuery{Before: 1}, "[]", false, true},
			{ledger.EventQuery{MaxLevel: 1}, "[1]", false, false},
			{ledger.EventQuery{MaxLevel: 2}, "[1 7]", false, false},
			{ledger.EventQuery{MaxLevel: 3}, "[1 4 7]", false, false},
			{ledger.EventQuery{MaxLevel: 3, Limit: 1, Descending: true}, "[7]", true, false},
			{ledger.EventQuery{MaxLevel: 3, After: 1, Limit: 1}, "[4]", true, true},
			{ledger.EventQuery{MaxLevel: 3, After: 7}, "[]", true, false},
			{ledger.EventQuery{MaxLevel: 4, After: 4}, "[5 7 8 9 10]", true, false},
			{ledger.EventQuery{MaxLevel: 9, After: 8}, "[9 10]", true, false},
		} {
			page, err := v.Events("a", c.q)
			must(t, err)
			if got := seqs(page); got != c.want || page.HasOlder != c.older || page.HasNewer != c.newer ||
				page.Oldest != 1 || page.Newest != 10 {
				t.Errorf("%+v: %s of %d to %d, older %v, newer %v, want %s, %v, %v", c.q, got, page.Oldest, page.Newest,
					page.HasOlder, page.HasNewer, c.want, c.older, c.newer)
			}
		}
	})
}

func testQueue(t *testing.T, open Reopener) {
	s := opened(t, open, "a", "b")
	for n, p := range []ledger.Priority{ledger.Background, ledger.Normal, ledger.Interject, ledger.Next, ledger.Normal,
		"unheard-of"} {
		write(t, s, func(tx ledger.Tx) error { return tx.InsertMessage(message("a", int64(n+1), p)) })
	}
	admit(t, s, "b", 1)
	order := func(want ...int64) {
		t.Helper()
		look(t, s, func(v ledger.View) {
			list, err := v.Queued("a", 100)
			must(t, err)
			got := []int64{}
			for _, e := range list {
				got = append(got, e.Number)
			}
			equal(t, "queue", fmt.Sprint(got), fmt.Sprint(want))
			n, err := v.CountQueued("a")
			must(t, err)
			equal(t, "count", n, len(want))
			head, ok, err := v.Head("a")
			must(t, err)
			if ok != (len(want) > 0) || ok && head.Number != want[0] {
				t.Errorf("head %v, %v", head, ok)
			}
		})
	}
	order(3, 4, 2, 5, 1, 6)
	write(t, s, func(tx ledger.Tx) error {
		return tx.InsertAttempt(ledger.Attempt{ID: "t", AgentID: "a", Status: ledger.AttemptOpen})
	})
	dispose(t, s, "msg_000003_a", ledger.Dequeued, "t")
	dispose(t, s, "msg_000002_a", ledger.Dequeued, "t")
	order(4, 5, 1, 6)
	look(t, s, func(v ledger.View) {
		held, err := v.Held("t")
		must(t, err)
		if len(held) != 2 || held[0].Number != 2 || held[1].Number != 3 {
			t.Errorf("held %v, want messages 2 and 3 in the order of their numbers", held)
		}
		few, err := v.Queued("a", 2)
		must(t, err)
		equal(t, "first two", len(few), 2)
	})
	dispose(t, s, "msg_000003_a", ledger.Processed, "t")
	dispose(t, s, "msg_000002_a", ledger.Queued, "") // it came back, to its place
	order(4, 2, 5, 1, 6)
	block := func(id string, change func(*ledger.Entry)) {
		t.Helper()
		write(t, s, func(tx ledger.Tx) error {
			e, err := tx.Entry(id)
			change(&e)
			return errors.Join(err, tx.UpdateEntry(e))
		})
	}
	block("msg_000004_a", (*ledger.Entry).Block)
	order(2, 5, 1, 6, 4)
	look(t, s, func(v ledger.View) {
		blocked, err := v.BlockedEntries("a")
		must(t, err)
		if len(blocked) != 1 || blocked[0].Number != 4 || !blocked[0].Blocked() {
			t.Errorf("blocked %v, want message 4", blocked)
		}
	})
	block("msg_000004_a", func(e *ledger.Entry) { e.NotBefore = nil })
	order(4, 2, 5, 1, 6)
	look(t, s, func(v ledger.View) {
		held, err := v.Held("t")
		must(t, err)
		equal(t, "held", len(held), 0)
	})
}

func testSenders(t *testing.T, open Reopener) {
	s := opened(t, open, "a", "b")
	for n, from := range []ledger.Sender{ledger.FromSelf, ledger.FromOutside, ledger.FromRuntime, ledger.FromOperator,
		ledger.FromSelf, "unheard-of"} {
		priority := ledger.Background // of the first ranks; the last ones would be next
		if from.Rank() > 2 {
			priority = ledger.Next
		}
		m, e := message("a", int64(n+1), priority)
		e.Sender = from
		write(t, s, func(tx ledger.Tx) error { return tx.InsertMessage(m, e) })
	}
	admit(t, s, "b", 1)
	look(t, s, func(v ledger.View) {
		list, err := v.Queued("a", 10)
		must(t, err)
		got := []int64{}
		for _, e := range list {
			got = append(got, e.Number)
		}
		equal(t, "queue", fmt.Sprint(got), "[4 3 2 1 5 6]")
		for from, want := range map[ledger.Sender]int{ledger.FromOperator: 1, ledger.FromRuntime: 1,
			ledger.FromOutside: 1, ledger.FromSelf: 3} {
			n, err := v.CountQueuedFrom("a", from)
			must(t, err)
			equal(t, "from "+string(from), n, want)
		}
	})
}

func testReady(t *testing.T, open Reopener) {
	s := opened(t, open, "a", "b", "c", "d", "e")
	ready := func(want string) {
		t.Helper()
		look(t, s, func(v ledger.View) {
			got, err := v.Ready()
			must(t, err)
			equal(t, "ready", fmt.Sprint(got), want)
		})
		write(t, s, func(tx ledger.Tx) error {
			got, err := tx.Ready()
			equal(t, "ready within an update", fmt.Sprint(got), want)
			return err
		})
	}
	ready("[]")
	for _, id := range []string{"a", "b", "c", "e"} {
		admit(t, s, id, 3)
	}
	ready("[a b c e]")
	write(t, s, func(tx ledger.Tx) error {
		return tx.InsertAttempt(ledger.Attempt{ID: "t", AgentID: "b", Status: ledger.AttemptOpen})
	})
	stop(t, s, "c", true)
	ready("[a e]")
	for n := range 3 {
		dispose(t, s, fmt.Sprintf("msg_%06d_a", n+1), ledger.Dropped, "")
	}
	write(t, s, func(tx ledger.Tx) error {
		return tx.UpdateAttempt(ledger.Attempt{ID: "t", AgentID: "b", Status: ledger.AttemptSettled})
	})
	stop(t, s, "c", false)
	ready("[b c e]")
}

func stop(t *testing.T, s ledger.Store, agentID string, stopped bool) {
	t.Helper()
	write(t, s, func(tx ledger.Tx) error {
		l, err := tx.AgentState(agentID)
		if err != nil {
			return err
		}
		l.Stopped = stopped
		return tx.SaveAgentState(&l)
	})
}

func testDue(t *testing.T, open Reopener) {
	s := opened(t, open, "a", "b")
	in := func(d time.Duration) *time.Time { at := now.Add(d); return &at }
	timer := func(id, agentID string, next *time.Time, status ledger.TimerStatus) ledger.Timer {
		return ledger.Timer{ID: id, AgentID: agentID, Status: status, NextFireAt: next}
	}
	wait := func(id, owner string, wake, expiry *time.Time, status ledger.WaitStatus) ledger.Wait {
		return ledger.Wait{ID: id, AgentID: "a", Owner: owner, Status: status, WakeAt: wake, ExpiresAt: expiry}
	}
	write(t, s, func(tx ledger.Tx) error {
		for _, timer := range []ledger.Timer{
			timer("t3", "a", in(3*time.Second), ledger.TimerActive),
			timer("t1", "b", in(time.Second), ledger.TimerActive),
			timer("t0", "a", in(0), ledger.TimerCancelled), timer("t-", "a", nil, ledger.TimerActive),
		} {
			must(t, tx.InsertTimer(timer))
		}
		for _, wait := range []ledger.Wait{
			wait("w2", "1", in(2*time.Second), nil, ledger.WaitActive),
			wait("w4", "2", in(9*time.Second), in(4*time.Second), ledger.WaitActive),
			wait("w5", "3", nil, in(5*time.Second), ledger.WaitActive), wait("w-", "4", nil, nil, ledger.WaitActive),
			wait("w0", "5", in(0), in(0), ledger.WaitTriggered),
		} {
			must(t, tx.InsertWait(wait))
		}
		return nil
	})
	due := func(after time.Duration, limit int, want string, next *time.Time) {
		t.Helper()
		look(t, s, func(v ledger.View) {
			timers, waits, err := v.Due(now.Add(after), limit)
			must(t, err)
			got := []string{}
			for _, timer := range timers {
				got = append(got, timer.ID)
			}
			for _, wait := range waits {
				got = append(got, wait.ID)
			}
			equal(t, fmt.Sprint("due after ", after), fmt.Sprint(got), want)
			at, ok, err := v.NextDue(now.Add(after))
			must(t, err)
			if ok != (next != nil) || ok && !at.Equal(next.UTC().Truncate(time.Millisecond)) {
				t.Errorf("next after %v: %v, %v, want %v", after, at, ok, next)
			}
		})
	}
	due(0, 9, "[]", in(time.Second))
	due(time.Second, 9, "[t1]", in(2*time.Second))
	due(3*time.Second, 9, "[t1 t3 w2]", in(4*time.Second))
	due(time.Minute, 9, "[t1 t3 w2 w4 w5]", nil)
	due(time.Minute, 1, "[t1 w2]", nil)
	stop(t, s, "a", true)
	due(0, 9, "[]", in(time.Second))
	due(time.Minute, 9, "[t1]", nil)
	write(t, s, func(tx ledger.Tx) error { // what is made or changed while it is stopped stands still too
		must(t, tx.InsertTimer(timer("t2", "a", in(2*time.Second), ledger.TimerActive)))
		return tx.UpdateTimer(timer("t3", "a", in(4*time.Second), ledger.TimerActive))
	})
	due(time.Minute, 9, "[t1]", nil)
	stop(t, s, "a", false)
	due(time.Minute, 9, "[t1 t2 t3 w2 w4 w5]", nil)
}

func testTails(t *testing.T, open Reopener) {
	s := opened(t, open, "a", "b")
	for n := range int64(5) {
		write(t, s, func(tx ledger.Tx) error {
			for _, agent := range []string{"a", "b"} {
				id := fmt.Sprint(agent, n)
				must(t, tx.InsertMessage(message(agent, n+1, ledger.Normal)))
				must(t, tx.InsertTurn(ledger.Turn{ID: id, AgentID: agent, Index: n + 1}))
				must(t, tx.InsertTimer(ledger.Timer{ID: id, AgentID: agent}))
				must(t, tx.InsertBrief(ledger.Brief{ID: id, AgentID: agent}))
				must(t, tx.InsertTranscript(ledger.TranscriptEntry{ID: id, AgentID: agent}))
				must(t, tx.InsertNotification(ledger.Notification{ID: id, AgentID: agent}))
			}
			return nil
		})
	}
	look(t, s, func(v ledger.View) {
		tail(t, "messages", v.Messages, func(m ledger.Message) string { return fmt.Sprint("a", m.Number-1) })
		tail(t, "turns", v.Turns, func(x ledger.Turn) string { return x.ID })
		tail(t, "timers", v.Timers, func(x ledger.Timer) string { return x.ID })
		tail(t, "briefs", v.Briefs, func(x ledger.Brief) string { return x.ID })
		tail(t, "transcript", v.Transcript, func(x ledger.TranscriptEntry) string { return x.ID })
		tail(t, "notifications", v.Notifications, func(x ledger.Notification) string { return x.ID })
	})
}

func tail[T any](t *testing.T, what string, list func(string, int) ([]T, error), id func(T) string) {
	t.Helper()
	for limit, want := range map[int]string{2: "[a3 a4]", 9: "[a0 a1 a2 a3 a4]", 0: "[a0 a1 a2 a3 a4]"} {
		all, err := list("a", limit)
		must(t, err)
		ids := []string{}
		for _, x := range all {
			ids = append(ids, id(x))
		}
		equal(t, fmt.Sprintf("%s, limit %d", what, limit), fmt.Sprint(ids), want)
	}
}
