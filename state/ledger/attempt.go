package ledger

import (
	"encoding/json"
	"time"

	"holon/responses"
	"holon/responses/agentruntime"
	"holon/responses/turns"
)

// AttemptStatus is how far an attempt is.
type AttemptStatus string

const (
	AttemptOpen        AttemptStatus = "open"
	AttemptSettled     AttemptStatus = "settled"     // its turn has an end
	AttemptInterrupted AttemptStatus = "interrupted" // its turn was lost
	AttemptFailed      AttemptStatus = "not_begun"   // no turn could be begun
)

// Attempt is the lease on its agent from the claim of a message to the settlement of
// its turn. An agent has at most one that is open.
type Attempt struct {
	ID        string        `json:"attempt_id"`
	AgentID   string        `json:"agent_id"`
	MessageID string        `json:"message_id"` // the one it was made for
	TurnID    string        `json:"turn_id"`    // of the turn that it runs, known before the turn is asked for
	TurnIndex int64         `json:"turn_index"`
	Status    AttemptStatus `json:"status"`
	// boot id of the runtime that claimed it: its lease ends with that process
	Owner   string `json:"owner"`
	Model   string `json:"model,omitempty"`                // reference of the first model to ask
	Chain   string `json:"previous_response_id,omitempty"` // of the turn
	Readmit bool   `json:"readmit,omitempty"`              // the message was interrupted before
	WaitID  string `json:"wait_id,omitempty"`              // the wait that the message ended; "": none

	// what the turn has begun and not ended, by its events
	Open []Unfinished `json:"open,omitempty"`

	// number of the newest runtime event of the turn that is in the ledger
	Facts int64 `json:"facts"`
	// of the turn's response that are in the ledger, from the first on
	Items       int64  `json:"items"`
	AbortedBy   string `json:"aborted_by,omitempty"`   // who asked to abort the turn; "": no one
	AbortMode   string `json:"abort_mode,omitempty"`   // "", stop_after_abort
	FrameDigest string `json:"frame_digest,omitempty"` // of the prompt frame, which Frame holds

	// Frame is runner/agent/prompt.Prompt as it was sent. It is large, and every
	// step of a turn reads and writes its attempt: only View.Attempt returns it,
	// and an update without one keeps what is stored.
	Frame json.RawMessage `json:"-"`

	StartedAt time.Time  `json:"started_at"`
	BegunAt   *time.Time `json:"begun_at,omitempty"` // agentd accepted the turn
	SettledAt *time.Time `json:"settled_at,omitempty"`
	Reason    string     `json:"reason,omitempty"` // of the end, for a person
}

// Unfinished is a thing that a turn has begun and not ended: a request to a model, a call of a tool, …
type Unfinished struct {
	Class string           `json:"class"` // of the event that began it
	Event string           `json:"event_id"`
	IDs   agentruntime.IDs `json:"ids,omitzero"`
	Tool  string           `json:"tool_name,omitempty"`
}

// Turn is the terminal record of a turn (runtime specification, "Turn
// Terminal"). It is written once.
type Turn struct {
	ID          string                  `json:"turn_id"`
	AgentID     string                  `json:"agent_id"`
	Index       int64                   `json:"turn_index"`
	AttemptID   string                  `json:"attempt_id"`
	MessageID   string                  `json:"message_id"`
	ResponseID  string                  `json:"response_id,omitempty"`
	Previous    string                  `json:"previous_response_id,omitempty"`
	Kind        TurnKind                `json:"kind"`
	Reason      string                  `json:"reason,omitempty"` // code: why it was aborted, or cut short
	Last        string                  `json:"last_assistant_message,omitempty"`
	Model       string                  `json:"model,omitempty"`
	Usage       *responses.Usage        `json:"token_usage,omitempty"`
	ModelRounds int                     `json:"model_rounds"`
	ToolCalls   int                     `json:"tool_calls"`
	Provider    *turns.ProviderTimeline `json:"provider_attempt_timeline,omitempty"`
	Closure     Closure                 `json:"closure"`
	Failure     *Failure                `json:"failure,omitempty"`
	StartedAt   time.Time               `json:"started_at"`
	CompletedAt time.Time               `json:"completed_at"`
	DurationMS  int64                   `json:"duration_ms"`
}

// TurnKind is whether a turn drained or was ended.
type TurnKind string

const (
	TurnCompleted TurnKind = "completed"
	TurnAborted   TurnKind = "aborted"
)

// WaitStatus is where a wait is: active → triggered → resolved, or cancelled or
// expired.
type WaitStatus string

const (
	WaitActive    WaitStatus = "active"
	WaitTriggered WaitStatus = "triggered" // MessageID is what triggered it, and is in the queue
	WaitResolved  WaitStatus = "resolved"  // AttemptID claimed that message
	WaitCancelled WaitStatus = "cancelled"
	WaitExpired   WaitStatus = "expired"
)

// WaitKind is what an agent waits for.
type WaitKind string

const (
	WaitTask     WaitKind = "task"
	WaitExternal WaitKind = "external"
	WaitOperator WaitKind = "operator"
	WaitTimer    WaitKind = "timer"
	WaitSystem   WaitKind = "system" // any wake
)

// WakeSource is one thing that ends a wait.
type WakeSource struct {
	Kind              string     `json:"kind"` // task_result, external_ingress, timer, operator_input, system_tick
	TaskID            string     `json:"task_id,omitempty"`
	ExternalTriggerID string     `json:"external_trigger_id,omitempty"` // "": any
	WakeAt            *time.Time `json:"wake_at,omitempty"`
}

// Wait is the only authority on whether and for what an agent waits.
type Wait struct {
	ID         string       `json:"id"`
	AgentID    string       `json:"agent_id"`
	Owner      string       `json:"owner"` // "agent", or the work item that waits
	Status     WaitStatus   `json:"status"`
	Kind       WaitKind     `json:"kind"`
	Source     string       `json:"source,omitempty"`
	SubjectRef string       `json:"subject_ref,omitempty"`
	WaitingFor string       `json:"waiting_for"` // for a person
	Wakes      []WakeSource `json:"wake_sources"`
	WakeAt     *time.Time   `json:"wake_at,omitempty"` // the earliest of Wakes
	ExpiresAt  *time.Time   `json:"expires_at,omitempty"`
	CallID     string       `json:"-"`                       // of the Sleep that made it, which makes it once
	Registered string       `json:"registered_by,omitempty"` // attempt
	MessageID  string       `json:"message_id,omitempty"`
	AttemptID  string       `json:"attempt_id,omitempty"`
	CreatedAt  time.Time    `json:"created_at"`
	UpdatedAt  time.Time    `json:"updated_at"`
	EndedAt    *time.Time   `json:"ended_at,omitempty"`
}

// OwnerAgent is the Owner of a wait of the agent itself.
const OwnerAgent = "agent"

// TimerStatus is whether a timer still fires.
type TimerStatus string

const (
	TimerActive    TimerStatus = "active"
	TimerCompleted TimerStatus = "completed"
	TimerCancelled TimerStatus = "cancelled"
)

// Timer makes timer ticks. While a tick of it is in the queue, further ones are
// counted and not made.
type Timer struct {
	ID         string      `json:"id"`
	AgentID    string      `json:"agent_id"`
	Key        string      `json:"-"` // idempotency key; "": none
	Status     TimerStatus `json:"status"`
	DurationMS int64       `json:"duration_ms"`
	IntervalMS int64       `json:"interval_ms,omitempty"`
	Summary    string      `json:"summary,omitempty"`
	NextFireAt *time.Time  `json:"next_fire_at,omitempty"`
	LastFireAt *time.Time  `json:"last_fired_at,omitempty"`
	FireCount  int64       `json:"fire_count"`
	Coalesced  int64       `json:"coalesced_count"`
	MessageID  string      `json:"message_id,omitempty"` // of the newest tick
	CreatedAt  time.Time   `json:"created_at"`
	UpdatedAt  time.Time   `json:"updated_at"`
}

// Trigger is an external trigger capability. Its token is nowhere in the ledger.
type Trigger struct {
	ID              string     `json:"external_trigger_id"`
	AgentID         string     `json:"target_agent_id"`
	DeliveryMode    string     `json:"delivery_mode"` // wake_hint
	Status          string     `json:"status"`        // active, revoked
	TokenHash       string     `json:"-"`             // hex SHA-256
	CreatedAt       time.Time  `json:"created_at"`
	RotatedAt       *time.Time `json:"rotated_at,omitempty"`
	RevokedAt       *time.Time `json:"revoked_at,omitempty"`
	LastDeliveredAt *time.Time `json:"last_delivered_at,omitempty"`
	DeliveryCount   int64      `json:"delivery_count"`
	Told            bool       `json:"told,omitempty"` // to its agent
}

// Values of Trigger.
const (
	DeliverWakeHint = "wake_hint"
	TriggerActive   = "active"
	TriggerRevoked  = "revoked"
)
