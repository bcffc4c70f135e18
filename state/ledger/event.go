package ledger

import (
	"encoding/json"
	"time"

	"holon/responses/agentruntime"
)

// Event tells one thing that happened to an agent. It is never changed or completed
// later. It refers to what it is about by ids; Data has only what no other record
// holds and is at most MaxEventData.
//
// Class, Status, IDs and Cause are what it is by the Agent Runtime standard
// (docs/reference/agent-record.md). The ids that follow from the agent and the turn are not
// in IDs.
type Event struct {
	ID        string    `json:"id"`
	Seq       int64     `json:"event_seq"`
	AgentID   string    `json:"agent_id"`
	CreatedAt time.Time `json:"created_at"`
	Type      string    `json:"type"`
	Level     int       `json:"level"` // operator visibility, 1 action_required … 5 trace
	MessageID string    `json:"message_id,omitempty"`
	TurnID    string    `json:"turn_id,omitempty"`
	// brief, wait, timer, trigger or notification, by the prefix of its id
	Ref  string          `json:"ref,omitempty"`
	Data json.RawMessage `json:"data,omitempty"`

	Class       string           `json:"class,omitempty"` // "": it is older than classes
	Status      string           `json:"status,omitempty"`
	IDs         agentruntime.IDs `json:"ids,omitzero"`
	Cause       string           `json:"causation_id,omitempty"` // of an event, or what a message names
	ProducerSeq int64            `json:"producer_seq,omitempty"` // of the fact that a container recorded; 0: the host's
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

// EventView reads events.
type EventView interface {
	// Events returns a page of an agent's events and what lies around it.
	Events(agentID string, q EventQuery) (EventPage, error)
}

// EventTx writes events.
type EventTx interface {
	// Append numbers events of an agent on from l.EventSeq and stores them. The
	// state must be saved in the same Tx, after it.
	Append(l *AgentState, events ...Event) error
}
