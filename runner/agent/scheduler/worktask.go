package scheduler

import (
	"holon/runner/agent/rules"
	"holon/state/ledger"
)

// sourceSleep is the source of a rest that an agent asked for.
const sourceSleep = "Sleep"

// awaitTasks has the current work item wait when the agent rests until something happens: for what comes through the
// external trigger if the agent rests for that, else for tasks: those of the item, and those of no item that it started
// in the turn in which it called Sleep. Other items may go on meanwhile. Called again, it adds the tasks that are new.
func (s *step) awaitTasks() {
	rest := s.agentWait()
	if rest == nil || rest.Source != sourceSleep || s.state.CurrentWork == "" ||
		rest.Kind != ledger.WaitSystem && rest.Kind != ledger.WaitExternal {
		return
	}
	a, ok := find(s, ledger.View.Attempt, rest.Registered)
	if !ok || a.Status == ledger.AttemptOpen {
		return
	}
	if has, ok := s.waitOf(s.state.CurrentWork); ok && has.Kind == ledger.WaitExternal && has.Status == ledger.WaitActive {
		return // it waits for that still
	}
	w := s.itemWait(*rest, a)
	old, again := find(s, ledger.View.Wait, w.ID)
	if len(w.Wakes) == 0 || again && (old.Status != ledger.WaitActive || len(old.Wakes) >= len(w.Wakes)) {
		return
	}
	s.register(w, a.TurnID, again)
}

// itemWait is the wait of the current work item while the agent rests, as it asked for in an attempt.
func (s *step) itemWait(rest ledger.Wait, a ledger.Attempt) ledger.Wait {
	w := ledger.Wait{ID: derivedID(prefixWait, a.ID, s.state.CurrentWork), AgentID: a.AgentID,
		Owner: s.state.CurrentWork, Status: ledger.WaitActive, Kind: ledger.WaitTask, Source: sourceSleep,
		WaitingFor: rest.WaitingFor, Registered: a.ID, CreatedAt: s.now, UpdatedAt: s.now}
	if rest.Kind == ledger.WaitExternal {
		w.Kind, w.SubjectRef = rest.Kind, rest.SubjectRef
		w.Wakes = []ledger.WakeSource{{Kind: rules.WakeExternal, ExternalTriggerID: rest.SubjectRef}}
		return w
	}
	for _, t := range read(s, ledger.View.OpenTasks, a.AgentID) {
		if rules.WaitsFor(t, w.Owner, a.TurnID) {
			w.SubjectRef = t.ID
			w.Wakes = append(w.Wakes, ledger.WakeSource{Kind: rules.WakeTaskResult, TaskID: t.ID})
		}
	}
	return w
}

// endItemWait gives up what a work item waits for.
func (s *step) endItemWait(itemID, reason string) {
	if w, ok := s.waitOf(itemID); ok && w.Status == ledger.WaitActive {
		s.cancelWait(w, reason)
	}
}

// unblocked gives up that an item waits for something outside if a change says that nothing blocks it any more.
func (s *step) unblocked(w ledger.WorkItem, c WorkChange) bool {
	wait, ok := s.waitOf(w.ID)
	if !ok || wait.Kind != ledger.WaitExternal || c.BlockedBy == nil || *c.BlockedBy != "" {
		return false
	}
	s.cancelWait(wait, "nothing blocks its work item any more")
	return true
}
