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
	return known(code, failures...)
}

// failures are the codes of the protocol, the reasons of incomplete responses, and the categories of failures of turns,
// tools and model requests.
var failures = []string{
	responses.CodeInvalidJSON, responses.CodeInvalidValue, responses.CodeMissingParameter,
	responses.CodeUnsupportedParameter, responses.CodeUnsupportedMediaType, responses.CodeRequestTooLarge,
	responses.CodeModelNotFound, responses.CodeMissingCredentials, responses.CodePathOutsideRoot,
	responses.CodePreviousNotFound, responses.CodeCallNotFound, responses.CodeItemNotFound,
	responses.CodeTurnConflict, responses.CodeTurnNotFound, responses.CodeTurnEnded, responses.CodeInputConflict,
	responses.CodeIdempotencyConflict, responses.CodeResponseInProgress, responses.CodePreviousInProgress,
	responses.CodeRequestTimeout,
	responses.CodeNotFound, responses.CodeMethodNotAllowed, responses.CodeUnauthorized, responses.CodeForbidden,
	responses.CodeQueueFull, responses.CodeDraining, responses.CodeDiskFull, responses.CodeInterrupted,
	responses.CodeCancelled, responses.CodeDeadline, responses.CodeServerError, responses.CodeServerUnreachable,
	responses.CodeServerDisconnected, responses.CodeModelError, responses.CodeContextLength,
	responses.CodeCompactionUnreadable, responses.CodeConnectionLimit, responses.CodeRateLimit,
	responses.CodeToolChoiceUnmet, responses.CodeToolNotAllowed, responses.CodeStructuredOutput,
	responses.CodeScenarioInvalid, responses.CodeScenarioDiverged, responses.CodeScenarioNotFound,
	responses.CodeProviderUnavailable, responses.CodeProviderAuthentication, responses.CodeTurnTokenRequired,
	responses.CodeTurnTokenExpired, responses.CodeModelNotAllowed, responses.CodeBudgetExceeded,
	responses.CodeMCPNotAllowed, responses.CodeMCPUnavailable,
	responses.ReasonMaxOutputTokens, responses.ReasonContentFilter, responses.ReasonMaxRounds,
	responses.ReasonMaxToolCalls, responses.ReasonMaxOutputBytes, responses.ReasonTimeout,
	responses.ReasonBudget, responses.ReasonEmptyAnswer, responses.ReasonShutdown, responses.ReasonCancelled,
	"invalid_input", "permission_denied", "sandbox_violation", "not_found", "cancelled", "interrupted",
	"execution_error", "unavailable", "time_limit", "timeout", "lost",
	"transport", "protocol", "authentication", "invalid_request", "rate_limited", "overloaded", "context_length",
	"cancelled", "scenario", "timeout", "unsupported", "budget",
	"incomplete", "failed", "interrupted", "turn_lost", "disk_quota", "deadline_exceeded",
}
