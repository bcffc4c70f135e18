package agentruntime

import (
	"fmt"
	"slices"
	"strings"
)

func lifecycleRules() []Rule {
	pair := func(number int, statement string, families ...string) Rule {
		r := Rule{Number: number, Statement: statement, check: checkPair}
		for _, f := range Families {
			if !slices.Contains(families, f.Name) {
				continue
			}
			r.On = slices.Concat(r.On, f.Use, f.Close)
			if opensOnce[f.Name] {
				r.On = append(r.On, f.Open)
			}
		}
		return r
	}
	ends := []string{"turn.completed", "turn.failed"}
	turn := pair(18, "A turn starts once, again only as a later attempt, and has exactly one terminal event.", "turn")
	turn.check = checkTurn
	return []Rule{
		pair(11, "tool.result or tool.failed, exactly one of them, follows tool.started.", "tool call"),
		{Number: 12, On: []string{"tool.started"}, check: checkReopened,
			Statement: "tool.started does not name a call that is open."},
		pair(13, "action.resolved closes an open action, once.", "action"),
		pair(14, "Events of a process follow process.started, and exactly one ends it.", "process"),
		pair(15, "Every model request begins with model.requested and has exactly one end.", "model request"),
		{Number: 16, On: ends, check: checkOpenAtEnd,
			Statement: "When a turn ends nothing of it is open, except actions in open_action_ids, which are open, and attempts " +
				"at tasks."},
		{Number: 17, On: turnWork, check: checkAfterEnd,
			Statement: "After the end of a turn no event of its work names it."},
		turn,
		{Number: 19, check: checkSubmitted,
			Statement: "turn.submitted precedes every other event of the turn, and turn.started its requests to models and " +
				"its completion."},
		{Number: 20, Why: "holds by construction: nothing is demanded at the end of a log",
			Statement: "A prefix of a legal stream is legal."},
		pair(21, "Compactions, attempts and rollbacks open before they close.", "compaction", "attempt", "rollback"),
		{Number: 22, Why: "needs the boundaries of the batches",
			Statement: "A batch is committed whole or not at all."},
	}
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
	f.must(turn != nil || f.known("turn "+id), fmt.Sprintf("%s of %s", f.Type, id), "turn.submitted before it")
	if f.Type == "model.requested" || f.Type == "turn.completed" {
		f.must(turn == nil || turn.seen["turn.started"] > 0, fmt.Sprintf("%s of %s, which has not started", f.Type, id),
			"turn.started before it")
	}
}
