package memory

import (
	"fmt"
	"slices"
	"strings"

	"holon/internal/visible"
	"holon/state/ledger"
)

// maxLine bounds a summary line, in bytes: all of them fit into an event, also where each character has to be escaped.
const maxLine = 320

// change is a field of a snapshot that changed, and the line that says how.
type change struct{ field, line string }

// Lines are the summary lines of all that a snapshot holds.
func Lines(s ledger.MemorySnapshot) []string {
	_, lines := split(diff(ledger.MemorySnapshot{}, s))
	return lines
}

func split(changes []change) (fields, lines []string) {
	for _, c := range changes {
		fields, lines = append(fields, c.field), append(lines, c.line)
	}
	return fields, lines
}

// diff lists the fields that changed, in the order of a snapshot.
func diff(a, b ledger.MemorySnapshot) (changes []change) {
	add := func(field, said string) {
		changes = append(changes, change{field, visible.OneLine(field+": "+said, maxLine)})
	}
	text := func(field, before, now string) {
		switch {
		case before == now:
		case now == "":
			add(field, "none")
		default:
			add(field, now)
		}
	}
	list := func(field string, before, now []string) {
		if !slices.Equal(before, now) {
			add(field, listed(before, now))
		}
	}
	text("current_work_item_id", a.WorkItemID, b.WorkItemID)
	text("objective", a.Objective, b.Objective)
	text("work_summary", a.WorkSummary, b.WorkSummary)
	list("scope_hints", a.ScopeHints, b.ScopeHints)
	text("plan", a.Plan, b.Plan)
	list("todo_list", todos(a.Todo), todos(b.Todo))
	list("working_set_files", a.WorkingSetFiles, b.WorkingSetFiles)
	list("recent_decisions", a.RecentDecisions, b.RecentDecisions)
	list("pending_followups", a.PendingFollowups, b.PendingFollowups)
	list("waiting_on", a.WaitingOn, b.WaitingOn)
	return changes
}

func todos(list []ledger.Todo) (texts []string) {
	for _, t := range list {
		texts = append(texts, string(t.State)+" "+t.Text)
	}
	return texts
}

// listed says how a list changed: all of a new one, and of another what came and what went.
func listed(before, now []string) string {
	added := without(now, before)
	switch {
	case len(now) == 0:
		return "none"
	case len(before) == 0:
		return quoted(now)
	}
	var parts []string
	if len(added) > 0 {
		parts = append(parts, "added "+quoted(added))
	}
	if gone := without(before, now); len(gone) > 0 {
		parts = append(parts, "gone "+quoted(gone))
	}
	if len(parts) == 0 {
		return "in the order " + quoted(now)
	}
	return strings.Join(parts, "; ")
}

func without(list, other []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return slices.Contains(other, s) })
}

func quoted(list []string) string {
	texts := make([]string, len(list))
	for i, s := range list {
		texts[i] = fmt.Sprintf("%q", s)
	}
	return strings.Join(texts, ", ")
}
