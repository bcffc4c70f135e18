package scheduler_test

import (
	"fmt"
	"testing"
	"time"

	"holon/runner/agent/record"
	"holon/runner/agent/rules"
	"holon/runner/agent/scheduler"
	"holon/state/ledger"
	"holon/test/expect"
)

// notBegun is the end of an attempt whose container could not be started.
func notBegun() scheduler.End {
	return scheduler.End{Turn: ledger.Turn{Failure: &ledger.Failure{Phase: "startup", Code: "image_missing",
		Summary: "The image is not there.", Hint: "holon agent image alpha IMAGE"}}, NotBegun: true}
}

// A message whose turn is lost comes back once; the second time it is over.
func TestLost(t *testing.T) {
	w := open(t)
	c := w.working()
	s := w.settle(c.Attempt.ID, scheduler.End{Turn: ledger.Turn{ResponseID: "resp_cut"}, Lost: true})
	if s.Turn == nil {
		t.Fatalf("the settlement %+v has no turn", s)
	}
	expect.Equal(t, "status", s.Status, ledger.Queued)
	expect.Equal(t, "kind of the turn", s.Turn.Kind, ledger.TurnAborted)
	expect.Equal(t, "reason of the turn", s.Turn.Reason, "interrupted")
	w.briefed()
	again := w.claim()
	expect.Equal(t, "readmitted", again.Attempt.Readmit, true)
	expect.Equal(t, "message", again.Message.ID, c.Message.ID)
	expect.Equal(t, "chain", again.Attempt.Chain, "resp_cut")
	expect.Equal(t, "index", again.Attempt.TurnIndex, 2)
	if again.Attempt.TurnID == c.Attempt.TurnID {
		t.Error("both turns have one id")
	}
	s = w.settle(again.Attempt.ID, scheduler.End{Lost: true})
	expect.Equal(t, "status of the second", s.Status, ledger.Interrupted)
	w.briefed(ledger.BriefFailure)
	w.nothing()
}

// A message that joined a turn whose end is lost comes back once.
func TestForgottenInterjection(t *testing.T) {
	w := open(t)
	c := w.working()
	also := w.admit(interject("also"))
	w.ok(w.m.Offer(w.ctx, "alpha"))
	for _, want := range []ledger.EntryStatus{ledger.Queued, ledger.Interrupted} {
		w.settle(c.Attempt.ID, scheduler.End{Lost: true, Inserted: []string{also.MessageID}})
		expect.Equal(t, "status", w.entry(also.MessageID).Status, want)
		if want == ledger.Queued {
			c = w.claim()
		}
	}
	w.check()
}

// A plain tick that ended a rest is answered though its turn was lost, or could
// not be begun at first.
func TestTickComesBack(t *testing.T) {
	for name, end := range map[string]scheduler.End{"lost": {Lost: true}, "not begun": {NotBegun: true},
		"no engine": notBegun()} {
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
			expect.Equal(t, "message", again.Message.ID, c.Message.ID)
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
	expect.Equal(t, "pauses between tries", len(waited), rules.MaxTries-1)
	expect.Equal(t, "the first pause", waited[0], time.Second)
	expect.Equal(t, "the eleventh pause", waited[10], 5*time.Minute)
	e := w.entry(adm.MessageID)
	expect.Equal(t, "status", e.Status, ledger.Quarantined)
	expect.Equal(t, "failed tries", e.Failed, rules.MaxTries)
	contains(t, "the brief", w.briefed(ledger.BriefFailure), "image alpha")
	expect.Equal(t, "level of the event", w.newest(record.QueueEntryQuarantined).Level, record.LevelActionRequired)
	c, _ := w.done()
	expect.Equal(t, "the next message", c.Message.ID, next.MessageID)
}

// tryInVain claims a message, whose turn can't be begun, and moves the clock to the next try. again is false when there
// is none.
func (w *world) tryInVain(t *testing.T, message string) (pause time.Duration, again bool) {
	t.Helper()
	c, ok, err := w.m.Claim(w.ctx, "alpha")
	if err != nil || !ok {
		t.Fatalf("claim: %v, %v", ok, err)
	}
	expect.Equal(t, "the claimed message", c.Message.ID, message)
	s := w.settle(c.Attempt.ID, notBegun())
	if s.Turn != nil {
		t.Fatalf("a turn that was not begun is %+v", s.Turn)
	}
	if s.RetryAt == nil {
		return 0, false
	}
	w.nothing()
	at, ok := w.retryAt("alpha")
	if !ok || !at.Equal(*s.RetryAt) {
		t.Fatalf("the next try is at %v (%v), want %v", at, ok, s.RetryAt)
	}
	pause, w.now = at.Sub(w.now), at
	return pause, true
}

// A claim of which the store says that it failed may be there: its message is next when it is given back.
func TestClaimWithoutAnswer(t *testing.T) {
	for _, where := range []boundary{beforeStep, beforeWrite, afterCommit} {
		t.Run(fmt.Sprint(where), func(t *testing.T) {
			w := open(t)
			w.admit(prompt("x"))
			w.store.armed, w.store.survives, w.store.where, w.store.after = true, true, where, 0
			_, _, err := w.m.Claim(w.ctx, "alpha")
			expect.Equal(t, "error", err, errCrash)
			var open ledger.Attempt
			claimed := false
			w.view(func(v ledger.View) (err error) {
				open, claimed, err = v.OpenAttempt("alpha")
				return err
			})
			expect.Equal(t, "an attempt is open", claimed, where == afterCommit)
			if claimed {
				w.settle(open.ID, scheduler.End{NotBegun: true})
			}
			expect.Equal(t, "status", w.completes(w.claim()).Status, ledger.Processed)
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
		if err != nil || !ok {
			t.Fatalf("claim: %v, %v", ok, err)
		}
		expect.Equal(t, "message", c.Message.ID, adm.MessageID)
		expect.Equal(t, "index", c.Attempt.TurnIndex, 1)
		s := w.settle(c.Attempt.ID, scheduler.End{NotBegun: true})
		if s.Status != ledger.Queued || s.RetryAt != nil || s.Turn != nil {
			t.Fatalf("settled as %+v, want it queued for now", s)
		}
	}
	expect.Equal(t, "failures", w.entry(adm.MessageID).Failed, 0)
	if f := w.state().LastFailure; f != nil {
		t.Errorf("the last failure is %+v, want none", f)
	}
	w.briefed()
}

// The last text of a turn in which the agent queued its next step is an acknowledgement; the turn of that step has the
// result.
func TestAcknowledges(t *testing.T) {
	w := open(t)
	c := w.working()
	w.admit(note("next", ""))
	w.settle(c.Attempt.ID, scheduler.End{Turn: ledger.Turn{Kind: ledger.TurnCompleted, Last: "I began."}})
	w.settle(w.claim().Attempt.ID, scheduler.End{Turn: ledger.Turn{Kind: ledger.TurnCompleted, Last: "It is done."}})
	w.briefed(ledger.BriefAck, ledger.BriefResult)
}

// A message whose turns only shutdowns cut short comes back as often as that, and
// is said to have been begun before.
func TestSuspended(t *testing.T) {
	w := open(t)
	adm := w.admit(prompt("x"))
	end := scheduler.End{Turn: ledger.Turn{Kind: ledger.TurnAborted}, Lost: true, Suspended: true}
	for i := range 4 {
		c := w.claim()
		expect.Equal(t, "message", c.Message.ID, adm.MessageID)
		expect.Equal(t, "readmitted", c.Attempt.Readmit, i > 0)
		expect.Equal(t, "status", w.settle(c.Attempt.ID, end).Status, ledger.Queued)
		last := w.newest(record.TurnTerminal)
		expect.Equal(t, "turn that ended", last.TurnID, c.Attempt.TurnID)
		expect.Equal(t, "status of the turn", last.Status, "cancelled")
		w.check()
	}
	end.Suspended = false
	for _, want := range []ledger.EntryStatus{ledger.Queued, ledger.Interrupted} {
		expect.Equal(t, "status of a lost one", w.settle(w.claim().Attempt.ID, end).Status, want)
	}
}
