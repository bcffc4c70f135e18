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

// TextView reads what was said: lists are the newest, the oldest first.
type TextView interface {
	Brief(id string) (Brief, error)
	Briefs(agentID string, limit int) ([]Brief, error)
	Transcript(agentID string, limit int) ([]TranscriptEntry, error)
	Notification(id string) (Notification, error)
	Notifications(agentID string, limit int) ([]Notification, error)
}

// TextTx writes what was said.
type TextTx interface {
	InsertBrief(b Brief) error
	InsertTranscript(e TranscriptEntry) error
	InsertNotification(n Notification) error
}
