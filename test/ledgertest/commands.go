package ledgertest

import (
	"testing"

	"holon/state/ledger"
)

// commands are those of the Agent Runtime standard that changed something.
func commands() domain {
	sent := func(agentID, id string) update {
		return func(tx ledger.Tx) error {
			return tx.Insert(&ledger.Command{AgentID: agentID, ID: id, Name: "submit_turn", At: now})
		}
	}
	return domain{
		name:  "commands",
		keep:  keepCommands,
		empty: func(v ledger.View) []error { return []error{absent(v.Command("a", "none"))} },
		unique: []insert{
			{"a command", sent("a", "c1"), false},
			{"another command", sent("a", "c2"), false},
			{"the same id of another agent", sent("b", "c1"), false},
			{"the first command again", sent("a", "c1"), true},
		},
	}
}

func keepCommands() kept {
	c := filled(ledger.Command{AgentID: "a", ID: "c"})
	return kept{
		insert: func(tx ledger.Tx) error { return tx.Insert(&c) },
		check:  func(t *testing.T, v ledger.View) { found(t, c)(v.Command("a", "c")) },
	}
}
