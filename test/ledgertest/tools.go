package ledgertest

import (
	"testing"

	"holon/state/ledger"
)

// tools are the calls of tools.
func tools() domain {
	call := func(turn string) update {
		return func(tx ledger.Tx) error {
			return tx.Insert(&ledger.ToolExecution{ID: "x", TurnID: turn, AgentID: "a"})
		}
	}
	return domain{
		name: "tools",
		keep: keepTools,
		unique: []insert{
			{"a call", call("t1"), false},
			{"its id again", call("t1"), true},
			{"its id in another turn", call("t2"), false},
		},
	}
}

func keepTools() kept {
	tool := filled(ledger.ToolExecution{ID: "x", TurnID: "turn", AgentID: "a"})
	return kept{
		insert: func(tx ledger.Tx) error { return tx.Insert(&tool) },
		check:  func(t *testing.T, v ledger.View) { only(t, tool)(v.ToolExecutions("a", 5)) },
	}
}
