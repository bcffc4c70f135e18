package tui

import (
	"testing"

	"holon/runner/agent/rules"
	"holon/runner/agent/view"
	"holon/test/expect"
)

// The first line says what an agent waits for, not only that it sleeps.
func TestAgentState(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status             rules.Status
		run, posture, want string
	}{
		{rules.Asleep, "", "waiting_for_operator", "waiting for operator"},
		{rules.AwakeIdle, "", "waiting_for_external", "waiting for external"},
		{rules.AwakeIdle, "", "idle", "awake idle"},
		{rules.AwakeRunning, "run_1", "active_turn", "awake running"},
	} {
		var s view.StateSnapshot
		s.Agent.Agent.Status, s.Agent.Agent.CurrentRunID, s.Agent.SchedulingPosture.Posture = c.status, c.run, c.posture
		expect.Equal(t, c.posture, (&agent{}).status(s).State, c.want)
	}
}
