package view

import (
	"holon/responses/turns"
	"holon/runner/agent/rules"
	"holon/state/ledger"
)

// identity is an agent's name and kind (runtime specification, "Agent Identity And Visibility Contract").
type identity struct {
	AgentID           string            `json:"agent_id"`
	Kind              ledger.Kind       `json:"kind"`
	Visibility        ledger.Visibility `json:"visibility"`
	Ownership         ledger.Ownership  `json:"ownership"`
	ProfilePreset     ledger.Preset     `json:"profile_preset,omitempty"`
	Status            string            `json:"status"` // active, archived
	IsDefaultAgent    bool              `json:"is_default_agent"`
	ParentAgentID     string            `json:"parent_agent_id,omitempty"`
	LineageParentID   string            `json:"lineage_parent_agent_id,omitempty"`
	DelegatedFromTask string            `json:"delegated_from_task_id,omitempty"`
	AgentHome         string            `json:"agent_home,omitempty"` // absolute path on the host
	Template          string            `json:"template,omitempty"`
	Image             string            `json:"image,omitempty"`
	CreatedAt         turns.Time        `json:"created_at"`
}

// ModelState is which model an agent's next turn asks (runtime specification, "Agent Model Selection").
type ModelState struct {
	Source                  string   `json:"source"` // runtime_default, agent_override
	RuntimeDefaultModel     string   `json:"runtime_default_model"`
	EffectiveModel          string   `json:"effective_model"`
	EffectiveFallbackModels []string `json:"effective_fallback_models"`
	OverrideModel           string   `json:"override_model,omitempty"`
	OverrideReasoningEffort string   `json:"override_reasoning_effort,omitempty"`
	RequestedModel          string   `json:"requested_model,omitempty"` // by the newest attempt
	ActiveModel             string   `json:"active_model,omitempty"`    // that answered the newest turn
	FallbackActive          bool     `json:"fallback_active"`
}

// Values of ModelState.Source.
const (
	ModelDefault  = "runtime_default"
	ModelOverride = "agent_override"
)

// agentState is what an agent is doing.
type agentState struct {
	ID string `json:"id"`
	// booting, awake_idle, awake_running, awaiting_task, asleep, stopped
	Status                rules.Status         `json:"status"`
	SleepingUntil         turns.Time           `json:"sleeping_until,omitzero"`
	CurrentRunID          string               `json:"current_run_id,omitempty"`
	CurrentMessageID      string               `json:"current_message_id,omitempty"`
	CurrentWorkItemID     string               `json:"current_work_item_id,omitempty"`
	OpenWorkItems         int                  `json:"open_work_items"`
	Pending               int                  `json:"pending"`
	TurnIndex             int64                `json:"turn_index"`
	Revision              int64                `json:"revision"`
	LastWakeReason        string               `json:"last_wake_reason,omitempty"`
	LastBriefAt           turns.Time           `json:"last_brief_at,omitzero"`
	TotalMessageCount     int64                `json:"total_message_count"`
	TotalModelRounds      int64                `json:"total_model_rounds"`
	TotalInputTokens      int64                `json:"total_input_tokens"`
	TotalOutputTokens     int64                `json:"total_output_tokens"`
	CompactedMessageCount int64                `json:"compacted_message_count"`
	ToolLatency           []ledger.ToolTotal   `json:"tool_latency"`
	AttachedWorkspaces    []string             `json:"attached_workspaces"`
	ActiveWorkspaceID     string               `json:"active_workspace_id"`
	Cwd                   string               `json:"cwd"` // in the container
	WorktreeSession       *worktreeSession     `json:"worktree_session,omitempty"`
	ModelOverride         string               `json:"model_override,omitempty"`
	ModelOverrideEffort   string               `json:"model_override_reasoning_effort,omitempty"`
	PendingWakeHint       *wakeHint            `json:"pending_wake_hint,omitempty"`
	LastTurnTerminal      *turnTerminal        `json:"last_turn_terminal,omitempty"`
	LastContinuation      *ledger.Continuation `json:"last_continuation,omitempty"`
	LastRuntimeFailure    *ledger.Failure      `json:"last_runtime_failure,omitempty"`
	RetryAt               turns.Time           `json:"retry_at,omitzero"` // when the head of the queue is tried again
}

// wakeHint is a kept hint without its body, which is of any size.
type wakeHint struct {
	Reason            string            `json:"reason"`
	Description       string            `json:"description,omitempty"`
	Source            string            `json:"source,omitempty"`
	ExternalTriggerID string            `json:"external_trigger_id,omitempty"`
	Resource          string            `json:"resource,omitempty"`
	ContentType       string            `json:"content_type,omitempty"`
	Headers           map[string]string `json:"headers,omitempty"` // of a signed delivery
	BodyBytes         int               `json:"body_bytes,omitempty"`
	CorrelationID     string            `json:"correlation_id,omitempty"`
	CausationID       string            `json:"causation_id,omitempty"`
	CreatedAt         turns.Time        `json:"created_at"`
	Coalesced         int               `json:"coalesced"`
	WaitingIntentIDs  []string          `json:"waiting_intent_ids,omitempty"` // waits that it may end
	WorkItemIDs       []string          `json:"work_item_ids,omitempty"`      // that have such waits

	Also []ledger.WakeNote `json:"also,omitempty"` // what hints said that became part of this one
}

// turnTerminal is how a turn ended, in short (runtime specification, "Turn Terminal").
type turnTerminal struct {
	TurnID               string          `json:"turn_id"`
	TurnIndex            int64           `json:"turn_index"`
	MessageID            string          `json:"message_id,omitempty"`
	Kind                 ledger.TurnKind `json:"kind"`
	Reason               string          `json:"reason,omitempty"`
	LastAssistantMessage string          `json:"last_assistant_message,omitempty"`
	Model                string          `json:"model,omitempty"`
	TokenUsage           *turns.Usage    `json:"token_usage,omitempty"`
	ModelRounds          int             `json:"model_rounds"`
	ToolCalls            int             `json:"tool_calls"`
	StartedAt            turns.Time      `json:"started_at"`
	CompletedAt          turns.Time      `json:"completed_at"`
	DurationMS           int64           `json:"duration_ms"`
}

// tokenUsage is what an agent has used so far.
type tokenUsage struct {
	Total            turns.TokenUsage  `json:"total"`
	TotalModelRounds int64             `json:"total_model_rounds"`
	LastTurn         *turns.TokenUsage `json:"last_turn,omitempty"`
}

// AgentsMD is a file of instructions that an agent is given. Its text is never shown.
type AgentsMD struct {
	Scope string `json:"scope"` // user_global, agent, workspace
	Kind  string `json:"kind"`  // agents_md, claude_md_fallback
	Path  string `json:"path"`
}

// loadedAgentsMD are those of one agent.
type loadedAgentsMD struct {
	Sources []AgentsMD `json:"sources"`
}

// AgentListEntry is an agent in a listing: enough to choose one.
type AgentListEntry struct {
	Identity          identity        `json:"identity"`
	Status            rules.Status    `json:"status"`
	SchedulingPosture rules.Posture   `json:"scheduling_posture"`
	Lifecycle         rules.Lifecycle `json:"lifecycle"`
	Pending           int             `json:"pending"`
	CurrentRunID      string          `json:"current_run_id,omitempty"`
	WaitingReason     string          `json:"waiting_reason,omitempty"`
	SleepingUntil     turns.Time      `json:"sleeping_until,omitzero"`
	Model             ModelState      `json:"model"`
	LastBriefAt       turns.Time      `json:"last_brief_at,omitzero"`
	HasFailure        bool            `json:"has_failure"`
	Execution         executionPolicy `json:"execution_policy"`
	ActiveWorkspace   *WorkspaceEntry `json:"active_workspace_entry,omitempty"`
}

// AgentSummary tells about one agent (runtime specification, "Agent Inspection Surface Contract").
type AgentSummary struct {
	Identity          identity        `json:"identity"`
	Agent             agentState      `json:"agent"`
	SchedulingPosture rules.Posture   `json:"scheduling_posture"`
	ActiveTaskCount   int             `json:"active_task_count"`
	Lifecycle         rules.Lifecycle `json:"lifecycle"`
	Model             ModelState      `json:"model"`
	TokenUsage        tokenUsage      `json:"token_usage"`
	// Budget is what the agent and its children took, as the gateway counts, and may take; absent for a child.
	Budget *TreeBudget `json:"budget,omitempty"`
	// Closure is what the end of the newest turn means now, absent before there is one
	Closure          *ledger.Closure       `json:"closure,omitempty"`
	Execution        execution             `json:"execution"`
	LoadedAgentsMD   loadedAgentsMD        `json:"loaded_agents_md"`
	Skills           ledger.Skills         `json:"skills"`
	ActiveChildren   []ActiveChild         `json:"active_children"`
	ActiveIntents    []waitingIntent       `json:"active_waiting_intents"`
	ActiveWaits      []ledger.Wait         `json:"active_wait_conditions"`
	ActiveTriggers   []Trigger             `json:"active_external_triggers"`
	ActiveTimerCount int                   `json:"active_timer_count"`
	Notifications    []ledger.Notification `json:"recent_operator_notifications"`
	Deliveries       []ledger.Delivery     `json:"operator_deliveries"` // of these notifications
	RecentBriefCount int                   `json:"recent_brief_count"`
	RecentEventCount int64                 `json:"recent_event_count"`
}
