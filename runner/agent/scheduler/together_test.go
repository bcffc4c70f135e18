package scheduler_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"holon/runner/agent/scheduler"
	"holon/state/ledger"
	"holon/test/expect"
)

// The turns of two agents are settled in one step, or neither is.
func TestSettledTogether(t *testing.T) {
	w := open(t)
	var attempts []string
	for _, agent := range []string{"beta", "alpha"} {
		in := prompt("x")
		in.AgentID = agent
		w.admit(in)
		c, ok, err := w.m.Claim(w.ctx, agent)
		if err != nil || !ok {
			t.Fatalf("claim for %s: %v, %v", agent, ok, err)
		}
		w.must(w.m.Began(w.ctx, c.Attempt.ID, scheduler.Sent{Prompt: json.RawMessage(`{}`)}))
		attempts = append(attempts, c.Attempt.ID)
	}
	look := func() (found []string) {
		for _, id := range attempts {
			a := get(w, ledger.View.Attempt, id)
			l := get(w, ledger.View.AgentState, a.AgentID)
			found = append(found, fmt.Sprint(a.AgentID, " ", a.Status, " turns ", l.Turns, " events ", l.EventSeq))
		}
		return found
	}
	end, before := scheduler.End{Turn: ledger.Turn{Kind: ledger.TurnCompleted}}, look()
	for calls := 0; ; calls++ { // of the store, after which it fails
		w.store.armed, w.store.survives, w.store.where, w.store.calls = true, true, withinStep, calls
		err := w.m.SettleTogether(w.ctx, end, attempts[0], attempts[1:]...)
		if err == nil {
			break
		}
		if !errors.Is(err, errCrash) {
			t.Fatalf("after %d calls: %v", calls, err)
		}
		expect.Equal(t, fmt.Sprintf("the agents, cut off after %d calls", calls), fmt.Sprint(look()), fmt.Sprint(before))
	}
	for _, id := range attempts {
		expect.Equal(t, "attempt", get(w, ledger.View.Attempt, id).Status, ledger.AttemptSettled)
	}
	w.check()
}
