package ledgertest

import (
	"testing"

	"holon/state/ledger"
	"holon/test/expect"
)

func testPruneOutputs(t *testing.T, open Reopener) {
	s := opened(t, open, "a")
	write(t, s, func(tx ledger.Tx) error {
		expect.NoError(t, tx.Insert(&ledger.ExpiredOutput{TurnID: "t1", AgentID: "a", At: at(-3 * day)}))
		return tx.Insert(&ledger.ExpiredOutput{TurnID: "t2", AgentID: "a", At: at(-day)})
	})
	prune(t, s, ledger.Retention{Messages: 2 * day}, now, 100)
	look(t, s, func(v ledger.View) {
		expect.NoError(t, absent(v.ExpiredOutput("t1")))
		_, ok, err := v.ExpiredOutput("t2")
		expect.NoError(t, err)
		expect.Equal(t, "the younger one is known", ok, true)
	})
}
