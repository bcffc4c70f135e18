package agentruntime

import (
	"fmt"
	"slices"
	"strings"
)

// pairs are the classes that open, use or close a thing of the families, as far as that can be wrong.
func pairs(names ...string) (classes []string) {
	for _, f := range families {
		if !slices.Contains(names, f.Name) {
			continue
		}
		classes = slices.Concat(classes, f.Use, f.Close)
		if opensOnce[f.Name] {
			classes = append(classes, f.Open)
		}
	}
	return classes
}

// turnWork are the classes, by prefix, of the work of a turn.
var turnWork = []string{"model.", "reasoning.", "tool.", "permission.", "sandbox.", "context."}

// opensOnce are the families that do not open again while they are open, which V12 says of tool calls. But for actions,
// which may be asked for again, their ids name one thing each.
var opensOnce = map[string]bool{"tool call": true, "action": true, "process": true, "model request": true}

func checkPair(f *finding) {
	family, _ := FamilyOf(f.Type)
	key := family.key(f.Event)
	if f.Type == family.Open {
		open := f.open[key] != nil && family.Name != "tool call"
		ended := f.closed.set[key] && family.Name != "action"
		f.must(!open && !ended, "a second "+f.Type+" of a "+key, "an id of its own")
		return
	}
	// in a part of a log it may have been opened before, but not within a turn that began later, unless it outlives
	// turns, as actions do and the processes of tasks
	outlives := family.Name == "action" || family.Name == "process" && f.IDs[Task] != ""
	earlier := f.partial && (f.turnOf(f.Event) == nil || outlives)
	if f.open[key] != nil || (f.closed.full || earlier) && !f.closed.set[key] {
		return
	}
	got := f.Type + " of a " + key + " that was not opened"
	if f.closed.set[key] {
		got = f.Type + " of a " + key + " that has ended"
	}
	f.report(got, family.Open+" before it")
}

func checkTurn(f *finding) {
	checkPair(f)
	if turn := f.turnOf(f.Event); turn != nil && f.Type == "turn.started" {
		attempt, _ := f.number("attempt")
		starts := turn.seen[f.Type]
		f.must(starts == 0 || attempt > float64(starts), "a second turn.started of "+turn.id, "one for each attempt")
	}
}

func checkReopened(f *finding) {
	f.must(f.objectOf(f.Event) == nil, "a second "+f.Type+" of "+f.IDs[ToolCall], "its end first")
}

func checkOpenAtEnd(f *finding) {
	for _, id := range f.list("open_action_ids") {
		id, _ := id.(string)
		key := "action " + id
		f.must(f.open[key] != nil || f.external(id) || f.partial && !f.closed.set[key],
			fmt.Sprintf("open_action_ids has %.80q, which is not open", id), "action.required before it")
	}
	turn := f.turnOf(f.Event)
	if turn == nil {
		return
	}
	var left []string
	for part := range turn.parts {
		if part.family.Name != "action" || !slices.Contains(f.list("open_action_ids"), any(part.id)) {
			left = append(left, part.family.Name+" "+part.id)
		}
	}
	slices.Sort(left)
	f.must(len(left) == 0, "open: "+strings.Join(left, ", "), "everything of "+turn.id+" closed")
}

func checkAfterEnd(f *finding) {
	if id := f.IDs[Turn]; id != "" {
		f.must(!f.closed.set["turn "+id], f.Type+" after the end of "+id, "no work of it")
	}
}

func checkSubmitted(f *finding) {
	id := f.IDs[Turn]
	if id == "" || f.Type == "queue.changed" {
		return
	}
	if f.Type == "turn.submitted" {
		f.must(f.turnOf(f.Event) == nil && !f.closed.set["turn "+id], "a second turn.submitted of "+id, "one")
		return
	}
	turn := f.turnOf(f.Event)
	f.must(turn != nil || f.mayHaveEnded("turn "+id), fmt.Sprintf("%s of %s", f.Type, id), "turn.submitted before it")
	if f.Type == "model.requested" || f.Type == "turn.completed" {
		f.must(turn == nil || turn.seen["turn.started"] > 0, fmt.Sprintf("%s of %s, which has not started", f.Type, id),
			"turn.started before it")
	}
}
