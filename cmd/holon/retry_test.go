package main

import (
	"testing"
	"time"

	"holon/responses/turns"
	"holon/runner/settings"
	"holon/test/expect"
)

// What is shown of failed requests: each reason once, and each wait that is twice as long as the last one shown.
func TestRetryLines(t *testing.T) {
	var shown retries
	for _, c := range []struct {
		outcome   string
		attempt   int
		ms        int64
		advanced  bool
		next, say string
	}{
		{turns.OutcomeRetrying, 1, 500, false, "retrying in 500ms (1/2)", "! busy; retrying in 500ms (1/2)"},
		{turns.OutcomeRetrying, 2, 1000, false, "retrying in 1s (2/2)", ""},
		{turns.OutcomeExhausted, 3, 2200, false, "retrying in 2.2s", "! busy; retrying in 2.2s"},
		{turns.OutcomeRetrying, 1, 500, false, "retrying in 500ms (1/2)", ""},
		{turns.OutcomeExhausted, 3, 4300, false, "retrying in 4.3s", ""},
		{turns.OutcomeExhausted, 3, 9000, false, "retrying in 9s", "! busy; retrying in 9s"},
		{turns.OutcomeExhausted, 3, 120_000, false, "retrying in 2m", "! busy; retrying in 2m"},
		{turns.OutcomeExhausted, 3, 120_000, false, "retrying in 2m", ""},
		{turns.OutcomeRetrying, 1, 500, false, "retrying in 500ms (1/2)", ""},
		{turns.OutcomeExhausted, 1, 35_000, false, "retrying in 35s", ""},
		{turns.OutcomeExhausted, 3, 0, true, "asking the next model", "! busy; asking the next model"},
		{turns.OutcomeExhausted, 3, 0, false, "", ""},
		{turns.OutcomeFailFast, 1, 0, false, "", ""},
	} {
		next, line := retry(turns.AttemptFailure{Message: "busy", Outcome: c.outcome, BackoffMS: c.ms,
			AdvancedToFallback: c.advanced, ProviderAttempt: &turns.ProviderAttempt{Attempt: c.attempt, MaxAttempts: 3}}, &shown)
		expect.Equal(t, "what is done", next, c.next)
		expect.Equal(t, "the line", line, c.say)
	}
}

// A person who watches a run does not wait for long.
func TestHowLongAgentdWaits(t *testing.T) {
	for _, c := range []struct {
		set     time.Duration
		watched bool
		want    string
	}{
		{settings.Default().RetryFor, false, "HOLON_RETRY_FOR=30m0s"},
		{settings.Default().RetryFor, true, "HOLON_RETRY_FOR=2m0s"},
		{10 * time.Second, true, "HOLON_RETRY_FOR=10s"}, {0, false, "HOLON_RETRY_FOR=0s"},
	} {
		o := &configured{Loaded: &settings.Loaded{}}
		o.RetryFor = c.set
		expect.Equal(t, "variable", o.agentLimits(c.watched)[0], c.want)
	}
}
