package view

import (
	"encoding/json"
	"testing"

	"holon/responses/turns"
	"holon/state/ledger"
	"holon/test/expect"
)

// A turn is retrying between a failed attempt that another one follows and that one's beginning.
func TestRetrying(t *testing.T) {
	failed := func(pause string) ledger.Event {
		return ledger.Event{Class: turns.ModelFailed, Data: json.RawMessage(`{"provider_attempt":{"model_ref":"p/m",` +
			`"failure_kind":"overloaded","completed_at":"2026-01-02T03:04:05.000Z","backoff_ms":` + pause + `}}`)}
	}
	for name, c := range map[string]struct {
		newest []ledger.Event
		want   string
	}{
		"nothing is recorded": {nil, ""},
		"another one follows": {[]ledger.Event{{Class: "queue.changed"}, failed("60000")},
			"p/m at 2026-01-02T03:05:05Z: overloaded"},
		"it has begun":       {[]ledger.Event{{Class: turns.ModelRequested}, failed("60000")}, ""},
		"none follows":       {[]ledger.Event{failed("0")}, ""},
		"one gave an answer": {[]ledger.Event{{Class: turns.ModelCompleted}, failed("60000")}, ""},
	} {
		expect.Equal(t, name, retrying(c.newest), c.want)
	}
}
