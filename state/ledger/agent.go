package ledger

import (
	"cmp"
	"encoding/json"
	"time"

	"holon/responses/turns"
	"holon/state"
)

// Kind, Visibility, Ownership and Preset are those of the runtime specification
// ("Agent Identity And Visibility Contract").
type (
	Kind       string
	Visibility string
	Ownership  string
	Preset     string
)

const (
	KindDefault Kind = "default"
	KindNamed   Kind = "named"
	KindChild   Kind = "child"

	Public  Visibility = "public"
	Private Visibility = "private"

	SelfOwned        Ownership = "self_owned"
	ParentSupervised Ownership = "parent_supervised"

	PresetPublicNamed Preset = "public_named"
)

// Agent is an agent's identity and settings. It changes rarely; what changes
// with every message is its AgentState.
type Agent struct {
	ID         string     `json:"agent_id"`
	Kind       Kind       `json:"kind"`
	Visibility Visibility `json:"visibility"`
	Ownership  Ownership  `json:"ownership"`
	Preset     Preset     `json:"profile_preset,omitempty"`

	ParentID          string `json:"parent_agent_id,omitempty"`
	LineageParentID   string `json:"lineage_parent_agent_id,omitempty"`
	DelegatedFromTask string `json:"delegated_from_task_id,omitempty"`
	SpawnedBy         string `json:"spawned_by,omitempty"` // digest of the call that made it; "": an operator did

	Template        string `json:"template,omitempty"` // from which its home was made
	Image           string `json:"image,omitempty"`    // "": the runtime's
	Model           string `json:"model_override,omitempty"`
	ReasoningEffort string `json:"model_override_reasoning_effort,omitempty"`

	CreatedAt  time.Time  `json:"created_at"`
	UpdatedAt  time.Time  `json:"updated_at"`
	ArchivedAt *time.Time `json:"archived_at,omitempty"`
}

// AgentState is the one row that every step of an agent reads and writes: saving it
// makes the agent's next step. Whether the agent is busy is not part of it.
type AgentState struct {
	AgentID  string `json:"agent_id"`
	Revision int64  `json:"revision"`  // number of the steps taken
	EventSeq int64  `json:"event_seq"` // of the agent's newest event
	Admitted int64  `json:"admitted"`  // number of the newest message, which orders the queue
	Turns    int64  `json:"turns"`     // index of the newest turn
	// number of the last event that the newest export of evidence holds
	Exported   int64  `json:"exported_through,omitempty"`
	ExportedBy string `json:"exported_by,omitempty"` // key of that export, which is one however often it is asked for

	Stopped     bool      `json:"stopped,omitempty"`      // by the operator; nothing is admitted or claimed
	Chain       string    `json:"chain,omitempty"`        // response that the next turn continues; "": none
	Renewed     string    `json:"renewed,omitempty"`      // that it would continue if the runtime had not begun anew
	ClientCalls []string  `json:"client_calls,omitempty"` // of Chain, which the next turn answers in any case
	PendingWake *WakeHint `json:"pending_wake,omitempty"` // not yet made a message
	// the newest system tick that a hint was made; further hints wait while it is queued
	WakeMessage string `json:"wake_message,omitempty"`

	CurrentWork string `json:"current_work_item_id,omitempty"` // an open work item, on which the agent works; "": none
	// WorkHeld is why work does not go on by itself before a message of another sender is taken; "": it does
	WorkHeld  string `json:"work_held,omitempty"`
	WorkShown string `json:"work_shown,omitempty"` // digest of what the conversation was told of the work last

	Container *state.HeldContainer `json:"container,omitempty"` // the newest that the agent had; nil: none yet

	Workspaces []Attachment     `json:"workspaces,omitempty"`       // that are attached, in that order
	Active     *ActiveWorkspace `json:"active_workspace,omitempty"` // nil: its home

	Tree TreeAccount `json:"tree,omitzero"` // of a public agent

	Progress     Progress      `json:"progress"`
	Totals       Totals        `json:"totals"`
	Skills       Skills        `json:"skills,omitzero"`
	LastWake     string        `json:"last_wake,omitempty"` // why the agent last woke
	LastBriefAt  *time.Time    `json:"last_brief_at,omitempty"`
	LastFailure  *Failure      `json:"last_failure,omitempty"`
	LastClosure  *Closure      `json:"last_closure,omitempty"`  // of the newest turn
	LastResolved *Continuation `json:"last_resolved,omitempty"` // of the newest claim
	UpdatedAt    time.Time     `json:"updated_at"`
}

// Progress is how far an agent has gone by itself since a message of another
// sender was taken (runner/agent/rules).
type Progress struct {
	Turns    int        `json:"turns,omitempty"`       // of its own making
	Idle     int        `json:"idle,omitempty"`        // the newest of them that changed nothing, in a row
	EndedAt  *time.Time `json:"ended_at,omitempty"`    // the newest of them
	Notified bool       `json:"notified,omitempty"`    // the operator knows that it was stopped
	Home     string     `json:"home_digest,omitempty"` // what its home held after the newest turn
}

// Totals are counts over an agent's life.
type Totals struct {
	Messages     int64        `json:"total_message_count"`
	ModelRounds  int64        `json:"total_model_rounds"`
	InputTokens  int64        `json:"total_input_tokens"`
	OutputTokens int64        `json:"total_output_tokens"`
	Estimated    bool         `json:"estimated,omitempty"` // a part of the tokens
	LastTurn     *turns.Usage `json:"last_turn,omitempty"` // of the last turn that reported any

	Compactions       int64       `json:"compactions,omitempty"`        // of its conversations
	CompactedMessages int64       `json:"compacted_messages,omitempty"` // of Messages, that no conversation has any more
	Tools             []ToolTotal `json:"tools,omitempty"`              // by name, those that were called first
}

// ToolTotal is how often a tool was called, and how long its calls took in all.
type ToolTotal struct {
	Tool       string `json:"tool_name"`
	Calls      int64  `json:"total_calls"`
	DurationMS int64  `json:"total_duration_ms"`
}

// Skills are those of an agent, by the facts of its turns.
type Skills struct {
	Available []string      `json:"available_skills"` // ids of those that the newest turn could use, the first ones
	Active    []ActiveSkill `json:"active_skills"`    // in the order of their use
}

// ActiveSkill is a skill that the agent's conversation has in use: its activation_state is turn_active until the end of
// the turn that used it first, then session_active, and restored after a restart of the container.
type ActiveSkill struct {
	turns.Skill
	Turn string `json:"activated_at_turn"`
}

// WakeHint is a signal that something changed, kept until the agent can look.
// Hints that arrive meanwhile are counted in it; the newest content wins, and what the
// others said is in Also.
type WakeHint struct {
	Reason            string            `json:"reason"`
	Description       string            `json:"description,omitempty"`
	Source            string            `json:"source,omitempty"`
	ExternalTriggerID string            `json:"external_trigger_id,omitempty"`
	Resource          string            `json:"resource,omitempty"`
	Body              json.RawMessage   `json:"body,omitempty"` // JSON, text as a JSON string
	ContentType       string            `json:"content_type,omitempty"`
	Headers           map[string]string `json:"headers,omitempty"` // that say what a signed delivery is
	CorrelationID     string            `json:"correlation_id,omitempty"`
	CausationID       string            `json:"causation_id,omitempty"`
	CreatedAt         time.Time         `json:"created_at"`
	Event             string            `json:"event_id,omitempty"` // with which it came; a message does not have it
	Coalesced         int               `json:"coalesced"`          // further hints in this one
	// what waits for something outside that the hint may be: the ids of the waits, and of the work items that have them
	WaitingIntentIDs []string `json:"waiting_intent_ids,omitempty"`
	WorkItemIDs      []string `json:"work_item_ids,omitempty"`
	// Also are those of them that said something else, as many as there is room for: first those of its controllers.
	Also []WakeNote `json:"also,omitempty"`
}

// WakeNote is what a WakeHint said that became part of another one.
type WakeNote struct {
	Reason            string            `json:"reason"`
	Description       string            `json:"description,omitempty"`
	Source            string            `json:"source,omitempty"`
	ExternalTriggerID string            `json:"external_trigger_id,omitempty"`
	Resource          string            `json:"resource,omitempty"`
	Headers           map[string]string `json:"headers,omitempty"`
	CreatedAt         time.Time         `json:"created_at"`

	Body      json.RawMessage `json:"body,omitempty"`       // as in WakeHint, if there was room for it
	BodyBytes int             `json:"body_bytes,omitempty"` // of a body for which there was none
}

// Failure is why something of an agent failed, for a person.
type Failure struct {
	AgentID    string                 `json:"agent_id,omitempty"` // where it is told among those of others
	OccurredAt time.Time              `json:"occurred_at"`
	Phase      string                 `json:"phase"` // startup, shutdown, runtime_turn
	Code       string                 `json:"code"`
	Param      string                 `json:"-"` // of a request that is at fault; Summary names it
	Summary    string                 `json:"summary"`
	Hint       string                 `json:"detail_hint,omitempty"`
	Artifact   *turns.FailureArtifact `json:"failure_artifact,omitempty"`
}

func (a *Agent) Row() Row {
	return Row{"agents", "agent", 1, []Column{{"id", &a.ID}, {"archived", a.ArchivedAt != nil}}}
}

func (s *AgentState) Row() Row {
	return Row{"agent_states", "agent", 1, []Column{{"agent_id", &s.AgentID}, {"event_seq", s.EventSeq},
		{"stopped", s.Stopped}, {"chain", s.Chain}, {"wake_message", s.WakeMessage}}}
}

// LastResponse is the one after which the next turn comes, "" for none: a client may go on from it. The conversation
// may have begun anew since.
func (s *AgentState) LastResponse() string { return cmp.Or(s.Chain, s.Renewed) }

// Agent returns an agent, also one that is archived.
func (v View) Agent(id string) (Agent, error) { return get[Agent](v, id) }

// Agents returns all agents that are not archived, by id; of one whose record is
// damaged, its ID.
func (v View) Agents() ([]Agent, error) { return salvaged[Agent](v, "agents") }

// AgentState returns the state of an agent.
func (v View) AgentState(agentID string) (AgentState, error) { return get[AgentState](v, agentID) }
