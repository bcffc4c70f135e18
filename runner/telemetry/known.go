package telemetry

import (
	"slices"

	"holon/responses"
	"holon/responses/turns"
)

// other stands for what the host does not know: a container could choose any value, and a backend keeps each that a
// metric ever had.
const other = "_OTHER"

// known returns s if it is one of list, else other.
func known(s string, list ...string) string {
	if slices.Contains(list, s) {
		return s
	}
	return other
}

// statuses are how turns end, as agentd and the host say it.
var statuses = []string{turns.StatusCompleted, turns.StatusFailed, turns.StatusCancelled, turns.StatusTimedOut,
	turns.StatusLost, string(responses.StatusIncomplete)}

// failure returns the class of a failure, which says nothing of the content.
func failure(code string) string {
	for _, list := range [][]string{turns.Constants["code"], turns.Constants["failure_category"],
		turns.Constants["reason"], attemptFailures} {
		if slices.Contains(list, code) {
			return code
		}
	}
	return other
}

// attemptFailures are the categories of failures of model requests, and those of turns and tools that no list of
// package turns has.
var attemptFailures = []string{
	"transport", "protocol", "authentication", "invalid_request", "rate_limited", "overloaded", "context_length",
	"cancelled", "scenario", "timeout", "unsupported", "budget",
	"incomplete", "failed", "interrupted", "turn_lost", "disk_quota", "deadline_exceeded",
}
