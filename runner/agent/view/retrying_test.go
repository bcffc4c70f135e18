package view

import (
	"encoding/json"
	"slices"
	"testing"

	"holon/responses/turns"
	"holon/state/ledger"
	"holon/test/expect"
)

// events are a log.
type events struct {
	ledger.View
	list []ledger.Event
}

func (v events) Events(string, ledger.EventQuery) (ledger.EventPage, error) {
	newest := slices.Clone(v.list)
	slices.Reverse(newest)
	return ledger.EventPage{Events: newest}, nil
}

// A turn is retrying between a failed attempt that another one follows and that one's beginning.
func TestRetrying(t *testing.T) {
	failed := func(pause string) ledger.Event {
		return ledger.Event{Class: turns.ModelFailed, Data: json.RawMessage(`{"provider_attempt":{"model_ref":"p/m",` +
			`"failure_kind":"overloaded","completed_at":"2026-01-02T03:04:05.000Z","backoff_ms":` + pause + `}}`)}
	}
	asking := []ledger.Unfinished{{Class: turns.ModelRequested}}
	for name, c := range map[string]struct {
		log  []ledger.Event
		open []ledger.Unfinished
		want string
	}{
		"nothing is recorded": {nil, nil, ""},
		"another one follows": {[]ledger.Event{failed("60000"), {Class: "queue.changed"}}, nil,
			"p/m at 2026-01-02T03:05:05Z: overloaded"},
		"it has begun":       {[]ledger.Event{failed("60000")}, asking, ""},
		"none follows":       {[]ledger.Event{failed("0")}, nil, ""},
		"one gave an answer": {[]ledger.Event{failed("60000"), {Class: turns.ModelCompleted}}, nil, ""},
	} {
		got, err := retrying(events{list: c.log}, ledger.Attempt{Open: c.open})
		expect.NoError(t, err)
		expect.Equal(t, name, got, c.want)
	}
}
