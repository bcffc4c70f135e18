package ledgertest

import (
	"testing"

	"holon/state/ledger"
)

// waits are the waits of an agent and of what it works on.
func waits() domain {
	wait := func(id, owner string, status ledger.WaitStatus) update {
		return func(tx ledger.Tx) error {
			return tx.Insert(&ledger.Wait{ID: id, AgentID: "a", Owner: owner, Status: status})
		}
	}
	return domain{
		name:    "waits",
		keep:    keepWaits,
		missing: func(v ledger.View) []error { return []error{second(v.Wait("x"))} },
		empty:   func(v ledger.View) []error { return []error{absent(v.UnresolvedWait("a", "x"))} },
		unknown: []update{func(tx ledger.Tx) error { return tx.Update(&ledger.Wait{ID: "x", AgentID: "a"}) }},
		unique: []insert{
			{"a wait", wait("w1", "agent", ledger.WaitTriggered), false},
			{"a second one of the owner", wait("w2", "agent", ledger.WaitActive), true},
			{"one of another owner", wait("w3", "work", ledger.WaitActive), false},
			{"one that is over", wait("w4", "agent", ledger.WaitResolved), false},
			{"one that begins again", func(tx ledger.Tx) error {
				return tx.Update(&ledger.Wait{ID: "w4", AgentID: "a", Owner: "agent", Status: ledger.WaitActive})
			}, true},
		},
		cases: []conduct{{"those of all owners", testOwners}},
	}
}

func keepWaits() kept {
	w := filled(ledger.Wait{ID: "w", AgentID: "a", Owner: ledger.OwnerAgent, Status: ledger.WaitActive})
	return kept{
		insert: func(tx ledger.Tx) error { return tx.Insert(&w) },
		replace: func(tx ledger.Tx) error {
			w = ledger.Wait{ID: "w", AgentID: "a", Owner: ledger.OwnerAgent, Status: ledger.WaitTriggered,
				Wakes: []ledger.WakeSource{}, CreatedAt: now, UpdatedAt: now}
			return tx.Update(&w)
		},
		check: func(t *testing.T, v ledger.View) {
			one(t, w)(v.Wait("w"))
			found(t, w)(v.UnresolvedWait("a", ledger.OwnerAgent))
			only(t, w)(v.UnresolvedWaits("a"))
		},
	}
}

func testOwners(t *testing.T, open Reopener) {
	s := opened(t, open, "a", "b")
	write(t, s, func(tx ledger.Tx) error {
		for _, w := range []ledger.Wait{
			{ID: "w1", AgentID: "a", Owner: "work_2", Status: ledger.WaitActive},
			{ID: "w2", AgentID: "a", Owner: ledger.OwnerAgent, Status: ledger.WaitTriggered},
			{ID: "w3", AgentID: "a", Owner: "work_1", Status: ledger.WaitActive},
			{ID: "w4", AgentID: "a", Owner: "work_3", Status: ledger.WaitCancelled},
			{ID: "w5", AgentID: "b", Owner: ledger.OwnerAgent, Status: ledger.WaitActive},
		} {
			must(t, tx.Insert(&w))
		}
		return nil
	})
	look(t, s, func(v ledger.View) {
		equal(t, "waits", names(t, waitID)(v.UnresolvedWaits("a")), "[w2 w3 w1]")
	})
}
