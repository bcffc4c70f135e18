package telemetry

import (
	"context"
	"iter"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"holon/internal/tracecontext"
	"holon/responses"
	"holon/responses/turns"
)

// Invocation is a turn as the host asks for it.
type Invocation struct {
	TurnID    string
	SessionID string
	AgentID   string   // of a long-lived agent, "" for none
	Models    []string // provider/model: the one that is asked, and those it falls back to
	Prompt    string
	Rejoined  bool // another process asked for it
}

// Ending is how a turn without a final response ended. Its failure is a code, such as that of an error.
type Ending struct{ Status, Failure string }

// Lost is the end of a turn of which nothing is known.
var Lost = Ending{turns.StatusLost, "turn_lost"}

// Turn gathers the facts of one turn. A nil *Turn does nothing. Its methods are called one after another.
type Turn struct {
	exporter *Exporter
	root     tracecontext.Span
	began    time.Time
	facts    *mapping
}

// Begin begins to gather. Nothing is sent before End.
func (e *Exporter) Begin(ctx context.Context, in Invocation) *Turn {
	if e == nil {
		return nil
	}
	t := &Turn{exporter: e, root: tracecontext.Root(in.TurnID), began: time.Now()}
	if e.tracer != nil {
		// The sampler decides by the trace, so that this says what it will say of the spans.
		_, asked := e.tracer.Start(tracecontext.With(detached(ctx), t.root), "invoke_agent")
		t.root.Sampled = asked.SpanContext().IsSampled()
	}
	t.facts = newMapping(in, t.root, e.options)
	return t
}

// detached is ctx without the span of a caller that uses OpenTelemetry too.
func detached(ctx context.Context) context.Context {
	return trace.ContextWithSpanContext(ctx, trace.SpanContext{})
}

// Span returns the span in which agentd is asked for the turn, none when nothing is traced.
func (t *Turn) Span() tracecontext.Span {
	if t == nil || t.exporter.tracer == nil {
		return tracecontext.Span{}
	}
	return t.root
}

// Fact takes a runtime event of the turn.
func (t *Turn) Fact(ev turns.RuntimeEvent) {
	if t != nil {
		t.facts.take(ev)
	}
}

// End hands what the turn did to the exporter. final is its final response, or nil and how says how it ended.
func (t *Turn) End(ctx context.Context, final *responses.Response, how Ending) {
	if t == nil {
		return
	}
	spans := t.facts.end(t.began, time.Now(), final, how)
	if t.exporter.measure != nil {
		t.exporter.measure.record(ctx, spans, t.facts.in.Models)
	}
	if t.root.Sampled {
		for _, s := range spans {
			t.exporter.send(detached(ctx), s)
		}
	}
}

// send hands a span to the queue.
func (e *Exporter) send(ctx context.Context, s span) {
	if s.above.Valid() {
		ctx = trace.ContextWithSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{
			TraceID: s.above.Trace, SpanID: s.above.ID, TraceFlags: trace.FlagsSampled}))
	}
	_, out := e.tracer.Start(tracecontext.With(ctx, s.at), s.name, trace.WithTimestamp(s.start),
		trace.WithSpanKind(s.kind), trace.WithAttributes(s.attributes()...))
	if s.failure != "" {
		out.SetStatus(codes.Error, "") // what the failure says may be of the content
	}
	out.End(trace.WithTimestamp(s.end))
}

// Replay sends the spans of a turn of an agentd that no holon runs, from all its facts: below the span that asked for
// it, or as a trace of their own. It returns false when there is nothing to send: the facts do not begin with a turn,
// or its caller decided that the trace is not sampled.
func (e *Exporter) Replay(ctx context.Context, facts iter.Seq[turns.RuntimeEvent]) bool {
	var m *mapping
	var above tracecontext.Span
	var last time.Time
	for ev := range facts {
		if ev.Type == turns.ThreadStarted {
			continue // the turn comes after it
		}
		if m == nil {
			if m, above = e.begun(ev); m == nil {
				return false
			}
		}
		m.take(ev)
		last = ev.Timestamp.Time()
	}
	if m == nil {
		return false
	}
	spans := m.end(m.turn.start, last, nil, Lost)[1:] // how its host saw it is recorded nowhere
	spans[0].above = above
	for _, s := range spans {
		e.send(detached(ctx), s)
	}
	return true
}

// begun returns the mapping of the turn that first begins, nil for none, and the span that asked for it.
func (e *Exporter) begun(first turns.RuntimeEvent) (*mapping, tracecontext.Span) {
	var p turns.Submitted
	if e.tracer == nil || first.Type != turns.TurnSubmitted || !decode(first, &p) {
		return nil, tracecontext.Span{}
	}
	above := tracecontext.Parse(p.Traceparent)
	root := above
	if !above.Valid() {
		root = tracecontext.Root(first.TurnID)
		root.Sampled = true
	}
	if !root.Sampled {
		return nil, above
	}
	return newMapping(Invocation{TurnID: first.TurnID, SessionID: first.SessionID}, root, e.options), above
}
