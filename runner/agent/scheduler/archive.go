package scheduler

import (
	"context"
	"slices"

	"holon/runner/agent/record"
	"holon/state"
	"holon/state/ledger"
)

// Archive removes an agent for good: what waits in its queue is dropped, its timers and its wait are cancelled, its
// triggers are revoked, and a turn that runs is aborted, which needs Force. Its records stay, and its id is never
// another agent's. A dry run reports what would go and changes nothing. Errors: CodeDefaultAgent, CodeAgentBusy,
// CodeAgentArchived, ledger.CodeNotFound.
func (m *Scheduler) Archive(ctx context.Context, r Archive) (Losses, error) {
	var lost Losses
	err := m.step(ctx, r.AgentID, func(s *step) error {
		a := s.agentRow()
		switch {
		case a.ArchivedAt != nil:
			return Archived(s.state.AgentID)
		case a.Kind == ledger.KindDefault:
			return refused(CodeDefaultAgent, "agent_id", "", "agent %s is the default one and stays", a.ID)
		}
		attempt, runs := s.openAttempt()
		if runs && !r.DryRun && !r.Force {
			return refused(CodeAgentBusy, "agent_id", "wait for its end, or end it too with --force",
				"a turn of agent %s runs", a.ID)
		}
		apply := !r.DryRun
		if runs {
			lost.RunID = attempt.TurnID
		}
		if apply {
			s.emit(record.ControlApplied, ledger.Event{Class: "session.updated", Status: "archived"},
				fields{"action": "archive", "by": clip(r.By)})
		}
		if runs && apply {
			s.abort(attempt, Abort{By: r.By})
		}
		s.release(&lost, clip("the agent was removed by "+r.By), apply)
		if !apply {
			return nil
		}
		s.state.Stopped, s.state.PendingWake = true, nil
		a.ArchivedAt, a.UpdatedAt = &s.now, s.now
		s.emitAgentState("archived", r.By)
		s.update(&a)
		s.cancelChildren(r.By)
		return nil
	})
	return lost, err
}

// release counts what an agent holds, and gives it up if that is to be applied.
func (s *step) release(lost *Losses, reason string, apply bool) {
	id := s.state.AgentID
	queued, waits := newest(s, ledger.View.Queued, s.m.opts.MaxQueued+maxTimers), s.waits()
	timers := slices.DeleteFunc(newest(s, ledger.View.Timers, allTimers), func(t ledger.Timer) bool {
		return t.Status != ledger.TimerActive
	})
	triggers := s.activeTriggers()
	lost.QueuedMessages, lost.Waits, lost.Timers = len(queued), len(waits), len(timers)
	lost.WorkItems = len(read(s, ledger.View.OpenWork, id))
	lost.Tasks = read(s, ledger.View.CountOpenTasks, id)
	lost.Triggers = len(triggers)
	s.countBelow(lost, id)
	if !apply {
		return
	}
	for _, w := range waits {
		s.cancelWait(w, reason)
	}
	for _, e := range queued {
		s.dispose(e, ledger.Dropped, reason)
	}
	for _, t := range timers {
		s.cancelTimer(&t)
	}
	for _, t := range triggers {
		s.revoke(&t)
	}
	for _, b := range s.activeBindings(id) {
		s.revokeBinding(&b)
	}
}

// countBelow counts the trees of an agent, and its children and theirs.
func (s *step) countBelow(lost *Losses, id string) {
	for _, t := range read(s, ledger.View.Trees, id) {
		if t.Status == ledger.TreeActive || len(t.Held) > 0 {
			lost.Trees++
		}
	}
	all := read(s, func(v ledger.View, id string) ([]ledger.Task, error) { return v.Tasks(id, 0) }, id)
	for _, t := range all {
		c := t.Child()
		if c == nil {
			continue
		}
		if !t.Status.Terminal() {
			lost.Children++
		}
		s.countBelow(lost, c.AgentID)
	}
}

// allTimers is more than an agent has timers, ended ones included.
const allTimers = 1 << 30

// Removed reports whether an agent was removed. One that the ledger does not know was not.
func (m *Scheduler) Removed(ctx context.Context, agentID string) (bool, error) {
	a, err := ledger.Read(ctx, m.store, func(v ledger.View) (ledger.Agent, error) { return v.Agent(agentID) })
	if state.IsCode(err, ledger.CodeNotFound) {
		err = nil
	}
	return a.ArchivedAt != nil, err
}

// Archived is the error of what an agent that was removed cannot do any more.
func Archived(agentID string) error {
	return refused(CodeAgentArchived, "agent_id", "make another one: holon agent create ID",
		"agent %s was removed; its id is not used again", agentID)
}

// liveStep makes a step of an agent that was not removed.
func (m *Scheduler) liveStep(ctx context.Context, agentID string, fn func(*step) error) error {
	return m.step(ctx, agentID, func(s *step) error {
		if err := s.checkLive(); err != nil {
			return err
		}
		return fn(s)
	})
}

// checkLive refuses what an agent that was removed may not get.
func (s *step) checkLive() error {
	if s.agentRow().ArchivedAt != nil {
		return Archived(s.state.AgentID)
	}
	return nil
}
