package view

import (
	"testing"
	"time"

	"holon/responses/turns"
	"holon/state/ledger"
	"holon/test/expect"
)

// A turn is retrying between a failed attempt that another one follows and that one's beginning.
func TestRetrying(t *testing.T) {
	at := turns.At(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	recorded := func(ms int64) *ledger.Recorded {
		return &ledger.Recorded{Provider: &turns.ProviderTimeline{Attempts: []turns.ProviderAttempt{{ModelRef: "p/old"},
			{ModelRef: "p/m", FailureKind: "overloaded", CompletedAt: at, BackoffMS: ms}}}}
	}
	asking := []ledger.Unfinished{{Class: turns.ModelRequested}}
	for name, c := range map[string]struct {
		attempt ledger.Attempt
		want    string
	}{
		"nothing is recorded": {ledger.Attempt{}, ""},
		"no attempt ended":    {ledger.Attempt{Recorded: &ledger.Recorded{}}, ""},
		"another one follows": {ledger.Attempt{Recorded: recorded(60_000)}, "p/m at 2026-01-02T03:05:05Z: overloaded"},
		"it has begun":        {ledger.Attempt{Recorded: recorded(60_000), Open: asking}, ""},
		"none follows":        {ledger.Attempt{Recorded: recorded(0)}, ""},
	} {
		expect.Equal(t, name, retrying(&c.attempt), c.want)
	}
}
