package scheduler

import (
	"context"

	"holon/runner/agent/record"
	"holon/state"
	"holon/state/ledger"
)

// Archive removes an agent for good: what waits in its queue is dropped, its timers and its wait are cancelled, its
// triggers are revoked, and a turn that runs is aborted, which needs Force. Its records stay, and its id is never
// another agent's. A dry run tells what would go and changes nothing. Errors: CodeDefaultAgent, CodeAgentBusy,
// CodeAgentArchived, ledger.CodeNotFound.
func (m *Scheduler) Archive(ctx context.Context, r Archive) (Losses, error) {
	var lost Losses
	err := m.step(ctx, r.AgentID, func(s *step) error {
		a, err := s.Agent(r.AgentID)
		if err != nil {
			return err
		}
		switch {
		case a.ArchivedAt != nil:
			return s.archived()
		case a.Kind == ledger.KindDefault:
			return refused(CodeDefaultAgent, "agent_id", "", "agent %s is the default one and stays", a.ID)
		}
		attempt, runs, err := s.OpenAttempt(a.ID)
		if err != nil {
			return err
		}
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
				facts{"action": "archive", "by": clip(r.By)})
		}
		if runs && apply {
			if _, err := s.abort(attempt, Abort{By: r.By}); err != nil {
				return err
			}
		}
		if err := s.release(&lost, "the agent was removed by "+r.By, apply); err != nil || !apply {
			return err
		}
		s.state.Stopped, s.state.PendingWake = true, nil
		a.ArchivedAt, a.UpdatedAt = &s.now, s.now
		if err := s.emitAgentState("archived", r.By); err != nil {
			return err
		}
		return s.Update(&a)
	})
	return lost, err
}

// release counts what an agent holds, and gives it up if that is to be applied.
func (s *step) release(lost *Losses, reason string, apply bool) error {
	id := s.state.AgentID
	queued, err := s.Queued(id, s.m.opts.MaxQueued+maxTimers)
	if err != nil {
		return err
	}
	lost.QueuedMessages = len(queued)
	open, err := s.OpenWork(id)
	if err != nil {
		return err
	}
	lost.WorkItems = len(open)
	if lost.Tasks, err = s.CountOpenTasks(id); err != nil {
		return err
	}
	waits, err := s.UnresolvedWaits(id)
	lost.Waits = len(waits)
	for _, w := range waits {
		if apply && err == nil {
			err = s.cancelWait(w, clip(reason))
		}
	}
	for _, e := range queued {
		if apply && err == nil {
			err = s.dispose(e, ledger.Dropped, clip(reason))
		}
	}
	if err != nil {
		return err
	}
	if err := s.releaseTimers(lost, apply); err != nil {
		return err
	}
	t, ok, err := s.activeTrigger()
	if ok {
		lost.Triggers = 1
	}
	if ok && apply {
		err = s.revoke(&t)
	}
	return err
}

func (s *step) releaseTimers(lost *Losses, apply bool) error {
	timers, err := s.Timers(s.state.AgentID, allTimers)
	if err != nil {
		return err
	}
	for _, t := range timers {
		if t.Status != ledger.TimerActive {
			continue
		}
		if lost.Timers++; apply {
			if err := s.cancelTimer(&t); err != nil {
				return err
			}
		}
	}
	return nil
}

// allTimers is more than an agent has timers, ended ones included.
const allTimers = 1 << 30

// Removed reports whether an agent was removed. One that the ledger does not know was not.
func (m *Scheduler) Removed(ctx context.Context, agentID string) (removed bool, err error) {
	err = m.store.View(ctx, func(v ledger.View) error {
		a, err := v.Agent(agentID)
		removed = a.ArchivedAt != nil
		return err
	})
	if state.IsCode(err, ledger.CodeNotFound) {
		err = nil
	}
	return removed, err
}

// Archived is the error of what an agent that was removed cannot do any more.
func Archived(agentID string) error {
	return refused(CodeAgentArchived, "agent_id", "make another one: holon agent create ID",
		"agent %s was removed; its id is not used again", agentID)
}

func (s *step) archived() error { return Archived(s.state.AgentID) }

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
	a, err := s.Agent(s.state.AgentID)
	if err == nil && a.ArchivedAt != nil {
		err = s.archived()
	}
	return err
}
