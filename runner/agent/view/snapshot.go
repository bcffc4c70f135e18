package view

import "holon/state/ledger"

// StateSnapshot is what a client needs to show an agent and then go on with its events from SnapshotThroughSeq, missing
// and repeating none (runtime specification, "Agent Inspection Surface Contract").
type StateSnapshot struct {
	Agent           AgentSummary          `json:"agent"`
	Session         session               `json:"session"`
	Tasks           []TaskRecord          `json:"tasks"`      // the newest
	WorkItems       []WorkRecord          `json:"work_items"` // the open ones, the oldest first
	Timers          []Timer               `json:"timers"`
	Queue           []ledger.Entry        `json:"queue"` // in the order it is worked off, the first ones
	WaitingIntents  []waitingIntent       `json:"waiting_intents"`
	Triggers        []Trigger             `json:"external_triggers"`
	Notifications   []ledger.Notification `json:"operator_notifications"`
	Workspace       workspaceState        `json:"workspace"`
	Execution       execution             `json:"execution"`
	WorkingMemory   WorkingMemory         `json:"working_memory"`
	SnapshotThrough int64                 `json:"snapshot_through_seq"`
	EventLogEpoch   string                `json:"event_log_epoch"`
}

// session is where the conversation stands.
type session struct {
	CurrentRunID string        `json:"current_run_id,omitempty"`
	PendingCount int           `json:"pending_count"`
	LastTurn     *turnTerminal `json:"last_turn,omitempty"`
}

// execution is where and how confined an agent's commands run.
type execution struct {
	Profile         executionProfile `json:"profile"`
	Policy          executionPolicy  `json:"policy"`
	WorkspaceID     string           `json:"workspace_id"`
	WorkspaceAnchor string           `json:"workspace_anchor"`
	ExecutionRoot   string           `json:"execution_root"`
	Cwd             string           `json:"cwd"`
	ExecutionRootID string           `json:"execution_root_id,omitempty"`
	ProjectionKind  string           `json:"projection_kind,omitempty"`
}

// executionProfile is what an agent's commands may do.
type executionProfile struct {
	Backend                 string `json:"backend"` // docker, local
	ProcessExecutionExposed bool   `json:"process_execution_exposed"`
	AllowBackgroundTasks    bool   `json:"allow_background_tasks"`
	SupportsWorktrees       bool   `json:"supports_managed_worktrees"`
}

// executionPolicy says how firmly each boundary holds.
type executionPolicy struct {
	Backend           string `json:"backend"`
	ProcessExposed    bool   `json:"process_execution_exposed"`
	WorktreeSupported bool   `json:"managed_worktree_supported"`
	// hard_enforced, runtime_shaped or not_enforced, by boundary
	ResourceAuthority map[string]string `json:"resource_authority"`
	ProcessExecution  map[string]string `json:"process_execution"`
}

// LatencyReport tells where the time of an agent's newest turns went.
type LatencyReport struct {
	AgentID string        `json:"agent_id"`
	Turns   []TurnLatency `json:"turns"` // the oldest first
	Pending int           `json:"pending"`
}

// TurnLatency is the time of one turn, in milliseconds: its message waited in the queue (message_admitted to
// message_processing_started), then the turn was begun (container, prompt, agentd accepted), then it ran, in which
// time its requests and calls are.
type TurnLatency struct {
	TurnID      string             `json:"turn_id"`
	TurnIndex   int64              `json:"turn_index"`
	MessageID   string             `json:"message_id"`
	MessageKind ledger.MessageKind `json:"message_kind,omitempty"`
	Priority    ledger.Priority    `json:"priority,omitempty"`
	Kind        ledger.TurnKind    `json:"kind"`
	FailureCode string             `json:"failure_code,omitempty"`
	QueueWaitMS int64              `json:"queue_wait_ms"`
	BeginMS     *int64             `json:"begin_ms"` // null when it never began
	TurnMS      int64              `json:"turn_ms"`
	ledger.Timing
	ModelRounds int `json:"model_rounds"`
	ToolCalls   int `json:"tool_calls"`
}
