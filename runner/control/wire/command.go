package wire

import (
	"encoding/json"

	"holon/state"
)

// Codes of refusals of commands of the Agent Runtime standard, besides not_found and conflict of the ledger. They are
// the only codes that POST /runtime/commands/{name} answers about a command that is in order otherwise.
const (
	CodeStopped     state.Code = "stopped"
	CodeBlocked     state.Code = "blocked"
	CodeUnsupported state.Code = "unsupported"
	CodeInvalid     state.Code = "invalid"
	CodeUnavailable state.Code = "unavailable"
	CodeReadOnly    state.Code = "read_only" // the command only reads, which a GET does
)

// Command is the body of POST /runtime/commands/{name}. Which fields a command reads depends on its name.
type Command struct {
	CommandID    string  `json:"command_id"` // the same one is carried out once
	AgentID      string  `json:"agent_id,omitempty"`
	SessionID    string  `json:"session_id,omitempty"` // of the agent, which it names too
	ThreadID     string  `json:"thread_id,omitempty"`  // likewise
	Text         string  `json:"text,omitempty"`       // of submit_turn and respond_action
	Parts        []Part  `json:"parts,omitempty"`      // of submit_turn
	Priority     string  `json:"priority,omitempty"`   // of submit_turn
	Reason       string  `json:"reason,omitempty"`     // of interrupt_turn
	Objective    string  `json:"objective,omitempty"`  // of create_task and update_task
	Cmd          *string `json:"cmd,omitempty"`        // of create_task; nil: it makes a work item
	TurnID       string  `json:"turn_id,omitempty"`
	QueuedTurnID string  `json:"queued_turn_id,omitempty"`
	ActionID     string  `json:"action_id,omitempty"` // of respond_action
	TaskID       string  `json:"task_id,omitempty"`
	Through      *int64  `json:"through,omitempty"` // the last event of an export; nil: the newest
}

// CommandAnswer says that a command was accepted. Its facts are in the record up to AppliedThroughSequence.
type CommandAnswer struct {
	CommandID              string          `json:"command_id"`
	Status                 string          `json:"status"` // accepted
	AppliedThroughSequence int64           `json:"applied_through_sequence"`
	NoOp                   bool            `json:"no_op"` // what it asks for was so already
	Result                 json.RawMessage `json:"result,omitempty"`
}

// Capability says whether a command is carried out.
type Capability struct {
	Command string `json:"command"`
	Status  string `json:"status"`           // supported, read_only, unsupported
	Reason  string `json:"reason,omitempty"` // why it is unsupported
	Route   string `json:"route,omitempty"`  // what answers one that only reads
}

// Submitted is the result of submit_turn.
type Submitted struct {
	QueuedTurnID string `json:"queued_turn_id"` // the message, whose turn gets an id when it begins
}

// Exported is the result of an export.
type Exported struct {
	Ref             string `json:"ref"` // path of GET, which gives the same document until retention takes of its events
	ThroughSequence int64  `json:"through_sequence"`
	EventCount      int64  `json:"event_count"`
	EventsDigest    string `json:"events_digest"`
}
