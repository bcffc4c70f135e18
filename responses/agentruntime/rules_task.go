package agentruntime

import (
	"cmp"
	"fmt"
	"slices"
)

func taskRules() []Rule {
	return []Rule{
		{Number: 62, On: []string{"task."}, check: checkTransition,
			Statement: "Tasks make only the transitions of the table."},
		{Number: 63, On: []string{"task.attempt.started"}, check: checkRun,
			Statement: "A retry has a run_id of its own."},
		{Number: 64, Why: "needs the state after a restart", Statement: "The edges between tasks survive a restart."},
		{Number: 65, On: []string{"task.created"}, check: checkChildOfCancelled,
			Statement: "No child of a task starts after its cancellation was requested."},
		{Number: 66, On: []string{"task.completed"}, check: checkCompleted,
			Statement: "A completed task has decided every item of its acceptance and knows the state of its delivery."},
		{Number: 67, On: []string{"task.lost"}, check: func(f *finding) { f.has("evidence") },
			Statement: "A lost task says what was checked."},
		{Number: 68, Why: "needs the plans of the tasks",
			Statement: "A change of a todo never changes the status of a task."},
		{Number: 69, Why: "needs a live server",
			Statement: "Completing a task with open facts is refused and lists them."},
		{Number: 70, On: []string{"task.waiting"}, check: func(f *finding) { f.has("wait_for.kind", "wait_for.ref") },
			Statement: "A waiting task names what it waits for."},
		{Number: 81, On: []string{"task.completed"}, check: checkChildren,
			Statement: "A task does not complete while a child runs that is not detached."},
	}
}

func checkTransition(f *finding) {
	of := taskStatusOf[f.Type]
	f.must(of == "" || f.Status == "" || f.Status == of, fmt.Sprintf("%s with status %q", f.Type, f.Status), of)
	t, to := f.tasks[f.IDs[Task]], f.TaskStatus()
	if t != nil && to != "" {
		f.must(TaskMay(t.status, to), fmt.Sprintf("%s to %s", t.status, to), "a transition of the table")
	}
}

func checkRun(f *finding) {
	if t := f.tasks[f.IDs[Task]]; t != nil {
		f.must(!slices.Contains(t.runs, f.IDs[Run]), "run_id "+f.IDs[Run]+" again", "a run_id of its own")
	}
}

func checkChildOfCancelled(f *finding) {
	if parent := f.tasks[f.IDs[ParentTask]]; parent != nil {
		ended := parent.status == "cancelling" || parent.status == "cancelled"
		f.must(!ended, "a child of a cancelled task", "no new child")
	}
}

func checkCompleted(f *finding) {
	f.oneOf("delivery_state", "pending", "delivered", "queued", "failed", "parent_missing", "not_applicable")
	decided := map[string]bool{}
	for i, item := range f.list("acceptance") {
		entry, _ := item.(map[string]any)
		status, _ := entry["status"].(string)
		undecided := slices.Contains([]string{"", "pending", "undecided", "unknown"}, status)
		f.must(!undecided, fmt.Sprintf("acceptance[%d] with status %.40q", i, status), "a decision")
		decided[acceptanceID(item, i)] = true
	}
	if t := f.tasks[f.IDs[Task]]; t != nil {
		for _, id := range t.acceptance {
			f.must(decided[id], fmt.Sprintf("no acceptance of %.80s", id), "a decision about each item of the task")
		}
	}
}

// acceptanceID names an item of a task's acceptance: its id, or its place when it has none.
func acceptanceID(item any, place int) string {
	entry, _ := item.(map[string]any)
	id, _ := entry["id"].(string)
	return cmp.Or(id, fmt.Sprintf("item %d", place+1))
}

func checkChildren(f *finding) {
	if t := f.tasks[f.IDs[Task]]; t != nil {
		f.must(len(t.children) == 0 || f.field("detached_children") == true,
			fmt.Sprintf("%d running children", len(t.children)), "their end, or detached")
	}
}
