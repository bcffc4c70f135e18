package view

import (
	"encoding/json"
	"strings"

	"holon/responses/turns"
	"holon/runner/agent/record"
	"holon/state/ledger"
)

// Bounds of what events carry, in bytes.
const (
	maxClipped = 16 << 10 // of one text, unless the projection is ProjectionDebug
	maxPage    = 4 << 20  // of the texts of a page; one event may exceed it alone
)

// Events returns a page of an agent's events, each with the records it is about.
// A page that grows large ends early and says that there is more. epoch is the
// store's. Errors are those of Summary.
func (s Snapshot) Events(agentID string, q EventQuery, epoch string) (EventPage, error) {
	if _, err := public(s.ledger, agentID); err != nil {
		return EventPage{}, err
	}
	q.Limit = clamp(q.Limit)
	found, err := s.ledger.Events(agentID, ledger.EventQuery{After: q.AfterSeq, Before: q.BeforeSeq, Limit: q.Limit,
		Descending: q.Descending, MaxLevel: q.MaxLevel})
	if err != nil {
		return EventPage{}, err
	}
	page := EventPage{Events: make([]EventEnvelope, 0, len(found.Events)), OldestSeq: found.Oldest,
		NewestSeq: found.Newest,
		HasOlder:  found.HasOlder, HasNewer: found.HasNewer, Order: "asc", Limit: q.Limit, Epoch: epoch}
	if q.Descending {
		page.Order = "desc"
	}
	j := joiner{view: s.ledger, debug: q.Projection == ProjectionDebug, messages: make(map[string]*ledger.Message)}
	for _, e := range found.Events {
		if j.bytes > maxPage {
			page.Cut = true
			page.HasOlder, page.HasNewer = page.HasOlder || q.Descending, page.HasNewer || !q.Descending
			break
		}
		envelope, err := j.envelope(e)
		if err != nil {
			return EventPage{}, err
		}
		page.Events = append(page.Events, envelope)
	}
	return page, nil
}

// joiner puts the records that events refer to into their envelopes. It belongs
// to one page.
type joiner struct {
	view     ledger.View
	debug    bool
	messages map[string]*ledger.Message // by id; nil: there is none any more
	bytes    int                        // of texts so far
}

func (j *joiner) envelope(e ledger.Event) (EventEnvelope, error) {
	out := EventEnvelope{
		ID: e.ID, EventSeq: e.Seq, TS: turns.At(e.CreatedAt), AgentID: e.AgentID, Type: e.Type,
		Projection: Projection{Name: ProjectionOperator, Redactions: []string{}},
		Provenance: Provenance{MessageID: e.MessageID, TurnID: e.TurnID},
		Payload:    Payload{Data: object(e.Data), Ref: e.Ref},
	}
	if j.debug {
		out.Projection.Name, out.Projection.RawPayloadIncluded, out.Payload.Raw = ProjectionDebug, true, &e
	}
	message, err := j.message(e.MessageID)
	if err != nil {
		return out, err
	}
	if message != nil {
		out.Provenance.from(message)
	}
	if err := j.join(e, message, &out); err != nil {
		return out, err
	}
	j.bytes += len(e.Data) + 512
	out.Display = display(e, out.Payload)
	return out, nil
}

func (j *joiner) message(id string) (*ledger.Message, error) {
	if id == "" {
		return nil, nil
	}
	if m, ok := j.messages[id]; ok {
		return m, nil
	}
	m, err := j.view.Message(id)
	if isNotFound(err) {
		j.messages[id] = nil
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	j.messages[id] = &m
	return &m, nil
}

// from takes what is known of the message that an event belongs to.
func (p *Provenance) from(m *ledger.Message) {
	origin := m.Origin
	p.Origin, p.Trust, p.AuthorityClass, p.DeliverySurface, p.AdmissionContext = &origin, m.Trust, m.Authority,
		m.Surface, m.AdmissionContext
	p.TaskID, p.WorkItemID, p.CorrelationID, p.CausationID, p.Source = m.TaskID, m.WorkItemID, m.CorrelationID,
		m.CausationID, m.Origin.Source
	p.Transport = transport(m.Surface)
}

// transport is how a message was brought, in a word.
func transport(s ledger.Surface) string {
	switch {
	case s == ledger.SurfaceCLIPrompt || s == ledger.SurfaceRunOnce:
		return "cli"
	case strings.HasPrefix(string(s), "http_"):
		return "http"
	case s == "":
		return ""
	}
	return "runtime"
}

// join reads the record that an event is about: its message when that has just
// come, its turn when that has just ended, and what Ref names. A record that
// retention let go is left out.
func (j *joiner) join(e ledger.Event, m *ledger.Message, out *EventEnvelope) error {
	p := &out.Payload
	if m != nil && (e.Type == record.MessageAdmitted || e.Type == record.OperatorInterjection) {
		whole := *m
		j.clip("message.body.text", &whole.Body.Text, out)
		if len(whole.Body.Value) > maxClipped && !j.debug {
			whole.Body.Value = nil
			out.Projection.Redactions = append(out.Projection.Redactions, "message.body.value")
		}
		if len(whole.Metadata) > maxClipped && !j.debug {
			whole.Metadata = nil
			out.Projection.Redactions = append(out.Projection.Redactions, "message.metadata")
		}
		j.bytes += len(whole.Body.Value) + len(whole.Metadata)
		p.Message = &whole
	}
	if e.Type == record.TurnTerminal && e.TurnID != "" {
		t, err := j.view.Turn(e.TurnID)
		if err == nil {
			p.Turn = terminal(&t)
			j.clip("turn.last_assistant_message", &p.Turn.LastAssistantMessage, out)
		} else if !isNotFound(err) {
			return err
		}
	}
	p.copied()
	if e.Ref == "" {
		return nil
	}
	if err := j.refer(e, out); err != nil && !isNotFound(err) {
		return err
	}
	return nil
}

// copies are the records that an event's data holds.
type copies struct {
	Wait    *ledger.Wait    `json:"wait_condition"`
	Timer   *ledger.Timer   `json:"timer"`
	Trigger *ledger.Trigger `json:"external_trigger"`
	Work    *WorkRecord     `json:"work_item"`
}

// copied moves the copies of records from the data of an event to their places.
func (p *Payload) copied() {
	var whole map[string]json.RawMessage
	var c copies
	if json.Unmarshal(p.Data, &whole) != nil || json.Unmarshal(p.Data, &c) != nil {
		return // there is no data, or nothing but texts and numbers
	}
	if p.Wait, p.Work = c.Wait, c.Work; c.Timer != nil {
		shown := OfTimer(*c.Timer)
		p.Timer = &shown
	}
	if c.Trigger != nil {
		shown := OfTrigger(*c.Trigger)
		p.Trigger = &shown
	}
	if c == (copies{}) {
		return
	}
	for _, key := range []string{record.RecordWait, record.RecordTimer, record.RecordTrigger, record.RecordWork} {
		delete(whole, key)
	}
	p.Data = nil
	if len(whole) > 0 {
		p.Data, _ = json.Marshal(whole) // it was JSON
	}
}

// refer reads the record that e.Ref names; the type of e says what it is.
func (j *joiner) refer(e ledger.Event, out *EventEnvelope) error {
	switch e.Type {
	case record.BriefCreated:
		b, err := j.view.Brief(e.Ref)
		if err != nil {
			return err
		}
		j.clip("brief.text", &b.Text, out)
		out.Payload.Brief = &b
	case record.NotificationRequested:
		n, err := j.view.Notification(e.Ref)
		if err != nil {
			return err
		}
		j.clip("operator_notification.message", &n.Message, out)
		out.Payload.Notification = &n
	}
	return nil
}

// clip shortens a text of an envelope and says so in it.
func (j *joiner) clip(key string, text *string, out *EventEnvelope) {
	if !j.debug && len(*text) > maxClipped {
		*text = strings.ToValidUTF8((*text)[:maxClipped], "") + "…"
		out.Projection.Redactions = append(out.Projection.Redactions, key)
	}
	j.bytes += len(*text)
}
