// Package memory derives what an agent's runtime remembers from what its turns left in the ledger: a snapshot of what
// the agent works on, the difference that its conversation does not know yet, and episodes, which are stretches of
// turns on one thing.
//
//	Evidence ─▶ Remember ─▶ ledger.Memory (snapshot, pending delta, the episode that goes on)
//	                    └─▶ ledger.Episode that came to a boundary
//
// The invariants: everything is bounded, however long the agent lives; revisions and numbers of episodes have no gap;
// each turn is in exactly one episode, or in the one that goes on. The functions have neither clock nor disk, ask no
// model, and give the same for the same evidence. What they keep is words of models and of the outside, cut to lines
// that no terminal acts on: a reader shows it as data, never as an instruction.
package memory

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"holon/internal/visible"
	"holon/runner/agent/rules"
	"holon/state/ledger"
)

// Bounds of what is kept, in bytes of a text and entries of a list.
const (
	maxObjective = 500
	maxEntry     = 200
	maxTodos     = 20
	maxFiles     = 12
	maxCommands  = 8
	maxDecisions = 6
	maxOthers    = 8 // of every other list
)

// Evidence is what the ledger has of an agent when a turn has settled.
type Evidence struct {
	Now      time.Time
	Turn     ledger.Turn
	Message  int64        // number of the message that the turn was for
	Rejoined bool         // the message brought the result of a task
	Child    *ledger.Task // of the child that the task was; nil: it was none
	Resumed  bool         // the message ended a wait

	Work  *ledger.WorkItem // the current item; nil: none
	Item  *ledger.WorkItem // of the turn: the current one when it began, or else Work
	Waits []ledger.Wait    // that are not resolved
	Tasks []ledger.Task    // that have not ended
	// Followups are the texts of messages that the agent queued for itself.
	Followups []string
	Scope     []string // where the agent works
	Waiting   bool     // the agent rests, and waits for something
	Calls     Calls    // of the turn

	EpisodeID string // of the episode that begins with the turn, if one does
}

// Remember returns a memory after a turn, and the episodes that the turn brought to their end, none or a few.
func Remember(m ledger.Memory, e Evidence) (ledger.Memory, []ledger.Episode) {
	now := snapshot(Within(m, e.Turn.WorkspaceID).Current, e)
	before := m.Current
	m.Current, m.WorkspaceID = now, e.Turn.WorkspaceID
	changed := len(diff(before, now)) > 0
	if changed {
		m.Revision++
	}
	if changed || m.Pending == nil {
		m.Pending = pending(m, e.Turn.Index, reason(before, now, e))
	}
	return remember(m, e)
}

// pending is what the conversation does not know of a memory, nil for nothing.
func pending(m ledger.Memory, turn int64, why ledger.MemoryReason) *ledger.MemoryDelta {
	unknown := diff(m.Known, m.Current)
	if len(unknown) == 0 {
		return nil
	}
	d := &ledger.MemoryDelta{From: m.LastPrompted, To: m.Revision, Turn: turn, Reason: why}
	d.ChangedFields, d.SummaryLines = split(unknown)
	return d
}

// Shown returns a memory after a turn whose prompt had a revision of it, if the turn became part of the conversation.
// Current is what the prompt had: all of it, or in a conversation that began with the turn that of Within.
func Shown(m ledger.Memory, revision int64, current ledger.MemorySnapshot) ledger.Memory {
	if revision == m.Revision && revision > 0 {
		m.LastPrompted, m.Known, m.Pending = revision, current, nil
	}
	return m
}

// Within returns a memory as a conversation that begins in a workspace is shown it: without what belongs to another
// one.
func Within(m ledger.Memory, workspaceID string) ledger.Memory {
	if !visibleIn(m.WorkspaceID, workspaceID) {
		m.Current.ScopeHints, m.Current.WorkingSetFiles, m.Current.RecentDecisions = nil, nil, nil
	}
	return m
}

// visibleIn reports whether what belongs to one workspace may be shown in another one. What the agent did at home is
// its own wherever it works.
func visibleIn(of, workspaceID string) bool { return of == workspaceID || of == ledger.HomeWorkspace }

// Earlier are the turns that a conversation which begins in a workspace may be shown.
func Earlier(list []ledger.Turn, workspaceID string) []ledger.Turn {
	return slices.DeleteFunc(list, func(t ledger.Turn) bool { return !visibleIn(t.WorkspaceID, workspaceID) })
}

// Forgotten returns a memory of which the conversation may have lost with a turn what it was shown: all of it is
// pending.
func Forgotten(m ledger.Memory, turn int64) ledger.Memory {
	m.LastPrompted, m.Known, m.CuratedShown = 0, ledger.MemorySnapshot{}, nil
	m.Pending = pending(m, turn, ledger.MemoryTurnCompleted)
	return m
}

// snapshot is what the agent works on after a turn. Only files and decisions have a past: they are of the current item.
func snapshot(before ledger.MemorySnapshot, e Evidence) ledger.MemorySnapshot {
	s := ledger.MemorySnapshot{ScopeHints: bounded(e.Scope, maxOthers), Todo: []ledger.Todo{},
		WaitingOn: waitingOn(e), PendingFollowups: bounded(e.Followups, maxOthers)}
	if w := e.Work; w != nil {
		s.WorkItemID, s.Objective = w.ID, visible.OneLine(w.Objective, maxObjective)
		s.WorkSummary, s.Plan = workSummary(*w, e.Waits), plan(*w)
		for _, t := range w.Todo[:min(len(w.Todo), maxTodos)] {
			s.Todo = append(s.Todo, ledger.Todo{Text: visible.OneLine(t.Text, maxEntry), State: t.State})
		}
	}
	files := before.WorkingSetFiles
	if s.WorkItemID != before.WorkItemID && s.WorkItemID != "" {
		files = nil
	}
	s.WorkingSetFiles = join(files, e.Calls.Files, maxFiles)
	s.RecentDecisions = join(before.RecentDecisions, decisions(e), maxDecisions)
	return s
}

// workSummary says how far an item is.
func workSummary(w ledger.WorkItem, waits []ledger.Wait) string {
	done := 0
	for _, t := range w.Todo {
		if t.State == ledger.TodoCompleted {
			done++
		}
	}
	text := string(rules.Scheduling(w, waits))
	if len(w.Todo) > 0 {
		text += fmt.Sprintf(", %d of %d steps completed", done, len(w.Todo))
	}
	return text
}

// plan names the plan of an item and its content, so that a plan that changed is a change.
func plan(w ledger.WorkItem) string {
	if w.PlanHash == "" {
		return string(w.PlanStatus)
	}
	return fmt.Sprintf("%s, work-items/%s/plan.md with SHA-256 %.12s…", w.PlanStatus, w.ID, w.PlanHash)
}

// decisions are what the turn came to, in a line each: the agent's answer, and before it the result of a child.
func decisions(e Evidence) (list []string) {
	if t := e.Child; t != nil {
		said := t.Result.Summary
		if t.Result.Output != nil {
			said = cmp.Or(t.Result.Output.OutputPreview, said)
		}
		list = append(list, fmt.Sprintf("result of the child %s: %s", t.Child().AgentID, rules.Summary(said)))
	}
	if last := rules.Summary(e.Turn.Last); last != "" && e.Turn.Kind == ledger.TurnCompleted {
		list = append(list, last)
	}
	return list
}

func waitingOn(e Evidence) []string {
	var list []string
	if e.Work != nil && e.Work.BlockedBy != "" {
		list = append(list, "blocked by: "+e.Work.BlockedBy)
	}
	for _, w := range e.Waits {
		list = append(list, fmt.Sprintf("%s: %s", w.Kind, w.WaitingFor))
	}
	for _, t := range e.Tasks {
		list = append(list, fmt.Sprintf("%s: %s", t.ID, cmp.Or(t.Purpose, t.Command().CmdPreview, t.Result.Summary)))
	}
	return bounded(list, maxOthers)
}

// reason is why a memory changed.
func reason(before, now ledger.MemorySnapshot, e Evidence) ledger.MemoryReason {
	switch {
	case before.WorkItemID != now.WorkItemID:
		return ledger.MemoryWorkChanged
	case !slices.Equal(before.ScopeHints, now.ScopeHints) && len(before.ScopeHints) > 0:
		return ledger.MemoryScopeChanged
	case e.Rejoined:
		return ledger.MemoryTaskRejoined
	case e.Resumed:
		return ledger.MemoryWakeResumed
	}
	return ledger.MemoryTurnCompleted
}

// bounded are the first entries of a list as they are kept.
func bounded(list []string, most int) []string {
	kept := []string{}
	for _, text := range list[:min(len(list), most)] {
		kept = append(kept, visible.OneLine(text, maxEntry))
	}
	return kept
}

// join adds entries at the end of a list: each stands in it once, in its newest place, and the newest are kept.
func join(list, more []string, most int) []string {
	kept := append([]string{}, list...)
	for _, text := range more {
		if text = visible.OneLine(text, maxEntry); text == "" {
			continue
		}
		kept = append(slices.DeleteFunc(kept, func(old string) bool { return old == text }), text)
	}
	return kept[max(0, len(kept)-most):]
}
