package ledger

import (
	"encoding/json"
	"strings"
	"time"

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
	Owner   string   `json:"owner"`
	Model   string   `json:"model,omitempty"`                // reference of the first model to ask
	Chain   string   `json:"previous_response_id,omitempty"` // of the turn
	Readmit bool     `json:"readmit,omitempty"`              // the message was interrupted before
	Earlier int      `json:"earlier_turns,omitempty"`        // of the message, that were begun and interrupted
	Waits   []string `json:"wait_ids,omitempty"`             // the waits that the message ended, of any owner

	WorkspaceID string `json:"workspace_id,omitempty"` // the agent's active workspace at the claim

	WorkItemID string `json:"work_item_id,omitempty"` // the agent's current work item at the claim; "": none
	Worked     bool   `json:"worked,omitempty"`       // the turn changed a work item
	WorkShown  string `json:"work_shown,omitempty"`   // AgentState.WorkShown once the turn is part of the conversation
	// Memory.LastPrompted and Memory.CuratedShown once the turn is part of the conversation
	MemoryShown  int64             `json:"memory_shown,omitempty"`
	CuratedShown map[string]string `json:"curated_shown,omitempty"`

	Compacted bool `json:"compacted,omitempty"` // a summary stands for earlier messages since
	Renewed   bool `json:"renewed,omitempty"`   // the next turn begins another conversation

	// number of the event turn.submitted, with which the turn's log begins
	Submitted int64 `json:"submitted_seq"`
	// what the turn has begun and not ended, by its events
	Open []Unfinished `json:"open,omitempty"`
	// number of the newest runtime event of the turn that is in the ledger
	Facts int64 `json:"facts"`
	// of the turn's response that are in the ledger, from the first on
	Items      int64  `json:"items"`
	AbortedBy  string `json:"aborted_by,omitempty"`  // requester of the abort; "": none
	AbortMode  string `json:"abort_mode,omitempty"`  // "", stop_after_abort
	AbortEvent string `json:"abort_event,omitempty"` // with which that was asked for; "": it is older than causes
	// why the turn is to end though nobody aborted it: its message comes back; "": it is not
	Suspended string `json:"suspended,omitempty"`

	Timing Timing `json:"timing,omitzero"`

	StartedAt time.Time  `json:"started_at"`
	BegunAt   *time.Time `json:"begun_at,omitempty"` // agentd accepted the turn
	SettledAt *time.Time `json:"settled_at,omitempty"`
	Reason    string     `json:"reason,omitempty"` // of the end, for a person
}

// Timing is where the time of a turn went by its facts, in milliseconds. Calls that run at once count each.
type Timing struct {
	ContextBuildMS int64 `json:"context_build_ms"` // of the prompt and of the requests
	ProviderMS     int64 `json:"provider_ms"`      // of requests to models, failed ones too; without pauses
	ToolMS         int64 `json:"tool_ms"`
}

// Unfinished is a thing that a turn has begun and not ended: a request to a model, a call of a tool, …
type Unfinished struct {
	Class string           `json:"class"` // of the event that began it
	Event string           `json:"event_id"`
	Seq   int64            `json:"event_seq"`
	IDs   agentruntime.IDs `json:"ids,omitzero"`
	Call  string           `json:"call_id,omitempty"` // of a call of a tool, as the model named it

	WorkItemID string `json:"work_item_id,omitempty"` // the agent's current work item when it began
}

// Turn is the terminal record of a turn (runtime specification, "Turn
// Terminal"). It is written once.
type Turn struct {
	ID          string                  `json:"turn_id"`
	AgentID     string                  `json:"agent_id"`
	Index       int64                   `json:"turn_index"`
	AttemptID   string                  `json:"attempt_id"`
	MessageID   string                  `json:"message_id"`
	WorkItemID  string                  `json:"work_item_id,omitempty"` // the current one when the turn began
	WorkspaceID string                  `json:"workspace_id,omitempty"` // the active one when the turn ended
	ResponseID  string                  `json:"response_id,omitempty"`
	Previous    string                  `json:"previous_response_id,omitempty"`
	Kind        TurnKind                `json:"kind"`
	Reason      string                  `json:"reason,omitempty"` // code: why it was aborted, or cut short
	Last        string                  `json:"last_assistant_message,omitempty"`
	Model       string                  `json:"model,omitempty"`
	Usage       *turns.Usage            `json:"token_usage,omitempty"` // as the gateway counts, if it was asked
	ModelRounds int                     `json:"model_rounds"`
	ToolCalls   int                     `json:"tool_calls"`
	Provider    *turns.ProviderTimeline `json:"provider_attempt_timeline,omitempty"`
	Events      int64                   `json:"response_events,omitempty"` // of its response, as far as the host has seen
	ClientCalls []string                `json:"client_calls,omitempty"`    // of functions of its client that wait
	Closure     Closure                 `json:"closure"`
	Failure     *Failure                `json:"failure,omitempty"`
	StartedAt   time.Time               `json:"started_at"`
	CompletedAt time.Time               `json:"completed_at"`
	DurationMS  int64                   `json:"duration_ms"`
	Timing      Timing                  `json:"timing,omitzero"`
}

// TurnKind is whether a turn drained or was ended.
type TurnKind string

const (
	TurnCompleted TurnKind = "completed"
	TurnAborted   TurnKind = "aborted"
)

// FailureAborted is the code of the failure of a turn that somebody asked to end.
const FailureAborted = "aborted_by_operator"

// Stopped reports whether a turn ended because somebody asked for it.
func (t Turn) Stopped() bool { return t.Failure != nil && t.Failure.Code == FailureAborted }

// Failed reports whether a turn did not drain and was not stopped.
func (t Turn) Failed() bool { return t.Kind == TurnAborted && !t.Stopped() }

// Prompt is runner/agent/prompt.Prompt as it was sent for an attempt, once. It is large, and every step of a turn
// reads and writes its attempt: so it is a record of its own.
type Prompt struct {
	AttemptID string          `json:"attempt_id"`
	Prompt    json.RawMessage `json:"prompt"`
}

func (a *Attempt) Row() Row {
	return Row{"attempts", "attempt", 1, []Column{{"id", &a.ID}, {"agent_id", &a.AgentID}, {"message_id", a.MessageID},
		{"wait_id", strings.Join(a.Waits, " ")}, {"status", a.Status}, {"created_at", millis(a.StartedAt)}}}
}

func (p *Prompt) Row() Row {
	return Row{"prompts", "prompt", 1, []Column{{"attempt_id", &p.AttemptID}}}
}

func (t *Turn) Row() Row {
	return Row{"turns", "turn", 1, []Column{{"id", &t.ID}, {"agent_id", &t.AgentID}, {"number", t.Index},
		{"response_id", t.ResponseID}, {"created_at", millis(t.CompletedAt)}}}
}

// Attempt returns an attempt. An agent has at most one that is open.
func (v View) Attempt(id string) (Attempt, error) { return get[Attempt](v, id) }

// Prompt returns what was sent for an attempt; ok is false when nothing was.
func (v View) Prompt(attemptID string) (p Prompt, ok bool, err error) {
	return ifAny[Prompt](v, attemptID)
}

// OpenAttempt returns the open attempt of an agent.
func (v View) OpenAttempt(agentID string) (a Attempt, ok bool, err error) {
	return first[Attempt](v, "open attempt", agentID)
}

// OpenAttempts returns those of all agents; of one whose record is damaged, ID
// and AgentID.
func (v View) OpenAttempts() ([]Attempt, error) { return salvaged[Attempt](v, "open attempts") }

// Turn returns the record of a turn that has ended.
func (v View) Turn(id string) (Turn, error) { return get[Turn](v, id) }

// Turns returns the newest turns of an agent.
func (v View) Turns(agentID string, limit int) ([]Turn, error) {
	return newest[Turn](v, "turns", agentID, limit)
}
