package agentruntime

import (
	"cmp"
	"slices"
)

// Statuses is the vocabulary of statuses: for each, the nouns that may have it (t thread, g turn or attempt, k task).
var Statuses = map[string]string{
	"draft": "k", "accepted": "k", "idle": "tg", "queued": "tgk", "preparing": "gk", "running": "tgk",
	"streaming": "g", "waiting_input": "k", "waiting_permission": "k", "waiting_resource": "k", "blocked": "tgk",
	"paused": "k", "retrying": "gk", "cancelling": "gk", "cancelled": "tgk", "timed_out": "k", "failed": "tgk",
	"lost": "k", "completed": "tgk", "archived": "k", "stale": "tgk", "unknown": "tgk", "unavailable": "g",
	"not_applicable": "g",
}

var (
	waits = []string{"waiting_input", "waiting_permission", "waiting_resource"}
	held  = []string{"queued", "running", "cancelling", "failed", "timed_out"} // after a wait, a block or a pause
)

// taskTransitions says which status may follow which. One is repeated when the place in a queue, or what a task waits
// for, is another.
var taskTransitions = map[string][]string{
	"draft":     {"accepted"},
	"accepted":  {"queued", "preparing", "running", "cancelling"},
	"queued":    {"queued", "preparing", "running", "paused", "cancelling"},
	"preparing": append([]string{"running", "blocked", "failed", "cancelling"}, waits...),
	"running": append([]string{"blocked", "paused", "retrying", "completed", "failed", "timed_out", "lost",
		"cancelling"}, waits...),
	"waiting_input":      append([]string{"waiting_input"}, held...),
	"waiting_permission": append([]string{"waiting_permission"}, held...),
	"waiting_resource":   append([]string{"waiting_resource"}, held...),
	"blocked":            append([]string{"blocked"}, held...),
	"paused":             held,
	"retrying":           {"running", "failed", "cancelling"},
	"lost":               {"running", "failed", "cancelling"},
	"cancelling":         {"cancelled", "lost"},
	"completed":          {"archived"},
	"cancelled":          {"archived"},
	"failed":             {"archived", "retrying"},
	"timed_out":          {"archived", "retrying"},
}

// taskMay reports whether a task may go from one status to another. An unknown earlier status allows any.
func taskMay(from, to string) bool {
	return from == "" || slices.Contains(taskTransitions[from], to)
}

// taskStatusOf is the status that each class of a task gives it; a class that is absent changes none.
var taskStatusOf = map[string]string{
	"task.created": "draft", "task.accepted": "accepted", "task.queued": "queued", "task.started": "running",
	"task.blocked": "blocked", "task.paused": "paused", "task.retrying": "retrying",
	"task.cancel_requested": "cancelling", "task.cancelled": "cancelled", "task.timed_out": "timed_out",
	"task.failed": "failed", "task.lost": "lost", "task.completed": "completed", "task.archived": "archived",
}

// TaskStatus is the status that an event gives its task, or "" when it changes none.
func (e *Event) TaskStatus() string {
	switch e.Type {
	case "task.waiting":
		if e.Status != "" {
			return e.Status
		}
		return e.text("status")
	case "task.resumed":
		if e.Status != "" {
			return e.Status
		}
		return "running"
	}
	return taskStatusOf[e.Type]
}

// parentTask is the parent of a task that is created: the class has it among its ids and in its payload.
func (e *Event) parentTask() string { return cmp.Or(e.IDs[ParentTask], e.text("parent_task_id")) }
