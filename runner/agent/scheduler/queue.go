package scheduler

import (
	"context"

	"holon/runner/agent/record"
	"holon/runner/agent/rules"
	"holon/state/ledger"
)

// Unblock lets an agent try again what is blocked: a setting may have changed.
func (m *Scheduler) Unblock(ctx context.Context, agentID string) error {
	return m.step(ctx, agentID, func(s *step) error {
		s.unblock(false)
		return nil
	})
}

// unblock lets an agent take what is blocked: kept is the results that waited until it may go on by itself, else what
// a setting kept from a turn.
func (s *step) unblock(kept bool) {
	for _, e := range read(s, ledger.View.BlockedEntries, s.state.AgentID) {
		if kept != (e.Code == rules.CodeStalled) {
			continue
		}
		e.NotBefore, e.Failed, e.Reason, e.Code, e.UpdatedAt = nil, 0, "", "", s.now
		s.emitQueue(record.QueueEntryUnblocked, "promote", e, ledger.Event{Status: "queued"}, fields{})
		s.update(&e)
	}
}

// fresh begins the count of progress anew, and lets the agent take what it kept.
func (s *step) fresh() {
	s.settleMatter(ledger.NoticeStopped, s.state.AgentID)
	s.state.Progress, s.state.WorkHeld = rules.Fresh(s.state.Progress), ""
	s.unblock(true)
}

// keep leaves the result of a task in the queue until a message of another sender lets its agent go on.
func (s *step) keep(e ledger.Entry) {
	e.Block()
	e.Code, e.Reason, e.UpdatedAt = rules.CodeStalled,
		"the agent went on by itself for too long; it takes this after the next message of another sender", s.now
	s.emitQueue(record.QueueEntryBlocked, "promote", e, ledger.Event{Class: "queue.changed", Status: "queued"},
		fields{"code": e.Code, "summary": e.Reason})
	s.update(&e)
}

// Remove takes a message out of the queue of its agent. A wait that it was to end is over with it. Errors: CodeNotFound
// for a message of another agent, CodeNotQueued when its turn runs or it has ended.
func (m *Scheduler) Remove(ctx context.Context, agentID, messageID, by string) (ledger.Entry, error) {
	var e ledger.Entry
	err := m.liveStep(ctx, agentID, func(s *step) error {
		var err error
		if e, err = s.queued(messageID); err != nil {
			return err
		}
		s.dispose(e, ledger.Dropped, clip("removed by "+by))
		e = read(s, ledger.View.Entry, messageID)
		s.freeIdle()
		return nil
	})
	return e, err
}

// Promote puts a message before the others of its sender that are queued. Errors: as those of Remove.
func (m *Scheduler) Promote(ctx context.Context, agentID, messageID, by string) (e ledger.Entry, err error) {
	err = m.liveStep(ctx, agentID, func(s *step) error {
		if e, err = s.queued(messageID); err != nil || e.Priority == ledger.Next {
			return err
		}
		e.Priority, e.UpdatedAt = ledger.Next, s.now
		s.emitQueue(record.QueueEntryPromoted, "promote", e, ledger.Event{Status: "queued"}, fields{"by": clip(by)})
		s.update(&e)
		return nil
	})
	return e, err
}

// queued is an entry of the agent's queue.
func (s *step) queued(messageID string) (ledger.Entry, error) {
	e, known := find(s, ledger.View.Entry, messageID)
	agentID := s.state.AgentID
	switch {
	case !known || e.AgentID != agentID:
		return e, refused(ledger.CodeNotFound, "message", "holon queue list --agent "+agentID,
			"agent %s has no message %.64s", agentID, messageID)
	case e.Status == ledger.Dequeued:
		return e, refused(CodeNotQueued, "message", "holon agent abort "+agentID, "the turn of message %s runs", messageID)
	case e.Status != ledger.Queued:
		return e, refused(CodeNotQueued, "message", "", "message %s is not in the queue: it is %s", messageID, e.Status)
	}
	return e, nil
}

// Withhold notes that the client of a message that has ended deleted its response.
func (m *Scheduler) Withhold(ctx context.Context, agentID, messageID string) error {
	return m.step(ctx, agentID, func(s *step) error {
		e := read(s, ledger.View.Entry, messageID)
		e.Withheld, e.UpdatedAt = true, s.now
		s.update(&e)
		return nil
	})
}
