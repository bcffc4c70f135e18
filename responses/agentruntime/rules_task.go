package agentruntime

import (
	"cmp"
	"fmt"
	"slices"
)

func checkTransition(f *finding) {
	t, to := f.tasks[f.IDs[Task]], f.TaskStatus()
	if f.Type == "task.updated" || f.Type == "task.progress" {
		same := t == nil || t.status == "" || f.Status == "" || f.Status == t.status
		f.must(same, fmt.Sprintf("%s with status %.40q", f.Type, f.Status),
			"the status of the task, which it does not change")
	}
	f.must(!f.closed.set["task "+f.IDs[Task]] || to == "", "archived to "+to, "no status after it")
	if t != nil && to != "" && !f.external(f.IDs[Task]) {
		f.must(taskMay(t.status, to), fmt.Sprintf("%s to %s", t.status, to), "a transition of the table")
	}
}

func checkRun(f *finding) {
	t, run := f.tasks[f.IDs[Task]], f.IDs[Run]
	if t == nil {
		return
	}
	again := slices.Contains(t.tried, run) || f.Type == "task.attempt.started" && slices.Contains(t.runs, run)
	f.must(!again, "run_id "+run+" again", "a run_id of its own")
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
