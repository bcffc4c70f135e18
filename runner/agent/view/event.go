package view

import (
	"encoding/json"

	"holon/responses/turns"
	"holon/state/ledger"
)

// Projections of events: what an envelope carries.
const (
	ProjectionOperator = "operator"    // the records that an event is about
	ProjectionDebug    = "local_debug" // and the event as the ledger has it
)

// EventEnvelope is an event as it is replayed and streamed (runtime specification, "Local Operator Console Contract").
type EventEnvelope struct {
	ID         string       `json:"id"`
	EventSeq   int64        `json:"event_seq"` // orders, and is the cursor of, an agent's events
	TS         turns.Time   `json:"ts"`
	AgentID    string       `json:"agent_id"`
	Type       string       `json:"type"` // see runner/agent/rules
	Projection projection   `json:"projection"`
	Provenance provenance   `json:"provenance"`
	Display    eventDisplay `json:"display"`
	Payload    eventPayload `json:"payload"`
}

// projection says what was left out of an envelope.
type projection struct {
	Name               string   `json:"name"`
	RawPayloadIncluded bool     `json:"raw_payload_included"`
	Redactions         []string `json:"redactions"` // keys of the payload that were clipped
}

// provenance says where what an event tells of came from. It stands apart from
// the payload so that replayed events can be indexed.
type provenance struct {
	ledger.Provenance
	Transport  string `json:"transport,omitempty"`
	Source     string `json:"source,omitempty"`
	ReplyRoute string `json:"reply_route,omitempty"`
	MessageID  string `json:"message_id,omitempty"`
	TurnID     string `json:"turn_id,omitempty"`
	ToolCallID string `json:"tool_call_id,omitempty"` // of the beginning and the end of a call
}

// eventDisplay is an event for a person.
type eventDisplay struct {
	Visibility      string `json:"visibility"` // action_required, work_done, turn_result, progress, trace
	Level           int    `json:"level"`      // the same as a number, 1 to 5
	Category        string `json:"category"`
	Title           string `json:"title"`
	Body            string `json:"body,omitempty"`
	Summary         string `json:"summary"` // one line
	SourceEventKind string `json:"source_event_kind"`
}

// eventPayload is what an event is about: the small facts of the event itself, and
// the record it refers to, as it was then.
type eventPayload struct {
	Data         json.RawMessage      `json:"data,omitempty"`
	Ref          string               `json:"ref,omitempty"`
	Workspace    string               `json:"workspace_id,omitempty"` // active in a turn or a call
	Message      *ledger.Message      `json:"message,omitempty"`
	Turn         *turnTerminal        `json:"turn,omitempty"`
	Brief        *ledger.Brief        `json:"brief,omitempty"`
	Wait         *ledger.Wait         `json:"wait_condition,omitempty"`
	Timer        *Timer               `json:"timer,omitempty"`
	Trigger      *Trigger             `json:"external_trigger,omitempty"`
	Work         *WorkRecord          `json:"work_item,omitempty"`
	Notification *ledger.Notification `json:"operator_notification,omitempty"`
	Raw          *ledger.Event        `json:"raw,omitempty"` // with ProjectionDebug
}

// EventPage is a page of events in the order that was asked for.
type EventPage struct {
	Events    []EventEnvelope `json:"events"`
	OldestSeq int64           `json:"oldest_seq"` // of what is kept, 0 for nothing
	NewestSeq int64           `json:"newest_seq"`
	HasOlder  bool            `json:"has_older"`
	HasNewer  bool            `json:"has_newer"`
	Order     string          `json:"order"` // asc, desc
	Limit     int             `json:"limit"`
	Epoch     string          `json:"event_log_epoch"`
}

// EventQuery asks for a page. Zero fields are absent.
type EventQuery struct {
	AfterSeq, BeforeSeq int64
	Limit               int
	Descending          bool
	MaxLevel            int    // of Display.Level; 0: all
	Projection          string // "": operator
}
