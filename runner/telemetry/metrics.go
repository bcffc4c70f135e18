package telemetry

import (
	"context"
	"errors"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"holon/responses"
	"holon/responses/turns"
)

// instruments are the metrics.
type instruments struct {
	tokens   metric.Int64Histogram
	duration metric.Float64Histogram
	turns    metric.Int64Counter
}

func newInstruments(meter metric.Meter) (*instruments, error) {
	// The boundaries are those that the conventions want.
	tokens, err1 := meter.Int64Histogram("gen_ai.client.token.usage", metric.WithUnit("{token}"),
		metric.WithDescription("Tokens of a model request."),
		metric.WithExplicitBucketBoundaries(1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304,
			16777216, 67108864))
	duration, err2 := meter.Float64Histogram("gen_ai.client.operation.duration", metric.WithUnit("s"),
		metric.WithDescription("How long a model request, a tool call or an invocation of an agent takes."),
		metric.WithExplicitBucketBoundaries(0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48,
			40.96, 81.92))
	turns, err3 := meter.Int64Counter("holon.turns", metric.WithUnit("{turn}"),
		metric.WithDescription("Turns that have ended."))
	return &instruments{tokens, duration, turns}, errors.Join(err1, err2, err3)
}

// record takes what the spans of a turn say. The first is that of the invocation, whose model the host knows.
func (i *instruments) record(ctx context.Context, spans []span, models []string) {
	for _, s := range spans {
		if s.operation == "" {
			continue
		}
		about := []attribute.KeyValue{keyOperation.String(s.operation)}
		if s.provider != "" {
			provider, model := s.provider, s.model
			if !slices.Contains(models, provider+"/"+model) { // a container could name any number
				provider, model = other, other
			}
			about = append(about, keyProvider.String(provider), keyRequestModel.String(model))
		}
		if s.operation == opChat {
			for kind, n := range map[string]int64{"input": s.input, "output": s.output} {
				if n > 0 {
					i.tokens.Record(ctx, n, metric.WithAttributes(append(slices.Clip(about), keyTokenType.String(kind))...))
				}
			}
		}
		if s.operation == opInvoke {
			i.turns.Add(ctx, 1, metric.WithAttributes(keyStatus.String(s.status)))
		}
		about = text(about, keyErrorType, s.failure)
		i.duration.Record(ctx, s.end.Sub(s.start).Seconds(), metric.WithAttributes(about...))
	}
}

// other stands for what the host does not know: a container could choose any value, and a backend keeps each that a
// metric ever had.
const other = "_OTHER"

// listed returns s if it is one of list, else other.
func listed(s string, list ...string) string {
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
	return listed(code, failures...)
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
	"incomplete", "failed", "interrupted", "turn_lost", "disk_quota", "disk_unmeasured", "deadline_exceeded",
}
