package view

import "holon/state/ledger"

// WorkingMemory is what the runtime remembers for an agent between turns, as it is after its newest turn.
type WorkingMemory struct {
	Revision         int64                 `json:"working_memory_revision"`
	CompressionEpoch int64                 `json:"compression_epoch"` // compactions and renewals of its conversations
	Current          ledger.MemorySnapshot `json:"current_working_memory"`
	Pending          *ledger.MemoryDelta   `json:"pending_working_memory_delta,omitempty"`
	LastPrompted     int64                 `json:"last_prompted_working_memory_revision,omitempty"`
	ActiveEpisode    string                `json:"active_episode_id,omitempty"`
	Builder          *ledger.Episode       `json:"active_episode_builder,omitempty"`
	Archived         int64                 `json:"archived_episode_count"`
}

// workingMemory returns that of an agent.
func (s Snapshot) workingMemory(stored ledger.AgentState) (WorkingMemory, error) {
	m, _, err := s.ledger.Memory(stored.AgentID)
	w := WorkingMemory{Revision: m.Revision, CompressionEpoch: stored.Totals.Compactions, Current: m.Current,
		Pending: m.Pending, LastPrompted: m.LastPrompted, Builder: m.Builder, Archived: m.Archived}
	if m.Builder != nil {
		w.ActiveEpisode = m.Builder.ID
	}
	now := &w.Current
	now.Todo = list(now.Todo)
	for _, texts := range []*[]string{&now.ScopeHints, &now.WorkingSetFiles, &now.RecentDecisions, &now.PendingFollowups,
		&now.WaitingOn} {
		*texts = list(*texts)
	}
	return w, err
}
