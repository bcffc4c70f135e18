package ledger

import (
	"encoding/json"
	"time"
)

// BriefKind is what a brief tells.
type BriefKind string

const (
	BriefAck     BriefKind = "ack"
	BriefResult  BriefKind = "result"
	BriefFailure BriefKind = "failure"
)

// Brief is what an agent tells its operator (runtime specification, "Brief
// Output Contract").
type Brief struct {
	ID          string            `json:"id"`
	AgentID     string            `json:"agent_id"`
	WorkspaceID string            `json:"workspace_id,omitempty"`
	WorkItemID  string            `json:"work_item_id,omitempty"`
	Kind        BriefKind         `json:"kind"`
	CreatedAt   time.Time         `json:"created_at"`
	Text        string            `json:"text"`
	Attachments []BriefAttachment `json:"attachments,omitempty"`
	MessageID   string            `json:"related_message_id,omitempty"`
	TaskID      string            `json:"related_task_id,omitempty"`
	TurnID      string            `json:"turn_id,omitempty"`
}

// BriefAttachment goes with a brief.
type BriefAttachment struct {
	Kind  string          `json:"kind"` // file, log, diff, image, json
	Name  string          `json:"name"`
	URI   string          `json:"uri,omitempty"`
	Value json.RawMessage `json:"value,omitempty"`
}

// TranscriptKind is what an entry of a transcript shows.
type TranscriptKind string

const (
	TranscriptMessage  TranscriptKind = "incoming_message"
	TranscriptRound    TranscriptKind = "assistant_round"
	TranscriptTools    TranscriptKind = "tool_results"
	TranscriptFailure  TranscriptKind = "runtime_failure"
	TranscriptContinue TranscriptKind = "continuation_prompt"
)

// TranscriptEntry is one entry of what was said and done, as it is shown.
type TranscriptEntry struct {
	ID           string          `json:"id"`
	AgentID      string          `json:"agent_id"`
	CreatedAt    time.Time       `json:"created_at"`
	Kind         TranscriptKind  `json:"kind"`
	Round        int             `json:"round,omitempty"`
	TurnID       string          `json:"turn_id,omitempty"`
	MessageID    string          `json:"related_message_id,omitempty"`
	StopReason   string          `json:"stop_reason,omitempty"`
	InputTokens  int64           `json:"input_tokens,omitempty"`
	OutputTokens int64           `json:"output_tokens,omitempty"`
	Data         json.RawMessage `json:"data,omitempty"`
}

// Notification is something the operator should see (document 001).
type Notification struct {
	ID            string    `json:"notification_id"`
	AgentID       string    `json:"agent_id"`
	RequestedBy   string    `json:"requested_by_agent_id"`
	Boundary      string    `json:"target_operator_boundary"` // primary_operator, parent_supervisor
	ParentID      string    `json:"target_parent_agent_id,omitempty"`
	Message       string    `json:"message"`
	Summary       string    `json:"summary"`
	WorkItemID    string    `json:"work_item_id,omitempty"`
	CorrelationID string    `json:"correlation_id,omitempty"`
	CausationID   string    `json:"causation_id,omitempty"`
	CreatedAt     time.Time `json:"created_at"`
}

// Event tells one thing that happened to an agent. It refers to what it is about
// by ids; Data has only what no other record holds and is at most MaxEventData.
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
