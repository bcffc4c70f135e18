package scheduler

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"holon/responses"
	"holon/responses/turns"
	"holon/runner/agent/record"
	"holon/runner/agent/rules"
	"holon/state/ledger"
)

// maxConsumed is how many messages that need no turn one transaction consumes.
const maxConsumed = 32

// Claim takes the next message of an agent and opens an attempt for it, which only the
// caller may run. It consumes messages that need no turn on the way; a kept wake hint
// becomes a message when the queue is empty. ok is false when the agent has nothing to
// do now: no message, a message that waits until RetryAt, a stopped agent, or an open
// attempt.
func (m *Scheduler) Claim(ctx context.Context, agentID string) (Claim, bool, error) {
	for {
		var c Claim
		var ok, more bool
		err := m.step(ctx, agentID, func(s *step) (err error) {
			c, ok, more, err = s.claimSome()
			return err
		})
		switch {
		case err != nil && m.claimed(ctx, c.Attempt.ID):
			return c, true, nil
		case err != nil:
			return Claim{}, false, err
		case ok || !more:
			return c, ok, nil
		}
	}
}

// claimCheck bounds how long a claim whose commit failed is looked for.
const claimCheck = 5 * time.Second

// claimed reports whether an attempt was opened although its commit failed, or the
// caller gave up: no other caller would run it.
func (m *Scheduler) claimed(ctx context.Context, attemptID string) bool {
	if attemptID == "" {
		return false
	}
	// the caller may be gone, the attempt is not
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), claimCheck)
	defer cancel()
	err := m.store.View(ctx, func(v ledger.View) error {
		_, err := v.Attempt(attemptID)
		return err
	})
	return err == nil
}

// claimSome consumes what needs no turn and claims the first message that does.
// more is set when it stopped before it found the end of the queue.
func (s *step) claimSome() (c Claim, ok, more bool, err error) {
	if busy, err := s.busy(); busy || s.state.Stopped || err != nil {
		return Claim{}, false, false, err
	}
	for range maxConsumed {
		head, found, err := s.head()
		if err != nil || !found {
			return Claim{}, false, false, err
		}
		msg, err := s.Message(head.MessageID)
		if err != nil {
			return Claim{}, false, false, err
		}
		if head.Sender == ledger.FromSelf && rules.Stalled(s.state.Progress) {
			if err := s.stopSelf(); err != nil {
				return Claim{}, false, false, err
			}
			continue
		}
		if stale, err := s.dropStale(head, msg); stale || err != nil {
			if err != nil {
				return Claim{}, false, false, err
			}
			continue
		}
		waits, err := s.UnresolvedWaits(s.state.AgentID)
		if err != nil {
			return Claim{}, false, false, err
		}
		sit, err := s.before(waits)
		if err != nil {
			return Claim{}, false, false, err
		}
		cont := rules.Continue(sit, msg, cameBack(head))
		s.state.LastResolved = &cont
		s.emit(record.ContinuationResolved, ledger.Event{MessageID: msg.ID, Cause: admittedEvent(msg.ID)}, facts{
			"class": string(cont.Class), "model_reentry": cont.ModelVisible, "matched_waiting_reason": cont.MatchedWait,
			"trigger_kind": string(cont.TriggerKind), "prior_closure_outcome": string(cont.PriorOutcome),
			"prior_waiting_reason": string(cont.PriorWaiting), "evidence": bounded(cont.Evidence),
		})
		if cont.ModelVisible {
			c, err = s.claim(head, msg, cont, waits)
			return c, err == nil, false, err
		}
		if err := s.dispose(head, ledger.Processed, string(cont.Class)); err != nil {
			return Claim{}, false, false, err
		}
	}
	_, more, err = s.head() // which leaves no hint behind that only another claim would find
	return Claim{}, false, more, err
}

// head returns the entry to take now. When the queue is empty a kept hint becomes an
// entry, or else the work that may go on.
func (s *step) head() (ledger.Entry, bool, error) {
	e, ok, err := s.Head(s.state.AgentID)
	if err == nil && !ok {
		if err := s.free(); err != nil {
			return e, false, err
		}
		e, ok, err = s.Head(s.state.AgentID)
	}
	if err != nil || !ok || rules.Due(s.state.Progress, e).After(s.now) {
		return e, false, err
	}
	return e, true, nil
}

// before is the situation before a message is taken. The rules do not look at its queue.
func (s *step) before(waits []ledger.Wait) (rules.Situation, error) {
	sit := rules.Situation{AgentID: s.state.AgentID}
	sit.Waits(waits)
	if last := s.state.LastClosure; last != nil {
		sit.Ended, sit.Failed = true, last.Outcome == ledger.OutcomeFailed
	}
	open, err := s.OpenWork(s.state.AgentID)
	waited := rules.Before(waits)
	sit.Work, sit.Held = rules.WorkSignal(s.state, open, waited), rules.Held(open, waited)
	return sit, err
}

// claim opens the attempt of a message, which ends the waits of all owners that it fits.
func (s *step) claim(e ledger.Entry, msg ledger.Message, cont ledger.Continuation, waits []ledger.Wait) (Claim,
	error) {
	agent, err := s.Agent(e.AgentID)
	if err != nil {
		return Claim{}, err
	}
	a := ledger.Attempt{
		ID: responses.NewID(prefixAttempt), AgentID: e.AgentID, MessageID: msg.ID,
		TurnID:    responses.NewID(responses.PrefixTurn),
		TurnIndex: s.state.Turns + 1, Status: ledger.AttemptOpen, Owner: s.m.opts.Owner, Model: agent.Model,
		Chain: s.state.Chain, WorkItemID: s.state.CurrentWork,
		Readmit: cameBack(e), StartedAt: s.now,
	}
	if a.Earlier, err = s.earlierTurns(e); err != nil {
		return Claim{}, err
	}
	if !rules.Own(e.Sender) {
		if err := s.letGoOn(waits, msg); err != nil {
			return Claim{}, err
		}
	}
	c := Claim{Agent: agent, Message: msg, Continuation: cont}
	waits = slices.DeleteFunc(waits, func(w ledger.Wait) bool { return !rules.Ends(&w, msg) })
	for i, w := range waits {
		if a.Waits = append(a.Waits, w.ID); w.Owner == ledger.OwnerAgent {
			c.Wait = &waits[i]
		}
	}
	s.state.LastWake = string(msg.TriggerKind)
	a.Submitted = s.submitTurn(a, msg)
	if err := s.Insert(&a); err != nil {
		return Claim{}, fmt.Errorf("open an attempt: %w", err)
	}
	s.emitQueue(record.MessageStarted, "dequeue", e, ledger.Event{TurnID: a.TurnID, Status: "running"},
		facts{"attempt_id": a.ID, "readmitted": e.Readmitted})
	for _, w := range waits {
		if err := s.resolveWait(w, a, msg.ID); err != nil {
			return Claim{}, err
		}
	}
	e.Status, e.AttemptID, e.Interjects, e.NotBefore, e.UpdatedAt = ledger.Dequeued, a.ID, false, nil, s.now
	if err := s.Update(&e); err != nil {
		return Claim{}, err
	}
	c.Attempt = a
	return c, nil
}

// earlierTurns is how many turns of a message were begun and interrupted. Those that a shutdown ended are counted only
// while no other message has had a turn since.
func (s *step) earlierTurns(e ledger.Entry) (int, error) {
	if !cameBack(e) {
		return 0, nil
	}
	newest, err := s.Turns(e.AgentID, 1)
	if err != nil || len(newest) == 0 || newest[0].MessageID != e.MessageID {
		return e.Readmitted, err
	}
	before, err := s.Attempt(newest[0].AttemptID)
	return max(e.Readmitted, before.Earlier+1), err
}

// submitTurn tells that a turn is made for a message, and returns the number of that event. It is the first one of the
// turn and the cause of the others.
func (s *step) submitTurn(a ledger.Attempt, msg ledger.Message) int64 {
	e := ledger.Event{ID: submittedEvent(a.ID), MessageID: msg.ID, TurnID: a.TurnID, Status: "accepted",
		Cause: admittedEvent(msg.ID)}
	seq := s.emit(record.TurnSubmitted, e, facts{"attempt_id": a.ID, "message_id": msg.ID, "turn_index": a.TurnIndex,
		"source": string(msg.Kind), "origin": string(msg.Origin.Kind), "authority": string(msg.Authority),
		"model": a.Model})
	s.cause = e.ID
	return seq
}

// dispose ends a message. Waits that one was to end which no turn had are over with it.
func (s *step) dispose(e ledger.Entry, status ledger.EntryStatus, reason string) error {
	op := "settle" // a turn had it
	if e.AttemptID == "" {
		op = "remove"
	}
	before := e
	e.Status, e.Reason, e.Code, e.NotBefore, e.UpdatedAt = status, reason, "", nil, s.now
	s.emitQueue(record.QueueEntrySettled, op, e, ledger.Event{Status: record.EntryStatus(status)},
		facts{"status": string(status), "reason": clip(reason)})
	if err := s.Update(&e); err != nil || op == "settle" {
		return err
	}
	if err := s.tellUndelivered(before); err != nil {
		return err
	}
	return s.cancelTriggered(e.MessageID)
}

// tellUndelivered tells of a message that ended without a turn, unless an earlier turn of it was interrupted.
func (s *step) tellUndelivered(e ledger.Entry) error {
	if cameBack(e) {
		return nil
	}
	return s.tellDelivery(e.MessageID, "", "failed")
}

// Began records that the container accepted the turn of an attempt, with
// the prompt that was sent. A second call changes nothing, nor does one after the
// attempt ended.
func (m *Scheduler) Began(ctx context.Context, attemptID string, sent Sent) error {
	return m.attemptStep(ctx, attemptID, func(s *step, a ledger.Attempt) error {
		if a.Status != ledger.AttemptOpen || a.BegunAt != nil {
			return nil
		}
		a.BegunAt, a.WorkShown = &s.now, sent.Work
		if err := s.Update(&a); err != nil {
			return err
		}
		if err := s.Insert(&ledger.Prompt{AttemptID: a.ID, Prompt: sent.Prompt}); err != nil {
			return err
		}
		s.cause = submittedEvent(a.ID)
		s.emit(record.TurnContextBuilt, ledger.Event{MessageID: a.MessageID, TurnID: a.TurnID},
			facts{"frame_digest": sent.Digest, "bytes": len(sent.Prompt)})
		return s.begin(a)
	})
}

// begin tells that a turn began.
func (s *step) begin(a ledger.Attempt) error {
	if err := s.unblock(false); err != nil { // what a setting kept from turns keeps it no more
		return err
	}
	f := facts{"attempt_id": a.ID, "turn_index": a.TurnIndex, "previous_response_id": a.Chain}
	if a.Readmit {
		f["continued"] = true
	}
	s.emit(record.TurnStarted, ledger.Event{MessageID: a.MessageID, TurnID: a.TurnID, Status: "running"}, f)
	if a.Readmit {
		return nil
	}
	return s.tellDelivery(a.MessageID, a.TurnID, "delivered")
}

// Progress records what the turn of an attempt did, up to what through says. A
// batch that goes no further than what is recorded is a replay and left out as a
// whole; so is what comes after the attempt's end.
func (m *Scheduler) Progress(ctx context.Context, attemptID string, through Through, did []Progress) error {
	return m.attemptStep(ctx, attemptID, func(s *step, a ledger.Attempt) error {
		if a.Status != ledger.AttemptOpen || through.Facts <= a.Facts && through.Items <= a.Items {
			return nil
		}
		s.cause = submittedEvent(a.ID)
		for _, p := range did {
			if err := s.record(&a, p); err != nil {
				return err
			}
		}
		a.Facts, a.Items = max(a.Facts, through.Facts), max(a.Items, through.Items)
		return s.Update(&a)
	})
}

func (s *step) record(a *ledger.Attempt, p Progress) error {
	if p.Event.Class != "" {
		if err := s.recordEvent(a, p); err != nil {
			return err
		}
	}
	if p.Task != nil {
		return s.taskOfTurn(a, *p.Task)
	}
	return nil
}

// recordEvent tells of what a container recorded. Its time is the container's unless that cannot be.
func (s *step) recordEvent(a *ledger.Attempt, p Progress) error {
	e := p.Event
	process := strings.HasPrefix(e.Class, "process.") // its start may be the host's
	if process {
		if known, err := s.knownOtherwise(a, &e); known || err != nil {
			return err
		}
	}
	e.MessageID, e.TurnID = a.MessageID, a.TurnID
	if e.ProducerSeq > 0 {
		e.ID = factEvent(a.TurnID, e.ProducerSeq)
	}
	if p.Cause > 0 && (e.Class == turns.ProcessStarted || !process) {
		e.Cause = factEvent(a.TurnID, p.Cause)
	}
	said, err := s.interjection(*a, e)
	if err != nil {
		return err
	}
	if said != "" {
		e.Cause = interjectedEvent(a.ID, said)
	}
	if e.CreatedAt = e.CreatedAt.UTC().Truncate(time.Millisecond); e.CreatedAt.Before(a.StartedAt) ||
		e.CreatedAt.After(s.now) {
		e.CreatedAt = s.now
	}
	if n := len(e.Data); n > ledger.MaxEventData { // it must not hold up what comes after it
		e.Data = mustJSON(facts{"omitted_bytes": n, "ref": "turns/" + a.TurnID + "/runtime.ndjson"})
	}
	if strings.HasPrefix(e.Class, "tool.") {
		e.Ref = s.state.CurrentWork
	}
	a.Compacted = a.Compacted || e.Class == "context.compaction.completed"
	s.emit(e.Class, e, nil)
	s.track(a, &s.events[len(s.events)-1])
	return nil
}

// openAttempt is the open attempt of an agent, or CodeNoRun.
func (s *step) openAttempt() (ledger.Attempt, error) {
	id := s.state.AgentID
	a, ok, err := s.OpenAttempt(id)
	if err != nil || ok {
		return a, err
	}
	return a, refused(CodeNoRun, "agent_id", "holon agent status "+id, "no turn of agent %s runs", id)
}
