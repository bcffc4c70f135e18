package scheduler

import (
	"context"
	"time"

	"holon/runner/agent/record"
	"holon/runner/agent/rules"
	"holon/state/ledger"
)

// maxSleep bounds how long an agent rests by the clock.
const maxSleep = 366 * 24 * time.Hour

// Sleep registers what the agent of the open attempt waits for when its turn
// ends: with d = 0 any wake, else a time or any wake, whichever comes first. Without a
// time, an agent that was shown the URL of its external trigger in this turn waits for
// what comes there, and so does one whose rest for that was ended by something else. It
// replaces the wait that the agent has, and a second call in the same attempt
// changes what the first one registered: a turn leaves one wait. The wait is
// triggered at once when a message that ends it is in the queue already. The same
// call is answered with the same wait. Errors: CodeNoRun without an open attempt
// or when it is to be aborted, CodeInvalidTimer, CodeSelfLimit for a time when the
// agent may not go on by itself.
func (m *Scheduler) Sleep(ctx context.Context, agentID, callID string, d time.Duration, reason string) (ledger.Wait,
	error) {
	if d < 0 || d > maxSleep {
		return ledger.Wait{}, refused(CodeInvalidTimer, "duration_ms", "leave it out to rest until something happens",
			"an agent rests at most a year, and not for %v", d)
	}
	var w ledger.Wait
	err := m.step(ctx, agentID, func(s *step) error {
		a, ok := s.openAttempt()
		if !ok || a.AbortedBy != "" {
			return refused(CodeNoRun, "agent_id", "", "no turn of agent %s runs that could rest", agentID)
		}
		w = s.newSleep(a, callID, d, reason)
		old, again := find(s, ledger.View.Wait, w.ID)
		if again && old.CallID == callID {
			w = old
			return nil
		}
		if d > 0 && s.state.Progress.Turns+1 >= rules.MaxSelfTurns {
			return refused(CodeSelfLimit, "duration_ms",
				"rest without duration_ms, and tell your operator what is left",
				"you have gone on by yourself for %d turns, and no more may follow by the clock",
				s.state.Progress.Turns+1)
		}
		w = s.register(w, a.TurnID, again)
		return nil
	})
	return w, err
}

func (s *step) newSleep(a ledger.Attempt, callID string, d time.Duration, reason string) ledger.Wait {
	w := ledger.Wait{
		ID: derivedID(prefixWait, a.ID), AgentID: a.AgentID, Owner: ledger.OwnerAgent, Status: ledger.WaitActive,
		Kind: ledger.WaitSystem, Source: sourceSleep, WaitingFor: clip(reason), Wakes: rules.AnyWake(),
		CallID: callID, Registered: a.ID, CreatedAt: s.now, UpdatedAt: s.now,
	}
	if w.WaitingFor == "" {
		w.WaitingFor = "anything that wakes it"
	}
	if d == 0 {
		if t, ok := s.activeTrigger(""); ok && (t.RevealedIn == a.ID || s.waitedInVain(a, t.ID)) {
			w.Kind, w.SubjectRef = ledger.WaitExternal, t.ID
			w.Wakes = append(w.Wakes, ledger.WakeSource{Kind: rules.WakeExternal, ExternalTriggerID: t.ID})
		}
		return w
	}
	at := s.now.Add(d)
	w.Kind, w.WakeAt = ledger.WaitTimer, &at
	for i := range w.Wakes {
		if w.Wakes[i].Kind == rules.WakeTimer {
			w.Wakes[i].WakeAt = &at
		}
	}
	return w
}

// waitedInVain reports whether the message of an attempt ended a rest for an external trigger and did not come through
// that.
func (s *step) waitedInVain(a ledger.Attempt, triggerID string) bool {
	for _, id := range a.Waits {
		w := read(s, ledger.View.Wait, id)
		if w.Owner == ledger.OwnerAgent && w.Kind == ledger.WaitExternal && w.SubjectRef == triggerID {
			return !rules.Expected(w, s.message(a.MessageID))
		}
	}
	return false
}

// register puts a wait in the place of the one that its owner has. again says that the
// same wait was registered before, which it changes.
func (s *step) register(w ledger.Wait, turnID string, again bool) ledger.Wait {
	f, save := fields{"kind": string(w.Kind)}, s.insert
	if again {
		save = s.update
	}
	old, ok := s.waitOf(w.Owner)
	if ok {
		f["replaces"] = old.ID
	}
	if ok && old.ID != w.ID {
		s.cancelWait(old, "replaced")
	}
	if w.WakeAt != nil {
		f["wake_at"] = w.WakeAt
	}
	s.saveWait(record.WaitRegistered, w, ledger.Event{TurnID: turnID}, f, save)
	return s.lookAtQueue(w)
}

// saveWait saves a wait and records what happened to it, and whether the work item that it is of is held by something
// else now.
func (s *step) saveWait(typ string, w ledger.Wait, e ledger.Event, f fields, save func(...ledger.Record)) {
	item, ok := find(s, ledger.View.WorkItem, w.Owner)
	before := s.waits()
	save(&w)
	s.emitWait(typ, w, e, f)
	if w.Status != ledger.WaitActive {
		s.settleMatter(ledger.NoticeTrigger, w.ID)
	}
	after := s.waits()
	switch was, now := heldAs(item, before), heldAs(item, after); {
	case !ok: // the agent itself waits, or something that is not a work item
	case was != now:
		s.emitHold("update", "", was, now, &item, after)
	case now != "" && w.Status == ledger.WaitActive: // it waits for something more
		f := fields{"op": "update"}
		f.held(now, item, after)
		s.emitWork(record.WorkItemWritten, "task.updated", item, f)
	}
}

// lookBehind is how many messages a new wait looks at for one that ends it. All
// but those that are only observed do.
const lookBehind = 64

// lookAtQueue triggers a wait by the first message that is in the queue already
// and ends it.
func (s *step) lookAtQueue(w ledger.Wait) ledger.Wait {
	for _, e := range newest(s, ledger.View.Queued, lookBehind) {
		if e.Code != rules.CodeStalled && rules.Triggers(w, s.message(e.MessageID)) {
			return s.triggerWait(w, e.MessageID)
		}
	}
	return w
}

// trigger marks the waits of all owners that a message ends which is put in the queue.
// It is the one place where a message meets the waits that are there.
func (s *step) trigger(msg ledger.Message) {
	for _, w := range s.waits() {
		if w.Status == ledger.WaitActive && rules.Triggers(w, msg) {
			s.triggerWait(w, msg.ID)
		}
	}
}

func triggeredBy(w ledger.Wait, messageID string) bool {
	return w.Status == ledger.WaitTriggered && w.MessageID == messageID
}

// cancelTriggered gives up the waits that a message was to end which leaves the queue
// without a turn.
func (s *step) cancelTriggered(messageID string) {
	for _, w := range s.waits() {
		if triggeredBy(w, messageID) {
			s.cancelWait(w, "the message that ended it was removed")
		}
	}
}

// triggerWait notes that a message ends a wait, which its admission causes, also when it is put back in the queue.
func (s *step) triggerWait(w ledger.Wait, messageID string) ledger.Wait {
	if w.Status == ledger.WaitResolved && w.Kind == ledger.WaitOperator { // its message came back
		s.emitAction(record.WaitRegistered, w)
	}
	w.Status, w.MessageID, w.AttemptID, w.EndedAt, w.UpdatedAt = ledger.WaitTriggered, messageID, "", nil, s.now
	s.saveWait(record.WaitTriggered, w, ledger.Event{MessageID: messageID, Cause: admittedEvent(messageID)},
		fields{"kind": string(w.Kind)}, s.update)
	return w
}

// waitAgain takes back that a message triggered a wait: it is dropped.
func (s *step) waitAgain(w *ledger.Wait) {
	w.Status, w.MessageID, w.UpdatedAt = ledger.WaitActive, "", s.now
	s.saveWait(record.WaitRegistered, *w, ledger.Event{}, fields{"kind": string(w.Kind)}, s.update)
}

// resolveWait ends a wait by the attempt that claimed its message.
func (s *step) resolveWait(w ledger.Wait, a ledger.Attempt, messageID string) {
	w.Status, w.MessageID, w.AttemptID, w.UpdatedAt, w.EndedAt = ledger.WaitResolved, messageID, a.ID, s.now, &s.now
	s.saveWait(record.WaitResolved, w, ledger.Event{MessageID: messageID, TurnID: a.TurnID},
		fields{"attempt_id": a.ID}, s.update)
}

// cancelWait gives a wait up. A message that triggered it stays where it is.
func (s *step) cancelWait(w ledger.Wait, reason string) {
	w.Status, w.UpdatedAt, w.EndedAt = ledger.WaitCancelled, s.now, &s.now
	s.saveWait(record.WaitCancelled, w, ledger.Event{}, fields{"reason": reason}, s.update)
}

// cancelActive gives up the agent's wait unless a message already ended it.
func (s *step) cancelActive(reason string) {
	if w := s.agentWait(); w != nil && w.Status == ledger.WaitActive {
		s.cancelWait(*w, reason)
	}
}
