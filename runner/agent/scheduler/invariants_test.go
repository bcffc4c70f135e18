package scheduler_test

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"holon/responses/agentruntime"
	"holon/runner/agent/record"
	"holon/runner/agent/rules"
	"holon/state"
	"holon/state/ledger"
)

// check looks at the whole ledger for what docs/explanation/runtime.md says must hold after
// every step.
func (w *world) check() {
	w.findChildren()
	w.view(func(v ledger.View) error {
		if err := w.checkChildren(v); err != nil {
			return err
		}
		for _, id := range w.all() {
			if err := w.checkAgent(v, id); err != nil {
				return err
			}
		}
		return nil
	})
}

func (w *world) checkAgent(v ledger.View, id string) error {
	l, err := v.AgentState(id)
	if err != nil {
		return err
	}
	if l.Revision < w.revisions[id] {
		w.t.Fatalf("%s: the revision went back from %d to %d", id, w.revisions[id], l.Revision)
	}
	w.revisions[id] = l.Revision
	open, running, err := v.OpenAttempt(id)
	if err != nil {
		return err
	}
	msgs, err := v.Messages(id, 10_000)
	if err != nil {
		return err
	}
	if int64(len(msgs)) != l.Admitted || l.Totals.Messages != l.Admitted {
		w.t.Fatalf("%s: %d messages are there and %d were admitted", id, len(msgs), l.Admitted)
	}
	if err := w.checkHint(v, l, running); err != nil {
		return err
	}
	settled, err := w.checkEvents(v, l)
	if err != nil {
		return err
	}
	for _, msg := range msgs {
		e, err := v.Entry(msg.ID)
		if err != nil {
			return err
		}
		w.checkEntry(e, open, running, settled[msg.ID])
	}
	if err := w.checkWorkspaces(v, l); err != nil {
		return err
	}
	if err := w.checkWork(v, l, running); err != nil {
		return err
	}
	if err := w.checkTasks(v, id, msgs); err != nil {
		return err
	}
	if err := w.checkMemory(v, l); err != nil {
		return err
	}
	return w.checkWait(v, l, msgs)
}

// checkMemory: each turn that has settled is in one episode or in the one that goes on, numbers of episodes have no gap,
// and what the conversation does not know is pending.
func (w *world) checkMemory(v ledger.View, l ledger.AgentState) error {
	m, known, err := v.Memory(l.AgentID)
	if err != nil || !known && l.Turns == 0 {
		return err
	}
	episodes, err := v.EpisodesAfter(l.AgentID, 0, 10_000)
	if err != nil {
		return err
	}
	next := int64(1)
	for i, e := range episodes {
		if e.Number != int64(i+1) || e.StartTurn != next || e.EndTurn < e.StartTurn || e.FinalizedAt == nil {
			w.t.Fatalf("%s: episode %d has turns %d to %d, and number %d with turn %d should come", l.AgentID, e.Number,
				e.StartTurn, e.EndTurn, i+1, next)
		}
		next = e.EndTurn + 1
	}
	if b := m.Builder; b != nil {
		if b.StartTurn != next {
			w.t.Fatalf("%s: an episode goes on from turn %d, want %d", l.AgentID, b.StartTurn, next)
		}
		next = b.EndTurn + 1
	}
	if next != l.Turns+1 || m.Archived != int64(len(episodes)) {
		w.t.Fatalf("%s: episodes have %d of %d turns, and %d of %d are counted", l.AgentID, next-1, l.Turns, m.Archived,
			len(episodes))
	}
	if (m.Pending != nil) != (m.LastPrompted < m.Revision && !cmp.Equal(m.Known, m.Current, cmpopts.EquateEmpty())) {
		w.t.Fatalf("%s: pending is %+v, at revision %d of which %d is known", l.AgentID, m.Pending, m.Revision, m.LastPrompted)
	}
	return nil
}

// checkHint: an agent without an open attempt that has a kept hint has a message in
// its queue, so that a run loop finds it (7).
func (w *world) checkHint(v ledger.View, l ledger.AgentState, running bool) error {
	if l.PendingWake == nil || running || l.Stopped {
		return nil
	}
	n, err := v.CountQueued(l.AgentID)
	if err == nil && n == 0 {
		w.t.Fatalf("%s has a hint that no run loop will look at: %+v", l.AgentID, l.PendingWake)
	}
	return err
}

// checkEntry: a message is in one place, ends once, and is recorded once (1), and a
// message that can't be begun backs off (5).
func (w *world) checkEntry(e ledger.Entry, open ledger.Attempt, running bool, settled int) {
	if old, ended := w.seen[e.MessageID]; ended && old != e.Status {
		w.t.Fatalf("message %s ended as %s and is %s now", e.MessageID, old, e.Status)
	}
	want := 0
	switch {
	case e.Status.Terminal():
		w.seen[e.MessageID], want = e.Status, 1
	case e.Status == ledger.Dequeued && (!running || e.AttemptID != open.ID):
		w.t.Fatalf("message %s is held by attempt %q, which is not open", e.MessageID, e.AttemptID)
	case e.Status == ledger.Queued && e.AttemptID != "":
		w.t.Fatalf("message %s is queued and held by %s", e.MessageID, e.AttemptID)
	}
	if running && e.MessageID == open.MessageID && e.Status != ledger.Dequeued {
		w.t.Fatalf("attempt %s runs for message %s, which is %s", open.ID, e.MessageID, e.Status)
	}
	if settled != want {
		w.t.Fatalf("message %s is %s and its end was recorded %d times", e.MessageID, e.Status, settled)
	}
	switch {
	case e.Readmitted > 1:
		w.t.Fatalf("e.Readmitted = %d, want at most 1", e.Readmitted)
	case e.Blocked(): // until a setting changes, however often that was tried
		return
	case e.Failed > rules.MaxTries:
		w.t.Fatalf("e.Failed = %d, want at most %d", e.Failed, rules.MaxTries)
	case e.Failed == rules.MaxTries && e.Status != ledger.Quarantined:
		w.t.Fatalf("e.Failed == rules.MaxTries && e.Status != ledger.Quarantined, want the contrary")
	}
	if e.NotBefore != nil && e.NotBefore.After(w.now.Add(5*time.Minute)) {
		w.t.Fatalf("message %s is left alone until %v, and it is %v", e.MessageID, e.NotBefore, w.now)
	}
}

// account is what the events of an agent say, up to the newest that was read.
type account struct {
	newest         int64
	settled, tools map[string]int         // ends by message, and tools by turn
	expired        map[string]int         // by event
	waits          map[string]ledger.Wait // as the newest event about each has it
	closure        string                 // the outcome of the newest, and the reason to wait
	validator      *agentruntime.Validator
}

// checkEvents: the numbers of events have no gap (4), and every event has a documented type. It returns how often the
// end of each message was recorded. It reads the events that are new since the last check.
func (w *world) checkEvents(v ledger.View, l ledger.AgentState) (map[string]int, error) {
	a := w.accounts[l.AgentID]
	if a == nil {
		a = &account{settled: map[string]int{}, tools: map[string]int{}, waits: map[string]ledger.Wait{},
			expired: map[string]int{}}
		a.validator = agentruntime.NewValidator(agentruntime.LevelC, func(v agentruntime.Violation) {
			w.t.Fatalf("%s: the record breaks a rule: %+v", l.AgentID, v)
		})
		w.accounts[l.AgentID] = a
	}
	page, err := v.Events(l.AgentID, ledger.EventQuery{After: a.newest, Limit: 100_000})
	if err != nil {
		return nil, err
	}
	for _, e := range page.Events {
		if a.newest++; e.Seq != a.newest {
			w.t.Fatalf("%s: event %d has number %d", l.AgentID, a.newest, e.Seq)
		}
		if e.Class == "" || e.Level == 0 {
			w.t.Fatalf("%s: event %+v has no known type or no level", l.AgentID, e)
		}
		recorded := record.RuntimeEvent(e, testLog)
		a.validator.Event(l.AgentID, int(e.Seq), &recorded)
		switch record.Of(e).Name {
		case record.QueueEntrySettled:
			a.settled[e.MessageID]++
		case record.ToolExecuted:
			a.tools[e.TurnID]++
		case record.OutputExpired:
			if a.expired[e.ID]++; a.expired[e.ID] > 1 {
				w.t.Fatalf("%s: a directory goes twice: %s", l.AgentID, e.Data)
			}
		}
		w.foldWait(a, e)
		w.checkPrior(a, e)
	}
	for id, folded := range a.waits {
		if now, err := v.Wait(id); err != nil || folded.Status != now.Status || folded.MessageID != now.MessageID {
			w.t.Fatalf("%s: the events of wait %s end with %s by %q, and it is %s by %q (%v)", l.AgentID, id, folded.Status,
				folded.MessageID, now.Status, now.MessageID, err)
		}
	}
	if l.EventSeq != a.newest {
		w.t.Fatalf("%s: %d event numbers were assigned, want one for each of the %d events", l.AgentID, l.EventSeq,
			a.newest)
	}
	for id, n := range a.tools {
		if t := w.containers[id]; t == nil || n > t.tools {
			w.t.Fatalf("turn %s: %d tools are recorded, more than ran", id, n)
		}
	}
	return a.settled, nil
}

// foldWait takes the copy of a wait that an event about one has.
func (w *world) foldWait(a *account, e ledger.Event) {
	if record.Of(e).Category != "waiting" {
		return
	}
	var data struct {
		Wait *ledger.Wait `json:"wait_condition"`
	}
	if err := json.Unmarshal(e.Data, &data); err != nil && e.Data != nil {
		w.t.Fatalf("the data of event %d: %v", e.Seq, err)
	}
	switch {
	case data.Wait != nil && data.Wait.ID == e.Ref:
		a.waits[e.Ref] = *data.Wait
	case strings.HasPrefix(e.Ref, "wait_"):
		w.t.Fatalf("event %d, %s, has no copy of wait %s: %s", e.Seq, record.Of(e).Name, e.Ref, e.Data)
	}
}

// checkPrior: what a message continues is the closure that was recorded last, unless a message that is in the queue
// ended a wait already.
func (w *world) checkPrior(a *account, e ledger.Event) {
	if record.Of(e).Name != record.ClosureDecided && record.Of(e).Name != record.ContinuationResolved {
		return
	}
	var data struct {
		Outcome string `json:"outcome"`
		Waiting string `json:"waiting_reason"`
		Prior   string `json:"prior_closure_outcome"`
		Reason  string `json:"prior_waiting_reason"`
	}
	if err := json.Unmarshal(e.Data, &data); err != nil {
		w.t.Fatalf("the data of event %d: %v", e.Seq, err)
	}
	if record.Of(e).Name == record.ClosureDecided {
		a.closure = data.Outcome + " " + data.Waiting
		return
	}
	for _, wait := range a.waits {
		if wait.Status == ledger.WaitTriggered {
			return
		}
	}
	if prior := data.Prior + " " + data.Reason; a.closure != "" && prior != a.closure {
		w.t.Fatalf("event %d continues what was %q before, and %q was recorded", e.Seq, prior, a.closure)
	}
}

// checkWait: a wait that is not over has something that ends it (2), is triggered
// exactly when its message is in the queue (3), and none is overlooked (7).
func (w *world) checkWait(v ledger.View, l ledger.AgentState, msgs []ledger.Message) error {
	waits, err := v.UnresolvedWaits(l.AgentID)
	if err != nil {
		return err
	}
	owners := map[string]bool{}
	for _, wait := range waits {
		if owners[wait.Owner] {
			w.t.Fatalf("%s of %s waits for two things", wait.Owner, l.AgentID)
		}
		owners[wait.Owner] = true
		if wait.Status == ledger.WaitTriggered {
			if e, err := v.Entry(wait.MessageID); err != nil || e.Status != ledger.Queued {
				w.t.Fatalf("wait %s was triggered by message %s, which is %s (%v)", wait.ID, wait.MessageID, e.Status,
					err)
			}
			continue
		}
		goesOn := state.IsChild(l.AgentID) && get(w, ledger.View.Agent, l.AgentID).ArchivedAt == nil
		if l.Stopped && !goesOn && wait.Owner == ledger.OwnerAgent {
			w.t.Fatalf("%s is stopped and waits still: %+v", l.AgentID, wait)
		}
		if len(wait.Wakes) == 0 && wait.ExpiresAt == nil {
			w.t.Fatalf("nothing ends wait %s", wait.ID)
		}
		at := slices.IndexFunc(msgs, func(m ledger.Message) bool {
			e, err := v.Entry(m.ID)
			return err == nil && e.Status == ledger.Queued && rules.Triggers(wait, m)
		})
		if at >= 0 {
			w.t.Fatalf("wait %s goes on though message %s, which ends it, is in the queue", wait.ID, msgs[at].ID)
		}
	}
	return nil
}

// checkDrained: work that can be done was done (7). It reads all events again.
func (w *world) checkDrained() {
	clear(w.accounts)
	w.check()
	w.view(func(v ledger.View) error {
		for _, id := range w.all() {
			l, err := v.AgentState(id)
			if err != nil {
				return err
			}
			n, err := v.CountQueued(id)
			if err != nil {
				return err
			}
			if _, running, err := v.OpenAttempt(id); n > 0 || running || l.PendingWake != nil || err != nil {
				w.t.Fatalf("%s: %d queued, running %v (%v), %+v; want nothing to do", id, n, running, err, l)
			}
		}
		ready, err := v.Ready()
		if len(ready) > 0 {
			w.t.Fatalf("%v have something to do", ready)
		}
		return err
	})
}
