package view

import (
	"encoding/json"
	"strings"

	"holon/responses/agentruntime"
	"holon/responses/turns"
	"holon/runner/agent/record"
	"holon/runner/agent/rules"
	"holon/state/ledger"
)

// Events returns a page of an agent's events. epoch is the store's. Errors are those of Summary.
func (s Snapshot) Events(agentID string, q EventQuery, epoch string) (EventPage, error) {
	if _, err := s.shown(agentID); err != nil {
		return EventPage{}, err
	}
	q.Limit = clamp(q.Limit)
	found, err := s.ledger.Events(agentID, ledger.EventQuery{After: q.AfterSeq, Before: q.BeforeSeq, Limit: q.Limit,
		Descending: q.Descending, MaxLevel: q.MaxLevel})
	if err != nil {
		return EventPage{}, err
	}
	page := EventPage{Events: make([]EventEnvelope, 0, len(found.Events)), OldestSeq: found.Oldest,
		NewestSeq: found.Newest, HasOlder: found.HasOlder, HasNewer: found.HasNewer, Order: "asc", Limit: q.Limit,
		Epoch: epoch}
	if q.Descending {
		page.Order = "desc"
	}
	for _, e := range found.Events {
		page.Events = append(page.Events, envelope(e, q.Projection == ProjectionDebug))
	}
	return page, nil
}

// envelope shows an event. It depends on nothing but the event.
func envelope(e ledger.Event, debug bool) EventEnvelope {
	label := record.Of(e)
	out := EventEnvelope{
		ID: e.ID, EventSeq: e.Seq, TS: turns.At(e.CreatedAt), AgentID: e.AgentID, Type: label.Name,
		Projection: projection{Name: ProjectionOperator, Redactions: []string{}},
		Provenance: provenance{MessageID: e.MessageID, TurnID: e.TurnID,
			ToolCallID: e.IDs[agentruntime.ToolCall]},
	}
	out.Payload, out.Projection.Redactions = payload(e, label)
	if e.From != nil {
		out.Provenance.Provenance, out.Provenance.Transport = *e.From, transport(e.From.Surface)
		out.Provenance.Source = e.From.Origin.Source
	}
	if m := out.Payload.Message; m != nil {
		out.Provenance.ReplyRoute = m.SourceRefs[rules.RefReplyRoute]
	}
	if debug {
		out.Projection.Name, out.Projection.RawPayloadIncluded, out.Payload.Raw = ProjectionDebug, true, &e
	}
	out.Display = display(e, label, out.Payload)
	return out
}

// transport is how a message was brought, in a word.
func transport(s ledger.Surface) string {
	switch {
	case s == ledger.SurfaceCLIPrompt || s == ledger.SurfaceRunOnce:
		return "cli"
	case strings.HasPrefix(string(s), "http_"):
		return "http"
	case s == ledger.SurfaceRemote:
		return "operator"
	case s == "":
		return ""
	}
	return "runtime"
}

// payload is the data of an event, with the copies of records that it has in their places, and the keys of texts that
// it had no room for.
func payload(e ledger.Event, label record.Label) (p eventPayload, clipped []string) {
	p.Ref, p.Workspace = e.Ref, e.Workspace
	var whole map[string]json.RawMessage
	var copies struct {
		eventPayload
		Message *ledger.Message `json:"message_record"`
		Timer   *ledger.Timer   `json:"timer"`
		Trigger *ledger.Trigger `json:"external_trigger"`
		Usage   *turns.Usage    `json:"usage"`
		Clipped []string        `json:"clipped"`
		Text    json.RawMessage `json:"message"` // of a failure, not a record
	}
	if json.Unmarshal(e.Data, &whole) != nil || json.Unmarshal(e.Data, &copies) != nil {
		p.Data = e.Data // there is none, or nothing but texts and numbers
		return p, []string{}
	}
	p.Message, p.Brief, p.Wait, p.Work = copies.Message, copies.Brief, copies.Wait, copies.Work
	p.Notification = copies.Notification
	if copies.Timer != nil {
		shown := OfTimer(*copies.Timer)
		p.Timer = &shown
	}
	if copies.Trigger != nil {
		shown := OfTrigger(*copies.Trigger)
		p.Trigger = &shown
	}
	if label.Name == record.TurnTerminal {
		end := turnTerminal{TurnID: e.TurnID, MessageID: e.MessageID, TokenUsage: copies.Usage}
		_ = json.Unmarshal(e.Data, &end) // the host wrote it
		p.Turn = &end
	}
	for _, key := range record.Copies {
		delete(whole, key)
	}
	if len(whole) > 0 {
		p.Data, _ = json.Marshal(whole) // it was JSON
	}
	return p, list(copies.Clipped)
}
