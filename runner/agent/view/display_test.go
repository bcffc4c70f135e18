package view

import (
	"encoding/json"
	"testing"

	"holon/runner/agent/record"
	"holon/state/ledger"
)

// The summary of an event is for a person: an attempt at a model that failed is not one that gave an answer, and a class
// is words.
func TestSummaryOfEvents(t *testing.T) {
	for _, c := range []struct {
		typ, status, data, want string
	}{
		{record.ProviderRound, "completed", `{"model_ref":"p/m"}`, "provider round completed: p/m"},
		{record.ProviderRound, "failed", `{"model_ref":"p/m","message":"slow down"}`, "provider round failed: p/m: slow down"},
		{"rate_limit.hit", "", `{}`, "rate limit hit"},
		{"holon.input.inserted", "completed", `{}`, "input inserted"},
	} {
		e := ledger.Event{Type: c.typ, Status: c.status, Data: json.RawMessage(c.data)}
		if got := display(e, Payload{}).Summary; got != c.want {
			t.Errorf("the summary of %s is %q, want %q", c.typ, got, c.want)
		}
	}
}
