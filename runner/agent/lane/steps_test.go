package lane_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"holon/responses"
	"holon/runner/agent/lane"
	"holon/runner/agent/rules"
	"holon/state"
	"holon/state/ledger"
)

func open(t *testing.T) *world {
	w := newWorld(t, t.TempDir())
	t.Cleanup(w.close)
	return w
}

func prompt(text string) lane.Ingress {
	return lane.Ingress{
		AgentID: "alpha", Kind: ledger.KindOperatorPrompt, Origin: ledger.Origin{Kind: ledger.OriginOperator},
		Body: ledger.Body{Type: "text", Text: text}, Surface: ledger.SurfaceControlPrompt, AdmissionContext: ledger.ControlAuthenticated,
	}
}

func (w *world) admit(in lane.Ingress) lane.Admission {
	w.t.Helper()
	a, err := w.m.Admit(w.ctx, in)
	if err != nil {
		w.t.Fatalf("admit: %v", err)
	}
	return a
}

// claim takes the next message and begins its turn.
func (w *world) claim() lane.Claim {
	w.t.Helper()
	c, ok, err := w.m.Claim(w.ctx, "alpha")
	if err != nil || !ok {
		w.t.Fatalf("claim: %v, %v", ok, err)
	}
	w.must(w.m.Began(w.ctx, c.Attempt.ID, json.RawMessage(`{"frame":1}`), "d"))
	return c
}

func (w *world) nothing() {
	w.t.Helper()
	if c, ok, err := w.m.Claim(w.ctx, "alpha"); ok || err != nil {
		w.t.Fatalf("there is something to do: %+v, %v", c.Message, err)
	}
}

// done runs the next turn to its end.
func (w *world) done() (lane.Claim, lane.Settlement) {
	w.t.Helper()
	c := w.claim()
	return c, w.settle(c.Attempt.ID, lane.End{Kind: ledger.TurnCompleted, Last: "ok", ResponseID: "resp_" + c.Attempt.ID})
}

func (w *world) sleep(call string, d time.Duration) ledger.Wait {
	w.t.Helper()
	wait, err := w.m.Sleep(w.ctx, "alpha", call, d, "rest")
	if err != nil {
		w.t.Fatalf("sleep: %v", err)
	}
	return wait
}

// pass moves the clock and fires what is due.
func (w *world) pass(d time.Duration) {
	w.t.Helper()
	w.now = w.now.Add(d)
	if _, _, err := w.m.FireDue(w.ctx, w.now); err != nil {
		w.t.Fatalf("fire: %v", err)
	}
}

func (w *world) lane() (l ledger.Lane) {
	w.view(func(v ledger.View) (err error) {
		l, err = v.Lane("alpha")
		return err
	})
	return l
}

func (w *world) entry(id string) (e ledger.Entry) {
	w.view(func(v ledger.View) (err error) {
		e, err = v.Entry(id)
		return err
	})
	return e
}

func (w *world) message(id string) (m ledger.Message) {
	w.view(func(v ledger.View) (err error) {
		m, err = v.Message(id)
		return err
	})
	return m
}

func (w *world) wait(id string) (wait ledger.Wait) {
	w.view(func(v ledger.View) (err error) {
		wait, err = v.Wait(id)
		return err
	})
	return wait
}

func (w *world) events(after int64) (types []string, all []ledger.Event) {
	w.view(func(v ledger.View) error {
		page, err := v.Events("alpha", ledger.EventQuery{After: after, Limit: 1000})
		all = page.Events
		return err
	})
	for _, e := range all {
		types = append(types, e.Type)
	}
	return types, all
}

func (w *world) briefs() (list []ledger.Brief) {
	w.view(func(v ledger.View) (err error) {
		list, err = v.Briefs("alpha", 100)
		return err
	})
	return list
}

func code(t *testing.T, err error, want state.Code, hint string) {
	t.Helper()
	var e *state.Error
	if !state.IsCode(err, want) {
		t.Fatalf("%v, want %s", err, want)
	}
	if e = err.(*state.Error); hint != "" && !strings.Contains(e.Hint, hint) {
		t.Fatalf("%+v does not say %q", e, hint)
	}
}

func TestCreate(t *testing.T) {
	w := open(t)
	for _, id := range []string{"", "A", "../x", strings.Repeat("a", 64)} {
		_, err := w.m.Create(w.ctx, lane.NewAgent{ID: id})
		code(t, err, lane.CodeInvalidAgent, "a-z")
	}
	_, err := w.m.Create(w.ctx, lane.NewAgent{ID: "alpha"})
	code(t, err, ledger.CodeExists, "")
	a, err := w.m.Create(w.ctx, lane.NewAgent{ID: "tmp", Private: true, Model: "p/m", Template: "holon-default"})
	if err != nil || a.Kind != ledger.KindNamed || a.Visibility != ledger.Private || a.Model != "p/m" {
		t.Fatalf("%+v, %v", a, err)
	}
	in := prompt("x")
	in.AgentID, in.Kind, in.Origin, in.AdmissionContext = "tmp", ledger.KindWebhookEvent, ledger.Origin{Kind: ledger.OriginWebhook, Source: "s"}, ledger.PublicUnauthenticated
	_, err = w.m.Admit(w.ctx, in)
	code(t, err, lane.CodeAgentPrivate, "")
	in.AgentID = "nobody"
	_, err = w.m.Admit(w.ctx, in)
	code(t, err, ledger.CodeNotFound, "")
}

// One turn from its message to its end, and every event of it.
func TestTurn(t *testing.T) {
	w := open(t)
	start := w.lane().EventSeq
	adm := w.admit(prompt("hello"))
	if adm.EventSeq != start+1 || adm.Replayed {
		t.Fatalf("%+v after event %d", adm, start)
	}
	c := w.claim()
	if c.Message.Authority != ledger.OperatorInstruction || c.Message.Trust != ledger.TrustedOperator || c.Attempt.TurnIndex != 1 || c.Attempt.Chain != "" || c.Attempt.Owner != "boot_1" {
		t.Fatalf("%+v", c)
	}
	w.must(w.m.Began(w.ctx, c.Attempt.ID, json.RawMessage(`{"frame":2}`), "e")) // changes nothing
	w.must(w.m.Progress(w.ctx, c.Attempt.ID, lane.Through{Facts: 2}, []lane.Progress{
		{Event: ledger.Event{Type: rules.ToolExecuted, Data: json.RawMessage(`{"tool":"exec_command"}`)}},
		{Transcript: &ledger.TranscriptEntry{Kind: ledger.TranscriptRound, Round: 1}},
	}))
	w.must(w.m.Progress(w.ctx, c.Attempt.ID, lane.Through{Facts: 2}, []lane.Progress{{Event: ledger.Event{Type: rules.ToolExecuted}}}))
	w.now = w.now.Add(3 * time.Second)
	end := lane.End{Kind: ledger.TurnCompleted, Last: "done", ResponseID: "resp_1", ModelRounds: 2, ToolCalls: 1, Usage: &responses.Usage{InputTokens: 10, OutputTokens: 5, TotalTokens: 15}}
	s := w.settle(c.Attempt.ID, end)
	if s.Status != ledger.Processed || s.Turn == nil || s.Turn.DurationMS != 3000 || s.Turn.Index != 1 || s.Closure.Outcome != rules.OutcomeCompleted || s.Replayed {
		t.Fatalf("%+v", s)
	}
	if again := w.settle(c.Attempt.ID, lane.End{Lost: true}); !again.Replayed || again.Turn.ID != s.Turn.ID || again.Closure.Outcome != s.Closure.Outcome || again.Status != ledger.Processed {
		t.Fatalf("again: %+v", again)
	}
	types, events := w.events(start)
	want := []string{
		rules.MessageAdmitted, rules.ContinuationResolved, rules.MessageStarted, rules.TurnContextBuilt, rules.TurnStarted, rules.ToolExecuted,
		rules.QueueEntrySettled, rules.TurnTerminal, rules.ClosureDecided, rules.BriefCreated,
	}
	if !slices.Equal(types, want) {
		t.Errorf("events\n%v, want\n%v", types, want)
	}
	for _, e := range events {
		if e.MessageID != adm.MessageID || len(e.Data) > 300 || strings.Contains(string(e.Data), "hello") {
			t.Errorf("event %+v is not of the message, or carries it", e)
		}
	}
	l := w.lane()
	if l.Chain != "resp_1" || l.Turns != 1 || l.Totals.InputTokens != 10 || l.Totals.ModelRounds != 2 || l.LastWake != "operator_input" || l.LastBriefAt == nil {
		t.Errorf("lane %+v", l)
	}
	if b := w.briefs(); len(b) != 1 || b[0].Kind != ledger.BriefResult || b[0].Text != "done" || b[0].TurnID != c.Attempt.TurnID || b[0].MessageID != adm.MessageID {
		t.Errorf("briefs %+v", b)
	}
	w.admit(prompt("and now"))
	if next := w.claim(); next.Attempt.Chain != "resp_1" || next.Attempt.TurnIndex != 2 || next.Continuation.PriorOutcome != rules.OutcomeCompleted {
		t.Errorf("the next turn %+v", next)
	}
	w.nothing()
}

// A hostile turn cannot hold up its own record.
func TestProgressBoundsData(t *testing.T) {
	w := open(t)
	w.admit(prompt("x"))
	c := w.claim()
	big := json.RawMessage(`"` + strings.Repeat("x", ledger.MaxEventData) + `"`)
	w.must(w.m.Progress(w.ctx, c.Attempt.ID, lane.Through{Facts: 1}, []lane.Progress{{Event: ledger.Event{Type: rules.ToolExecuted, Data: big}}}))
	long := strings.Repeat("c", 100<<10)
	s := w.settle(c.Attempt.ID, lane.End{Kind: ledger.TurnAborted, Reason: long, Last: long, Failure: &ledger.Failure{Code: long, Summary: long, Hint: long}})
	if s.Turn == nil || s.Status != ledger.Aborted {
		t.Fatalf("%+v", s)
	}
	_, events := w.events(0)
	at := slices.IndexFunc(events, func(e ledger.Event) bool { return e.Type == rules.ToolExecuted })
	if at < 0 || string(events[at].Data) != `{"omitted_bytes":8194}` {
		t.Fatalf("%v", events)
	}
}

func TestQueueOrder(t *testing.T) {
	w := open(t)
	for _, m := range []struct {
		text string
		p    ledger.Priority
	}{{"5", ledger.Background}, {"3", ledger.Normal}, {"2", ledger.Next}, {"4", ""}, {"1", "interrupt"}} {
		in := prompt(m.text)
		in.Priority = m.p
		w.admit(in)
	}
	for i := 1; i <= 5; i++ {
		if c, _ := w.done(); c.Message.Body.Text != fmt.Sprint(i) {
			t.Fatalf("turn %d is of message %s", i, c.Message.Body.Text)
		}
	}
}

func TestAdmitRefuses(t *testing.T) {
	w := open(t)
	w.m = lane.New(w.store, lane.Options{MaxQueued: 1, Now: func() time.Time { return w.now }})
	big := strings.Repeat("x", 1<<20+1)
	for name, c := range map[string]struct {
		change func(*lane.Ingress)
		param  string
	}{
		"no text":         {func(in *lane.Ingress) { in.Body.Text = " \n" }, "body"},
		"no UTF-8":        {func(in *lane.Ingress) { in.Body.Text = "\xff" }, "body"},
		"NUL":             {func(in *lane.Ingress) { in.Body.Text = "a\x00" }, "body"},
		"too long":        {func(in *lane.Ingress) { in.Body.Text = big }, "body"},
		"no type":         {func(in *lane.Ingress) { in.Body.Type = "" }, "body"},
		"text with value": {func(in *lane.Ingress) { in.Body.Value = []byte(`1`) }, "body"},
		"no JSON":         {func(in *lane.Ingress) { in.Body = ledger.Body{Type: "json", Value: []byte(`{`)} }, "body"},
		"metadata":        {func(in *lane.Ingress) { in.Metadata = []byte(`[]`) }, "metadata"},
		"key":             {func(in *lane.Ingress) { in.Key = strings.Repeat("k", 513) }, "idempotency_key"},
		"priority":        {func(in *lane.Ingress) { in.Priority = "urgent" }, "priority"},
		"context":         {func(in *lane.Ingress) { in.AdmissionContext = ledger.PublicUnauthenticated }, "admission_context"},
		"origin":          {func(in *lane.Ingress) { in.Origin.TaskID = "t" }, "origin.task_id"},
		"reference":       {func(in *lane.Ingress) { in.SourceRefs = map[string]string{"task_id": "t"} }, "source_refs.task_id"},
	} {
		in := prompt("x")
		c.change(&in)
		_, err := w.m.Admit(w.ctx, in)
		code(t, err, lane.CodeInvalidMessage, "")
		if e := err.(*state.Error); e.Param != c.param {
			t.Errorf("%s: %+v, want param %s", name, e, c.param)
		}
	}
	w.admit(prompt("x"))
	_, err := w.m.Admit(w.ctx, prompt("y"))
	code(t, err, lane.CodeQueueFull, "holon agent status alpha")
	if d, err := w.m.Wake(w.ctx, lane.Wake{AgentID: "alpha", Context: ledger.LocalProcess}); err != nil || d != lane.WakeTriggered {
		t.Errorf("a full queue refuses a wake: %s, %v", d, err)
	}
}

func TestAdmitKey(t *testing.T) {
	w := open(t)
	in := prompt("x")
	in.Key, in.Metadata = "k", json.RawMessage(`{ "a": 1 }`)
	first := w.admit(in)
	in.Metadata = json.RawMessage(`{"a":1}`)
	if again := w.admit(in); !again.Replayed || again.MessageID != first.MessageID {
		t.Fatalf("%+v after %+v", again, first)
	}
	in.Body.Text = "y"
	_, err := w.m.Admit(w.ctx, in)
	code(t, err, lane.CodeKeyConflict, "another key")
	in.AgentID = "beta"
	if other := w.admit(in); other.Replayed {
		t.Error("a key of another agent is replayed")
	}
	w.must(w.m.Stop(w.ctx, "alpha", "me"))
	in.AgentID, in.Body.Text = "alpha", "x"
	if again := w.admit(in); again.MessageID != first.MessageID {
		t.Error("a stopped agent forgot what it admitted")
	}
}

// Metadata binds only what the runtime itself says.
func TestBinding(t *testing.T) {
	w := open(t)
	in := prompt("x")
	in.Metadata = json.RawMessage(`{"work_item_id":"work_1","task_id":"task_1"}`)
	if m := w.message(w.admit(in).MessageID); m.WorkItemID != "" || m.TaskID != "" {
		t.Errorf("an operator bound %+v", m)
	}
	in.Kind, in.Origin, in.AdmissionContext = ledger.KindInternalFollowup, ledger.Origin{Kind: ledger.OriginSystem, Subsystem: "enqueue"}, ledger.RuntimeOwned
	if m := w.message(w.admit(in).MessageID); m.WorkItemID != "work_1" || m.TaskID != "task_1" {
		t.Errorf("the runtime did not bind %+v", m)
	}
}

// A wake ends a rest, is nothing to an agent that does not rest, and is kept for
// one that is busy.
func TestWake(t *testing.T) {
	w := open(t)
	wake := func(want lane.Disposition, description string) {
		t.Helper()
		d, err := w.m.Wake(w.ctx, lane.Wake{AgentID: "alpha", Reason: "look", Description: description, Context: ledger.ControlAuthenticated})
		if err != nil || d != want {
			t.Fatalf("%s, %v", d, err)
		}
	}
	wake(lane.WakeTriggered, "")
	wake(lane.WakeCoalesced, "")
	w.nothing() // both ticks, the queued and the kept one, end nothing
	if l := w.lane(); l.PendingWake != nil || l.Turns != 0 {
		t.Fatalf("%+v", l)
	}

	wake(lane.WakeTriggered, "news")
	c := w.claim()
	if c.Continuation.Class != rules.LocalContinuation || c.Message.Body.Type != "json" || c.Message.Kind != ledger.KindSystemTick {
		t.Fatalf("%+v", c)
	}
	wait := w.sleep("1", 0)
	wake(lane.WakeCoalesced, "")
	wake(lane.WakeCoalesced, "")
	s := w.settle(c.Attempt.ID, lane.End{Kind: ledger.TurnCompleted})
	if w.wait(wait.ID).Status != ledger.WaitTriggered || s.Closure.Posture != rules.Awake {
		t.Fatalf("a wake that came while the agent went to rest was lost: %+v", s)
	}
	if c := w.claim(); c.Continuation.Class != rules.ResumeExpectedWait || c.Wait == nil || c.Wait.ID != wait.ID || c.Message.Body.Text != "look" {
		t.Fatalf("%+v", c)
	}
	if got := w.wait(wait.ID); got.Status != ledger.WaitResolved || got.AttemptID == "" || got.EndedAt == nil {
		t.Fatalf("%+v", got)
	}
}

// However many messages need no turn, the hint behind them is looked at.
func TestHintBehindMessagesWithoutTurn(t *testing.T) {
	for _, n := range []int{0, 29, 30, 31, 32, 62, 63, 64} {
		w := open(t)
		for i := range n {
			w.admit(ingress(op{Do: "admit", Agent: "alpha", N: 8}, i))
		}
		_, err := w.m.Wake(w.ctx, lane.Wake{AgentID: "alpha", Reason: "a", Context: ledger.LocalProcess})
		w.must(err)
		_, err = w.m.Wake(w.ctx, lane.Wake{AgentID: "alpha", Reason: "b", Description: "news", Context: ledger.LocalProcess})
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
	}
}

func TestSleep(t *testing.T) {
	w := open(t)
	_, err := w.m.Sleep(w.ctx, "alpha", "0", 0, "")
	code(t, err, lane.CodeNoRun, "")
	w.admit(prompt("x"))
	c := w.claim()
	_, err = w.m.Sleep(w.ctx, "alpha", "0", -1, "")
	code(t, err, lane.CodeInvalidTimer, "leave it out")
	first := w.sleep("1", time.Hour)
	if again := w.sleep("1", time.Hour); again.ID != first.ID || again.Kind != ledger.WaitTimer {
		t.Fatalf("%+v after %+v", again, first)
	}
	second := w.sleep("2", 2*time.Hour)
	if w.wait(first.ID).Status != ledger.WaitCancelled || !second.WakeAt.Equal(w.now.Add(2*time.Hour)) {
		t.Fatalf("%+v, %+v", w.wait(first.ID), second)
	}
	s := w.settle(c.Attempt.ID, lane.End{Kind: ledger.TurnCompleted})
	if s.Closure.WaitingReason != rules.AwaitingTimer || s.Closure.Posture != rules.Sleeping {
		t.Fatalf("%+v", s.Closure)
	}
	w.pass(2*time.Hour - time.Millisecond)
	w.nothing()
	w.pass(time.Millisecond)
	w.pass(0)
	c, s = w.done()
	if c.Continuation.Class != rules.ResumeExpectedWait || c.Continuation.PriorWaiting != rules.AwaitingTimer || c.Message.Kind != ledger.KindTimerTick || c.Message.Body.Text != "rest" {
		t.Fatalf("%+v", c)
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
	if second.Status != ledger.WaitTriggered || second.MessageID != adm.MessageID || w.entry(adm.MessageID).Status != ledger.Queued {
		t.Fatalf("%+v", second)
	}
	if s := w.settle(c.Attempt.ID, lane.End{Kind: ledger.TurnCompleted}); s.Closure.WaitingReason != "" {
		t.Fatalf("%+v", s.Closure)
	}
	if c := w.claim(); c.Message.ID != adm.MessageID || c.Wait == nil || c.Wait.ID != second.ID {
		t.Fatalf("%+v", c)
	}
}

func TestTimer(t *testing.T) {
	w := open(t)
	for _, n := range []lane.NewTimer{{After: -1}, {Interval: time.Millisecond}, {After: 20 * 366 * 24 * time.Hour}, {Summary: "\xff"}} {
		n.AgentID = "alpha"
		_, err := w.m.CreateTimer(w.ctx, n)
		code(t, err, lane.CodeInvalidTimer, "")
	}
	n := lane.NewTimer{AgentID: "alpha", Key: "k", After: time.Minute, Interval: time.Minute, Summary: "look"}
	timer, err := w.m.CreateTimer(w.ctx, n)
	w.must(err)
	if again, err := w.m.CreateTimer(w.ctx, n); err != nil || again.ID != timer.ID {
		t.Fatalf("%+v, %v", again, err)
	}
	n.Interval = time.Hour
	_, err = w.m.CreateTimer(w.ctx, n)
	code(t, err, lane.CodeKeyConflict, "")

	w.pass(5*time.Minute + 30*time.Second) // holon was down: it fires once
	w.pass(time.Minute)                    // while the tick is queued: it is counted
	if c, _ := w.done(); c.Message.Body.Text != "look" || c.Message.Origin.TimerID != timer.ID || c.Message.Authority != ledger.RuntimeInstruction {
		t.Fatalf("%+v", c.Message)
	}
	w.nothing()
	w.view(func(v ledger.View) (err error) {
		timer, err = v.Timer(timer.ID)
		return err
	})
	if timer.FireCount != 1 || timer.Coalesced != 5 || timer.NextFireAt.Sub(w.now) != 30*time.Second {
		t.Fatalf("%+v at %v", timer, w.now)
	}
	if timer, err = w.m.CancelTimer(w.ctx, timer.ID); err != nil || timer.Status != ledger.TimerCancelled {
		t.Fatalf("%+v, %v", timer, err)
	}
	w.pass(time.Hour)
	w.nothing()

	once, err := w.m.CreateTimer(w.ctx, lane.NewTimer{AgentID: "alpha"})
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
	_, err := w.m.Deliver(w.ctx, lane.Delivery{Token: "x"})
	code(t, err, lane.CodeTokenUnknown, "")
	trg, token, err := w.m.EnsureTrigger(w.ctx, "alpha")
	w.must(err)
	if same, secret, err := w.m.EnsureTrigger(w.ctx, "alpha"); err != nil || same.ID != trg.ID || secret != "" || len(token) < 43 || strings.Contains(fmt.Sprintf("%+v", same), token) {
		t.Fatalf("%+v %q, %v", same, secret, err)
	}
	r, err := w.m.Deliver(w.ctx, lane.Delivery{Token: token, Source: "forge", Body: json.RawMessage(`{"issue":7}`), LegacyMode: true})
	if err != nil || r != (lane.Receipt{AgentID: "alpha", TriggerID: trg.ID, Disposition: lane.WakeTriggered}) {
		t.Fatalf("%+v, %v", r, err)
	}
	if c, _ := w.done(); c.Message.Authority != ledger.IntegrationSignal || c.Message.AdmissionContext != ledger.TriggerCapability || c.Message.SourceRefs["external_trigger_id"] != trg.ID || !strings.Contains(string(c.Message.Body.Value), `"issue":7`) {
		t.Fatalf("%+v", c.Message)
	}
	_, events := w.events(0)
	at := slices.IndexFunc(events, func(e ledger.Event) bool { return e.Type == rules.CallbackDelivered })
	if at < 0 || events[at].Ref != trg.ID || !strings.Contains(string(events[at].Data), "deprecated_mode") {
		t.Errorf("the delivery was not told: %v", events)
	}
	_, err = w.m.Deliver(w.ctx, lane.Delivery{Token: token, Body: json.RawMessage(`{`)})
	code(t, err, lane.CodeInvalidMessage, "")

	_, fresh, err := w.m.RotateTrigger(w.ctx, "alpha")
	w.must(err)
	_, err = w.m.Deliver(w.ctx, lane.Delivery{Token: token})
	code(t, err, lane.CodeTokenUnknown, "")
	w.must(w.m.Stop(w.ctx, "alpha", "me"))
	_, err = w.m.Deliver(w.ctx, lane.Delivery{Token: fresh})
	code(t, err, lane.CodeAgentStopped, "holon agent start alpha")
	if _, err := w.m.RevokeTrigger(w.ctx, "alpha"); err != nil {
		t.Fatal(err)
	}
	_, err = w.m.Deliver(w.ctx, lane.Delivery{Token: fresh})
	code(t, err, lane.CodeTokenUnknown, "")
	_, err = w.m.RevokeTrigger(w.ctx, "alpha")
	code(t, err, ledger.CodeNotFound, "")
	if next, secret, err := w.m.EnsureTrigger(w.ctx, "alpha"); err != nil || next.ID == trg.ID || secret == "" {
		t.Fatalf("%+v, %v", next, err)
	}
}

// A wait that only the revoked trigger would have ended is reported.
func TestStrandedWait(t *testing.T) {
	w := open(t)
	trg, _, err := w.m.EnsureTrigger(w.ctx, "alpha")
	w.must(err)
	wait := ledger.Wait{
		ID: "wait_x", AgentID: "alpha", Owner: ledger.OwnerAgent, Status: ledger.WaitActive, Kind: ledger.WaitExternal, WaitingFor: "a build",
		Wakes: []ledger.WakeSource{{Kind: rules.WakeExternal, ExternalTriggerID: trg.ID}}, CreatedAt: w.now, UpdatedAt: w.now,
	}
	w.must(w.store.Update(w.ctx, func(tx ledger.Tx) error { return tx.InsertWait(wait) }))
	if _, err := w.m.RevokeTrigger(w.ctx, "alpha"); err != nil {
		t.Fatal(err)
	}
	_, events := w.events(0)
	last := events[len(events)-1]
	if last.Type != rules.WaitWithoutRecovery || last.Level != rules.LevelActionRequired || last.Ref != wait.ID {
		t.Fatalf("%+v", last)
	}
}

// A wait that expires ends without a message.
func TestWaitExpires(t *testing.T) {
	w := open(t)
	at := w.now.Add(time.Minute)
	wait := ledger.Wait{
		ID: "wait_x", AgentID: "alpha", Owner: ledger.OwnerAgent, Status: ledger.WaitActive, Kind: ledger.WaitExternal, WaitingFor: "a build",
		Wakes: []ledger.WakeSource{{Kind: rules.WakeExternal}}, ExpiresAt: &at, CreatedAt: w.now, UpdatedAt: w.now,
	}
	w.must(w.store.Update(w.ctx, func(tx ledger.Tx) error { return tx.InsertWait(wait) }))
	w.pass(time.Minute)
	if got := w.wait(wait.ID); got.Status != ledger.WaitExpired || got.EndedAt == nil {
		t.Fatalf("%+v", got)
	}
	w.nothing()
}

func TestOffer(t *testing.T) {
	w := open(t)
	w.admit(prompt("work"))
	c := w.claim()
	in := prompt("also")
	in.Priority = ledger.Interject
	also := w.admit(in)
	in.Body.Text = "late"
	late := w.admit(in)
	hook := in
	hook.Kind, hook.Origin = ledger.KindWebhookEvent, ledger.Origin{Kind: ledger.OriginWebhook, Source: "s"}
	hooked := w.admit(hook)
	for range 2 {
		msgs, err := w.m.Offer(w.ctx, "alpha")
		if err != nil || len(msgs) != 2 || msgs[0].ID != also.MessageID || msgs[1].ID != late.MessageID {
			t.Fatalf("%+v, %v", msgs, err)
		}
	}
	if s := w.settle(c.Attempt.ID, lane.End{Kind: ledger.TurnCompleted, Inserted: []string{also.MessageID}}); s.Status != ledger.Processed {
		t.Fatalf("%+v", s)
	}
	if w.entry(also.MessageID).Status != ledger.Interjected || w.entry(late.MessageID).Status != ledger.Queued || w.entry(hooked.MessageID).Status != ledger.Queued {
		t.Fatalf("%+v %+v", w.entry(also.MessageID), w.entry(late.MessageID))
	}
	if c, _ := w.done(); c.Message.ID != late.MessageID {
		t.Fatalf("%+v", c.Message)
	}
}

func TestAbort(t *testing.T) {
	w := open(t)
	_, err := w.m.Abort(w.ctx, lane.Abort{AgentID: "alpha"})
	code(t, err, lane.CodeNoRun, "holon agent status alpha")
	w.admit(prompt("1"))
	w.admit(prompt("2"))
	c := w.claim()
	_, err = w.m.Abort(w.ctx, lane.Abort{AgentID: "alpha", RunID: "turn_other"})
	code(t, err, lane.CodeRunMismatch, "")
	_, err = w.m.Abort(w.ctx, lane.Abort{AgentID: "alpha", Mode: "hard"})
	code(t, err, lane.CodeInvalidMessage, lane.StopAfterAbort)
	for _, ab := range []lane.Abort{{By: "me"}, {By: "you", RunID: c.Attempt.TurnID}, {Mode: lane.StopAfterAbort}, {}} {
		ab.AgentID = "alpha"
		if a, err := w.m.Abort(w.ctx, ab); err != nil || a.AbortedBy != "me" {
			t.Fatalf("%+v, %v", a, err)
		}
	}
	_, err = w.m.Sleep(w.ctx, "alpha", "1", 0, "")
	code(t, err, lane.CodeNoRun, "")
	s := w.settle(c.Attempt.ID, lane.End{Kind: ledger.TurnAborted, Reason: "cancelled"})
	if s.Status != ledger.Aborted || s.Turn.Kind != ledger.TurnAborted || s.Closure.Outcome != rules.OutcomeFailed {
		t.Fatalf("%+v", s)
	}
	if b := w.briefs(); len(b) != 1 || b[0].Kind != ledger.BriefFailure || !strings.Contains(b[0].Text, "me") {
		t.Fatalf("%+v", b)
	}
	if !w.lane().Stopped {
		t.Fatal("the agent goes on after stop_after_abort")
	}
	w.nothing()
	w.must(w.m.Start(w.ctx, "alpha", "me"))
	if c, _ := w.done(); c.Message.Body.Text != "2" {
		t.Fatalf("%+v", c.Message)
	}
}

// What somebody asked to end does not come back, however its attempt ends.
func TestAbortedIsNotTriedAgain(t *testing.T) {
	for name, end := range map[string]lane.End{
		"lost": {Lost: true}, "not begun": {NotBegun: true}, "no engine": {NotBegun: true, Failure: &ledger.Failure{Code: "engine"}}, "failed": {Kind: ledger.TurnAborted},
	} {
		w := open(t)
		adm := w.admit(prompt("x"))
		c := w.claim()
		w.must(w.m.Stop(w.ctx, "alpha", "me"))
		if s := w.settle(c.Attempt.ID, end); s.Status != ledger.Aborted || w.entry(adm.MessageID).Status != ledger.Aborted {
			t.Errorf("%s: %+v", name, s)
		}
		w.check()
	}
}

func TestStop(t *testing.T) {
	w := open(t)
	w.admit(prompt("1"))
	c := w.claim()
	wait := w.sleep("1", time.Hour)
	adm := w.admit(prompt("2"))
	w.must(w.m.Stop(w.ctx, "alpha", "me"))
	w.must(w.m.Stop(w.ctx, "alpha", "me"))
	_, err := w.m.Admit(w.ctx, prompt("3"))
	code(t, err, lane.CodeAgentStopped, "holon agent start alpha")
	_, err = w.m.Wake(w.ctx, lane.Wake{AgentID: "alpha", Context: ledger.LocalProcess})
	code(t, err, lane.CodeAgentStopped, "holon agent start alpha")
	w.settle(c.Attempt.ID, lane.End{Kind: ledger.TurnAborted})
	w.nothing()
	w.must(w.m.Start(w.ctx, "alpha", "me"))
	if c := w.claim(); c.Message.ID != adm.MessageID || c.Wait == nil || c.Wait.ID != wait.ID {
		t.Fatalf("%+v", c)
	}
}

// An agent that is stopped while it rests has no rest to go back to.
func TestStopEndsTheRest(t *testing.T) {
	w := open(t)
	w.admit(prompt("x"))
	c := w.claim()
	wait := w.sleep("1", time.Hour)
	w.settle(c.Attempt.ID, lane.End{Kind: ledger.TurnCompleted})
	w.must(w.m.Stop(w.ctx, "alpha", "me"))
	if got := w.wait(wait.ID); got.Status != ledger.WaitCancelled || got.EndedAt == nil {
		t.Fatalf("%+v", got)
	}
	w.must(w.m.Start(w.ctx, "alpha", "me"))
	w.pass(2 * time.Hour)
	w.nothing()
}

// A message whose turn is lost comes back once; the second time it is over.
func TestLost(t *testing.T) {
	w := open(t)
	adm := w.admit(prompt("x"))
	c := w.claim()
	s := w.settle(c.Attempt.ID, lane.End{Lost: true, ResponseID: "resp_cut"})
	if s.Status != ledger.Queued || s.Turn == nil || s.Turn.Kind != ledger.TurnAborted || s.Turn.Reason != "interrupted" || len(w.briefs()) != 0 {
		t.Fatalf("%+v", s)
	}
	again := w.claim()
	if !again.Attempt.Readmit || again.Message.ID != adm.MessageID || again.Attempt.TurnID == c.Attempt.TurnID || again.Attempt.Chain != "resp_cut" || again.Attempt.TurnIndex != 2 {
		t.Fatalf("%+v", again.Attempt)
	}
	s = w.settle(again.Attempt.ID, lane.End{Lost: true})
	if b := w.briefs(); s.Status != ledger.Interrupted || len(b) != 1 || b[0].Kind != ledger.BriefFailure {
		t.Fatalf("%+v, %+v", s, b)
	}
	w.nothing()
}

// What goes back to the queue ends the rest that its turn had asked for: the
// agent does not sleep through it.
func TestComingBackEndsTheRest(t *testing.T) {
	w := open(t)
	adm := w.admit(prompt("x"))
	c := w.claim()
	wait := w.sleep("1", time.Hour)
	w.settle(c.Attempt.ID, lane.End{Lost: true})
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
	w.settle(c.Attempt.ID, lane.End{Kind: ledger.TurnCompleted})
	if got := w.wait(wait.ID); got.Status != ledger.WaitTriggered || got.MessageID != also.MessageID {
		t.Fatalf("after a message came too late: %+v", got)
	}
}

// What a turn took in and that nobody will know of comes back once.
func TestForgottenInterjection(t *testing.T) {
	w := open(t)
	w.admit(prompt("x"))
	in := prompt("also")
	in.Priority = ledger.Interject
	var also lane.Admission
	for i, want := range []ledger.EntryStatus{ledger.Queued, ledger.Interrupted} {
		c := w.claim()
		if i == 0 {
			also = w.admit(in)
			if _, err := w.m.Offer(w.ctx, "alpha"); err != nil {
				t.Fatal(err)
			}
		}
		w.settle(c.Attempt.ID, lane.End{Lost: true, Inserted: []string{also.MessageID}})
		if got := w.entry(also.MessageID).Status; got != want {
			t.Fatalf("after %d lost turns it is %s, want %s", i+1, got, want)
		}
	}
	w.check()
}

// A plain tick that ended a rest is answered though its turn was lost, or could
// not be begun at first.
func TestTickComesBack(t *testing.T) {
	for name, end := range map[string]lane.End{"lost": {Lost: true}, "not begun": {NotBegun: true}, "no engine": {NotBegun: true, Failure: &ledger.Failure{Code: "engine"}}} {
		w := open(t)
		w.admit(prompt("x"))
		c := w.claim()
		wait := w.sleep("1", 0)
		w.settle(c.Attempt.ID, lane.End{Kind: ledger.TurnCompleted})
		_, err := w.m.Wake(w.ctx, lane.Wake{AgentID: "alpha", Context: ledger.LocalProcess})
		w.must(err)
		c, ok, err := w.m.Claim(w.ctx, "alpha")
		if err != nil || !ok {
			t.Fatalf("%s: %v, %v", name, ok, err)
		}
		w.settle(c.Attempt.ID, end)
		w.check()
		w.pass(time.Minute)
		again := w.claim()
		if again.Message.ID != c.Message.ID {
			t.Fatalf("%s: %+v", name, again.Message)
		}
		if resumed := again.Wait != nil && again.Wait.ID == wait.ID; resumed == end.Lost {
			t.Errorf("%s: the turn ends wait %+v", name, again.Wait)
		}
	}
}

// What can't be begun waits longer and longer and is given up; what is behind it
// then gets its turn.
func TestQuarantine(t *testing.T) {
	w := open(t)
	adm := w.admit(prompt("x"))
	next := w.admit(prompt("y"))
	f := &ledger.Failure{Phase: "startup", Code: "image_missing", Summary: "The image is not there.", Hint: "holon agent image alpha IMAGE"}
	var waited []time.Duration
	for range rules.MaxTries {
		c, ok, err := w.m.Claim(w.ctx, "alpha")
		if err != nil || !ok || c.Message.ID != adm.MessageID {
			t.Fatalf("%v %v %+v", ok, err, c.Message)
		}
		s := w.settle(c.Attempt.ID, lane.End{NotBegun: true, Failure: f})
		if s.Turn != nil {
			t.Fatalf("a turn that was not begun is %+v", s.Turn)
		}
		if s.RetryAt == nil {
			break
		}
		w.nothing()
		at, ok, err := w.m.RetryAt(w.ctx, "alpha")
		if err != nil || !ok || !at.Equal(*s.RetryAt) {
			t.Fatalf("%v %v %v, want %v", at, ok, err, s.RetryAt)
		}
		waited = append(waited, at.Sub(w.now))
		w.now = at
	}
	if len(waited) != rules.MaxTries-1 || waited[0] != time.Second || waited[10] != 5*time.Minute {
		t.Errorf("it was tried after %v", waited)
	}
	if e := w.entry(adm.MessageID); e.Status != ledger.Quarantined || e.Failed != rules.MaxTries {
		t.Errorf("%+v", e)
	}
	b := w.briefs()
	if len(b) != 1 || b[0].Kind != ledger.BriefFailure || !strings.Contains(b[0].Text, "image alpha") {
		t.Errorf("%+v", b)
	}
	types, events := w.events(0)
	if at := slices.Index(types, rules.QueueEntryQuarantined); at < 0 || events[at].Level != rules.LevelActionRequired {
		t.Errorf("the operator was not told: %v", types)
	}
	if c, _ := w.done(); c.Message.ID != next.MessageID {
		t.Errorf("%+v", c.Message)
	}
}

// A claim of which the store says that it failed, though it is there, is made:
// no one else would run its attempt.
func TestClaimWithoutAnswer(t *testing.T) {
	for _, where := range []boundary{beforeStep, beforeWrite, afterCommit} {
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
		if s := w.settle(c.Attempt.ID, lane.End{Kind: ledger.TurnCompleted}); s.Status != ledger.Processed {
			t.Fatalf("%d: %+v", where, s)
		}
		w.check()
	}
}

// A turn that was never begun through nobody's fault is next again at once.
func TestNeverBegun(t *testing.T) {
	w := open(t)
	adm := w.admit(prompt("x"))
	for range rules.MaxTries + 1 {
		c, ok, err := w.m.Claim(w.ctx, "alpha")
		if err != nil || !ok || c.Message.ID != adm.MessageID || c.Attempt.TurnIndex != 1 {
			t.Fatalf("%v %v %+v", ok, err, c.Attempt)
		}
		if s := w.settle(c.Attempt.ID, lane.End{NotBegun: true}); s.Status != ledger.Queued || s.RetryAt != nil || s.Turn != nil {
			t.Fatalf("%+v", s)
		}
	}
	if e := w.entry(adm.MessageID); e.Failed != 0 || w.lane().LastFailure != nil || len(w.briefs()) != 0 {
		t.Fatalf("%+v", e)
	}
}

// What an agent says last in a turn in which it queued its next step acknowledges;
// the step's own turn has the result.
func TestAcknowledges(t *testing.T) {
	w := open(t)
	w.admit(prompt("x"))
	c := w.claim()
	if _, err := w.m.Admit(w.ctx, lane.Ingress{AgentID: "alpha", Kind: ledger.KindInternalFollowup, Origin: ledger.Origin{Kind: ledger.OriginSystem, Subsystem: "agent"},
		Body: ledger.Body{Type: "text", Text: "next"}, AdmissionContext: ledger.RuntimeOwned}); err != nil {
		t.Fatal(err)
	}
	w.settle(c.Attempt.ID, lane.End{Kind: ledger.TurnCompleted, Last: "I began."})
	w.settle(w.claim().Attempt.ID, lane.End{Kind: ledger.TurnCompleted, Last: "It is done."})
	if b := w.briefs(); len(b) != 2 || b[0].Kind != ledger.BriefAck || b[1].Kind != ledger.BriefResult {
		t.Errorf("briefs %+v", b)
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
		if s := w.settle(c.Attempt.ID, lane.End{Kind: ledger.TurnAborted, Lost: true, Suspended: true}); s.Status != ledger.Queued {
			t.Fatalf("%d: %+v", i, s)
		}
		w.check()
	}
	for _, want := range []ledger.EntryStatus{ledger.Queued, ledger.Interrupted} {
		if s := w.settle(w.claim().Attempt.ID, lane.End{Kind: ledger.TurnAborted, Lost: true}); s.Status != want {
			t.Fatalf("lost: %s, want %s", s.Status, want)
		}
	}
}

// A higher priority comes before a message that is left alone.
func TestDeferredHead(t *testing.T) {
	w := open(t)
	w.admit(prompt("x"))
	c := w.claim()
	w.settle(c.Attempt.ID, lane.End{NotBegun: true, Failure: &ledger.Failure{Code: "engine"}})
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

func TestNotify(t *testing.T) {
	w := open(t)
	_, err := w.m.Notify(w.ctx, "alpha", " ", "", "")
	code(t, err, lane.CodeInvalidMessage, "")
	w.admit(prompt("x"))
	c := w.claim()
	n, err := w.m.Notify(w.ctx, "alpha", "\n  two ways \nmore", "corr", "cause")
	if err != nil || n.Summary != "two ways" || n.Boundary != "primary_operator" || n.CorrelationID != "corr" {
		t.Fatalf("%+v, %v", n, err)
	}
	if w.lane().PendingWake != nil || w.entry(c.Message.ID).Status != ledger.Dequeued {
		t.Fatal("a notification moved the agent")
	}
	s := w.settle(c.Attempt.ID, lane.End{Kind: ledger.TurnCompleted, Last: "two ways\nmore"})
	if s.Closure.WaitingReason != "" {
		t.Fatalf("a notification waits: %+v", s.Closure)
	}
	if _, err := w.m.Notify(w.ctx, "alpha", "two ways more", "", ""); err != nil {
		t.Fatal(err)
	}
	var levels []int
	_, events := w.events(0)
	for _, e := range events {
		if e.Type == rules.BriefCreated || e.Type == rules.NotificationRequested {
			levels = append(levels, e.Level)
		}
	}
	if !slices.Equal(levels, []int{rules.LevelActionRequired, rules.LevelTrace, rules.LevelTrace}) {
		t.Fatalf("the operator is told at levels %v", levels)
	}
}

func TestAgentSettings(t *testing.T) {
	w := open(t)
	_, err := w.m.SetModel(w.ctx, "alpha", "", "")
	code(t, err, lane.CodeInvalidAgent, "model clear alpha")
	before := w.lane().EventSeq
	for range 2 {
		if a, err := w.m.SetModel(w.ctx, "alpha", "p/m", "high"); err != nil || a.Model != "p/m" || a.ReasoningEffort != "high" {
			t.Fatalf("%+v, %v", a, err)
		}
	}
	if types, _ := w.events(before); !slices.Equal(types, []string{rules.ModelOverrideRequested}) {
		t.Fatalf("%v", types)
	}
	w.admit(prompt("x"))
	if c := w.claim(); c.Attempt.Model != "p/m" {
		t.Fatalf("%+v", c.Attempt)
	}
	if a, err := w.m.ClearModel(w.ctx, "alpha"); err != nil || a.Model != "" || a.ReasoningEffort != "" {
		t.Fatalf("%+v, %v", a, err)
	}
	if a, err := w.m.SetImage(w.ctx, "alpha", "busybox"); err != nil || a.Image != "busybox" {
		t.Fatalf("%+v, %v", a, err)
	}
	w.must(w.m.Fail(w.ctx, "alpha", ledger.Failure{Phase: "shutdown", Code: "c", Summary: "s"}))
	if f := w.lane().LastFailure; f == nil || f.Code != "c" || !f.OccurredAt.Equal(w.now) {
		t.Fatalf("%+v", f)
	}
}

// Reading writes nothing and starts nothing (8): no byte of the ledger changes.
func TestReadingWritesNothing(t *testing.T) {
	w := open(t)
	w.admit(prompt("x"))
	c := w.claim()
	w.settle(c.Attempt.ID, lane.End{NotBegun: true, Failure: &ledger.Failure{Code: "engine"}})
	before := w.hash()
	for range 3 {
		w.check()
		if _, _, err := w.m.RetryAt(w.ctx, "alpha"); err != nil {
			t.Fatal(err)
		}
		w.nothing() // the head is left alone: asking for it is reading
		if _, _, err := w.m.FireDue(w.ctx, w.now); err != nil {
			t.Fatal(err)
		}
		_, _ = w.m.Deliver(w.ctx, lane.Delivery{Token: "unknown"})
	}
	if w.hash() != before {
		t.Fatal("reading changed the ledger")
	}
	w.admit(prompt("y"))
	if w.hash() == before {
		t.Fatal("the hash does not see what is written")
	}
}

// hash is of everything that the ledger keeps on the disk.
func (w *world) hash() string {
	files, err := filepath.Glob(w.path + "*")
	if err != nil {
		w.t.Fatalf("%v", err)
	}
	h := sha256.New()
	for _, name := range files {
		if strings.HasSuffix(name, "-shm") || strings.HasSuffix(name, ".lock") {
			continue // what readers share, and who has it
		}
		b, err := os.ReadFile(name)
		if err != nil {
			w.t.Fatalf("%v", err)
		}
		fmt.Fprintf(h, "%s %d\n", filepath.Base(name), len(b))
		h.Write(b)
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}
