package memory

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"holon/internal/visible"
	"holon/state/ledger"
)

// Bounds of episodes.
const (
	maxTurns   = 24   // after which one ends in any case
	maxSummary = 1000 // bytes
)

// remember merges a turn into the episode that goes on. An episode of another work item, or of another workspace, whose
// searches must not find it, ends before the turn; one whose
// item is completed, that waits, or that has enough turns ends with it.
func remember(m ledger.Memory, e Evidence) (ledger.Memory, []ledger.Episode) {
	var done []ledger.Episode
	if b := m.Builder; b != nil && (e.Item != nil && b.WorkItemID != e.Item.ID || b.WorkspaceID != e.Turn.WorkspaceID) {
		m, done = finalize(m, e, ledger.BoundaryWorkSwitched, done)
	}
	b := merge(m, e)
	m.Builder = &b
	switch {
	case e.Item != nil && e.Item.State == ledger.WorkCompleted:
		return finalize(m, e, ledger.BoundaryResult, done)
	case e.Waiting:
		return finalize(m, e, ledger.BoundaryWait, done)
	case b.EndTurn-b.StartTurn+1 >= maxTurns:
		return finalize(m, e, ledger.BoundaryHardCap, done)
	}
	return m, done
}

// merge is the episode that goes on with a turn, a new one if none did.
func merge(m ledger.Memory, e Evidence) ledger.Episode {
	b := ledger.Episode{ID: e.EpisodeID, AgentID: m.AgentID, CreatedAt: e.Now, StartTurn: e.Turn.Index,
		StartMessage: e.Message}
	if m.Builder != nil {
		b = *m.Builder
	}
	b.EndTurn, b.EndMessage, b.WorkspaceID = e.Turn.Index, max(b.EndMessage, e.Message), e.Turn.WorkspaceID
	if w := e.Item; w != nil {
		b.WorkItemID, b.Objective = w.ID, visible.OneLine(w.Objective, maxObjective)
		b.WorkSummary = workSummary(*w, e.Waits)
	}
	b.ScopeHints = join(b.ScopeHints, m.Current.ScopeHints, maxOthers)
	b.WorkingSetFiles = join(b.WorkingSetFiles, e.Calls.Files, maxFiles)
	b.Commands = join(b.Commands, e.Calls.Commands, maxCommands)
	b.Verification = join(b.Verification, e.Calls.Checks, maxCommands)
	b.Decisions = join(b.Decisions, decisions(e), maxDecisions)
	b.WaitingOn = m.Current.WaitingOn
	b.CarryForward = m.Current.PendingFollowups
	if w := e.Item; w != nil && w.State == ledger.WorkOpen {
		b.CarryForward = bounded(slices.Concat(left(*w), b.CarryForward), maxOthers)
	}
	return b
}

// left are the steps of an item that are not completed.
func left(w ledger.WorkItem) (texts []string) {
	for _, t := range w.Todo {
		if t.State != ledger.TodoCompleted {
			texts = append(texts, t.Text)
		}
	}
	return texts
}

// finalize ends the episode that goes on.
func finalize(m ledger.Memory, e Evidence, why ledger.Boundary, done []ledger.Episode) (ledger.Memory,
	[]ledger.Episode) {
	b := *m.Builder
	m.Archived++
	b.Number, b.FinalizedAt, b.Boundary = m.Archived, &e.Now, why
	b.Summary = summary(b)
	m.Builder = nil
	return m, append(done, b)
}

// summary tells an episode in one text.
func summary(b ledger.Episode) string {
	var parts []string
	add := func(name string, list []string) {
		if len(list) > 0 {
			parts = append(parts, name+" "+quoted(list))
		}
	}
	parts = append(parts, fmt.Sprintf("turns %d to %d", b.StartTurn, b.EndTurn))
	if b.WorkItemID != "" {
		parts = append(parts, fmt.Sprintf("%s %q, %s", b.WorkItemID, visible.OneLine(b.Objective, maxEntry), b.WorkSummary))
	}
	add("results", b.Decisions)
	add("waited for", b.WaitingOn)
	add("left", b.CarryForward)
	add("checks", b.Verification)
	add("files", b.WorkingSetFiles)
	add("commands", b.Commands)
	return visible.OneLine(strings.Join(parts, "; "), maxSummary)
}

// Candidates is how many of the newest episodes may be relevant, and maxRelevant how many are.
const (
	Candidates  = 12
	maxRelevant = 3
)

// Relevant are the episodes that a conversation which begins anew in a workspace is shown, the oldest first: of the
// newest that belong to the workspace or to the agent, those that have most in common with what the agent works on, and
// of equals the newest.
func Relevant(episodes []ledger.Episode, now ledger.MemorySnapshot, workspaceID string) []ledger.Episode {
	newest := slices.Clone(episodes[max(0, len(episodes)-Candidates):])
	score := func(e ledger.Episode) int { return common(e, now, workspaceID) }
	newest = slices.DeleteFunc(newest, func(e ledger.Episode) bool { return !visibleIn(e.WorkspaceID, workspaceID) })
	slices.SortFunc(newest, func(a, b ledger.Episode) int {
		return cmp.Or(cmp.Compare(score(b), score(a)), cmp.Compare(b.Number, a.Number))
	})
	newest = newest[:min(len(newest), maxRelevant)]
	slices.SortFunc(newest, func(a, b ledger.Episode) int { return cmp.Compare(a.Number, b.Number) })
	return newest
}

// common counts what an episode has in common with the present. The work item outweighs all else, and the workspace
// any few scope hints and files.
func common(e ledger.Episode, now ledger.MemorySnapshot, workspaceID string) (score int) {
	if e.WorkItemID != "" && e.WorkItemID == now.WorkItemID {
		score += 100
	}
	if e.WorkspaceID == workspaceID {
		score += 10
	}
	for _, list := range [][2][]string{{e.ScopeHints, now.ScopeHints}, {e.WorkingSetFiles, now.WorkingSetFiles}} {
		score += len(list[0]) - len(without(list[0], list[1]))
	}
	return score
}
