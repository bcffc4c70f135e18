package ledger

import "time"

// Memory is what the runtime keeps for an agent from one turn to the next (runtime specification, "Additional State
// Fields"). It changes when a turn settles, and only then.
type Memory struct {
	AgentID  string         `json:"agent_id"`
	Revision int64          `json:"working_memory_revision"` // number of the changes of Current; 0: none yet
	Current  MemorySnapshot `json:"current_working_memory"`
	// WorkspaceID is where the turn ended that Current is of: its files and decisions belong there.
	WorkspaceID string `json:"workspace_id,omitempty"`
	// Pending is what the conversation does not know of Current yet; nil: it knows all.
	Pending *MemoryDelta `json:"pending_working_memory_delta,omitempty"`
	// LastPrompted is the revision that the conversation was shown last, 0 for none, and Known what that held.
	LastPrompted int64          `json:"last_prompted_working_memory_revision,omitempty"`
	Known        MemorySnapshot `json:"prompted_working_memory"`
	// CuratedShown has a digest of each curated file as the conversation was shown it last, by its path.
	CuratedShown map[string]string `json:"curated_shown,omitempty"`
	// Began is how many tokens the first request of the conversation had, 0 where that is not known.
	Began int64 `json:"conversation_began_tokens,omitempty"`
	// Received is how many messages to the agent the conversation has, since it began or was compacted.
	Received int64 `json:"received_messages,omitempty"`

	Archived int64    `json:"archived_episode_count"`           // episodes that are final
	Builder  *Episode `json:"active_episode_builder,omitempty"` // the episode that goes on; nil: none
}

// MemorySnapshot is what an agent works on, derived from its records. Lists and texts are bounded
// (runner/agent/memory).
type MemorySnapshot struct {
	WorkItemID       string   `json:"current_work_item_id,omitempty"`
	Objective        string   `json:"objective,omitempty"`
	WorkSummary      string   `json:"work_summary,omitempty"`
	ScopeHints       []string `json:"scope_hints"`
	Plan             string   `json:"plan,omitempty"`
	Todo             []Todo   `json:"todo_list"`
	WorkingSetFiles  []string `json:"working_set_files"`
	RecentDecisions  []string `json:"recent_decisions"`
	PendingFollowups []string `json:"pending_followups"`
	WaitingOn        []string `json:"waiting_on"`
}

// MemoryReason is why a working memory changed.
type MemoryReason string

const (
	MemoryTurnCompleted MemoryReason = "terminal_turn_completed"
	MemoryTaskRejoined  MemoryReason = "task_rejoined"
	MemoryWakeResumed   MemoryReason = "wake_resumed"
	MemoryWorkChanged   MemoryReason = "active_work_changed"
	MemoryScopeChanged  MemoryReason = "scope_hints_changed"
)

// MemoryDelta is the difference between two revisions of a working memory, as a prompt shows it.
type MemoryDelta struct {
	From          int64        `json:"from_revision"`
	To            int64        `json:"to_revision"`
	Turn          int64        `json:"created_at_turn"` // index of the turn that settled
	Reason        MemoryReason `json:"reason"`
	ChangedFields []string     `json:"changed_fields"` // names in the JSON of a MemorySnapshot
	SummaryLines  []string     `json:"summary_lines"`  // one for each changed field
}

// Boundary is where an episode ended.
type Boundary string

const (
	BoundaryWorkSwitched Boundary = "active_work_switched"
	BoundaryWait         Boundary = "wait_boundary"
	BoundaryResult       Boundary = "result_checkpoint"
	BoundaryHardCap      Boundary = "hard_turn_cap"
)

// Episode is a stretch of turns on one thing. One that is final is never changed and never pruned; the one that goes on
// is Memory.Builder, which has no Number, FinalizedAt, Boundary and Summary yet.
type Episode struct {
	ID          string     `json:"id"`
	AgentID     string     `json:"agent_id"`
	Number      int64      `json:"number"` // of the agent's episodes, from 1 without a gap
	WorkspaceID string     `json:"workspace_id,omitempty"`
	CreatedAt   time.Time  `json:"created_at"`
	FinalizedAt *time.Time `json:"finalized_at,omitempty"`

	StartTurn    int64    `json:"start_turn_index"`
	EndTurn      int64    `json:"end_turn_index"` // its last
	StartMessage int64    `json:"start_message_count"`
	EndMessage   int64    `json:"end_message_count"`
	Boundary     Boundary `json:"boundary_reason,omitempty"`

	WorkItemID      string   `json:"current_work_item_id,omitempty"`
	Objective       string   `json:"objective,omitempty"`
	WorkSummary     string   `json:"work_summary,omitempty"`
	ScopeHints      []string `json:"scope_hints"`
	Summary         string   `json:"summary,omitempty"`
	WorkingSetFiles []string `json:"working_set_files"`
	Commands        []string `json:"commands"`
	Verification    []string `json:"verification"`
	Decisions       []string `json:"decisions"`
	CarryForward    []string `json:"carry_forward"`
	WaitingOn       []string `json:"waiting_on"`
}

// Row implements Record.
func (m *Memory) Row() Row { return Row{"memories", "memory", 1, []Column{{"agent_id", &m.AgentID}}} }

// Row implements Record.
func (e *Episode) Row() Row {
	return Row{"episodes", "episode", 1, []Column{{"id", &e.ID}, {"agent_id", &e.AgentID}, {"number", e.Number}}}
}

// Memory returns the memory of an agent; ok is false before its first turn settled.
func (v View) Memory(agentID string) (m Memory, ok bool, err error) { return ifAny[Memory](v, agentID) }

// Episode returns an episode that is final.
func (v View) Episode(id string) (Episode, error) { return get[Episode](v, id) }

// Episodes returns the newest episodes of an agent.
func (v View) Episodes(agentID string, limit int) ([]Episode, error) {
	return newest[Episode](v, "episodes", agentID, limit)
}

// EpisodesAfter returns the first episodes of an agent after the one with a number, the oldest first.
func (v View) EpisodesAfter(agentID string, number int64, limit int) ([]Episode, error) {
	return list[Episode](v, "episodes after", agentID, number, limited(limit))
}
