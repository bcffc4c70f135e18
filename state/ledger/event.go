package ledger

import (
	"encoding/json"
	"math"
	"time"

	"holon/responses/agentruntime"
)

// Event tells one thing that happened to an agent. It is never changed or completed
// later. Data is its payload, with a copy of what it is about, and is at most MaxEventData.
//
// Class, Status, IDs and Cause are what it is by the Agent Runtime standard
// (docs/reference/agent-record.md). The ids that follow from the agent and the turn are not
// in IDs.
type Event struct {
	ID        string    `json:"id"`
	Seq       int64     `json:"event_seq"`
	AgentID   string    `json:"agent_id"`
	CreatedAt time.Time `json:"created_at"`
	Level     int       `json:"level"` // operator visibility, 1 action_required … 5 trace
	MessageID string    `json:"message_id,omitempty"`
	// of the message, work item or task; nil of what a container recorded
	From   *Provenance `json:"provenance,omitempty"`
	TurnID string      `json:"turn_id,omitempty"`
	// brief, wait, timer, trigger, notification or task, by the prefix of its id; of a call of a tool the work item
	// that the agent worked on
	Ref       string          `json:"ref,omitempty"`
	Workspace string          `json:"workspace_id,omitempty"` // of a turn or a call of a tool, where the agent worked
	Data      json.RawMessage `json:"data,omitempty"`

	Class       string           `json:"class"`
	Status      string           `json:"status,omitempty"`
	IDs         agentruntime.IDs `json:"ids,omitzero"`
	Cause       string           `json:"causation_id,omitempty"` // of an event, or what a message names
	ProducerSeq int64            `json:"producer_seq,omitempty"` // of the fact that a container recorded; 0: the host's
}

// Provenance says where a message came from.
type Provenance struct {
	Origin           Origin           `json:"origin,omitzero"`
	Trust            Trust            `json:"trust,omitempty"`
	Authority        Authority        `json:"authority_class,omitempty"`
	Surface          Surface          `json:"delivery_surface,omitempty"`
	AdmissionContext AdmissionContext `json:"admission_context,omitempty"`
	TaskID           string           `json:"task_id,omitempty"`
	WorkItemID       string           `json:"work_item_id,omitempty"`
	CorrelationID    string           `json:"correlation_id,omitempty"`
	CausationID      string           `json:"causation_id,omitempty"`
}

// MaxEventData bounds Event.Data, in bytes.
const MaxEventData = 8 << 10

// EventQuery selects a page: events with After < Seq < Before (0: no bound), at
// most Limit, the oldest first, or the newest first with Descending.
type EventQuery struct {
	After, Before int64
	Limit         int
	Descending    bool
	MaxLevel      int // 0: all
}

// EventPage is a page in the order that was asked for. Oldest and Newest are the
// bounds of what the ledger holds, 0 for nothing; HasOlder and HasNewer say
// whether it holds events on either side of the page.
type EventPage struct {
	Events             []Event
	Oldest, Newest     int64
	HasOlder, HasNewer bool
}

func (e *Event) Row() Row {
	return Row{"events", "event", 2, []Column{{"agent_id", &e.AgentID}, {"seq", &e.Seq},
		{"created_at", millis(e.CreatedAt)}, {"level", e.Level}, {"turn_id", e.TurnID}}}
}

// notable is the highest level of the events that a store finds without reading the others, which are most.
const notable = 3

// Events returns a page of an agent's events and what lies around it.
func (v View) Events(agentID string, q EventQuery) (page EventPage, err error) {
	page.Oldest, page.Newest, err = v.bounds("events", agentID, math.MaxInt)
	kind, first, last := "events", page.Oldest, page.Newest // of what may be selected
	if q.MaxLevel <= 0 {
		q.MaxLevel = math.MaxInt
	} else if err == nil {
		if q.MaxLevel <= notable {
			kind = "notable events"
		}
		first, last, err = v.bounds(kind, agentID, q.MaxLevel)
	}
	if err != nil || last == 0 {
		return page, err
	}
	from, to, query := max(q.After+1, first), last, kind
	if q.Before > 0 {
		to = min(to, q.Before-1)
	}
	if q.Descending {
		query += ", newest first"
	}
	page.Events, err = list[Event](v, query, agentID, from, to, q.MaxLevel, limited(q.Limit))
	if n := len(page.Events); n > 0 {
		from = min(page.Events[0].Seq, page.Events[n-1].Seq)
		to = max(page.Events[0].Seq, page.Events[n-1].Seq)
	}
	page.HasOlder, page.HasNewer = first < from, last > to
	return page, err
}

// EventsAfter returns the first events of an agent after one.
func (v View) EventsAfter(agentID string, seq int64) ([]Event, error) {
	return list[Event](v, "events", agentID, seq+1, math.MaxInt, math.MaxInt, defaultLimit)
}

// bounds returns the numbers of the oldest and the newest event of a level.
func (v View) bounds(kind, agentID string, level int) (oldest, newest int64, err error) {
	err = v.Rows.Values(func(scan func(...any) error) error { return scan(&oldest, &newest) },
		"bounds of "+kind, agentID, level, agentID, level)
	return oldest, newest, err
}
