package scheduler

import (
	"holon/state"
	"holon/state/ledger"
)

// A read or write of the store that fails, fails the transaction as a whole, and nothing of it is kept. So a step does
// not ask after each of them: after the first failure it finds nothing and writes nothing, and run returns that
// failure. An error that a step returns is a refusal.

// insert adds records.
func (t *transaction) insert(records ...ledger.Record) {
	if t.err == nil {
		t.err = t.tx.Insert(records...)
	}
	t.wrote(records)
}

// update replaces records.
func (t *transaction) update(records ...ledger.Record) {
	if t.err == nil {
		t.err = t.tx.Update(records...)
	}
	t.wrote(records)
}

// wrote notes what a step need not read again, and what it has to.
func (t *transaction) wrote(records []ledger.Record) {
	for _, r := range records {
		switch r := r.(type) {
		case *ledger.Attempt:
			if s := t.open[r.AgentID]; s != nil {
				if s.attempt = nil; r.Status == ledger.AttemptOpen {
					s.attempt = new(*r)
				}
			}
		case *ledger.Entry:
			if s := t.open[r.AgentID]; s != nil {
				s.line = nil
			}
		}
	}
}

// read is the answer of a query about an id, and the zero value after a failure.
func read[T any](s *step, query func(ledger.View, string) (T, error), id string) (found T) {
	return ask(s, func(v ledger.View) (T, error) { return query(v, id) })
}

// find is the record with an id, if there is one; "" names none.
func find[T any](s *step, query func(ledger.View, string) (T, error), id string) (found T, ok bool) {
	if id == "" {
		return found, false
	}
	return ifAny(s, func(v ledger.View) (r T, ok bool, err error) {
		r, err = query(v, id)
		if ok = err == nil; state.IsCode(err, ledger.CodeNotFound) {
			err = nil
		}
		return r, ok, err
	})
}

// ifAny is the answer of a query that may find nothing.
func ifAny[T any](s *step, query func(ledger.View) (T, bool, error)) (found T, ok bool) {
	found = ask(s, func(v ledger.View) (r T, err error) {
		r, ok, err = query(v)
		return r, err
	})
	return found, ok
}

// newest are the newest records of the agent that a query lists, at most limit; 0 for the default.
func newest[T any](s *step, query func(ledger.View, string, int) ([]T, error), limit int) []T {
	return ask(s, func(v ledger.View) ([]T, error) { return query(v, s.state.AgentID, limit) })
}

// ask is the answer of a query, and the zero value after a failure.
func ask[T any](s *step, query func(ledger.View) (T, error)) (found T) {
	if s.err == nil {
		found, s.err = query(s.tx.View)
	}
	if s.err != nil {
		return *new(T)
	}
	return found
}

// message is the message with an id.
func (s *step) message(id string) ledger.Message { return read(s, ledger.View.Message, id) }

// agentRow is the agent whose step it is.
func (s *step) agentRow() ledger.Agent { return read(s, ledger.View.Agent, s.state.AgentID) }

// waits are those that are active or triggered, of the agent and of what it works on.
func (s *step) waits() []ledger.Wait { return read(s, ledger.View.UnresolvedWaits, s.state.AgentID) }

// waitOf is the wait of an owner that is active or triggered.
func (s *step) waitOf(owner string) (ledger.Wait, bool) {
	return ifAny(s, func(v ledger.View) (ledger.Wait, bool, error) { return v.UnresolvedWait(s.state.AgentID, owner) })
}

// agentWait is the agent's own wait that is active or triggered, nil for none.
func (s *step) agentWait() *ledger.Wait {
	if w, ok := s.waitOf(ledger.OwnerAgent); ok {
		return &w
	}
	return nil
}

// openAttempt is the attempt whose turn runs, or is about to.
func (s *step) openAttempt() (a ledger.Attempt, open bool) {
	if s.attempt != nil {
		return *s.attempt, true
	}
	return ifAny(s, func(v ledger.View) (ledger.Attempt, bool, error) { return v.OpenAttempt(s.state.AgentID) })
}

func (s *step) busy() bool {
	_, open := s.openAttempt()
	return open
}

func (s *step) countQueuedFrom(from ledger.Sender) int {
	return ask(s, func(v ledger.View) (int, error) { return v.CountQueuedFrom(s.state.AgentID, from) })
}

// task is a task of the agent, if there is one.
func (s *step) task(id string) (ledger.Task, bool) {
	return find(s, func(v ledger.View, id string) (ledger.Task, error) { return v.Task(s.state.AgentID, id) }, id)
}

// queuedNow reports whether a message that the state refers to waits in the queue. One that was pruned came to its end.
func (s *step) queuedNow(messageID string) bool {
	e, ok := find(s, ledger.View.Entry, messageID)
	return ok && e.Status == ledger.Queued
}

// fail refuses the transaction as a whole, for an error that only a mistake of the scheduler can be.
func (t *transaction) fail(err error) {
	if t.err == nil {
		t.err = err
	}
}
