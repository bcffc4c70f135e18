package runner

import (
	"context"
	"errors"
	"sync/atomic"

	"holon/responses"
	"holon/responses/turns"
	"holon/runner/telemetry"
)

// trace begins to gather what telemetry tells of a turn; nil where there is none.
func (s *Session) trace(ctx context.Context, req Turn, rejoined bool) *telemetry.Turn {
	if s.cfg.Telemetry == nil {
		return nil
	}
	return s.cfg.Telemetry.Begin(ctx, telemetry.Invocation{TurnID: req.ID(), SessionID: s.id,
		AgentID: s.cfg.Labels[LabelAgent], Models: append([]string{s.cfg.Model}, s.cfg.Fallbacks...), Prompt: req.Prompt(),
		Rejoined: rejoined})
}

// settled decides how a turn ended, and ends its trace, unless another process will take the turn up and tell of all of
// it.
func (s *Session) settled(ctx context.Context, trace *telemetry.Turn, end End) End {
	end.Settle(context.Cause(ctx), s.cfg.Secrets)
	if errors.Is(end.Err, ErrLeft) {
		return end
	}
	final := end.Response
	if end.Err != nil || end.stopped != nil { // it may be a part, or not say that the host ended the turn
		final = nil
	}
	trace.End(context.WithoutCancel(ctx), final, ending(end))
	return end
}

// ending is how a turn ended without a final response.
func ending(e End) telemetry.Ending {
	refusal, refused := errors.AsType[*responses.Error](e.Err)
	switch {
	case e.Status != "" && e.Failure != nil:
		return telemetry.Ending{Status: string(e.Status), Failure: e.Failure.Code}
	case refused && e.Response == nil && refusal.Code != responses.CodeServerUnreachable &&
		refusal.Code != responses.CodeServerDisconnected:
		return telemetry.Ending{Status: turns.StatusFailed, Failure: refusal.Code}
	}
	return telemetry.Lost
}

// tracing is an Observer that lets the trace of the turn know its facts, too, and notes when it starts.
type tracing struct {
	Observer
	trace   *telemetry.Turn
	started *atomic.Bool
}

// Fact implements Observer.
func (t tracing) Fact(ev turns.RuntimeEvent) {
	if ev.Type == turns.TurnStarted {
		t.started.Store(true)
	}
	t.trace.Fact(ev)
	t.Observer.Fact(ev)
}
