package telemetry

import (
	"context"
	"iter"
	"time"

	"holon/internal/tracecontext"
	"holon/responses/turns"
)

// Replay sends the spans of a turn of an agentd that no holon runs, from all its facts: below the span that asked for
// it, or as a trace of their own. It returns false when there is nothing to send: the facts do not begin with a turn,
// or whoever asked for it decided that the trace is not sampled.
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
	spans := m.end(m.turn.start, last, nil, Lost)[1:] // how its host saw it is not known
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
