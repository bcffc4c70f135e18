package scheduler_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"holon/runner/agent/rules"
	"holon/runner/agent/scheduler"
	"holon/state/ledger"
)

// A wake ends a rest, is nothing to an agent that does not rest, and is kept for
// one that is busy.
func TestWake(t *testing.T) {
	w := open(t)
	wake := func(want scheduler.Disposition, description string) {
		t.Helper()
		d, err := w.m.Wake(w.ctx, scheduler.Wake{AgentID: "alpha", Reason: "look", Description: description,
			Context: ledger.ControlAuthenticated})
		if err != nil || d != want {
			t.Fatalf("%s, %v", d, err)
		}
	}
	wake("triggered", "")
	wake("coalesced", "")
	w.nothing() // both ticks, the queued and the kept one, end nothing
	if l := w.state(); l.PendingWake != nil || l.Turns != 0 {
		t.Fatalf("%+v", l)
	}

	wake("triggered", "news")
	c := w.claim()
	switch {
	case c.Continuation.Class != ledger.LocalContinuation:
		t.Fatalf("c.Continuation.Class = %q, want %q", c.Continuation.Class, ledger.LocalContinuation)
	case c.Message.Body.Type != "json":
		t.Fatalf(`c.Message.Body.Type = %q, want "json"`, c.Message.Body.Type)
	case c.Message.Kind != ledger.KindSystemTick:
		t.Fatalf("c.Message.Kind = %q, want %q", c.Message.Kind, ledger.KindSystemTick)
	}
	wait := w.sleep("1", 0)
	wake("coalesced", "")
	wake("coalesced", "")
	s := w.settle(c.Attempt.ID, scheduler.End{Kind: ledger.TurnCompleted})
	if w.wait(wait.ID).Status != ledger.WaitTriggered || s.Closure.Posture != ledger.Awake {
		t.Fatalf("a wake that came while the agent went to rest was lost: %+v", s)
	}
	switch c := w.claim(); {
	case c.Continuation.Class != ledger.ResumeExpectedWait:
		t.Fatalf("c.Continuation.Class = %q, want %q", c.Continuation.Class, ledger.ResumeExpectedWait)
	case c.Wait == nil:
		t.Fatal("c.Wait = nil, want a value")
	case c.Wait.ID != wait.ID:
		t.Fatalf("c.Wait.ID = %q, want %q", c.Wait.ID, wait.ID)
	case c.Message.Body.Text != "look":
		t.Fatalf(`c.Message.Body.Text = %q, want "look"`, c.Message.Body.Text)
	}
	switch got := w.wait(wait.ID); {
	case got.Status != ledger.WaitResolved:
		t.Fatalf("got.Status = %q, want %q", got.Status, ledger.WaitResolved)
	case got.AttemptID == "":
		t.Fatal(`got.AttemptID = "", want another value`)
	case got.EndedAt == nil:
		t.Fatal("got.EndedAt = nil, want a value")
	}
}

// However many messages need no turn, the hint behind them is looked at.
func TestHintBehindMessagesWithoutTurn(t *testing.T) {
	for _, n := range []int{0, 29, 30, 31, 32, 62, 63, 64} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			w := open(t)
			for i := range n {
				w.admit(ingress(op{Do: "admit", Agent: "alpha", N: 8}, i))
			}
			_, err := w.m.Wake(w.ctx, scheduler.Wake{AgentID: "alpha", Reason: "a", Context: ledger.LocalProcess})
			w.must(err)
			_, err = w.m.Wake(w.ctx, scheduler.Wake{AgentID: "alpha", Reason: "b", Description: "news",
				Context: ledger.LocalProcess})
			w.must(err)
			w.store.armed, w.store.survives, w.store.where, w.store.after = true, true, beforeStep, 1
			c, ok, err := w.m.Claim(w.ctx, "alpha") // breaks off at its second transaction, if it needs one
			w.store.armed = false
			w.check()
			if err != nil {
				c, ok, err = w.m.Claim(w.ctx, "alpha")
			}
			if err != nil || !ok || c.Message.Body.Type != "json" {
				t.Fatalf("%d before it: %v %v %+v", n, ok, err, c.Message)
			}
			w.close()
		})
	}
}

func TestSleep(t *testing.T) {
	w := open(t)
	_, err := w.m.Sleep(w.ctx, "alpha", "0", 0, "")
	code(t, err, scheduler.CodeNoRun, "")
	w.admit(prompt("x"))
	c := w.claim()
	_, err = w.m.Sleep(w.ctx, "alpha", "0", -1, "")
	code(t, err, scheduler.CodeInvalidTimer, "leave it out")
	first := w.sleep("1", time.Hour)
	if again := w.sleep("1", time.Hour); again.ID != first.ID || again.Kind != ledger.WaitTimer {
		t.Fatalf("%+v after %+v", again, first)
	}
	second := w.sleep("2", 2*time.Hour)
	switch {
	case second.ID != first.ID:
		t.Fatalf("second.ID = %q, want %q", second.ID, first.ID)
	case w.wait(first.ID).Status != ledger.WaitActive:
		t.Fatalf("w.wait(first.ID).Status = %q, want %q", w.wait(first.ID).Status, ledger.WaitActive)
	case !second.WakeAt.Equal(w.now.Add(2 * time.Hour)):
		t.Fatal("second.WakeAt.Equal(w.now.Add(2 * time.Hour)) = false, want true")
	}
	s := w.settle(c.Attempt.ID, scheduler.End{Kind: ledger.TurnCompleted})
	if s.Closure.WaitingReason != ledger.AwaitingTimer || s.Closure.Posture != ledger.Sleeping {
		t.Fatalf("%+v", s.Closure)
	}
	w.pass(2*time.Hour - time.Millisecond)
	w.nothing()
	w.pass(time.Millisecond)
	w.pass(0)
	c, s = w.done()
	switch {
	case c.Continuation.Class != ledger.ResumeExpectedWait:
		t.Fatalf("c.Continuation.Class = %q, want %q", c.Continuation.Class, ledger.ResumeExpectedWait)
	case c.Continuation.PriorWaiting != ledger.AwaitingTimer:
		t.Fatalf("c.Continuation.PriorWaiting = %q, want %q", c.Continuation.PriorWaiting, ledger.AwaitingTimer)
	case c.Message.Kind != ledger.KindTimerTick:
		t.Fatalf("c.Message.Kind = %q, want %q", c.Message.Kind, ledger.KindTimerTick)
	case c.Message.Body.Text != "rest":
		t.Fatalf(`c.Message.Body.Text = %q, want "rest"`, c.Message.Body.Text)
	}
	w.nothing()
}

// A message that is there when the agent goes to rest, or that triggered the
// rest that is replaced, is not slept through.
func TestSleepLooksAtTheQueue(t *testing.T) {
	w := open(t)
	w.admit(prompt("1"))
	c := w.claim()
	first := w.sleep("1", 0)
	adm := w.admit(prompt("2"))
	if w.wait(first.ID).MessageID != adm.MessageID {
		t.Fatalf("%+v", w.wait(first.ID))
	}
	second := w.sleep("2", time.Hour)
	switch {
	case second.Status != ledger.WaitTriggered:
		t.Fatalf("second.Status = %q, want %q", second.Status, ledger.WaitTriggered)
	case second.MessageID != adm.MessageID:
		t.Fatalf("second.MessageID = %q, want %q", second.MessageID, adm.MessageID)
	case w.entry(adm.MessageID).Status != ledger.Queued:
		t.Fatalf("w.entry(adm.MessageID).Status = %q, want %q", w.entry(adm.MessageID).Status, ledger.Queued)
	}
	if s := w.settle(c.Attempt.ID, scheduler.End{Kind: ledger.TurnCompleted}); s.Closure.WaitingReason != "" {
		t.Fatalf("%+v", s.Closure)
	}
	switch c := w.claim(); {
	case c.Message.ID != adm.MessageID:
		t.Fatalf("c.Message.ID = %q, want %q", c.Message.ID, adm.MessageID)
	case c.Wait == nil:
		t.Fatal("c.Wait = nil, want a value")
	case c.Wait.ID != second.ID:
		t.Fatalf("c.Wait.ID = %q, want %q", c.Wait.ID, second.ID)
	}
}

// A wait that only the revoked trigger would have ended is reported.
func TestStrandedWait(t *testing.T) {
	w := open(t)
	trg, _, err := w.m.EnsureTrigger(w.ctx, "alpha")
	w.must(err)
	wait := ledger.Wait{
		ID: "wait_x", AgentID: "alpha", Owner: ledger.OwnerAgent, Status: ledger.WaitActive, Kind: ledger.WaitExternal,
		WaitingFor: "a build",
		Wakes:      []ledger.WakeSource{{Kind: rules.WakeExternal, ExternalTriggerID: trg.ID}}, CreatedAt: w.now,
		UpdatedAt: w.now,
	}
	w.must(w.store.Update(w.ctx, func(tx ledger.Tx) error { return tx.InsertWait(wait) }))
	if _, err := w.m.RevokeTrigger(w.ctx, "alpha"); err != nil {
		t.Fatal(err)
	}
	_, events := w.events(0)
	last := events[len(events)-1]
	switch {
	case last.Type != rules.WaitWithoutRecovery:
		t.Fatalf("last.Type = %q, want %q", last.Type, rules.WaitWithoutRecovery)
	case last.Level != rules.LevelActionRequired:
		t.Fatalf("last.Level = %d, want %d", last.Level, rules.LevelActionRequired)
	case last.Ref != wait.ID:
		t.Fatalf("last.Ref = %q, want %q", last.Ref, wait.ID)
	}
}

// A wait that expires ends without a message.
func TestWaitExpires(t *testing.T) {
	w := open(t)
	at := w.now.Add(time.Minute)
	wait := ledger.Wait{
		ID: "wait_x", AgentID: "alpha", Owner: ledger.OwnerAgent, Status: ledger.WaitActive, Kind: ledger.WaitExternal,
		WaitingFor: "a build",
		Wakes:      []ledger.WakeSource{{Kind: rules.WakeExternal}}, ExpiresAt: &at, CreatedAt: w.now, UpdatedAt: w.now,
	}
	w.must(w.store.Update(w.ctx, func(tx ledger.Tx) error { return tx.InsertWait(wait) }))
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
		_, _, err := w.m.CreateTimer(w.ctx, n)
		code(t, err, scheduler.CodeInvalidTimer, "")
	}
	n := scheduler.NewTimer{AgentID: "alpha", Key: "k", After: time.Minute, Interval: time.Minute, Summary: "look"}
	timer, made, err := w.m.CreateTimer(w.ctx, n)
	w.must(err)
	if again, anew, err := w.m.CreateTimer(w.ctx, n); err != nil || again.ID != timer.ID || !made || anew {
		t.Fatalf("%+v, made: %v, then %v, %v", again, made, anew, err)
	}
	n.Interval = time.Hour
	_, _, err = w.m.CreateTimer(w.ctx, n)
	code(t, err, scheduler.CodeKeyConflict, "")

	w.pass(5*time.Minute + 30*time.Second) // holon was down: it fires once
	w.pass(time.Minute)                    // while the tick is queued: it is counted
	switch c, _ := w.done(); {
	case c.Message.Body.Text != "look":
		t.Fatalf(`c.Message.Body.Text = %q, want "look"`, c.Message.Body.Text)
	case c.Message.Origin.TimerID != timer.ID:
		t.Fatalf("c.Message.Origin.TimerID = %q, want %q", c.Message.Origin.TimerID, timer.ID)
	case c.Message.Authority != ledger.RuntimeInstruction:
		t.Fatalf("c.Message.Authority = %q, want %q", c.Message.Authority, ledger.RuntimeInstruction)
	}
	w.nothing()
	w.view(func(v ledger.View) (err error) {
		timer, err = v.Timer(timer.ID)
		return err
	})
	switch {
	case timer.FireCount != 1:
		t.Fatalf("timer.FireCount = %d, want 1", timer.FireCount)
	case timer.Coalesced != 5:
		t.Fatalf("timer.Coalesced = %d, want 5", timer.Coalesced)
	case timer.NextFireAt.Sub(w.now) != 30*time.Second:
		t.Fatalf("timer.NextFireAt.Sub(w.now) = %v, want %v", timer.NextFireAt.Sub(w.now), 30*time.Second)
	}
	if timer, err = w.m.CancelTimer(w.ctx, timer.ID); err != nil || timer.Status != ledger.TimerCancelled {
		t.Fatalf("%+v, %v", timer, err)
	}
	w.pass(time.Hour)
	w.nothing()

	once, _, err := w.m.CreateTimer(w.ctx, scheduler.NewTimer{AgentID: "alpha"})
	w.must(err)
	w.must(w.m.Stop(w.ctx, "alpha", "me"))
	w.pass(time.Hour)
	w.must(w.m.Start(w.ctx, "alpha", "me"))
	w.pass(0)
	w.pass(0)
	if c, _ := w.done(); c.Message.SourceRefs["timer_id"] != once.ID {
		t.Fatalf("%+v", c.Message)
	}
	w.nothing()
}

func TestTrigger(t *testing.T) {
	w := open(t)
	_, err := w.m.Deliver(w.ctx, scheduler.Delivery{Token: "x"})
	code(t, err, scheduler.CodeTokenUnknown, "")
	trg, token, err := w.m.EnsureTrigger(w.ctx, "alpha")
	w.must(err)
	switch same, secret, err := w.m.EnsureTrigger(w.ctx, "alpha"); {
	case err != nil:
		t.Fatalf("unexpected error: %v", err)
	case same.ID != trg.ID:
		t.Fatalf("same.ID = %q, want %q", same.ID, trg.ID)
	case secret != token:
		t.Fatalf("secret = %q, want %q", secret, token)
	case len(token) < 43:
		t.Fatalf("len(token) = %d (%q), want at least 43", len(token), token)
	case strings.Contains(fmt.Sprintf("%+v", same), token):
		t.Fatalf(`fmt.Sprintf("%%+v", same) = %q, want it without %q`, fmt.Sprintf("%+v", same), token)
	}
	r, err := w.m.Deliver(w.ctx, scheduler.Delivery{Token: token, Source: "forge", Body: json.RawMessage(`{"issue":7}`),
		LegacyMode: true})
	if err != nil || r != (scheduler.Receipt{AgentID: "alpha", TriggerID: trg.ID,
		Disposition: "triggered"}) {
		t.Fatalf("%+v, %v", r, err)
	}
	switch c, _ := w.done(); {
	case c.Message.Authority != ledger.IntegrationSignal:
		t.Fatalf("c.Message.Authority = %q, want %q", c.Message.Authority, ledger.IntegrationSignal)
	case c.Message.AdmissionContext != ledger.TriggerCapability:
		t.Fatalf("c.Message.AdmissionContext = %q, want %q", c.Message.AdmissionContext, ledger.TriggerCapability)
	case c.Message.SourceRefs["external_trigger_id"] != trg.ID:
		t.Fatalf(`c.Message.SourceRefs["external_trigger_id"] = %q, want %q`,
			c.Message.SourceRefs["external_trigger_id"], trg.ID)
	case !strings.Contains(string(c.Message.Body.Value), `"issue":7`):
		t.Fatalf(`string(c.Message.Body.Value) = %q, want it to contain "\"issue\":7"`, string(c.Message.Body.Value))
	}
	_, events := w.events(0)
	at := slices.IndexFunc(events, func(e ledger.Event) bool { return e.Type == rules.CallbackDelivered })
	switch {
	case at < 0:
		t.Errorf("the delivery was not told: at = %d, want at least 0", at)
	case events[at].Ref != trg.ID:
		t.Errorf("the delivery was not told: events[at].Ref = %q, want %q", events[at].Ref, trg.ID)
	case !strings.Contains(string(events[at].Data), "deprecated_mode"):
		t.Errorf(`the delivery was not told: string(events[at].Data) = %q, want it to contain "deprecated_mode"`,
			string(events[at].Data))
	}
	_, err = w.m.Deliver(w.ctx, scheduler.Delivery{Token: token, Body: json.RawMessage(`{`)})
	code(t, err, scheduler.CodeInvalidMessage, "")

	_, fresh, err := w.m.RotateTrigger(w.ctx, "alpha")
	w.must(err)
	_, err = w.m.Deliver(w.ctx, scheduler.Delivery{Token: token})
	code(t, err, scheduler.CodeTokenUnknown, "")
	w.must(w.m.Stop(w.ctx, "alpha", "me"))
	_, err = w.m.Deliver(w.ctx, scheduler.Delivery{Token: fresh})
	code(t, err, scheduler.CodeAgentStopped, "holon agent start alpha")
	if _, err := w.m.RevokeTrigger(w.ctx, "alpha"); err != nil {
		t.Fatal(err)
	}
	_, err = w.m.Deliver(w.ctx, scheduler.Delivery{Token: fresh})
	code(t, err, scheduler.CodeTokenUnknown, "")
	_, err = w.m.RevokeTrigger(w.ctx, "alpha")
	code(t, err, ledger.CodeNotFound, "")
	if next, secret, err := w.m.EnsureTrigger(w.ctx, "alpha"); err != nil || next.ID == trg.ID || secret == "" {
		t.Fatalf("%+v, %v", next, err)
	}
}
