package turns

// Triggers of a compaction.
const (
	TriggerBudget = "budget" // an estimate came near the model's window
	TriggerRemote = "remote" // the provider found the conversation too long
	TriggerMemory = "memory" // the host lets it begin anew from what it remembers
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

// Preserved are the things that a compaction leaves as they are. Ours removes none of them: it changes only what a
// model is told.
type Preserved struct {
	Actions   string `json:"actions"`
	Incidents string `json:"incidents"`
	Evidence  string `json:"evidence"`
}

// CompactionFailure is the payload of context.compaction.failed.
type CompactionFailure struct {
	Trigger         string `json:"trigger"`
	Round           int    `json:"round"`
	FailureCategory string `json:"failure_category"`
	Message         string `json:"message" max:"2048"`

	SummaryUsage *TokenUsage `json:"summary_usage,omitzero"` // what it took all the same
}

// WorkDirChanged is the class of the fact that a result of the host's changed where the rest of the turn's calls work.
const WorkDirChanged = "holon.working_directory.changed"

// WorkDirChange is its payload.
type WorkDirChange struct {
	WorkDir string `json:"work_dir"` // a path inside the container
}

// Classes of the facts about the reminder of a turn.
const (
	ReminderInjected = "holon.reminder.injected"
	ReminderSkipped  = "holon.reminder.skipped"
)

// Reminded is the payload of both: which round's request was to have the reminder, and how many rounds the model had
// completed since the last result that renewed it. Its text is in neither.
type Reminded struct {
	Round           int `json:"round"`
	RoundsSince     int `json:"rounds_since"`
	EstimatedTokens int `json:"estimated_tokens"` // of the reminder
}
