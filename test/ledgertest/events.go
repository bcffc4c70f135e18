package ledgertest

import (
	"strings"
	"testing"

	"holon/state/ledger"
	"holon/test/expect"
)

func testNumbers(t *testing.T, open Reopener) {
	s := opened(t, open, "a", "b")
	write(t, s, func(tx ledger.Tx) error {
		expect.NoError(t, appendEvents("a", newEvents(2, 4, 0)...)(tx))
		expect.NoError(t, appendEvents("b", newEvents(1, 4, 0)...)(tx))
		expect.NoError(t, appendEvents("a", newEvents(1, 4, 0)...)(tx))
		page, err := tx.Events("a", ledger.EventQuery{})
		expect.Equal(t, "within the update", seqs(page), "[1 2 3]")
		return err
	})
	wantCode(t, s.Update(t.Context(), appendEvents("a",
		ledger.Event{Data: []byte(`"` + strings.Repeat("x", ledger.MaxEventData) + `"`)})), ledger.CodeTooLarge)
	look(t, s, func(v ledger.View) {
		for agent, want := range map[string]string{"a": "[1 2 3]", "b": "[1]"} {
			page, err := v.Events(agent, ledger.EventQuery{})
			expect.NoError(t, err)
			expect.Equal(t, agent, seqs(page), want)
		}
	})
}

func testPages(t *testing.T, open Reopener) {
	s := opened(t, open, "a", "b")
	levels := []int{1, 4, 4, 3, 4, 5, 2, 4, 4, 4} // of events 1 to 10
	var events []ledger.Event
	for _, level := range levels {
		events = append(events, newEvents(1, level, 0)...)
	}
	write(t, s, appendEvents("a", events...))
	write(t, s, appendEvents("b", newEvents(3, 4, 0)...))
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
			expect.NoError(t, err)
			if got := seqs(page); got != c.want || page.HasOlder != c.older || page.HasNewer != c.newer ||
				page.Oldest != 1 || page.Newest != 10 {
				t.Errorf("%+v: %s of %d to %d, older %v, newer %v, want %s, %v, %v", c.q, got, page.Oldest, page.Newest,
					page.HasOlder, page.HasNewer, c.want, c.older, c.newer)
			}
		}
	})
}

func testRevision(t *testing.T, open Reopener) {
	s := opened(t, open, "a")
	var stale ledger.AgentState
	write(t, s, func(tx ledger.Tx) (err error) { stale, err = tx.AgentState("a"); return err })
	write(t, s, onState("a", func(tx ledger.Tx, l *ledger.AgentState) error {
		l.Chain = "one"
		expect.NoError(t, tx.Step(l))
		expect.Equal(t, "revision", l.Revision, 1)
		l.Chain = "two" // again in the same transaction
		expect.NoError(t, tx.Step(l))
		expect.Equal(t, "revision", l.Revision, 2)
		got, err := tx.AgentState("a")
		expect.Equal(t, "chain", got.Chain, "two")
		return err
	}))
	for what, change := range map[string]func(*ledger.AgentState){
		"a state that another step changed": func(*ledger.AgentState) {},
		"a number that no event has":        func(l *ledger.AgentState) { l.Revision, l.EventSeq = 2, 7 },
	} {
		l := stale
		change(&l)
		err := s.Update(t.Context(), func(tx ledger.Tx) error { return tx.Step(&l, newEvents(1, 4, 0)...) })
		if wantCode(t, err, ledger.CodeConflict); err == nil {
			t.Error("the store takes " + what)
		}
	}
}

func stop(t *testing.T, s ledger.Store, agentID string, stopped bool) {
	t.Helper()
	write(t, s, onState(agentID, func(tx ledger.Tx, l *ledger.AgentState) error {
		l.Stopped = stopped
		return tx.Step(l)
	}))
}
