package view

import (
	"encoding/json"
	"fmt"
	"strings"

	"holon/responses/turns"
	"holon/runner/agent/record"
	"holon/state"
	"holon/state/ledger"
)

// waitingIntent is an outside change that an agent waits for: a wait of kind external, in the words of version 0.14.
type waitingIntent struct {
	ID                string     `json:"id"`
	AgentID           string     `json:"agent_id"`
	Scope             string     `json:"scope"` // agent, work_item
	WorkItemID        string     `json:"work_item_id,omitempty"`
	Description       string     `json:"description"`
	Source            string     `json:"source,omitempty"`
	Resource          string     `json:"resource,omitempty"`
	DeliveryMode      string     `json:"delivery_mode"`
	Status            string     `json:"status"` // active
	ExternalTriggerID string     `json:"external_trigger_id,omitempty"`
	CreatedAt         turns.Time `json:"created_at"`
}

// Trigger is an external trigger without what would let anyone use it.
type Trigger struct {
	ID              string     `json:"external_trigger_id"`
	AgentID         string     `json:"target_agent_id"`
	Scope           string     `json:"scope"` // agent
	DeliveryMode    string     `json:"delivery_mode"`
	Signature       string     `json:"signature,omitempty"` // scheme by which deliveries are signed
	Status          string     `json:"status"`
	CreatedAt       turns.Time `json:"created_at"`
	RotatedAt       turns.Time `json:"rotated_at,omitzero"`
	RevokedAt       turns.Time `json:"revoked_at,omitzero"`
	LastDeliveredAt turns.Time `json:"last_delivered_at,omitzero"`
	DeliveryCount   int64      `json:"delivery_count"`
}

// OfTrigger shows a trigger.
func OfTrigger(t ledger.Trigger) Trigger {
	return Trigger{
		ID: t.ID, AgentID: t.AgentID, Scope: "agent", DeliveryMode: t.DeliveryMode, Signature: t.Signature,
		Status:    t.Status,
		CreatedAt: turns.At(t.CreatedAt),
		RotatedAt: turns.AtOptional(t.RotatedAt), RevokedAt: turns.AtOptional(t.RevokedAt),
		LastDeliveredAt: turns.AtOptional(t.LastDeliveredAt), DeliveryCount: t.DeliveryCount,
	}
}

// Timer is a source of timer ticks.
type Timer struct {
	ID             string             `json:"id"`
	AgentID        string             `json:"agent_id"`
	CreatedAt      turns.Time         `json:"created_at"`
	DurationMS     int64              `json:"duration_ms"`
	IntervalMS     int64              `json:"interval_ms,omitempty"`
	Cron           string             `json:"cron,omitempty"` // in the place of both
	Zone           string             `json:"zone,omitempty"` // of cron; UTC
	Repeat         bool               `json:"repeat"`
	Status         ledger.TimerStatus `json:"status"`
	Summary        string             `json:"summary,omitempty"`
	NextFireAt     turns.Time         `json:"next_fire_at,omitzero"`
	LastFiredAt    turns.Time         `json:"last_fired_at,omitzero"`
	FireCount      int64              `json:"fire_count"`
	CoalescedCount int64              `json:"coalesced_count"`
	LastMessageID  string             `json:"last_message_id,omitempty"`
}

// OfTimer shows a timer.
func OfTimer(t ledger.Timer) Timer {
	return Timer{
		ID: t.ID, AgentID: t.AgentID, CreatedAt: turns.At(t.CreatedAt), DurationMS: t.DurationMS,
		IntervalMS: t.IntervalMS, Cron: t.Cron, Zone: t.Zone, Repeat: t.IntervalMS > 0 || t.Cron != "",
		Status: t.Status, Summary: t.Summary,
		NextFireAt: turns.AtOptional(t.NextFireAt), LastFiredAt: turns.AtOptional(t.LastFireAt),
		FireCount: t.FireCount, CoalescedCount: t.Coalesced, LastMessageID: t.MessageID,
	}
}

// Briefs returns the newest briefs of an agent, the oldest first. limit 0 is 50; MaxLimit is the most.
func (s Snapshot) Briefs(agentID string, limit int) ([]ledger.Brief, error) {
	if _, err := s.shown(agentID); err != nil {
		return nil, err
	}
	briefs, err := s.ledger.Briefs(agentID, clamp(limit))
	return list(briefs), err
}

// Transcript returns the newest entries of an agent's transcript, the oldest
// first, bounded like Briefs. The entry of a message has its content.
func (s Snapshot) Transcript(agentID string, limit int) ([]record.TranscriptEntry, error) {
	if _, err := s.shown(agentID); err != nil {
		return nil, err
	}
	entries, err := record.Transcript(s.ledger, agentID, clamp(limit))
	if err != nil {
		return nil, err
	}
	for i, e := range entries {
		if e.Kind != record.EntryMessage && e.Kind != record.EntryContinue {
			continue
		}
		m, err := s.ledger.Message(e.MessageID)
		if isNotFound(err) {
			continue
		}
		if err == nil {
			entries[i].Data, err = json.Marshal(messageData{m.Kind, m.Origin, m.Authority, m.Priority, clipped(m.Body)})
		}
		if err != nil {
			return nil, err
		}
	}
	return list(entries), nil
}

// maxClipped bounds a text of a message in a transcript, in bytes.
const maxClipped = 16 << 10

// clipped is a body without what is too long to be shown of it.
func clipped(b ledger.Body) ledger.Body {
	if len(b.Text) > maxClipped {
		b.Text = strings.ToValidUTF8(b.Text[:maxClipped], "") + "…"
	}
	if len(b.Value) > maxClipped {
		b.Value = nil
	}
	return b
}

// messageData is what a transcript tells of an incoming message.
type messageData struct {
	Kind      ledger.MessageKind `json:"kind"`
	Origin    ledger.Origin      `json:"origin"`
	Authority ledger.Authority   `json:"authority_class"`
	Priority  ledger.Priority    `json:"priority"`
	Body      ledger.Body        `json:"body"`
}

// Timers returns the timers of an agent, bounded like Briefs.
func (s Snapshot) Timers(agentID string, limit int) ([]Timer, error) {
	if _, err := s.shown(agentID); err != nil {
		return nil, err
	}
	return timers(s.ledger, agentID, clamp(limit))
}

func timers(v ledger.View, agentID string, limit int) ([]Timer, error) {
	found, err := v.Timers(agentID, limit)
	if err != nil {
		return nil, err
	}
	out := make([]Timer, 0, len(found))
	for _, t := range found {
		out = append(out, OfTimer(t))
	}
	return out, nil
}

// MessageState is a message and where it is.
type MessageState struct {
	MessageID string         `json:"message_id"`
	Message   ledger.Message `json:"message"`
	Entry     ledger.Entry   `json:"queue_entry"`
	Turn      *ledger.Turn   `json:"turn,omitempty"` // the newest that was made for it, once it has ended
}

// Queue returns the messages that wait for a turn, in the order in which they are taken.
func (s Snapshot) Queue(agentID string, limit int) ([]MessageState, error) {
	if _, err := s.shown(agentID); err != nil {
		return nil, err
	}
	queued, err := s.ledger.Queued(agentID, clamp(limit))
	out := make([]MessageState, 0, len(queued))
	for _, e := range queued {
		m, err := s.ledger.Message(e.MessageID)
		if err != nil {
			return nil, err
		}
		m.Request = nil
		out = append(out, MessageState{MessageID: m.ID, Message: m, Entry: e.Reported()})
	}
	return out, err
}

// Message returns a message of an agent, where it is in the queue, and the turn
// that ended it. A message of another agent is not found.
func (s Snapshot) Message(agentID, messageID string) (MessageState, error) {
	if _, err := s.shown(agentID); err != nil {
		return MessageState{}, err
	}
	m, err := s.ledger.Message(messageID)
	if err != nil {
		return MessageState{}, err
	}
	if m.AgentID != agentID {
		return MessageState{}, &state.Error{Code: ledger.CodeNotFound, Param: "message",
			Message: fmt.Sprintf("there is no message %.100q", messageID)}
	}
	m.Request = nil
	e, err := s.ledger.Entry(messageID)
	out := MessageState{MessageID: m.ID, Message: m, Entry: e.Reported()}
	if err != nil || e.AttemptID == "" {
		return out, err
	}
	a, err := s.ledger.Attempt(e.AttemptID)
	if err != nil {
		return out, err
	}
	t, err := s.ledger.Turn(a.TurnID)
	if isNotFound(err) { // it runs, or never began
		return out, nil
	}
	out.Turn = &t
	return out, err
}
