package ledgertest

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"holon/state/ledger"
)

func testAbsent(t *testing.T, open Reopener) {
	s := opened(t, open, "a")
	gone := func(err error) { t.Helper(); wantCode(t, err, ledger.CodeNotFound) }
	look(t, s, func(v ledger.View) {
		for noun, err := range map[string]error{
			"agent": second(v.Agent("x")), "lane": second(v.AgentState("x")), "message": second(v.Message("x")),
			"entry":   second(v.Entry("x")),
			"attempt": second(v.Attempt("x")), "turn": second(v.Turn("x")), "wait": second(v.Wait("x")),
			"timer":   second(v.Timer("x")),
			"trigger": second(v.Trigger("x")),
		} {
			if err == nil {
				t.Errorf("%s x was found", noun)
			}
			gone(err)
		}
		for noun, got := range map[string]error{
			"message by key":        absent(v.MessageByKey("a", "x")),
			"message without a key": absent(v.MessageByKey("a", "")),
			"timer by key":          absent(v.TimerByKey("a", "")), "head": absent(v.Head("a")),
			"open attempt": absent(v.OpenAttempt("a")),
			"wait":         absent(v.UnresolvedWait("a", "x")), "trigger": absent(v.TriggerByHash("x")),
			"next due": absent(v.NextDue(now)),
		} {
			if got != nil {
				t.Errorf("%s: %v", noun, got)
			}
		}
		page, err := v.Events("x", ledger.EventQuery{})
		if err != nil || len(page.Events) > 0 || page.Oldest+page.Newest != 0 || page.HasNewer || page.HasOlder {
			t.Errorf("events of an unknown agent: %+v, %v", page, err)
		}
	})
	for _, update := range []func(tx ledger.Tx) error{
		func(tx ledger.Tx) error { return tx.UpdateAgent(ledger.Agent{ID: "x"}) },
		func(tx ledger.Tx) error { return tx.SaveAgentState(&ledger.AgentState{AgentID: "x"}) },
		func(tx ledger.Tx) error { return tx.UpdateEntry(ledger.Entry{MessageID: "x", AgentID: "a"}) },
		func(tx ledger.Tx) error { return tx.UpdateAttempt(ledger.Attempt{ID: "x", AgentID: "a"}) },
		func(tx ledger.Tx) error { return tx.UpdateWait(ledger.Wait{ID: "x", AgentID: "a"}) },
		func(tx ledger.Tx) error { return tx.UpdateTimer(ledger.Timer{ID: "x", AgentID: "a"}) },
		func(tx ledger.Tx) error { return tx.UpdateTrigger(ledger.Trigger{ID: "x", AgentID: "a"}) },
		func(tx ledger.Tx) error { return tx.InsertMessage(message("x", 1, ledger.Normal)) },
		func(tx ledger.Tx) error { return tx.InsertBrief(ledger.Brief{ID: "b", AgentID: "x"}) },
	} {
		gone(s.Update(t.Context(), update))
	}
}

func second[T any](_ T, err error) error { return err }

// absent is nil when a search found nothing.
func absent[T any](found T, ok bool, err error) error {
	if ok {
		return fmt.Errorf("found %v", found)
	}
	return err
}

func testUnique(t *testing.T, open Reopener) {
	s := opened(t, open, "a", "b")
	keyed := func(agentID string, n int64, key string) func(tx ledger.Tx) error {
		m, e := message(agentID, n, ledger.Normal)
		m.Key = key
		return func(tx ledger.Tx) error { return tx.InsertMessage(m, e) }
	}
	attempt := func(id, agentID string, status ledger.AttemptStatus) func(tx ledger.Tx) error {
		return func(tx ledger.Tx) error {
			return tx.InsertAttempt(ledger.Attempt{ID: id, AgentID: agentID, Status: status})
		}
	}
	wait := func(id, owner string, status ledger.WaitStatus) func(tx ledger.Tx) error {
		return func(tx ledger.Tx) error {
			return tx.InsertWait(ledger.Wait{ID: id, AgentID: "a", Owner: owner, Status: status})
		}
	}
	timer := func(id, key string) func(tx ledger.Tx) error {
		return func(tx ledger.Tx) error { return tx.InsertTimer(ledger.Timer{ID: id, AgentID: "a", Key: key}) }
	}
	trigger := func(id, hash string) func(tx ledger.Tx) error {
		return func(tx ledger.Tx) error {
			return tx.InsertTrigger(ledger.Trigger{ID: id, AgentID: "a", TokenHash: hash})
		}
	}
	turn := func(id string, index int64) func(tx ledger.Tx) error {
		return func(tx ledger.Tx) error { return tx.InsertTurn(ledger.Turn{ID: id, AgentID: "a", Index: index}) }
	}
	for _, c := range []struct {
		what     string
		write    func(tx ledger.Tx) error
		conflict bool
	}{
		{"a message", keyed("a", 1, "k"), false},
		{"its id again", keyed("a", 1, ""), true},
		{"its key again", keyed("a", 2, "k"), true},
		{"its key for another agent", keyed("b", 1, "k"), false},
		{"no key", keyed("a", 2, ""), false},
		{"no key again", keyed("a", 3, ""), false},
		{"an open attempt", attempt("t1", "a", ledger.AttemptOpen), false},
		{"a second open one", attempt("t2", "a", ledger.AttemptOpen), true},
		{"one of another agent", attempt("t3", "b", ledger.AttemptOpen), false},
		{"one that is settled", attempt("t4", "a", ledger.AttemptSettled), false},
		{"a wait", wait("w1", "agent", ledger.WaitTriggered), false},
		{"a second one of the owner", wait("w2", "agent", ledger.WaitActive), true},
		{"one of another owner", wait("w3", "work", ledger.WaitActive), false},
		{"one that is over", wait("w4", "agent", ledger.WaitResolved), false},
		{"a timer", timer("m1", "k"), false},
		{"its key again", timer("m2", "k"), true},
		{"a timer without a key", timer("m3", ""), false},
		{"another", timer("m4", ""), false},
		{"a trigger", trigger("x1", "h"), false},
		{"its token again", trigger("x2", "h"), true},
		{"a turn", turn("u1", 1), false},
		{"its id again", turn("u1", 2), true},
		{"its index again", turn("u2", 1), true},
	} {
		err := s.Update(t.Context(), c.write)
		if c.conflict {
			if err == nil {
				t.Errorf("%s was taken", c.what)
			}
			wantCode(t, err, ledger.CodeConflict)
		} else if err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
	}
	wantCode(t, s.Update(t.Context(), func(tx ledger.Tx) error {
		return tx.InsertAgent(ledger.Agent{ID: "a"}, ledger.AgentState{AgentID: "a"})
	}), ledger.CodeExists)
	// A row that becomes one that must be alone.
	wantCode(t, s.Update(t.Context(), func(tx ledger.Tx) error {
		return tx.UpdateWait(ledger.Wait{ID: "w4", AgentID: "a", Owner: "agent", Status: ledger.WaitActive})
	}), ledger.CodeConflict)
}

var errOwn = errors.New("the caller's own")

func testAtomic(t *testing.T, open Reopener) {
	s := opened(t, open, "a")
	m, e := message("a", 1, ledger.Normal)
	err := s.Update(t.Context(), func(tx ledger.Tx) error {
		if err := errors.Join(tx.InsertMessage(m, e), appendEvents("a", told(2, 4, 0)...)(tx)); err != nil {
			return err
		}
		return errOwn
	})
	if err != errOwn {
		t.Errorf("error %v, want the function's as it is", err)
	}
	look(t, s, func(v ledger.View) {
		wantCode(t, second(v.Message(m.ID)), ledger.CodeNotFound)
		l, err := v.AgentState("a")
		must(t, err)
		equal(t, "newest event", l.EventSeq, 0)
		equal(t, "revision", l.Revision, 0)
	})
	// A row that could not be written is the function's business.
	write(t, s, func(tx ledger.Tx) error {
		must(t, tx.InsertMessage(m, e))
		wantCode(t, tx.InsertMessage(m, e), ledger.CodeConflict)
		return appendEvents("a", told(1, 4, 0)...)(tx)
	})
	write(t, s, func(tx ledger.Tx) error { // in the writer's memory, if it has one
		l, err := tx.AgentState("a")
		equal(t, "newest event", l.EventSeq, 1)
		l.Chain = "not saved"
		return err
	})
	write(t, s, func(tx ledger.Tx) error {
		l, err := tx.AgentState("a")
		equal(t, "chain", l.Chain, "")
		return err
	})
}

// testAlone lets updates that fail and updates that don't wait together.
func testAlone(t *testing.T, open Reopener) {
	s := opened(t, open, "a")
	crowd(t, 16, func(i int) error {
		for n := range int64(20) {
			number := int64(i)*100 + n + 1
			err := s.Update(t.Context(), func(tx ledger.Tx) error {
				if err := tx.InsertMessage(message("a", number, ledger.Normal)); err != nil {
					return err
				}
				if err := appendEvents("a", told(1, 4, 0)...)(tx); err != nil {
					return err
				}
				if number%3 == 0 {
					return errOwn
				}
				return nil
			})
			if failed := err != nil; failed != (number%3 == 0) || failed && err != errOwn {
				return fmt.Errorf("message %d: %w", number, err)
			}
		}
		return nil
	})
	look(t, s, func(v ledger.View) {
		all, err := v.Messages("a", 1000)
		must(t, err)
		for _, m := range all {
			if m.Number%3 == 0 {
				t.Errorf("message %d was taken back and is there", m.Number)
			}
		}
		l, err := v.AgentState("a")
		must(t, err)
		equal(t, "messages", int64(len(all)), l.EventSeq)
		equal(t, "steps", l.Revision, l.EventSeq)
	})
}

func testPanic(t *testing.T, open Reopener) {
	s := opened(t, open, "a")
	m, e := message("a", 1, ledger.Normal)
	func() {
		defer func() {
			if r := recover(); r != "boom" {
				t.Errorf("recovered %v", r)
			}
		}()
		_ = s.Update(t.Context(), func(tx ledger.Tx) error {
			must(t, tx.InsertMessage(m, e))
			panic("boom")
		})
	}()
	write(t, s, func(tx ledger.Tx) error { return tx.InsertMessage(m, e) })
	var kept ledger.Tx
	write(t, s, func(tx ledger.Tx) error { kept = tx; return nil })
	if _, err := kept.AgentState("a"); err == nil {
		t.Error("a Tx can be used after its end")
	}
}

func testRevision(t *testing.T, open Reopener) {
	s := opened(t, open, "a")
	var stale ledger.AgentState
	write(t, s, func(tx ledger.Tx) (err error) { stale, err = tx.AgentState("a"); return err })
	write(t, s, func(tx ledger.Tx) error {
		l, err := tx.AgentState("a")
		must(t, err)
		l.Chain = "one"
		must(t, tx.SaveAgentState(&l))
		equal(t, "revision", l.Revision, 1)
		l.Chain = "two" // again in the same step
		must(t, tx.SaveAgentState(&l))
		equal(t, "revision", l.Revision, 2)
		got, err := tx.AgentState("a")
		equal(t, "chain", got.Chain, "two")
		return err
	})
	wantCode(t, s.Update(t.Context(), func(tx ledger.Tx) error {
		return tx.SaveAgentState(&stale)
	}), ledger.CodeConflict)
	wantCode(t, s.Update(t.Context(), func(tx ledger.Tx) error {
		l := stale
		l.EventSeq = 7
		return tx.Append(&l, told(1, 4, 0)...)
	}), ledger.CodeConflict)
}

func testNumbers(t *testing.T, open Reopener) {
	s := opened(t, open, "a", "b")
	write(t, s, func(tx ledger.Tx) error {
		a, err := tx.AgentState("a")
		must(t, err)
		b, err := tx.AgentState("b")
		must(t, err)
		must(t, tx.Append(&a, told(2, 4, 0)...))
		must(t, tx.Append(&b, told(1, 4, 0)...))
		must(t, tx.Append(&a, told(1, 4, 0)...))
		page, err := tx.Events("a", ledger.EventQuery{})
		must(t, err)
		equal(t, "within the update", seqs(page), "[1 2 3]")
		return errors.Join(tx.SaveAgentState(&a), tx.SaveAgentState(&b))
	})
	if err := s.Update(t.Context(), func(tx ledger.Tx) error {
		l, err := tx.AgentState("a")
		must(t, err)
		return tx.Append(&l, told(1, 4, 0)...)
	}); err == nil {
		t.Error("events were taken whose lane was not saved")
	}
	if err := s.Update(t.Context(), func(tx ledger.Tx) error {
		l, err := tx.AgentState("a")
		must(t, err)
		l.EventSeq++
		return tx.SaveAgentState(&l)
	}); err == nil {
		t.Error("a lane was saved with a number that no event has")
	}
	wantCode(t, s.Update(t.Context(), appendEvents("a",
		ledger.Event{Data: []byte(`"` + strings.Repeat("x", ledger.MaxEventData) + `"`)})), ledger.CodeTooLarge)
	look(t, s, func(v ledger.View) {
		for agent, want := range map[string]string{"a": "[1 2 3]", "b": "[1]"} {
			page, err := v.Events(agent, ledger.EventQuery{})
			must(t, err)
			equal(t, agent, seqs(page), want)
		}
	})
}
