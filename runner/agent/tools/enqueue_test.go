package tools_test

import (
	"strings"
	"testing"

	"holon/runner/agent/rules"
	"holon/state/ledger"
	"holon/test/expect"
)

// In the last turn that may change nothing, an agent reads what becomes of its notes, and rests.
func TestLastTurnWithoutProgress(t *testing.T) {
	for idle, dropped := range map[int]bool{0: false, rules.MaxIdle - 2: false, rules.MaxIdle - 1: true} {
		r := newRig(t)
		r.turn()
		err := r.store.Update(t.Context(), func(tx ledger.Tx) error {
			state, err := tx.AgentState("main")
			if err != nil {
				return err
			}
			state.Progress.Idle = idle
			return tx.Step(&state)
		})
		expect.NoError(t, err)
		result, kind := r.call("Enqueue", "t/c1", `{"text":"go on"}`)
		if summary, _ := result["summary_text"].(string); kind != "" || strings.Contains(summary, "is dropped") != dropped {
			t.Errorf("after %d turns without progress: %q, %q; want it said that the note is dropped: %t", idle, kind, summary,
				dropped)
		}
	}
}
