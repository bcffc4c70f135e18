package scheduler

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"holon/internal/visible"
	"holon/responses"
	"holon/runner/agent/record"
	"holon/runner/agent/rules"
	"holon/state/ledger"
)

// Settle ends an attempt: it writes the turn and its events, and
// disposes of every message that the attempt holds. A second time it returns
// what the first one made.
func (m *Scheduler) Settle(ctx context.Context, attemptID string, e End) (out Settlement, err error) {
	err = m.attemptStep(ctx, attemptID, aheadOfEnd, func(s *step, a ledger.Attempt) (err error) {
		if a.Status != ledger.AttemptOpen {
			out = s.settled(a)
			return nil
		}
		out, err = s.settle(a, e)
		return err
	})
	if err == nil {
		m.attempts.Delete(attemptID)
	}
	return out, err
}

// settled is what an earlier settlement made.
func (s *step) settled(a ledger.Attempt) Settlement {
	e := read(s, ledger.View.Entry, a.MessageID)
	out := Settlement{Replayed: true, Status: e.Status, RetryAt: e.NotBefore}
	if t, ok := find(s, ledger.View.Turn, a.TurnID); ok {
		out.Turn, out.Closure = &t, t.Closure
	}
	return out
}

// settle is the main path: what becomes of the message, then of those that were
// offered, then the agent's next step, then the records of the turn.
func (s *step) settle(a ledger.Attempt, e End) (Settlement, error) {
	s.inLine() // while nothing of it is written
	held := read(s, ledger.View.Held, a.AgentID)
	at := slices.IndexFunc(held, func(h ledger.Entry) bool { return h.MessageID == a.MessageID })
	if at < 0 {
		return Settlement{}, refused(ledger.CodeUnreadable, "attempt", "", "attempt %s does not hold its message", a.ID)
	}
	own := held[at]
	e.Suspended = e.Suspended || e.Lost && a.Suspended != "" // also where the process that ended it was killed
	v := outcomeOf(a, own, e)
	if v.turn && v.entry == ledger.Queued && s.message(a.MessageID).ResponseID() != "" { // its response has one end
		v, e.Suspended = outcome{ledger.AttemptInterrupted, ledger.Interrupted, "its turn was interrupted", true, true}, false
	}
	s.worktree, s.settles = e.Worktree, a
	s.cause = submittedEvent(a.ID)
	s.charge(a, e.Spent)
	if v.entry == ledger.Aborted {
		s.cause = cmp.Or(a.AbortEvent, s.cause)
	}
	if e.Forgotten {
		s.forget(e.Kept)
	}
	e = s.endAttempt(a, e, v)
	s.disposeOffered(a, slices.Delete(held, at, at+1), e)
	out := s.disposeOwn(a, own, e, v)
	s.stopAfter(a)
	s.freeHint()
	s.advance(a, own.Sender, e, v) // before the closure, which names its wait
	s.awaitTasks()
	s.awaitClient(a, e.ClientCalls)
	s.endWork(a, own.Sender, e, v)
	s.write(a, e, v, &out)
	s.remember(a, v, out.Turn)
	s.freeWork()
	return out, nil
}

// endAttempt ends an attempt and what its turn left open, and returns the end of that with what the log has of it.
func (s *step) endAttempt(a ledger.Attempt, e End, v outcome) End {
	a.Status, a.Reason, a.SettledAt = v.attempt, clip(v.reason), &s.now
	s.update(&a)
	if v.turn && a.BegunAt == nil && (!e.StartedAt.IsZero() || e.Kind == ledger.TurnCompleted) {
		s.begin(a) // its start could not be recorded when it began
	}
	e = e.completed(s.closeOpen(a, v))
	if !v.turn {
		s.endNotBegun(a, e, v)
	}
	return e
}

// advance counts a turn that has come to its end, and notifies the operator when the
// agent may not go on by itself any more.
func (s *step) advance(a ledger.Attempt, from ledger.Sender, e End, v outcome) {
	if !v.turn || v.entry == ledger.Queued {
		return // it is not over
	}
	s.state.Progress = rules.Advance(s.state.Progress, from, e.Home, a.Worked, s.now)
	if s.state.Progress.Turns >= rules.MaxSelfTurns {
		s.notifyStalled(0)
	}
}

// stopSelf drops what an agent made for itself, and the rest that it would end by itself. Results of its tasks stay in
// the queue until it may go on.
func (s *step) stopSelf() {
	const why = "the agent went on by itself for too long"
	if w := s.agentWait(); w != nil && w.Kind != ledger.WaitOperator {
		s.cancelWait(*w, why)
	}
	dropped := 0
	for _, e := range newest(s, ledger.View.Queued, 0) {
		switch {
		case e.Sender != ledger.FromSelf || e.Code == rules.CodeStalled:
		case s.message(e.MessageID).Kind == ledger.KindTaskResult:
			s.keep(e)
		default:
			dropped++
			s.dispose(e, ledger.Dropped, why)
		}
	}
	s.notifyStalled(dropped)
}

// notifyStalled notifies the operator once that an agent may not go on by itself, and has the
// agent wait for a prompt.
func (s *step) notifyStalled(dropped int) {
	p := &s.state.Progress
	if p.Notified {
		return
	}
	p.Notified = true
	text := fmt.Sprintf("Agent %s was stopped from going on by itself: ", s.state.AgentID)
	if p.Idle >= rules.MaxIdle {
		text += fmt.Sprintf("its last %d turns, which it made for itself, changed nothing.", p.Idle)
	} else {
		text += fmt.Sprintf("it made %d turns for itself, one after another.", p.Turns)
	}
	if dropped > 0 {
		text += fmt.Sprintf(" Messages that it made for itself and that were dropped: %d.", dropped)
	}
	n := s.notification(ledger.NoticeStopped, s.state.AgentID, text+" Send it a prompt to let it go on.")
	s.notify(n)
	if s.state.Stopped {
		return
	}
	s.register(ledger.Wait{
		ID: responses.NewID(prefixWait), AgentID: s.state.AgentID, Owner: ledger.OwnerAgent, Status: ledger.WaitActive,
		Kind: ledger.WaitOperator, Source: sourceProgress, WaitingFor: clip(n.Message),
		Wakes: []ledger.WakeSource{{Kind: rules.WakeOperator}}, CreatedAt: s.now, UpdatedAt: s.now,
	}, "", false)
}

// sourceProgress is the source of the wait of an agent that may not go on by itself.
const sourceProgress = "progress"

// letGoOn begins the count of progress anew for a message of another sender, whether or
// not it is the prompt that the agent waits for.
func (s *step) letGoOn(waits []ledger.Wait, msg ledger.Message) {
	s.fresh()
	for _, w := range waits {
		if w.Source == sourceProgress && !rules.Ends(&w, msg) {
			s.cancelWait(w, "another message lets the agent go on")
		}
	}
}

// outcome is what an end means for attempt and message.
type outcome struct {
	attempt ledger.AttemptStatus
	entry   ledger.EntryStatus // Queued: it comes back
	reason  string
	turn    bool // a turn was begun
	failed  bool // it, or the last try to begin it, did not come to a good end
}

// suspended is the reason of an entry that is queued because its turn was ended by
// a shutdown, or with its agent or its tree by the runtime.
const suspended = "its turn was suspended by a shutdown"

// cameBack reports whether a turn was begun for a queued message before.
func cameBack(e ledger.Entry) bool { return e.Readmitted > 0 || e.Reason == suspended }

// outcomeOf decides what becomes of a message and its attempt. An aborted turn is not tried again.
func outcomeOf(a ledger.Attempt, own ledger.Entry, e End) outcome {
	switch {
	case e.NotBegun:
		return notBegun(a, own, e)
	case e.Lost:
		return lost(a, own, e)
	case e.Kind == ledger.TurnCompleted:
		return outcome{ledger.AttemptSettled, ledger.Processed, e.Reason, true, false}
	case a.AbortedBy != "":
		return outcome{ledger.AttemptSettled, ledger.Aborted, abortedBy(a), true, true}
	}
	return outcome{ledger.AttemptSettled, ledger.Aborted, e.Reason, true, true}
}

func abortedBy(a ledger.Attempt) string { return "aborted by " + a.AbortedBy }

func notBegun(a ledger.Attempt, own ledger.Entry, e End) outcome {
	switch {
	case a.AbortedBy != "":
		return outcome{ledger.AttemptFailed, ledger.Aborted, abortedBy(a), false, false}
	case e.Failure == nil:
		return outcome{ledger.AttemptFailed, ledger.Queued, "requeued", false, false}
	case e.Permanent:
		return outcome{ledger.AttemptFailed, ledger.Queued, "blocked", false, true}
	case e.Refused, own.Failed+1 >= rules.MaxTries:
		return outcome{ledger.AttemptFailed, ledger.Quarantined, e.Failure.Summary, false, true}
	}
	return outcome{ledger.AttemptFailed, ledger.Queued, "retry_scheduled", false, true}
}

func lost(a ledger.Attempt, own ledger.Entry, e End) outcome {
	switch {
	case a.AbortedBy != "":
		return outcome{ledger.AttemptInterrupted, ledger.Aborted, abortedBy(a), true, true}
	case e.Suspended:
		return outcome{ledger.AttemptInterrupted, ledger.Queued, record.TurnSuspended, true, true}
	case own.Readmitted == 0:
		return outcome{ledger.AttemptInterrupted, ledger.Queued, "readmitted", true, true}
	}
	return outcome{ledger.AttemptInterrupted, ledger.Interrupted, "its turn was interrupted again", true, true}
}

// disposeOwn ends the message of the attempt or puts it back where it was.
func (s *step) disposeOwn(a ledger.Attempt, own ledger.Entry, e End, v outcome) Settlement {
	own.Code = ""
	if v.turn {
		own.Failed = 0
	} else if v.failed {
		own.Failed++
	}
	if v.entry == ledger.Queued {
		return Settlement{Status: v.entry, RetryAt: s.comeBack(a, own, e, v)}
	}
	if v.entry == ledger.Quarantined {
		s.emit(record.QueueEntryQuarantined, ledger.Event{MessageID: own.MessageID},
			fields{"failed": own.Failed, "code": clip(e.Failure.Code)})
		s.escalate(s.state.AgentID, ledger.NoticeGivenUp, "", fmt.Sprintf("A message to agent %s was given up after %d "+
			"attempts: %s", s.state.AgentID, own.Failed, visible.WithRemedy(e.Failure.Summary, e.Failure.Hint)))
	}
	if v.entry == ledger.Quarantined && e.Refused {
		own.Refusal, own.Param = e.Failure.Code, clip(e.Failure.Param)
	}
	if v.entry == ledger.Interrupted && s.message(own.MessageID).ResponseID() == "" { // else its client knows
		s.escalate(s.state.AgentID, ledger.NoticeGivenUp, "", fmt.Sprintf("A message to agent %s was given up: %s",
			s.state.AgentID, v.reason))
	}
	s.dispose(own, v.entry, v.reason)
	if !v.turn {
		s.emitUndelivered(own)
	}
	return Settlement{Status: v.entry}
}

// comeBack puts the message of an attempt back in the queue, and returns when it is tried again if that is later.
func (s *step) comeBack(a ledger.Attempt, own ledger.Entry, e End, v outcome) (retry *time.Time) {
	f := fields{"code": v.reason, "failed": own.Failed}
	switch {
	case v.turn && e.Suspended:
		own.Reason = suspended
	case v.turn:
		own.Readmitted++
	case v.failed && e.Permanent:
		own.Block()
		own.Code = clip(e.Failure.Code)
		own.Reason = clip(visible.WithRemedy(e.Failure.Summary, e.Failure.Hint))
	case v.failed:
		at := s.now.Add(rules.Backoff(own.Failed, s.m.opts.Rand()).Truncate(time.Millisecond))
		own.NotBefore, retry, f["retry_at"] = &at, &at, at
	}
	if own.Blocked() {
		s.emit(record.QueueEntryBlocked, ledger.Event{MessageID: own.MessageID},
			fields{"code": own.Code, "summary": own.Reason})
		s.escalate(s.state.AgentID, ledger.NoticeBlocked, own.AgentID,
			fmt.Sprintf("Agent %s cannot go on: %s", s.state.AgentID, own.Reason))
	} else {
		s.emit(record.SchedulerDiagnostic, ledger.Event{MessageID: own.MessageID, TurnID: a.TurnID}, f)
	}
	if !v.turn {
		s.unresolve(a)
	}
	s.requeue(own)
	return retry
}

// requeue puts an entry back in the queue, in its old place, where it may
// trigger a wait that was registered since.
func (s *step) requeue(e ledger.Entry) {
	e.Status, e.AttemptID, e.Interjects, e.UpdatedAt = ledger.Queued, "", false, s.now
	msg := s.message(e.MessageID)
	s.emitQueue(record.QueueEntryRequeued, "enqueue", e, ledger.Event{Status: "queued"},
		fields{"kind": string(msg.Kind), "reason": cmp.Or(e.Reason, "requeued"), "code": e.Code})
	s.update(&e)
	s.trigger(msg)
}

// unresolve takes back that a claim ended waits: no turn was begun that would
// know of it, and the message that ended it is in the queue again.
func (s *step) unresolve(a ledger.Attempt) {
	for _, id := range a.Waits {
		w := read(s, ledger.View.Wait, id)
		if _, waits := s.waitOf(w.Owner); waits || s.state.Stopped && w.Owner == ledger.OwnerAgent ||
			w.Status != ledger.WaitResolved || w.AttemptID != a.ID {
			continue
		}
		s.triggerWait(w, a.MessageID)
	}
}

// disposeOffered ends the messages that the turn took in and puts the others
// back. A turn that was lost without a response that the next one continues took
// in nothing that anybody will know of; such a message comes back once, like the
// one it joined.
func (s *step) disposeOffered(a ledger.Attempt, offered []ledger.Entry, e End) {
	forgotten := e.Lost && e.ResponseID == ""
	for _, o := range offered {
		switch inserted := slices.Contains(e.Inserted, o.MessageID); {
		case inserted && !forgotten:
			s.dispose(o, ledger.Interjected, "into turn "+a.TurnID)
		case inserted && o.Readmitted > 0:
			s.dispose(o, ledger.Interrupted, "its turn was interrupted again")
		case inserted:
			o.Readmitted++
			s.requeue(o)
		default:
			s.requeue(o)
		}
	}
}

// stopAfter stops the agent when that was asked for with the abort, and ends the
// rest of one that is stopped.
func (s *step) stopAfter(a ledger.Attempt) {
	if a.AbortMode == StopAfterAbort && !s.state.Stopped {
		s.state.Stopped = true
		s.emitAgentState(string(rules.Stopped), a.AbortedBy)
		s.stopTree(a.AbortedBy)
	}
	if s.state.Stopped && (a.Suspended == "" || a.AbortedBy != "") {
		s.cancelActive("the agent was stopped")
	}
}
