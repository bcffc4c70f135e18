package turns

// Triggers of a compaction.
const (
	TriggerBudget = "budget" // an estimate came near the model's window
	TriggerRemote = "remote" // the provider found the conversation too long
)

// Compaction is the payload of context.compaction.completed: what of a
// conversation a model is told in a shorter form from now on. The stored
// conversation stays whole. Counts of tokens are estimates.
type Compaction struct {
	Trigger         string      `json:"trigger"`
	Epoch           int         `json:"epoch"`          // compactions of the turn so far, this one included
	Round           int         `json:"round"`          // the round that it makes room for
	ContextWindow   int         `json:"context_window"` // of the model
	TokensAllowed   int         `json:"tokens_allowed"` // of the conversation; the rest is for the answer
	TokensBefore    int         `json:"tokens_before"`
	TokensAfter     int         `json:"tokens_after"`
	ToolResults     int         `json:"tool_results"`              // results of tools that became receipts
	SummarizedItems int         `json:"summarized_items,omitzero"` // items that a summary stands for
	SummaryUsage    *TokenUsage `json:"summary_usage,omitzero"`
	Preserved       Preserved   `json:"preserved"`
}

// CompactionStart is the payload of context.compaction.started.
type CompactionStart struct {
	Trigger      string `json:"trigger"`
	Round        int    `json:"round"` // as in Compaction
	TokensBefore int    `json:"tokens_before"`
}

// CompactionBegun says that a conversation is about to be made shorter for the model.
func (s Scope) CompactionBegun(p CompactionStart) RuntimeEvent {
	return s.event(CompactionBegun, statusRunning, p)
}

// Preserved are the things that a compaction leaves as they are. Ours removes none of them: it changes only what a
// model is told.
type Preserved struct {
	Actions   string `json:"actions"`
	Incidents string `json:"incidents"`
	Evidence  string `json:"evidence"`
}

// ContextCompacted says that a conversation became shorter for the model.
func (s Scope) ContextCompacted(p Compaction) RuntimeEvent {
	p.Preserved = Preserved{"all", "all", "all"}
	return s.event(ContextCompacted, StatusCompleted, p)
}

// CompactionFailure is the payload of context.compaction.failed.
type CompactionFailure struct {
	Trigger         string `json:"trigger"`
	Round           int    `json:"round"`
	FailureCategory string `json:"failure_category"`
	Message         string `json:"message" max:"2048"`

	SummaryUsage *TokenUsage `json:"summary_usage,omitzero"` // what it took all the same
}

// CompactionFailed says that a conversation did not become shorter, or that a summary
// could not be made. The turn goes on with what there is.
func (s Scope) CompactionFailed(p CompactionFailure) RuntimeEvent {
	return s.event(CompactionFailed, StatusFailed, p)
}
