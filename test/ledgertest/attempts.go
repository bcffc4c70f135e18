package ledgertest

import (
	"testing"

	"holon/state/ledger"
)

// attempts are the attempts and the turns that they ran.
func attempts() domain {
	attempt := func(id, agentID string, status ledger.AttemptStatus) update {
		return func(tx ledger.Tx) error {
			return tx.Insert(&ledger.Attempt{ID: id, AgentID: agentID, Status: status})
		}
	}
	turn := func(id string, index int64) update {
		return func(tx ledger.Tx) error { return tx.Insert(&ledger.Turn{ID: id, AgentID: "a", Index: index}) }
	}
	return domain{
		name: "attempts",
		keep: keepAttempts,
		missing: func(v ledger.View) []error {
			return []error{second(v.Attempt("x")), second(v.Turn("x"))}
		},
		empty: func(v ledger.View) []error { return []error{absent(v.OpenAttempt("a")), absent(v.Prompt("x"))} },
		unknown: []update{
			func(tx ledger.Tx) error { return tx.Update(&ledger.Attempt{ID: "x", AgentID: "a"}) },
		},
		unique: []insert{
			{"an open attempt", attempt("t1", "a", ledger.AttemptOpen), false},
			{"a second open one", attempt("t2", "a", ledger.AttemptOpen), true},
			{"one of another agent", attempt("t3", "b", ledger.AttemptOpen), false},
			{"one that is settled", attempt("t4", "a", ledger.AttemptSettled), false},
			{"a turn", turn("u1", 1), false},
			{"its id again", turn("u1", 2), true},
			{"its index again", turn("u2", 1), true},
		},
	}
}

func keepAttempts() kept {
	attempt := filled(ledger.Attempt{ID: "t", AgentID: "a", Status: ledger.AttemptOpen})
	prompt := filled(ledger.Prompt{AttemptID: "t"})
	turn := filled(ledger.Turn{ID: "turn", AgentID: "a"})
	return kept{
		insert: func(tx ledger.Tx) error { return tx.Insert(&attempt, &prompt, &turn) },
		replace: func(tx ledger.Tx) error {
			attempt.Status, attempt.Facts, attempt.BegunAt = ledger.AttemptSettled, 99, nil
			return tx.Update(&attempt)
		},
		check: func(t *testing.T, v ledger.View) {
			one(t, attempt)(v.Attempt("t"))
			if attempt.Status == ledger.AttemptOpen {
				found(t, attempt)(v.OpenAttempt("a"))
				only(t, attempt)(v.OpenAttempts())
			}
			found(t, prompt)(v.Prompt("t"))
			one(t, turn)(v.Turn("turn"))
			only(t, turn)(v.Turns("a", 5))
		},
	}
}
