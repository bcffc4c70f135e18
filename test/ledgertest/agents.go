package ledgertest

import (
	"testing"

	"holon/state/ledger"
	"holon/test/expect"
)

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
		err := s.Update(t.Context(), func(tx ledger.Tx) error { return tx.Step(&l, told(1, 4, 0)...) })
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
