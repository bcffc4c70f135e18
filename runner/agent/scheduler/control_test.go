package scheduler_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"holon/responses/turns"
	"holon/runner/agent/record"
	"holon/runner/agent/rules"
	"holon/runner/agent/scheduler"
	"holon/runner/agent/view"
	"holon/state/ledger"
	"holon/test/expect"
)

// TestOffer looks that the operator's interjections are found, however many messages of
// others are in the queue.
func TestOffer(t *testing.T) {
	w := open(t)
	c := w.working()
	wait := w.sleep("call", 0)
	also := w.admit(interject("also"))
	for range 40 {
		w.admit(webhook("event", ledger.Next))
	}
	late := w.admit(interject("late"))
	w.refused(scheduler.CodeInvalidMessage)(w.m.Admit(w.ctx, webhook("event", ledger.Interject)))
	for range 2 {
		msgs, err := w.m.Offer(w.ctx, "alpha")
		if err != nil || len(msgs) != 2 || msgs[0].ID != also.MessageID || msgs[1].ID != late.MessageID {
			t.Fatalf("%+v (%v) is offered, want the two interjections", msgs, err)
		}
	}
	expect.Equal(t, "status of the wait that the first ended", w.wait(wait.ID).Status, ledger.WaitResolved)
	s := w.settle(c.Attempt.ID, scheduler.End{Turn: ledger.Turn{Kind: ledger.TurnCompleted},
		Inserted: []string{also.MessageID}})
	expect.Equal(t, "status", s.Status, ledger.Processed)
	expect.Equal(t, "status of the first", w.entry(also.MessageID).Status, ledger.Interjected)
	expect.Equal(t, "status of the second", w.entry(late.MessageID).Status, ledger.Queued)
	c, _ = w.done()
	expect.Equal(t, "the next message", c.Message.ID, late.MessageID)
}

// The transcript has an interjection where the turn took it in, before the answer to it, once; and what was said in a
// message that comes back.
func TestTranscriptOfInterjection(t *testing.T) {
	w := open(t)
	c := w.working()
	first := c.Message.ID
	also := w.admit(interject("faster"))
	w.ok(w.m.Offer(w.ctx, "alpha"))
	w.now = w.now.Add(time.Second)
	at := w.now
	heard := ledger.Event{Class: turns.InputInserted, CreatedAt: at,
		Data: fmt.Appendf(nil, `{"input_id":%q,"round":2}`, also.MessageID)}
	other := heard
	other.Data = json.RawMessage(`{"input_id":"msg_other","round":2}`)
	answer := ledger.Event{Class: turns.ModelCompleted, Data: json.RawMessage(`{"provider_attempt":{"round":2}}`)}
	w.must(w.m.Progress(w.ctx, c.Attempt.ID, scheduler.Through{Facts: 3},
		[]scheduler.Progress{{Event: heard}, {Event: other}, {Event: answer}}))
	w.now = w.now.Add(time.Second)
	w.settle(c.Attempt.ID, scheduler.End{Turn: ledger.Turn{ResponseID: "resp_1"}, Lost: true,
		Inserted: []string{also.MessageID}})
	w.claim()
	var entries []record.TranscriptEntry
	w.view(func(v ledger.View) (err error) {
		entries, err = view.New(v, view.Facts{}).Transcript("alpha", 0)
		return err
	})
	var lines []string
	for _, e := range entries {
		var data struct{ Body ledger.Body }
		_ = json.Unmarshal(e.Data, &data)
		lines = append(lines, fmt.Sprint(e.Kind, " ", e.MessageID, " ", data.Body.Text))
	}
	want := []string{"incoming_message " + first + " x", "incoming_message " + also.MessageID + " faster",
		"assistant_round " + first + " ", "runtime_failure " + first + " ", "continuation_prompt " + first + " x"}
	if !slices.Equal(lines, want) || !entries[1].CreatedAt.Time().Equal(at) {
		t.Errorf("the transcript is %q, the second at %s, want %q, at %s", lines, entries[1].CreatedAt, want, at)
	}
}

func TestAbort(t *testing.T) {
	w := open(t)
	abort := func(a scheduler.Abort) (ledger.Attempt, bool, error) {
		a.AgentID = "alpha"
		return w.m.Abort(w.ctx, a)
	}
	w.refused(scheduler.CodeNoRun, "holon agent status alpha")(abort(scheduler.Abort{}))
	c := w.working()
	w.admit(prompt("2"))
	w.refused(scheduler.CodeRunMismatch)(abort(scheduler.Abort{RunID: "turn_other"}))
	w.refused(scheduler.CodeInvalidMessage, scheduler.StopAfterAbort)(abort(scheduler.Abort{Mode: "hard"}))
	for i, ab := range []scheduler.Abort{{By: "me"}, {By: "you", RunID: c.Attempt.TurnID},
		{Mode: scheduler.StopAfterAbort}, {}} {
		a, changed, err := abort(ab)
		if want := i%2 == 0; err != nil || a.AbortedBy != "me" || changed != want {
			t.Fatalf("%+v: %+v, changed %v, %v, want changed %v", ab, a, changed, err, want)
		}
	}
	w.refused(scheduler.CodeNoRun)(w.m.Sleep(w.ctx, "alpha", "1", 0, ""))
	s := w.settle(c.Attempt.ID, scheduler.End{Turn: ledger.Turn{Kind: ledger.TurnAborted, Reason: "cancelled"}})
	expect.Equal(t, "status", s.Status, ledger.Aborted)
	expect.Equal(t, "kind of the turn", s.Turn.Kind, ledger.TurnAborted)
	expect.Equal(t, "outcome", s.Closure.Outcome, ledger.OutcomeCompleted)
	expect.Equal(t, "evidence", s.Closure.Evidence[0], "the newest turn was ended on request")
	contains(t, "the brief", w.briefed(ledger.BriefFailure), "me")
	expect.Equal(t, "stopped", w.state().Stopped, true)
	w.nothing()
	w.must(w.m.Start(w.ctx, "alpha", "me"))
	c, _ = w.done()
	expect.Equal(t, "the next message", c.Message.Body.Text, "2")
}

// An aborted message does not come back, however its attempt ends.
func TestAbortedIsNotTriedAgain(t *testing.T) {
	for name, end := range map[string]scheduler.End{
		"lost": {Lost: true}, "not begun": {NotBegun: true}, "no engine": notBegun(),
		"failed": {Turn: ledger.Turn{Kind: ledger.TurnAborted}},
	} {
		t.Run(name, func(t *testing.T) {
			w := open(t)
			c := w.working()
			w.must(w.m.Stop(w.ctx, "alpha", "me"))
			expect.Equal(t, "status", w.settle(c.Attempt.ID, end).Status, ledger.Aborted)
			expect.Equal(t, "status of the entry", w.entry(c.Message.ID).Status, ledger.Aborted)
			w.check()
		})
	}
}

func TestStop(t *testing.T) {
	w := open(t)
	c := w.working()
	wait := w.sleep("1", time.Hour)
	adm := w.admit(prompt("2"))
	w.must(w.m.Stop(w.ctx, "alpha", "me"))
	w.must(w.m.Stop(w.ctx, "alpha", "me"))
	w.refused(scheduler.CodeAgentStopped, "holon agent start alpha")(w.m.Admit(w.ctx, prompt("3")))
	w.refused(scheduler.CodeAgentStopped, "holon agent start alpha")(
		w.m.Wake(w.ctx, scheduler.Wake{AgentID: "alpha", Context: ledger.LocalProcess}))
	w.settle(c.Attempt.ID, scheduler.End{Turn: ledger.Turn{Kind: ledger.TurnAborted}})
	w.nothing()
	w.must(w.m.Start(w.ctx, "alpha", "me"))
	c = w.claim()
	expect.Equal(t, "the next message", c.Message.ID, adm.MessageID)
	w.resumes(t, c, wait.ID, ledger.ResumeOverride)
}

// An agent that is stopped while it rests has no rest to go back to.
func TestStopEndsTheRest(t *testing.T) {
	w := open(t)
	wait := w.rests(time.Hour)
	w.must(w.m.Stop(w.ctx, "alpha", "me"))
	if got := w.wait(wait.ID); got.Status != ledger.WaitCancelled || got.EndedAt == nil {
		t.Fatalf("%+v", got)
	}
	w.must(w.m.Start(w.ctx, "alpha", "me"))
	w.pass(2 * time.Hour)
	w.nothing()
}

func TestNotify(t *testing.T) {
	w := open(t)
	c := w.working()
	w.must(w.m.Notify(w.ctx, "alpha", "\n  two ways \nmore"))
	n := w.notifications()[0]
	expect.Equal(t, "summary", n.Summary, "two ways")
	expect.Equal(t, "boundary", n.Boundary, "primary_operator")
	if w.state().PendingWake != nil || w.entry(c.Message.ID).Status != ledger.Dequeued {
		t.Fatal("a notification moved the agent")
	}
	s := w.settle(c.Attempt.ID, scheduler.End{Turn: ledger.Turn{Kind: ledger.TurnCompleted, Last: "two ways\nmore"}})
	expect.Equal(t, "reason to wait", s.Closure.WaitingReason, "")
	w.must(w.m.Notify(w.ctx, "alpha", "two ways more"))
	var levels []int
	_, events := w.events(0)
	for _, e := range events {
		if record.Of(e).Name == record.BriefCreated || record.Of(e).Name == record.NotificationRequested {
			levels = append(levels, e.Level)
		}
	}
	if !slices.Equal(levels, []int{record.LevelActionRequired, record.LevelTrace, record.LevelTrace}) {
		t.Fatalf("the operator is notified at levels %v", levels)
	}
}

// A notification is open until its matter is settled or the operator has seen it. One of a matter is open at a time.
func TestNotificationsEnd(t *testing.T) {
	pending := func(w *world) (kinds []string) {
		for _, n := range w.notifications() {
			if n.ResolvedAt == nil {
				kinds = append(kinds, string(n.Kind))
			}
		}
		return kinds
	}
	input, ready, blocker, none := ledger.PlanNeedsInput, ledger.PlanReady, "a review", ""
	t.Run("the plan has its input", func(t *testing.T) {
		w := open(t)
		item := w.item("release")
		update(w, item.ID, scheduler.WorkChange{PlanStatus: &input})
		expect.Equal(t, "open", strings.Join(pending(w), " "), "needs_input")
		expect.Equal(t, "work item", w.notifications()[0].WorkItemID, item.ID)
		update(w, item.ID, scheduler.WorkChange{PlanStatus: &ready})
		expect.Equal(t, "open", strings.Join(pending(w), " "), "")
		expect.Equal(t, "resolved by", w.notifications()[0].ResolvedBy, "runtime")
	})
	t.Run("what was looked at again is free", func(t *testing.T) {
		w := open(t)
		item := w.item("release")
		c := w.claim()
		update(w, item.ID, scheduler.WorkChange{BlockedBy: &blocker})
		w.completes(c)
		w.pass(rules.DefaultRecheck)
		c = w.claim()
		w.settle(c.Attempt.ID, scheduler.End{Turn: ledger.Turn{Kind: ledger.TurnCompleted}})
		expect.Equal(t, "open", strings.Join(pending(w), " "), "recheck_consumed")
		expect.Equal(t, "work item", w.notifications()[0].WorkItemID, item.ID)
		expect.Equal(t, "caused by", w.notifications()[0].CausationID, c.Attempt.MessageID)
		update(w, item.ID, scheduler.WorkChange{BlockedBy: &none})
		expect.Equal(t, "open", strings.Join(pending(w), " "), "")
	})
	t.Run("what was looked at again is not the current item", func(t *testing.T) {
		w := open(t)
		item, _, err := w.m.CreateWork(w.ctx, scheduler.NewWork{AgentID: "alpha", Key: "k", Objective: "release"})
		w.must(err)
		update(w, item.ID, scheduler.WorkChange{BlockedBy: &blocker})
		w.pass(rules.DefaultRecheck)
		c := w.claim()
		expect.Equal(t, "current item", c.Attempt.WorkItemID, "")
		w.settle(c.Attempt.ID, scheduler.End{Turn: ledger.Turn{Kind: ledger.TurnCompleted}})
		expect.Equal(t, "open", strings.Join(pending(w), " "), "recheck_consumed")
	})
	t.Run("a blocked message goes on", func(t *testing.T) {
		w := open(t)
		msg := prompt("go")
		msg.CorrelationID = "corr_1"
		w.admit(msg)
		for range 2 {
			c := w.claim()
			w.settle(c.Attempt.ID, scheduler.End{NotBegun: true, Permanent: true, Turn: ledger.Turn{
				Failure: &ledger.Failure{Code: "missing_credentials", Summary: "there is no key"}}})
			expect.Equal(t, "open", strings.Join(pending(w), " "), "message_blocked")
			expect.Equal(t, "correlation", w.notifications()[0].CorrelationID, "corr_1")
			expect.Equal(t, "caused by", w.notifications()[0].CausationID, c.Attempt.MessageID)
			w.must(w.m.Unblock(w.ctx, "alpha"))
		}
		c := w.claim()
		w.settle(c.Attempt.ID, scheduler.End{Turn: ledger.Turn{Kind: ledger.TurnCompleted}})
		expect.Equal(t, "open", strings.Join(pending(w), " "), "")
	})
	t.Run("the operator has seen it", func(t *testing.T) {
		w := open(t)
		w.must(w.m.Notify(w.ctx, "alpha", "look"))
		id := w.notifications()[0].ID
		for range 2 {
			n, err := w.m.Acknowledge(w.ctx, "alpha", id)
			w.must(err)
			expect.Equal(t, "resolved by", n.ResolvedBy, "operator")
		}
		w.refused(ledger.CodeNotFound, "holon notify log --agent alpha")(w.m.Acknowledge(w.ctx, "alpha", "ntf_none"))
	})
}

func TestAgentSettings(t *testing.T) {
	w := open(t)
	w.refused(scheduler.CodeInvalidAgent, "model clear alpha")(w.m.SetModel(w.ctx, "alpha", "", ""))
	w.refused(scheduler.CodeInvalidAgent, "none, minimal, low, medium, high, xhigh, max")(
		w.m.SetModel(w.ctx, "alpha", "p/m", "bogus"))
	before := w.state().EventSeq
	is := func(model, effort, image string) func(ledger.Agent, error) {
		return func(a ledger.Agent, err error) {
			t.Helper()
			w.must(err)
			expect.Equal(t, "model", a.Model, model)
			expect.Equal(t, "effort", a.ReasoningEffort, effort)
			expect.Equal(t, "image", a.Image, image)
		}
	}
	for range 2 {
		is("p/m", "high", "")(w.m.SetModel(w.ctx, "alpha", "p/m", "high"))
	}
	if types, _ := w.events(before); !slices.Equal(types, []string{record.ModelOverrideRequested}) {
		t.Fatalf("%v", types)
	}
	expect.Equal(t, "model of a turn", w.working().Attempt.Model, "p/m")
	is("", "", "")(w.m.ClearModel(w.ctx, "alpha"))
	is("", "", "busybox")(w.m.SetImage(w.ctx, "alpha", "busybox"))
}
