package ledger

import (
	"encoding/json"
	"time"

	"holon/responses/agentruntime"
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

// ToolExecution is a call of a tool in a turn that has ended, for what asks which work was done (runtime specification,
// "Tool Execution Record").
type ToolExecution struct {
	ID          string    `json:"id"` // the tool_call_id of the turn, which is unique with the turn
	AgentID     string    `json:"agent_id"`
	TurnID      string    `json:"turn_id"`
	WorkItemID  string    `json:"work_item_id,omitempty"`
	TurnIndex   int64     `json:"turn_index"`
	Tool        string    `json:"tool_name"`
	CreatedAt   time.Time `json:"created_at"`
	CompletedAt time.Time `json:"completed_at"`
	DurationMS  int64     `json:"duration_ms"`
	Status      string    `json:"status"` // success, error
	Input       string    `json:"input"`  // its arguments, cut
	Output      string    `json:"output"` // what the model was shown, cut
	Summary     string    `json:"summary,omitempty"`
	OutputRef   string    `json:"output_ref,omitempty"` // file with the whole output, relative to the turn's directory
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
