package turns

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

// Reminded says that a request has the reminder of the turn.
func (s Scope) Reminded(p Reminded) RuntimeEvent { return s.event(ReminderInjected, "", p) }

// ReminderSkipped says that a request had no room for the reminder.
func (s Scope) ReminderSkipped(p Reminded) RuntimeEvent { return s.event(ReminderSkipped, "", p) }
