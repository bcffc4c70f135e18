package scheduler

import (
	"holon/runner/agent/rules"
	"holon/state"
	"holon/state/ledger"
)

// sourceSleep is the source of a rest that an agent asked for.
const sourceSleep = "Sleep"

// awaitTasks has the current work item wait when the agent rests until something happens: for what comes through the
// external trigger if the agent rests for that, else for tasks: those of the item, and those of no item that it started
// in the turn in which it said so. Other items may go on meanwhile. Called again, it adds the tasks that are new.
func (s *step) awaitTasks() error {
	rest, err := s.agentWait()
	if err != nil || rest == nil || rest.Source != sourceSleep || s.state.CurrentWork == "" ||
		rest.Kind != ledger.WaitSystem && rest.Kind != ledger.WaitExternal {
		return err
	}
	a, err := s.Attempt(rest.Registered)
	if state.IsCode(err, ledger.CodeNotFound) || err == nil && a.Status == ledger.AttemptOpen {
		return nil
	}
	if err != nil {
		return err
	}
	if has, ok, err := s.UnresolvedWait(a.AgentID, s.state.CurrentWork); err != nil ||
		ok && has.Kind == ledger.WaitExternal && has.Status == ledger.WaitActive {
		return err // it waits for that still
	}
	open, err := s.OpenTasks(a.AgentID)
	if err != nil {
		return err
	}
	w := ledger.Wait{ID: derivedID(prefixWait, a.ID, s.state.CurrentWork), AgentID: a.AgentID,
		Owner: s.state.CurrentWork, Status: ledger.WaitActive, Kind: ledger.WaitTask, Source: sourceSleep,
		WaitingFor: rest.WaitingFor, Registered: a.ID, CreatedAt: s.now, UpdatedAt: s.now}
	if rest.Kind == ledger.WaitExternal {
		w.Kind, w.SubjectRef, open = rest.Kind, rest.SubjectRef, nil
		w.Wakes = []ledger.WakeSource{{Kind: rules.WakeExternal, ExternalTriggerID: rest.SubjectRef}}
	}
	for _, t := range open {
		if rules.WaitsFor(t, w.Owner, a.TurnID) {
			w.SubjectRef = t.ID
			w.Wakes = append(w.Wakes, ledger.WakeSource{Kind: rules.WakeTaskResult, TaskID: t.ID})
		}
	}
	old, err := s.Wait(w.ID)
	known := err == nil
	switch {
	case !known && !state.IsCode(err, ledger.CodeNotFound):
		return err
	case len(w.Wakes) == 0, known && (old.Status != ledger.WaitActive || len(old.Wakes) >= len(w.Wakes)):
		return nil
	}
	_, err = s.register(w, a.TurnID, known)
	return err
}

// endItemWait gives up what a work item waits for.
func (s *step) endItemWait(itemID, reason string) error {
	w, ok, err := s.UnresolvedWait(s.state.AgentID, itemID)
	if err != nil || !ok || w.Status != ledger.WaitActive {
		return err
	}
	return s.cancelWait(w, reason)
}

// unblocked gives up that an item waits for something outside if a change says that nothing blocks it any more.
func (s *step) unblocked(w ledger.WorkItem, c WorkChange) (bool, error) {
	wait, ok, err := s.UnresolvedWait(w.AgentID, w.ID)
	if err != nil || !ok || wait.Kind != ledger.WaitExternal || c.BlockedBy == nil || *c.BlockedBy != "" {
		return false, err
	}
	return true, s.cancelWait(wait, "nothing blocks its work item any more")
}
