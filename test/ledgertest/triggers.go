package ledgertest

import (
	"testing"

	"holon/state/ledger"
)

// triggers are the external triggers.
func triggers() domain {
	trigger := func(id, hash string) update {
		return func(tx ledger.Tx) error {
			return tx.Insert(&ledger.Trigger{ID: id, AgentID: "a", TokenHash: hash})
		}
	}
	return domain{
		name:    "triggers",
		keep:    keepTriggers,
		missing: func(v ledger.View) []error { return []error{second(v.Trigger("x"))} },
		empty:   func(v ledger.View) []error { return []error{absent(v.TriggerByHash("x"))} },
		unknown: []update{
			func(tx ledger.Tx) error { return tx.Update(&ledger.Trigger{ID: "x", AgentID: "a"}) },
		},
		unique: []insert{
			{"a trigger", trigger("x1", "h"), false},
			{"its token again", trigger("x2", "h"), true},
		},
	}
}

func keepTriggers() kept {
	trigger := filled(ledger.Trigger{ID: "trigger", AgentID: "a", TokenHash: "hash"})
	return kept{
		insert: func(tx ledger.Tx) error { return tx.Insert(&trigger) },
		replace: func(tx ledger.Tx) error {
			trigger.Status, trigger.RevokedAt, trigger.DeliveryCount = ledger.TriggerRevoked, &now, 12
			return tx.Update(&trigger)
		},
		check: func(t *testing.T, v ledger.View) {
			one(t, trigger)(v.Trigger("trigger"))
			only(t, trigger)(v.Triggers("a"))
			found(t, trigger)(v.TriggerByHash("hash"))
		},
	}
}
