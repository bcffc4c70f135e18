package scheduler_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"holon/runner/agent/rules"
	"holon/runner/agent/scheduler"
	"holon/state/ledger"
)

// A message whose turn is lost comes back once; the second time it is over.
func TestLost(t *testing.T) {
	w := open(t)
	adm := w.admit(prompt("x"))
	c := w.claim()
	s := w.settle(c.Attempt.ID, scheduler.End{Lost: true, ResponseID: "resp_cut"})
	switch {
	case s.Status != ledger.Queued:
		t.Fatalf("s.Status = %q, want %q", s.Status, ledger.Queued)
	case s.Turn == nil:
		t.Fatal("s.Turn = nil, want a value")
	case s.Turn.Kind != ledger.TurnAborted:
		t.Fatalf("s.Turn.Kind = %q, want %q", s.Turn.Kind, ledger.TurnAborted)
	case s.Turn.Reason != "interrupted":
		t.Fatalf(`s.Turn.Reason = %q, want "interrupted"`, s.Turn.Reason)
	case len(w.briefs()) != 0:
		t.Fatalf("len(w.briefs()) = %d (%+v), want 0", len(w.briefs()), w.briefs())
	}
	again := w.claim()
	switch {
	case !again.Attempt.Readmit:
		t.Fatal("again.Attempt.Readmit = false, want true")
	case again.Message.ID != adm.MessageID:
		t.Fatalf("again.Message.ID = %q, want %q", again.Message.ID, adm.MessageID)
	case again.Attempt.TurnID == c.Attempt.TurnID:
		t.Fatalf("again.Attempt.TurnID = %q, want another value", c.Attempt.TurnID)
	case again.Attempt.Chain != "resp_cut":
		t.Fatalf(`again.Attempt.Chain = %q, want "resp_cut"`, again.Attempt.Chain)
	case again.Attempt.TurnIndex != 2:
		t.Fatalf("again.Attempt.TurnIndex = %d, want 2", again.Attempt.TurnIndex)
	}
	s = w.settle(again.Attempt.ID, scheduler.End{Lost: true})
	switch b := w.briefs(); {
	case s.Status != ledger.Interrupted:
		t.Fatalf("s.Status = %q, want %q", s.Status, ledger.Interrupted)
	case len(b) != 1:
		t.Fatalf("len(b) = %d (%+v), want 1", len(b), b)
	case b[0].Kind != ledger.BriefFailure:
		t.Fatalf("b[0].Kind = %q, want %q", b[0].Kind, ledger.BriefFailure)
	}
	w.nothing()
}

// A message that goes back to the queue ends the rest that its turn had asked for: the agent does not sleep through it.
func TestComingBackEndsTheRest(t *testing.T) {
	w := open(t)
	adm := w.admit(prompt("x"))
	c := w.claim()
	wait := w.sleep("1", time.Hour)
	w.settle(c.Attempt.ID, scheduler.End{Lost: true})
	if got := w.wait(wait.ID); got.Status != ledger.WaitTriggered || got.MessageID != adm.MessageID {
		t.Fatalf("after a lost turn: %+v", got)
	}
	c = w.claim()
	in := prompt("also")
	in.Priority = ledger.Interject
	also := w.admit(in)
	if msgs, err := w.m.Offer(w.ctx, "alpha"); err != nil || len(msgs) != 1 {
		t.Fatalf("%v, %v", msgs, err)
	}
	wait = w.sleep("2", time.Hour)
	w.settle(c.Attempt.ID, scheduler.End{Kind: ledger.TurnCompleted})
	if got := w.wait(wait.ID); got.Status != ledger.WaitTriggered || got.MessageID != also.MessageID {
		t.Fatalf("after a message came too late: %+v", got)
	}
}

// A message that joined a turn whose end is lost comes back once.
func TestForgottenInterjection(t *testing.T) {
	w := open(t)
	w.admit(prompt("x"))
	in := prompt("also")
	in.Priority = ledger.Interject
	var also scheduler.Admission
	for i, want := range []ledger.EntryStatus{ledger.Queued, ledger.Interrupted} {
		c := w.claim()
		if i == 0 {
			also = w.admit(in)
			if _, err := w.m.Offer(w.ctx, "alpha"); err != nil {
				t.Fatal(err)
			}
		}
		w.settle(c.Attempt.ID, scheduler.End{Lost: true, Inserted: []string{also.MessageID}})
		if got := w.entry(also.MessageID).Status; got != want {
			t.Fatalf("after %d lost turns it is %s, want %s", i+1, got, want)
		}
	}
	w.check()
}

// A plain tick that ended a rest is answered though its turn was lost, or could
// not be begun at first.
func TestTickComesBack(t *testing.T) {
	for name, end := range map[string]scheduler.End{"lost": {Lost: true}, "not begun": {NotBegun: true},
		"no engine": {NotBegun: true, Failure: &ledger.Failure{Code: "engine"}}} {
		t.Run(name, func(t *testing.T) {
			w := open(t)
			wait := w.rests(0)
			w.wake("", "triggered")
			c, ok, err := w.m.Claim(w.ctx, "alpha")
			if err != nil || !ok {
				t.Fatalf("%v, %v", ok, err)
			}
			w.settle(c.Attempt.ID, end)
			w.check()
			w.pass(time.Minute)
			again := w.claim()
			equal(t, "message", again.Message.ID, c.Message.ID)
			if resumed := again.Wait != nil && again.Wait.ID == wait.ID; resumed == end.Lost {
				t.Errorf("the turn ends wait %+v", again.Wait)
			}
		})
	}
}

// A message whose turn can't be begun waits longer and longer and is given up. The message behind it then
// gets its turn.
func TestQuarantine(t *testing.T) {
	w := open(t)
	adm := w.admit(prompt("x"))
	next := w.admit(prompt("y"))
	var waited []time.Duration
	for range rules.MaxTries {
		pause, again := w.tryInVain(t, adm.MessageID)
		if !again {
			break
		}
		waited = append(waited, pause)
	}
	equal(t, "pauses between tries", len(waited), rules.MaxTries-1)
	equal(t, "the first pause", waited[0], time.Second)
	equal(t, "the eleventh pause", waited[10], 5*time.Minute)
	e := w.entry(adm.MessageID)
	equal(t, "status", e.Status, ledger.Quarantined)
	equal(t, "failed tries", e.Failed, rules.MaxTries)
	b := w.briefs()
	switch {
	case len(b) != 1:
		t.Errorf("len(b) = %d (%+v), want 1", len(b), b)
	case b[0].Kind != ledger.BriefFailure:
		t.Errorf("b[0].Kind = %q, want %q", b[0].Kind, ledger.BriefFailure)
	case !strings.Contains(b[0].Text, "image alpha"):
		t.Errorf(`b[0].Text = %q, want it to contain "image alpha"`, b[0].Text)
	}
	types, events := w.events(0)
	if at := slices.Index(types, rules.QueueEntryQuarantined); at < 0 {
		t.Errorf("the events %v do not tell the operator", types)
	} else {
		equal(t, "level of the event", events[at].Level, rules.LevelActionRequired)
	}
	c, _ := w.done()
	equal(t, "the next message", c.Message.ID, next.MessageID)
}

// tryInVain claims a message, whose turn can't be begun, and moves the clock to the next try. again is false when there
// is none.
func (w *world) tryInVain(t *testing.T, message string) (pause time.Duration, again bool) {
	t.Helper()
	c, ok, err := w.m.Claim(w.ctx, "alpha")
	if err != nil || !ok {
		t.Fatalf("claim: %v, %v", ok, err)
	}
	equal(t, "the claimed message", c.Message.ID, message)
	s := w.settle(c.Attempt.ID, scheduler.End{NotBegun: true, Failure: &ledger.Failure{Phase: "startup",
		Code: "image_missing", Summary: "The image is not there.", Hint: "holon agent image alpha IMAGE"}})
	if s.Turn != nil {
		t.Fatalf("a turn that was not begun is %+v", s.Turn)
	}
	if s.RetryAt == nil {
		return 0, false
	}
	w.nothing()
	at, ok, err := w.m.RetryAt(w.ctx, "alpha")
	if err != nil || !ok || !at.Equal(*s.RetryAt) {
		t.Fatalf("the next try is at %v (%v, %v), want %v", at, ok, err, s.RetryAt)
	}
	pause, w.now = at.Sub(w.now), at
	return pause, true
}

// A claim of which the store says that it failed, though it is there, is made:
// no one else would run its attempt.
func TestClaimWithoutAnswer(t *testing.T) {
	for _, where := range []boundary{beforeStep, beforeWrite, afterCommit} {
		t.Run(fmt.Sprint(where), func(t *testing.T) {
			w := open(t)
			w.admit(prompt("x"))
			w.store.armed, w.store.survives, w.store.where, w.store.after = true, true, where, 0
			c, ok, err := w.m.Claim(w.ctx, "alpha")
			if ok != (where == afterCommit) || ok != (err == nil) {
				t.Fatalf("%d: %v, %v", where, ok, err)
			}
			if !ok {
				c = w.claim()
			}
			if s := w.settle(c.Attempt.ID, scheduler.End{Kind: ledger.TurnCompleted}); s.Status != ledger.Processed {
				t.Fatalf("%d: %+v", where, s)
			}
			w.check()
		})
	}
}

// A turn that was not begun, without a failure, is next again at once.
func TestNeverBegun(t *testing.T) {
	w := open(t)
	adm := w.admit(prompt("x"))
	for range rules.MaxTries + 1 {
		c, ok, err := w.m.Claim(w.ctx, "alpha")
		switch {
		case err != nil:
			t.Fatalf("unexpected error: %v", err)
		case !ok:
			t.Fatalf("%v %v %+v", ok, err, c.Attempt)
		case c.Message.ID != adm.MessageID:
			t.Fatalf("c.Message.ID = %q, want %q", c.Message.ID, adm.MessageID)
		case c.Attempt.TurnIndex != 1:
			t.Fatalf("c.Attempt.TurnIndex = %d, want 1", c.Attempt.TurnIndex)
		}
		switch s := w.settle(c.Attempt.ID, scheduler.End{NotBegun: true}); {
		case s.Status != ledger.Queued:
			t.Fatalf("s.Status = %q, want %q", s.Status, ledger.Queued)
		case s.RetryAt != nil:
			t.Fatalf("s.RetryAt = %+v, want nil", s.RetryAt)
		case s.Turn != nil:
			t.Fatalf("s.Turn = %+v, want nil", s.Turn)
		}
	}
	switch e := w.entry(adm.MessageID); {
	case e.Failed != 0:
		t.Fatalf("e.Failed = %d, want 0", e.Failed)
	case w.state().LastFailure != nil:
		t.Fatalf("w.state().LastFailure = %+v, want nil", w.state().LastFailure)
	case len(w.briefs()) != 0:
		t.Fatalf("len(w.briefs()) = %d (%+v), want 0", len(w.briefs()), w.briefs())
	}
}

// The last text of a turn in which the agent queued its next step is an acknowledgement; the turn of that step has the
// result.
func TestAcknowledges(t *testing.T) {
	w := open(t)
	w.admit(prompt("x"))
	c := w.claim()
	if _, err := w.m.Admit(w.ctx, scheduler.Ingress{AgentID: "alpha", Kind: ledger.KindInternalFollowup,
		Origin: ledger.Origin{Kind: ledger.OriginSystem, Subsystem: "agent"},
		Body:   ledger.Body{Type: "text", Text: "next"}, AdmissionContext: ledger.RuntimeOwned}); err != nil {
		t.Fatal(err)
	}
	w.settle(c.Attempt.ID, scheduler.End{Kind: ledger.TurnCompleted, Last: "I began."})
	w.settle(w.claim().Attempt.ID, scheduler.End{Kind: ledger.TurnCompleted, Last: "It is done."})
	switch b := w.briefs(); {
	case len(b) != 2:
		t.Errorf("len(b) = %d (%+v), want 2", len(b), b)
	case b[0].Kind != ledger.BriefAck:
		t.Errorf("b[0].Kind = %q, want %q", b[0].Kind, ledger.BriefAck)
	case b[1].Kind != ledger.BriefResult:
		t.Errorf("b[1].Kind = %q, want %q", b[1].Kind, ledger.BriefResult)
	}
}

// A message whose turns only shutdowns cut short comes back as often as that, and
// is said to have been begun before.
func TestSuspended(t *testing.T) {
	w := open(t)
	adm := w.admit(prompt("x"))
	for i := range 4 {
		c := w.claim()
		if c.Message.ID != adm.MessageID || c.Attempt.Readmit != (i > 0) {
			t.Fatalf("%d: %+v", i, c.Attempt)
		}
		if s := w.settle(c.Attempt.ID, scheduler.End{Kind: ledger.TurnAborted, Lost: true,
			Suspended: true}); s.Status != ledger.Queued {
			t.Fatalf("%d: %+v", i, s)
		}
		_, told := w.events(0)
		last := slices.IndexFunc(told, func(e ledger.Event) bool {
			return e.Type == rules.TurnTerminal && e.TurnID == c.Attempt.TurnID
		})
		if last < 0 || told[last].Status != "cancelled" {
			t.Errorf("%d: the end of a turn that a shutdown cut short is event %d of %+v, want one with status cancelled", i,
				last, told)
		}
		w.check()
	}
	for _, want := range []ledger.EntryStatus{ledger.Queued, ledger.Interrupted} {
		if s := w.settle(w.claim().Attempt.ID, scheduler.End{Kind: ledger.TurnAborted, Lost: true}); s.Status != want {
			t.Fatalf("lost: %s, want %s", s.Status, want)
		}
	}
}

// A higher priority comes before a message that is left alone.
func TestDeferredHead(t *testing.T) {
	w := open(t)
	w.admit(prompt("x"))
	c := w.claim()
	w.settle(c.Attempt.ID, scheduler.End{NotBegun: true, Failure: &ledger.Failure{Code: "engine"}})
	w.admit(prompt("behind"))
	w.nothing()
	in := prompt("before")
	in.Priority = ledger.Next
	w.admit(in)
	if c, _ := w.done(); c.Message.Body.Text != "before" {
		t.Fatalf("%+v", c.Message)
	}
	w.nothing()
	w.now = w.now.Add(time.Second)
	if c, _ := w.done(); c.Message.Body.Text != "x" {
		t.Fatalf("%+v", c.Message)
	}
}
