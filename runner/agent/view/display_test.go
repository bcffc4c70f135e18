package view

import (
	"encoding/json"
	"testing"

	"holon/test/expect"

	"holon/responses/turns"
	"holon/runner/agent/record"
	"holon/state/ledger"
)

// The summary of an event is for a person: an attempt at a model that failed is not one that gave an answer, and a
// class is words.
func TestSummaryOfEvents(t *testing.T) {
	for _, c := range []struct {
		class, status, data, want string
	}{
		{turns.ModelCompleted, "completed", `{"provider_attempt":{"model_ref":"p/m","purpose":"summary"}}`,
			"provider round completed: p/m"},
		{turns.ModelCompleted, "completed", `{"tool_call_ids":["a","b"],"tool_names":["ExecCommand","ApplyPatch"]}`,
			"Model requested tools: ExecCommand, ApplyPatch"},
		{turns.ModelCompleted, "completed", `{"message_ids":["m"],"tool_names":["ExecCommand"]}`, "Model round completed"},
		{turns.ModelCompleted, "completed", `{}`, "Model round completed"},
		{record.ModelDelta, "", `{"delta":"I look.\nThen"}`, "Assistant progress: I look."},
		{turns.SandboxApplied, "", `{"enforcement":{"network":"not_enforced","process":"enforced"}}`,
			"isolation: not_enforced: network"},
		{"session.updated", "", `{"action":"stop"}`, "agent stopped: it takes no messages until: holon agent start main"},
		{"holon.worktree.retained", "", `{"worktree":{"name":"app"},"reason":"it has changes"}`,
			"worktree cleanup retained: app, review or cleanup pending: it has changes"},
		{"turn.failed", "failed", `{"kind":"aborted","reason":"model_error","message":"no key"}`, "turn aborted: no key"},
		{turns.ModelFailed, "failed", `{"provider_attempt":{"model_ref":"p/m"},"message":"slow down"}`,
			"provider round failed: p/m: slow down"},
		{"rate_limit.hit", "", `{}`, "rate limit hit"},
		{"task.completed", "completed", `{"task":{"purpose":"count","result":{"summary":"the child is done"}}}`,
			"task result received: count: the child is done"},
		{"holon.input.inserted", "completed", `{}`, "input inserted"},
	} {
		e := ledger.Event{AgentID: "main", Class: c.class, Status: c.status, Data: json.RawMessage(c.data)}
		expect.Equal(t, "the summary of "+c.class, envelope(e, false).Display.Summary, c.want)
	}
}
