package runner

import (
	"context"
	"errors"

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
	if !errors.Is(result.Err, ErrLeft) {
		trace.End(context.WithoutCancel(ctx), result.Response, result.Err)
	}
	return result
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
