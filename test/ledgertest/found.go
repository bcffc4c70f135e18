package ledgertest

import (
	"fmt"
	"testing"

	"holon/state/ledger"
)

// testFound finds records by what is not their id.
func testFound(t *testing.T, open Reopener) {
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
		m, _ := message("a", 1, ledger.Normal)
		m.Key = "k"
		return tx.Insert(m, &ledger.Attempt{ID: "t1", AgentID: "a", Status: ledger.AttemptOpen},
			&ledger.Attempt{ID: "t2", AgentID: "a", Status: ledger.AttemptSettled},
			&ledger.Attempt{ID: "t3", AgentID: "b", Status: ledger.AttemptOpen},
			&ledger.Trigger{ID: "x2", AgentID: "a", TokenHash: "h2"}, &ledger.Trigger{ID: "x1", AgentID: "a", TokenHash: "h1"},
			&ledger.Agent{ID: "c", ArchivedAt: &now})
	})
	look(t, s, func(v ledger.View) {
		m, ok, err := v.MessageByKey("a", "k")
		equal(t, "message by key", fmt.Sprintln(m.ID, m.Key, ok, err), "msg_000001_a k true <nil>\n")
		w, ok, err := v.UnresolvedWait("a", ledger.OwnerAgent)
		equal(t, "wait of the agent", fmt.Sprintln(w.ID, ok, err), "w2 true <nil>\n")
		a, ok, err := v.OpenAttempt("a")
		equal(t, "open attempt", fmt.Sprintln(a.ID, ok, err), "t1 true <nil>\n")
		x, ok, err := v.TriggerByHash("h1")
		equal(t, "trigger by hash", fmt.Sprintln(x.ID, x.TokenHash, ok, err), "x1 h1 true <nil>\n")
		equal(t, "open attempts", names(t, func(a ledger.Attempt) string { return a.ID })(v.OpenAttempts()), "[t1 t3]")
		equal(t, "triggers", names(t, func(x ledger.Trigger) string { return x.ID })(v.Triggers("a")), "[x1 x2]")
		equal(t, "agents", names(t, func(a ledger.Agent) string { return a.ID })(v.Agents()), "[a b]")
		equal(t, "waits", names(t, waitID)(v.UnresolvedWaits("a")), "[w2 w3 w1]")
	})
}
