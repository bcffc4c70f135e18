package record

import (
	"testing"

	"holon/responses/agentruntime"
	"holon/responses/turns"
	"holon/state/ledger"
)

// A call that failed keeps the error object of its tool, and one that the end of its turn cut off has one, too.
func TestErrorOfExecution(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ end, kind, details, summary string }{
		"of a tool": {`{"tool_name":"CreateWorkItem","failure_category":"invalid_input","message":"the objective is empty",
			"retryable":false,"tool_error":{"kind":"invalid_tool_input","message":"the objective is empty",
			"details":{"field":"objective"},"recovery_hint":"give one","retryable":false}}`,
			"invalid_tool_input", `{"field":"objective"}`, "the objective is empty"},
		"cut off": {`{"tool_name":"ExecCommand","failure_category":"interrupted","message":"the turn ended","retryable":false}`,
			"interrupted", "", "the turn ended"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := ledger.Event{Class: turns.ToolFailed, TurnID: "turn_1", Data: []byte(c.end)}
			e.IDs[agentruntime.ToolCall] = "tc_1"
			ran := executions{}.apply(e)
			if ran.Status != "error" || ran.Error == nil || ran.Error.Kind != c.kind || ran.Summary != c.summary ||
				string(ran.Error.Details) != c.details {
				t.Errorf("the call is %+v with the error %+v", ran, ran.Error)
			}
		})
	}
}
