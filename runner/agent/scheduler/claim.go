package scheduler

import (
	"context"
	"slices"
	"strings"
	"time"

	"holon/responses"
	"holon/responses/turns"
	"holon/runner/agent/record"
	"holon/runner/agent/rules"
	"holon/state/ledger"
)

// Claim takes the next message of an agent and opens an attempt for it, which only the
// caller may run. It consumes messages that need no turn on the way; a kept wake hint
// becomes a message when the queue is empty. ok is false when the agent has nothing to
// do now: no message, a message that waits until RetryAt, a stopped agent, or an open
// attempt. An error of the store does not say whether an attempt was opened.
func (m *Scheduler) Claim(ctx context.Context, agentID string) (c Claim, ok bool, err error) {
	err = m.stepReading(ctx, agentID, aheadOfClaim, func(s *step) error {
		c, ok = s.claimNext()
		return nil
	})
	if err != nil {
		return Claim{}, false, err
	}
	return c, ok, nil
}

// claimNext consumes what needs no turn and claims the first message that does.
func (s *step) claimNext() (c Claim, ok bool) {
	if s.busy() || s.state.Stopped {
		return Claim{}, false
	}
	for {
		head, found := s.head()
		if !found {
			return Claim{}, false
		}
		msg := s.message(head.MessageID)
		if head.Sender == ledger.FromSelf && rules.Stalled(s.state.Progress) {
			s.stopSelf()
			continue
		}
		if s.dropStale(head, msg) {
			continue
		}
		if bound := s.spent(); bound != "" {
			s.pauseSpent(head, bound)
			continue
		}
		waits := s.waits()
		cont := rules.Continue(s.before(waits), msg, cameBack(head))
		s.state.LastResolved = &cont
		s.emit(record.ContinuationResolved, ledger.Event{MessageID: msg.ID, Cause: admittedEvent(msg.ID)}, fields{
			"class": string(cont.Class), "model_reentry": cont.ModelVisible, "matched_waiting_reason": cont.MatchedWait,
			"trigger_kind": string(cont.TriggerKind), "prior_closure_outcome": string(cont.PriorOutcome),
			"prior_waiting_reason": string(cont.PriorWaiting), "evidence": bounded(cont.Evidence),
		})
		if cont.ModelVisible {
			return s.claim(head, msg, cont, waits), true
		}
		s.dispose(head, ledger.Processed, string(cont.Class))
	}
}

// head returns the entry to take now. When the queue is empty a kept hint becomes an
// entry, or else the work that may go on.
func (s *step) head() (ledger.Entry, bool) {
	e, ok := s.queueHead()
	if !ok {
		s.free()
		e, ok = s.queueHead()
	}
	return e, ok && !rules.Due(s.state.Progress, e).After(s.now)
}

// before is the situation before a message is taken. The rules do not look at its queue.
func (s *step) before(waits []ledger.Wait) rules.Situation {
	sit := rules.Situation{AgentID: s.state.AgentID}
	sit.Waits(waits)
	if last := s.state.LastClosure; last != nil {
		sit.Ended, sit.Failed = true, last.Outcome == ledger.OutcomeFailed
	}
	open, waited := read(s, ledger.View.OpenWork, s.state.AgentID), rules.Before(waits)
	sit.Work, sit.Held = rules.WorkSignal(s.state, open, waited), rules.Held(open, waited)
	return sit
}

// claim opens the attempt of a message, which ends the waits of all owners that it fits.
func (s *step) claim(e ledger.Entry, msg ledger.Message, cont ledger.Continuation, waits []ledger.Wait) Claim {
	agent := s.agentRow()
	a := ledger.Attempt{
		ID: responses.NewID(prefixAttempt), AgentID: e.AgentID, MessageID: msg.ID,
		TurnID:    responses.NewID(responses.PrefixTurn),
		TurnIndex: s.state.Turns + 1, Status: ledger.AttemptOpen, Owner: s.m.opts.Owner, Model: agent.Model,
		Chain: s.state.Chain, WorkItemID: s.state.CurrentWork, WorkspaceID: s.state.WorkspaceID(),
		Readmit: cameBack(e), StartedAt: s.now, Earlier: s.earlierTurns(e),
	}
	if m, ok := ifAny(s, func(v ledger.View) (ledger.Memory, bool, error) { return v.Memory(e.AgentID) }); ok {
		a.MemoryShown = m.Revision // it changes when a turn settles alone; a turn that is taken up has lost its prompt
	}
	if !rules.Own(e.Sender) {
		s.letGoOn(waits, msg)
	}
	c := Claim{Agent: agent, Message: msg, Continuation: cont, ClientCalls: s.state.ClientCalls,
		Compactions: s.state.Totals.Compactions}
	waits = slices.DeleteFunc(waits, func(w ledger.Wait) bool { return !rules.Ends(&w, msg) })
	for i, w := range waits {
		if a.Waits = append(a.Waits, w.ID); w.Owner == ledger.OwnerAgent {
			c.Wait = &waits[i]
		}
	}
	s.state.LastWake = string(msg.TriggerKind)
	a.Submitted = s.submitTurn(a, msg)
	s.insert(&a)
	s.emitQueue(record.MessageStarted, "dequeue", e, ledger.Event{TurnID: a.TurnID, Status: "running"},
		fields{"attempt_id": a.ID, "readmitted": e.Readmitted})
	for _, w := range waits {
		s.resolveWait(w, a, msg.ID)
	}
	e.Status, e.AttemptID, e.Interjects, e.NotBefore, e.UpdatedAt = ledger.Dequeued, a.ID, false, nil, s.now
	s.takeOut(e)
	c.Attempt = a
	return c
}

// earlierTurns is how many turns of a message were begun and interrupted. Those that a shutdown ended are counted only
// while no other message has had a turn since.
func (s *step) earlierTurns(e ledger.Entry) int {
	if !cameBack(e) {
		return 0
	}
	last := newest(s, ledger.View.Turns, 1)
	if len(last) == 0 || last[0].MessageID != e.MessageID {
		return e.Readmitted
	}
	return max(e.Readmitted, read(s, ledger.View.Attempt, last[0].AttemptID).Earlier+1)
}

// submitTurn records that a turn is made for a message, and returns the number of that event. It is the first one of
// the turn and the cause of the others.
func (s *step) submitTurn(a ledger.Attempt, msg ledger.Message) int64 {
	e := ledger.Event{ID: submittedEvent(a.ID), MessageID: msg.ID, TurnID: a.TurnID, Workspace: a.WorkspaceID,
		Status: "accepted", Cause: admittedEvent(msg.ID)}
	seq := s.emit(record.TurnSubmitted, e, fields{"attempt_id": a.ID, "message_id": msg.ID, "turn_index": a.TurnIndex,
		"source": string(msg.Kind), "origin": string(msg.Origin.Kind), "authority": string(msg.Authority),
		"model": a.Model})
	s.cause = e.ID
	return seq
}

// dispose ends a message. Waits that one was to end which no turn had are over with it.
func (s *step) dispose(e ledger.Entry, status ledger.EntryStatus, reason string) {
	op := "settle" // a turn had it
	if e.AttemptID == "" {
		op = "remove"
	}
	before := e
	e.Status, e.Reason, e.Code, e.NotBefore, e.UpdatedAt = status, reason, "", nil, s.now
	s.emitQueue(record.QueueEntrySettled, op, e, ledger.Event{Status: record.EntryStatus(status)},
		fields{"status": string(status), "reason": clip(reason)})
	if op == "remove" {
		s.takeOut(e)
	} else { // it has left the queue
		line := s.line
		s.update(&e)
		s.line = line
	}
	if len(s.about(ledger.NoticeBlocked, e.AgentID)) > 0 && len(read(s, ledger.View.BlockedEntries, e.AgentID)) == 0 {
		s.settleMatter(ledger.NoticeBlocked, e.AgentID)
	}
	if op == "remove" {
		s.emitUndelivered(before)
		s.cancelTriggered(e.MessageID)
	}
}

// emitUndelivered records of a result that it ended without a turn, unless an earlier turn of it was interrupted.
func (s *step) emitUndelivered(e ledger.Entry) {
	if !cameBack(e) {
		s.emitDelivery(e.MessageID, "", "failed")
	}
}

// Began records that the container accepted the turn of an attempt, with
// the prompt that was sent. A second call changes nothing, nor does one after the
// attempt ended.
func (m *Scheduler) Began(ctx context.Context, attemptID string, sent Sent) error {
	return m.attemptStep(ctx, attemptID, aheadOfRecord, func(s *step, a ledger.Attempt) error {
		if a.Status != ledger.AttemptOpen || a.BegunAt != nil {
			return nil
		}
		a.BegunAt, a.WorkShown, a.Timing.ContextBuildMS = &s.now, sent.Work, sent.Took.Milliseconds()
		a.CuratedShown = sent.Curated
		s.update(&a)
		s.insert(&ledger.Prompt{AttemptID: a.ID, Prompt: sent.Prompt})
		s.cause = submittedEvent(a.ID)
		s.emit(record.TurnContextBuilt, ledger.Event{MessageID: a.MessageID, TurnID: a.TurnID},
			fields{"frame_digest": sent.Digest, "bytes": len(sent.Prompt), "context_build_ms": sent.Took.Milliseconds()})
		s.begin(a)
		return nil
	})
}

// begin records that a turn began.
func (s *step) begin(a ledger.Attempt) {
	s.unblock(false) // what a setting kept from turns keeps it no more
	f := fields{"attempt_id": a.ID, "turn_index": a.TurnIndex, "previous_response_id": a.Chain}
	if a.Readmit {
		f["continued"] = true
	}
	s.emit(record.TurnStarted, ledger.Event{MessageID: a.MessageID, TurnID: a.TurnID, Workspace: s.state.WorkspaceID(),
		Status: "running"}, f)
	if !a.Readmit {
		s.emitDelivery(a.MessageID, a.TurnID, "delivered")
	}
}

// Progress records what the turn of an attempt did, up to what through says. A
// batch that goes no further than what is recorded is a replay and left out as a
// whole; so is what comes after the attempt's end.
func (m *Scheduler) Progress(ctx context.Context, attemptID string, through Through, did []Progress) error {
	return m.attemptStep(ctx, attemptID, aheadOfRecord, func(s *step, a ledger.Attempt) error {
		if a.Status != ledger.AttemptOpen || through.Facts <= a.Facts && through.Items <= a.Items {
			return nil
		}
		s.cause = submittedEvent(a.ID)
		for _, p := range did {
			if p.Event.Class != "" {
				s.recordEvent(&a, p)
			}
			if p.Task != nil {
				s.taskOfTurn(&a, *p.Task)
			}
		}
		a.Facts, a.Items = max(a.Facts, through.Facts), max(a.Items, through.Items)
		s.update(&a)
		return nil
	})
}

// recordEvent stores what a container recorded. Its time is the container's unless that cannot be.
func (s *step) recordEvent(a *ledger.Attempt, p Progress) {
	e := p.Event
	process := strings.HasPrefix(e.Class, "process.") // its start may be the host's
	if process && s.alreadyRecorded(a, &e) {
		return
	}
	e.MessageID, e.TurnID = a.MessageID, a.TurnID
	if e.ProducerSeq > 0 {
		e.ID = factEvent(a.TurnID, e.ProducerSeq)
	}
	if p.Cause > 0 && (e.Class == turns.ProcessStarted || !process) {
		e.Cause = factEvent(a.TurnID, p.Cause)
	}
	if id := s.interjection(*a, e); id != "" {
		e.Cause = interjectedEvent(a.ID, id)
	}
	if e.CreatedAt = e.CreatedAt.UTC().Truncate(time.Millisecond); e.CreatedAt.Before(a.StartedAt) ||
		e.CreatedAt.After(s.now) {
		e.CreatedAt = s.now
	}
	if n := len(e.Data); n > ledger.MaxEventData { // it must not hold up what comes after it
		e.Data = mustJSON(fields{"omitted_bytes": n, "ref": "turns/" + a.TurnID + "/runtime.ndjson"})
	}
	if strings.HasPrefix(e.Class, "tool.") {
		e.Ref, e.Workspace = s.state.CurrentWork, s.state.WorkspaceID()
	}
	s.tally(a, e)
	s.emit(e.Class, e, nil)
	s.track(a, &s.events[len(s.events)-1])
}
