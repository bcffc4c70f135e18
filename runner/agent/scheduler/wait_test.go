package scheduler_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"holon/runner/agent/record"
	"holon/runner/agent/rules"
	"holon/runner/agent/scheduler"
	"holon/state"
	"holon/state/ledger"
	"holon/test/expect"
)

// resumes looks that a turn goes on with what a wait was for.
func (w *world) resumes(t *testing.T, c scheduler.Claim, waitID string, class ledger.Class) {
	t.Helper()
	expect.Equal(t, "class", c.Continuation.Class, class)
	if c.Wait == nil || c.Wait.ID != waitID {
		t.Fatalf("the turn ends the wait %+v, want %s", c.Wait, waitID)
	}
	if got := w.wait(waitID); got.Status != ledger.WaitResolved || got.AttemptID == "" || got.EndedAt == nil {
		t.Errorf("the wait is %+v, want it resolved", got)
	}
}

// A wake ends a rest, is nothing to an agent that does not rest, and is kept for
// one that is busy.
func TestWake(t *testing.T) {
	w := open(t)
	w.wake("", "triggered")
	w.wake("", "coalesced")
	w.nothing() // both ticks, the queued and the kept one, end nothing
	if l := w.state(); l.PendingWake != nil || l.Turns != 0 {
		t.Fatalf("%+v", l)
	}

	w.wake("news", "triggered")
	c := w.claim()
	expect.Equal(t, "class", c.Continuation.Class, ledger.LocalContinuation)
	expect.Equal(t, "type of the body", c.Message.Body.Type, "json")
	expect.Equal(t, "kind", c.Message.Kind, ledger.KindSystemTick)
	wait := w.sleep("1", 0)
	w.wake("", "coalesced")
	w.wake("", "coalesced")
	s := w.completes(c)
	if w.wait(wait.ID).Status != ledger.WaitTriggered || s.Closure.Posture != ledger.Awake {
		t.Fatalf("a wake that came while the agent went to rest was lost: %+v", s)
	}
	c = w.claim()
	w.resumes(t, c, wait.ID, ledger.ResumeExpectedWait)
	expect.Equal(t, "text", c.Message.Body.Text, "look")
}

func TestSleep(t *testing.T) {
	w := open(t)
	w.refused(scheduler.CodeNoRun)(w.m.Sleep(w.ctx, "alpha", "0", 0, ""))
	c := w.working()
	w.refused(scheduler.CodeInvalidTimer)(w.m.Sleep(w.ctx, "alpha", "0", -1, ""))
	first := w.sleep("1", time.Hour)
	expect.Equal(t, "kind", first.Kind, ledger.WaitTimer)
	expect.Equal(t, "id of the same call", w.sleep("1", time.Hour).ID, first.ID)
	second := w.sleep("2", 2*time.Hour)
	expect.Equal(t, "id of another call", second.ID, first.ID)
	expect.Equal(t, "status", w.wait(first.ID).Status, ledger.WaitActive)
	expect.Equal(t, "time of the other call", second.WakeAt.Sub(w.now), 2*time.Hour)
	s := w.completes(c)
	expect.Equal(t, "reason", s.Closure.WaitingReason, ledger.AwaitingTimer)
	expect.Equal(t, "posture", s.Closure.Posture, ledger.Sleeping)
	w.pass(2*time.Hour - time.Millisecond)
	w.nothing()
	w.pass(time.Millisecond)
	w.pass(0)
	c, _ = w.done()
	w.resumes(t, c, first.ID, ledger.ResumeExpectedWait)
	expect.Equal(t, "reason before", c.Continuation.PriorWaiting, ledger.AwaitingTimer)
	expect.Equal(t, "kind", c.Message.Kind, ledger.KindTimerTick)
	expect.Equal(t, "text", c.Message.Body.Text, "rest")
	w.nothing()
}

// waitExternal has alpha wait for a build, which one wake source tells of.
func (w *world) waitExternal(trigger string, expires *time.Time) ledger.Wait {
	wait := ledger.Wait{
		ID: "wait_x", AgentID: "alpha", Owner: ledger.OwnerAgent, Status: ledger.WaitActive, Kind: ledger.WaitExternal,
		WaitingFor: "a build", Wakes: []ledger.WakeSource{{Kind: rules.WakeExternal, ExternalTriggerID: trigger}},
		ExpiresAt: expires, CreatedAt: w.now, UpdatedAt: w.now,
	}
	w.must(w.store.Update(w.ctx, func(tx ledger.Tx) error { return tx.Insert(&wait) }))
	return wait
}

// A wait that only the revoked trigger would have ended is reported.
func TestStrandedWait(t *testing.T) {
	w := open(t)
	trg, _, err := w.m.EnsureTrigger(w.ctx, "alpha")
	w.must(err)
	wait := w.waitExternal(trg.ID, nil)
	w.ok(w.m.RevokeTrigger(w.ctx, "alpha", ""))
	last := w.newest("runtime.warning")
	expect.Equal(t, "type", record.Of(last).Name, record.WaitWithoutRecovery)
	expect.Equal(t, "notifications", len(w.notifications()), 1)
	expect.Equal(t, "level", last.Level, record.LevelActionRequired)
	expect.Equal(t, "wait", last.Ref, wait.ID)
}

// A wait that expires ends without a message.
func TestWaitExpires(t *testing.T) {
	w := open(t)
	at := w.now.Add(time.Minute)
	wait := w.waitExternal("", &at)
	w.pass(time.Minute)
	if got := w.wait(wait.ID); got.Status != ledger.WaitExpired || got.EndedAt == nil {
		t.Fatalf("%+v", got)
	}
	w.nothing()
}

func TestTimer(t *testing.T) {
	w := open(t)
	for _, n := range []scheduler.NewTimer{{After: -1}, {Interval: time.Millisecond},
		{After: 20 * 366 * 24 * time.Hour}, {Summary: "\xff"}} {
		n.AgentID = "alpha"
		w.refused(scheduler.CodeInvalidTimer)(w.m.CreateTimer(w.ctx, n))
	}
	n := scheduler.NewTimer{AgentID: "alpha", Key: "k", After: time.Minute, Interval: time.Minute, Summary: "look"}
	timer, made, err := w.m.CreateTimer(w.ctx, n)
	w.must(err)
	if again, anew, err := w.m.CreateTimer(w.ctx, n); err != nil || again.ID != timer.ID || !made || anew {
		t.Fatalf("%+v, made: %v, then %v, %v", again, made, anew, err)
	}
	n.Interval = time.Hour
	w.refused(scheduler.CodeKeyConflict)(w.m.CreateTimer(w.ctx, n))

	w.pass(5*time.Minute + 30*time.Second) // holon was down: it fires once
	w.pass(time.Minute)                    // while the tick is queued: it is counted
	c, _ := w.done()
	expect.Equal(t, "text", c.Message.Body.Text, "look")
	expect.Equal(t, "timer of the message", c.Message.Origin.TimerID, timer.ID)
	expect.Equal(t, "authority", c.Message.Authority, ledger.RuntimeInstruction)
	w.nothing()
	timer = get(w, ledger.View.Timer, timer.ID)
	expect.Equal(t, "how often it fired", timer.FireCount, 1)
	expect.Equal(t, "how often it did not", timer.Coalesced, 5)
	expect.Equal(t, "time to the next", timer.NextFireAt.Sub(w.now), 30*time.Second)
	timer, err = w.m.CancelTimer(w.ctx, timer.ID)
	w.must(err)
	expect.Equal(t, "status", timer.Status, ledger.TimerCancelled)
	w.pass(time.Hour)
	w.nothing()

	once, _, err := w.m.CreateTimer(w.ctx, scheduler.NewTimer{AgentID: "alpha"})
	w.must(err)
	w.must(w.m.Stop(w.ctx, "alpha", "me"))
	w.pass(time.Hour)
	w.must(w.m.Start(w.ctx, "alpha", "me"))
	w.pass(0)
	w.pass(0)
	c, _ = w.done()
	expect.Equal(t, "timer of the message", c.Message.SourceRefs["timer_id"], once.ID)
	w.nothing()
}

func TestCron(t *testing.T) {
	w := open(t) // on Sunday, 1 March 2026
	for param, n := range map[string]scheduler.NewTimer{"cron": {Cron: "0 9 * *"}, "zone": {Cron: "0 9 * * *", Zone: "Mars"}} {
		n.AgentID = "alpha"
		_, _, err := w.m.CreateTimer(w.ctx, n)
		if e, ok := errors.AsType[*state.Error](err); !ok || e.Code != scheduler.CodeInvalidTimer || e.Param != param {
			t.Errorf("%+v: %v", n, err)
		}
	}
	w.refused(scheduler.CodeInvalidTimer)(w.m.CreateTimer(w.ctx,
		scheduler.NewTimer{AgentID: "alpha", Cron: "0 9 * * *", After: time.Hour}))
	w.refused(scheduler.CodeInvalidTimer)(w.m.CreateTimer(w.ctx, scheduler.NewTimer{AgentID: "alpha", Zone: "UTC"}))
	timer, _, err := w.m.CreateTimer(w.ctx,
		scheduler.NewTimer{AgentID: "alpha", Cron: "0 9 * * 1-5", Zone: "Europe/Berlin", Summary: "look"})
	w.must(err)
	expect.Equal(t, "time to the first", timer.NextFireAt.Sub(w.now), 32*time.Hour)
	w.pass(7 * 24 * time.Hour) // holon was down on all days of the week: it fires once
	c, _ := w.done()
	expect.Equal(t, "text", c.Message.Body.Text, "look")
	w.nothing()
	timer = get(w, ledger.View.Timer, timer.ID)
	expect.Equal(t, "how often it fired", timer.FireCount, 1)
	expect.Equal(t, "how often it did not", timer.Coalesced, 4)
	expect.Equal(t, "time to the next", timer.NextFireAt.Sub(w.now), 32*time.Hour)
}

func TestTrigger(t *testing.T) {
	w := open(t)
	w.refused(scheduler.CodeTokenUnknown)(w.m.Deliver(w.ctx, scheduler.Delivery{Token: "x"}))
	trg, token, err := w.m.EnsureTrigger(w.ctx, "alpha")
	w.must(err)
	same, secret, err := w.m.EnsureTrigger(w.ctx, "alpha")
	w.must(err)
	expect.Equal(t, "the trigger", same.ID, trg.ID)
	expect.Equal(t, "the token", secret, token)
	if len(token) < 43 || strings.Contains(fmt.Sprintf("%+v", same), token) {
		t.Fatalf("the token %q of %+v can be guessed", token, same)
	}
	r, err := w.m.Deliver(w.ctx, scheduler.Delivery{Token: token, LegacyMode: true,
		WakeHint: ledger.WakeHint{Source: "forge", Body: json.RawMessage(`{"issue":7}`)}})
	w.must(err)
	expect.Equal(t, "the receipt", r, scheduler.Receipt{AgentID: "alpha", TriggerID: trg.ID, Disposition: "triggered"})
	c, _ := w.done()
	expect.Equal(t, "authority", c.Message.Authority, ledger.IntegrationSignal)
	expect.Equal(t, "context", c.Message.AdmissionContext, ledger.TriggerCapability)
	expect.Equal(t, "trigger of the message", c.Message.SourceRefs["external_trigger_id"], trg.ID)
	contains(t, "the body", string(c.Message.Body.Value), `"issue":7`)
	recorded := w.newest(record.CallbackDelivered)
	expect.Equal(t, "trigger of the event", recorded.Ref, trg.ID)
	contains(t, "the event", string(recorded.Data), "deprecated_mode")

	deliver := func(token, body string) error {
		return second(w.m.Deliver(w.ctx, scheduler.Delivery{Token: token,
			WakeHint: ledger.WakeHint{Body: json.RawMessage(body)}}))
	}
	w.refused(scheduler.CodeInvalidMessage)(deliver(token, `{`))
	_, fresh, err := w.m.RotateTrigger(w.ctx, "alpha", "")
	w.must(err)
	w.refused(scheduler.CodeTokenUnknown)(deliver(token, ""))
	w.must(w.m.Stop(w.ctx, "alpha", "me"))
	w.refused(scheduler.CodeAgentStopped, "holon agent start alpha")(deliver(fresh, ""))
	w.ok(w.m.RevokeTrigger(w.ctx, "alpha", ""))
	w.refused(scheduler.CodeTokenUnknown)(deliver(fresh, ""))
	w.refused(ledger.CodeNotFound)(w.m.RevokeTrigger(w.ctx, "alpha", ""))
	if next, secret, err := w.m.EnsureTrigger(w.ctx, "alpha"); err != nil || next.ID == trg.ID || secret == "" {
		t.Fatalf("%+v, %v", next, err)
	}
}
