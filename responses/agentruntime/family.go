package agentruntime

import "slices"

// Family is a kind of thing that an event opens and exactly one later event closes.
type Family struct {
	Name  string
	ID    ID // what names it; [Thread] when a thread has at most one
	Open  string
	Use   []string // what may happen while it is open
	Close []string
}

// families are the things that must open before they close.
var families = []Family{
	{"turn", Turn, "turn.submitted", []string{"turn.started"}, []string{"turn.completed", "turn.failed"}},
	{"model request", ModelRequest, "model.requested", []string{"model.delta", "reasoning.delta"},
		[]string{"model.completed", "model.failed"}},
	{"tool call", ToolCall, "tool.started", []string{"tool.args", "tool.progress"},
		[]string{"tool.result", "tool.failed"}},
	{"process", Process, "process.started", []string{"process.output", "process.input"},
		[]string{"process.completed", "process.failed", "process.terminated"}},
	{"action", Action, "action.required", nil, []string{"action.resolved"}},
	{"compaction", Thread, "context.compaction.started", nil,
		[]string{"context.compaction.completed", "context.compaction.failed"}},
	{"attempt", Run, "task.attempt.started", nil, []string{"task.attempt.completed", "task.attempt.failed"}},
	{"rollback", Thread, "history.rollback.started", nil, []string{"history.rollback.completed"}},
}

// FamilyOf returns the family that a class opens, uses or closes.
func FamilyOf(class string) (Family, bool) {
	for _, f := range families {
		if f.Open == class || slices.Contains(f.Use, class) || slices.Contains(f.Close, class) {
			return f, true
		}
	}
	return Family{}, false
}

// key names one thing of the family.
func (f Family) key(e *Event) string {
	if f.ID == Thread {
		return f.Name + " " + e.thread()
	}
	return f.Name + " " + e.IDs[f.ID]
}
