package runner

import (
	"context"
	"errors"

	"holon/responses"
	"holon/responses/turns"
	"holon/runner/telemetry"
)

// trace begins to gather what telemetry tells of a turn; nil where there is none.
func (s *Session) trace(ctx context.Context, req Turn, rejoined bool) *telemetry.Turn {
	if s.cfg.Telemetry == nil {
		return nil
	}
	return s.cfg.Telemetry.Begin(ctx, telemetry.Invocation{TurnID: req.ID, SessionID: s.id,
		AgentID: s.cfg.Labels[LabelAgent], Models: append([]string{s.cfg.Model}, s.cfg.Fallbacks...), Prompt: req.Prompt,
		Rejoined: rejoined})
}

// traced ends the trace of a turn, unless another process will take the turn up and tell of all of it.
func traced(ctx context.Context, trace *telemetry.Turn, result TurnResult) TurnResult {
	if errors.Is(result.Err, ErrLeft) {
		return result
	}
	final := result.Response
	if result.Err != nil || result.OverQuota != nil { // it may be a part, or not say that the host ended the turn
		final = nil
	}
	trace.End(context.WithoutCancel(ctx), final, ending(ctx, result))
	return result
}

// ending is how a turn ended without a final response.
func ending(ctx context.Context, result TurnResult) telemetry.Ending {
	refusal, refused := errors.AsType[*responses.Error](result.Err)
	switch cause := context.Cause(ctx); {
	case result.OverQuota != nil:
		return telemetry.Ending{Status: string(responses.StatusIncomplete), Failure: string(result.OverQuota.Code)}
	case errors.Is(result.Err, ErrDeadline):
		return telemetry.Ending{Status: string(responses.StatusIncomplete), Failure: string(codeDeadline)}
	case cause != nil && errors.Is(result.Err, cause), errors.Is(result.Err, ErrInterrupted):
		return telemetry.Ending{Status: turns.StatusCancelled, Failure: responses.CodeCancelled}
	case refused && result.Response == nil && refusal.Code != responses.CodeServerUnreachable &&
		refusal.Code != responses.CodeServerDisconnected:
		return telemetry.Ending{Status: turns.StatusFailed, Failure: refusal.Code}
	}
	return telemetry.Lost
}

// tracing is an Observer that lets the trace of the turn know its facts, too.
type tracing struct {
	Observer
	trace *telemetry.Turn
}

// Fact implements Observer.
func (t tracing) Fact(ev turns.RuntimeEvent) {
	t.trace.Fact(ev)
	t.Observer.Fact(ev)
}
