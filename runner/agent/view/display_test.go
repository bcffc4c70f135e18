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
		{turns.ModelCompleted, "completed", `{"provider_attempt":{"model_ref":"p/m"},"tool_call_ids":["a"]}`,
			"assistant round: tools called: 1"},
		{turns.ModelFailed, "failed", `{"provider_attempt":{"model_ref":"p/m"},"message":"slow down"}`,
			"provider round failed: p/m: slow down"},
		{"rate_limit.hit", "", `{}`, "rate limit hit"},
		{"task.completed", "completed", `{"task":{"purpose":"count","result":{"summary":"the child is done"}}}`,
			"task result received: count: the child is done"},
		{"holon.input.inserted", "completed", `{}`, "input inserted"},
	} {
		e := ledger.Event{Class: c.class, Status: c.status, Data: json.RawMessage(c.data)}
		expect.Equal(t, "the summary of "+c.class, display(e, record.Of(e), eventPayload{}).Summary, c.want)
	}
}
