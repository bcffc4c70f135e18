package ledgertest

import (
	"errors"
	"testing"

	"holon/state/ledger"
)

// texts are briefs and notifications.
func texts() domain {
	return domain{
		name: "texts",
		keep: keepTexts,
		missing: func(v ledger.View) []error {
			return []error{second(v.Brief("x")), second(v.Notification("x"))}
		},
		unknown: []update{
			func(tx ledger.Tx) error { return tx.Insert(&ledger.Brief{ID: "b", AgentID: "x"}) },
		},
	}
}

func keepTexts() kept {
	brief := filled(ledger.Brief{ID: "b", AgentID: "a"})
	note := filled(ledger.Notification{ID: "n", AgentID: "a"})
	return kept{
		insert: func(tx ledger.Tx) error {
			return errors.Join(tx.Insert(&brief), tx.Insert(&note))
		},
		check: func(t *testing.T, v ledger.View) {
			one(t, brief)(v.Brief("b"))
			only(t, brief)(v.Briefs("a", 5))
			one(t, note)(v.Notification("n"))
			only(t, note)(v.Notifications("a", 5))
		},
	}
}
