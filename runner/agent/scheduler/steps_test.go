package scheduler_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"holon/responses"
	"holon/responses/turns"
	"holon/runner/agent/record"
	"holon/runner/agent/scheduler"
	"holon/state/ledger"
	"holon/test/expect"
)

// open makes a world for a test, which runs beside the others.
func open(t *testing.T) *world {
	t.Parallel()
	w := newWorld(t)
	t.Cleanup(w.close)
	return w
}

func prompt(text string) ledger.Message {
	return ledger.Message{
		AgentID: "alpha", Kind: ledger.KindOperatorPrompt, Origin: ledger.Origin{Kind: ledger.OriginOperator},
		Body: ledger.Body{Type: "text", Text: text}, Surface: ledger.SurfaceControlPrompt,
		AdmissionContext: ledger.ControlAuthenticated,
	}
}

func (w *world) admit(in ledger.Message) scheduler.Admission {
	w.t.Helper()
	a, err := w.m.Admit(w.ctx, in)
	if err != nil {
		w.t.Fatalf("admit: %v", err)
	}
	return a
}

// interject is a prompt for the turn that runs.
func interject(text string) ledger.Message { return urgent(text, ledger.Interject) }

// urgent is a prompt with a priority.
func urgent(text string, p ledger.Priority) ledger.Message {
	in := prompt(text)
	in.Priority = p
	return in
}

// working begins a turn for a prompt.
func (w *world) working() scheduler.Claim {
	w.t.Helper()
	w.admit(prompt("x"))
	return w.claim()
}

// completes ends a turn well.
func (w *world) completes(c scheduler.Claim) scheduler.Settlement {
	w.t.Helper()
	return w.settle(c.Attempt.ID, scheduler.End{Turn: ledger.Turn{Kind: ledger.TurnCompleted}})
}

// claim takes the next message and begins its turn.
func (w *world) claim() scheduler.Claim {
	w.t.Helper()
	c, ok, err := w.m.Claim(w.ctx, "alpha")
	if err != nil || !ok {
		w.t.Fatalf("claim: %v, %v", ok, err)
	}
	w.must(w.m.Began(w.ctx, c.Attempt.ID, scheduler.Sent{Prompt: json.RawMessage(`{"frame":1}`), Digest: "d"}))
	return c
}

func (w *world) nothing() {
	w.t.Helper()
	if c, ok, err := w.m.Claim(w.ctx, "alpha"); ok || err != nil {
		w.t.Fatalf("there is something to do: %+v, %v", c.Message, err)
	}
}

// done runs the next turn to its end.
func (w *world) done() (scheduler.Claim, scheduler.Settlement) {
	w.t.Helper()
	c := w.claim()
	return c, w.settle(c.Attempt.ID, scheduler.End{Turn: ledger.Turn{Kind: ledger.TurnCompleted, Last: "ok",
		ResponseID: "resp_" + c.Attempt.ID}})
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

// rests has alpha ask for a rest in a turn of its own, which ends.
func (w *world) rests(d time.Duration) ledger.Wait {
	w.t.Helper()
	c := w.working()
	wait := w.sleep("call_"+c.Attempt.ID, d)
	w.settle(c.Attempt.ID, scheduler.End{Turn: ledger.Turn{Kind: ledger.TurnCompleted, Last: "ok",
		ResponseID: "resp_" + c.Attempt.ID}})
	return wait
}

// wake wakes alpha, with a description if there is one, and wants what becomes of it.
func (w *world) wake(description string, want scheduler.Disposition) {
	w.t.Helper()
	got, err := w.m.Wake(w.ctx, scheduler.Wake{AgentID: "alpha", Context: ledger.ControlAuthenticated,
		WakeHint: ledger.WakeHint{Reason: "look", Description: description}})
	if err != nil || got != want {
		w.t.Fatalf("a wake is %s (%v), want %s", got, err, want)
	}
}

func TestCreate(t *testing.T) {
	w := open(t)
	for _, id := range []string{"", "A", "../x", strings.Repeat("a", 64)} {
		w.refused(scheduler.CodeInvalidAgent, "a-z")(w.m.Create(w.ctx, scheduler.NewAgent{ID: id}))
	}
	w.refused(ledger.CodeExists)(w.m.Create(w.ctx, scheduler.NewAgent{ID: "alpha"}))
	a, err := w.m.Create(w.ctx, scheduler.NewAgent{ID: "tmp", Private: true, Model: "p/m", Template: "holon-default"})
	w.must(err)
	expect.Equal(t, "kind", a.Kind, ledger.KindNamed)
	expect.Equal(t, "visibility", a.Visibility, ledger.Private)
	expect.Equal(t, "model", a.Model, "p/m")
	in := prompt("x")
	in.AgentID, in.Kind, in.Origin, in.AdmissionContext = "tmp", ledger.KindWebhookEvent,
		ledger.Origin{Kind: ledger.OriginWebhook, Source: "s"}, ledger.PublicUnauthenticated
	w.refused(scheduler.CodeAgentPrivate)(w.m.Admit(w.ctx, in))
	in.AgentID = "missing"
	w.refused(ledger.CodeNotFound)(w.m.Admit(w.ctx, in))
}

// One turn from its message to its end, and every event of it.
func TestTurn(t *testing.T) {
	w := open(t)
	start := w.state().EventSeq
	adm := w.admit(prompt("hello"))
	expect.Equal(t, "number of the admission", adm.EventSeq, start+1)
	expect.Equal(t, "replayed", adm.Replayed, false)
	c := w.claim()
	expect.Equal(t, "authority", c.Message.Authority, ledger.OperatorInstruction)
	expect.Equal(t, "trust", c.Message.Trust, ledger.TrustedOperator)
	expect.Equal(t, "turn index", c.Attempt.TurnIndex, 1)
	expect.Equal(t, "chain of the first turn", c.Attempt.Chain, "")
	expect.Equal(t, "owner", c.Attempt.Owner, "boot_1")
	w.must(w.m.Began(w.ctx, c.Attempt.ID, scheduler.Sent{Prompt: json.RawMessage(`{"frame":2}`), Digest: "e"})) // again
	facts := []scheduler.Progress{
		{Event: ledger.Event{Class: turns.ToolResult, Data: json.RawMessage(`{"tool":"exec_command"}`)}},
	}
	w.must(w.m.Progress(w.ctx, c.Attempt.ID, scheduler.Through{Facts: 2}, facts))
	w.must(w.m.Progress(w.ctx, c.Attempt.ID, scheduler.Through{Facts: 2}, facts[:1])) // changes nothing
	w.now = w.now.Add(3 * time.Second)
	s := w.settle(c.Attempt.ID, scheduler.End{Turn: ledger.Turn{Kind: ledger.TurnCompleted, Last: "done",
		ResponseID: "resp_1", ModelRounds: 2, ToolCalls: 1, Usage: &turns.Usage{Usage: responses.Usage{InputTokens: 10,
			OutputTokens: 5, TotalTokens: 15}}}})
	if s.Turn == nil {
		t.Fatalf("the settlement %+v has no turn", s)
	}
	expect.Equal(t, "status", s.Status, ledger.Processed)
	expect.Equal(t, "milliseconds of the turn", s.Turn.DurationMS, 3000)
	expect.Equal(t, "index of the turn", s.Turn.Index, 1)
	expect.Equal(t, "outcome", s.Closure.Outcome, ledger.OutcomeCompleted)
	expect.Equal(t, "replayed", s.Replayed, false)
	again := w.settle(c.Attempt.ID, scheduler.End{Lost: true})
	s.Replayed = true
	if diff := cmp.Diff(s, again); diff != "" {
		t.Errorf("the second settlement is another (-first +second):\n%s", diff)
	}
	w.checkTurnRecorded(t, start, adm.MessageID)

	next := w.working()
	expect.Equal(t, "chain of the next turn", next.Attempt.Chain, "resp_1")
	expect.Equal(t, "index of the next turn", next.Attempt.TurnIndex, 2)
	expect.Equal(t, "outcome before the next turn", next.Continuation.PriorOutcome, ledger.OutcomeCompleted)
	w.nothing()
}

// checkTurnRecorded looks at the events, the state and the brief that TestTurn's turn leaves.
func (w *world) checkTurnRecorded(t *testing.T, start int64, message string) {
	t.Helper()
	types, events := w.events(start)
	want := []string{
		record.MessageAdmitted, record.ContinuationResolved, record.TurnSubmitted, record.MessageStarted, record.TurnContextBuilt,
		record.TurnStarted, record.ToolExecuted,
		record.QueueEntrySettled, record.TurnTerminal, record.ClosureDecided, record.BriefCreated, record.MemoryUpdated,
	}
	if !slices.Equal(types, want) {
		t.Errorf("events\n%v, want\n%v", types, want)
	}
	for _, e := range events {
		expect.Equal(t, "message of event "+record.Of(e).Name, e.MessageID, message)
	}
	l := w.state()
	expect.Equal(t, "chain", l.Chain, "resp_1")
	expect.Equal(t, "turns", l.Turns, 1)
	expect.Equal(t, "input tokens", l.Totals.InputTokens, 10)
	expect.Equal(t, "model rounds", l.Totals.ModelRounds, 2)
	expect.Equal(t, "reason of the last wake", l.LastWake, "operator_input")
	if l.LastBriefAt == nil {
		t.Error("the time of the last brief is not recorded")
	}
	expect.Equal(t, "text of the brief", w.briefed(ledger.BriefResult), "done")
	brief := w.newest(record.BriefCreated)
	expect.Equal(t, "message of the brief", brief.MessageID, message)
	expect.Equal(t, "turn of the brief", brief.TurnID, w.newest(record.TurnTerminal).TurnID)
}

// A hostile turn cannot hold up its own record.
func TestProgressBoundsData(t *testing.T) {
	w := open(t)
	c := w.working()
	big := json.RawMessage(`"` + strings.Repeat("x", ledger.MaxEventData) + `"`)
	w.must(w.m.Progress(w.ctx, c.Attempt.ID, scheduler.Through{Facts: 1},
		[]scheduler.Progress{{Event: ledger.Event{Class: turns.ToolResult, Data: big}}}))
	long := strings.Repeat("c", 100<<10)
	s := w.settle(c.Attempt.ID, scheduler.End{Turn: ledger.Turn{Kind: ledger.TurnAborted, Reason: long,
		Last: long, Failure: &ledger.Failure{Code: long, Summary: long, Hint: long}}})
	if s.Turn == nil || s.Status != ledger.Aborted {
		t.Fatalf("%+v", s)
	}
	expect.Equal(t, "data", string(w.newest(record.ToolExecuted).Data),
		`{"omitted_bytes":8194,"ref":"turns/`+c.Attempt.TurnID+`/runtime.ndjson"}`)
}

func TestAdmitRefuses(t *testing.T) {
	w := open(t)
	w.m = scheduler.New(w.store, scheduler.Options{MaxQueued: 1, Now: func() time.Time { return w.now }})
	big := strings.Repeat("x", 1<<20+1)
	for name, c := range map[string]struct {
		change func(*ledger.Message)
		param  string
	}{
		"no text":         {func(in *ledger.Message) { in.Body.Text = " \n" }, "body"},
		"no UTF-8":        {func(in *ledger.Message) { in.Body.Text = "\xff" }, "body"},
		"NUL":             {func(in *ledger.Message) { in.Body.Text = "a\x00" }, "body"},
		"too long":        {func(in *ledger.Message) { in.Body.Text = big }, "body"},
		"no type":         {func(in *ledger.Message) { in.Body.Type = "" }, "body"},
		"text with value": {func(in *ledger.Message) { in.Body.Value = []byte(`1`) }, "body"},
		"no JSON": {func(in *ledger.Message) {
			in.Body = ledger.Body{Type: "json", Value: []byte(`{`)}
		}, "body"},
		"metadata": {func(in *ledger.Message) { in.Metadata = []byte(`[]`) }, "metadata"},
		"key":      {func(in *ledger.Message) { in.Key = strings.Repeat("k", 513) }, "idempotency_key"},
		"priority": {func(in *ledger.Message) { in.Priority = "urgent" }, "priority"},
		"context": {func(in *ledger.Message) {
			in.AdmissionContext = ledger.PublicUnauthenticated
		}, "admission_context"},
		"origin": {func(in *ledger.Message) { in.Origin.TaskID = "t" }, "origin.task_id"},
		"reference": {func(in *ledger.Message) {
			in.SourceRefs = map[string]string{"task_id": "t"}
		}, "source_refs.task_id"},
	} {
		in := prompt("x")
		c.change(&in)
		w.invalid(name, scheduler.CodeInvalidMessage, c.param)(w.m.Admit(w.ctx, in))
	}
	w.admit(prompt("x"))
	w.refused(scheduler.CodeQueueFull, "holon agent status alpha")(w.m.Admit(w.ctx, prompt("y")))
	w.wake("", "triggered")
}

func TestAdmitKey(t *testing.T) {
	w := open(t)
	in := prompt("x")
	in.Key, in.Metadata = "k", json.RawMessage(`{ "a": 1 }`)
	first := w.admit(in)
	in.Metadata = json.RawMessage(`{"a":1}`)
	if again := w.admit(in); !again.Replayed || again.MessageID != first.MessageID ||
		again.EventSeq != first.EventSeq || again.EventSeq == 0 {
		t.Fatalf("%+v after %+v", again, first)
	}
	in.Body.Text = "y"
	w.refused(scheduler.CodeKeyConflict, "another key")(w.m.Admit(w.ctx, in))
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
	in.Kind, in.Origin, in.AdmissionContext = ledger.KindInternalFollowup,
		ledger.Origin{Kind: ledger.OriginSystem, Subsystem: "enqueue"}, ledger.RuntimeOwned
	if m := w.message(w.admit(in).MessageID); m.WorkItemID != "work_1" || m.TaskID != "task_1" {
		t.Errorf("the runtime did not bind %+v", m)
	}
}
