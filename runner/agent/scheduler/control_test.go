package scheduler_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"holon/runner/agent/rules"
	"holon/runner/agent/scheduler"
	"holon/state/ledger"
)

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
	if s := w.settle(c.Attempt.ID, scheduler.End{Kind: ledger.TurnCompleted,
		Inserted: []string{also.MessageID}}); s.Status != ledger.Processed {
		t.Fatalf("%+v", s)
	}
	if w.entry(also.MessageID).Status != ledger.Interjected || w.entry(late.MessageID).Status != ledger.Queued ||
		w.entry(hooked.MessageID).Status != ledger.Queued {
		t.Fatalf("%+v %+v", w.entry(also.MessageID), w.entry(late.MessageID))
	}
	if c, _ := w.done(); c.Message.ID != late.MessageID {
		t.Fatalf("%+v", c.Message)
	}
}

func TestAbort(t *testing.T) {
	w := open(t)
	_, err := w.m.Abort(w.ctx, scheduler.Abort{AgentID: "alpha"})
	code(t, err, scheduler.CodeNoRun, "holon agent status alpha")
	w.admit(prompt("1"))
	w.admit(prompt("2"))
	c := w.claim()
	_, err = w.m.Abort(w.ctx, scheduler.Abort{AgentID: "alpha", RunID: "turn_other"})
	code(t, err, scheduler.CodeRunMismatch, "")
	_, err = w.m.Abort(w.ctx, scheduler.Abort{AgentID: "alpha", Mode: "hard"})
	code(t, err, scheduler.CodeInvalidMessage, scheduler.StopAfterAbort)
	for _, ab := range []scheduler.Abort{{By: "me"}, {By: "you", RunID: c.Attempt.TurnID},
		{Mode: scheduler.StopAfterAbort}, {}} {
		ab.AgentID = "alpha"
		if a, err := w.m.Abort(w.ctx, ab); err != nil || a.AbortedBy != "me" {
			t.Fatalf("%+v, %v", a, err)
		}
	}
	_, err = w.m.Sleep(w.ctx, "alpha", "1", 0, "")
	code(t, err, scheduler.CodeNoRun, "")
	s := w.settle(c.Attempt.ID, scheduler.End{Kind: ledger.TurnAborted, Reason: "cancelled"})
	if s.Status != ledger.Aborted || s.Turn.Kind != ledger.TurnAborted || s.Closure.Outcome != ledger.OutcomeFailed {
		t.Fatalf("%+v", s)
	}
	if b := w.briefs(); len(b) != 1 || b[0].Kind != ledger.BriefFailure || !strings.Contains(b[0].Text, "me") {
		t.Fatalf("%+v", b)
	}
	if !w.state().Stopped {
		t.Fatal("the agent goes on after stop_after_abort")
	}
	w.nothing()
	w.must(w.m.Start(w.ctx, "alpha", "me"))
	if c, _ := w.done(); c.Message.Body.Text != "2" {
		t.Fatalf("%+v", c.Message)
	}
}

// An aborted message does not come back, however its attempt ends.
func TestAbortedIsNotTriedAgain(t *testing.T) {
	for name, end := range map[string]scheduler.End{
		"lost": {Lost: true}, "not begun": {NotBegun: true},
		"no engine": {NotBegun: true, Failure: &ledger.Failure{Code: "engine"}}, "failed": {Kind: ledger.TurnAborted},
	} {
		w := open(t)
		adm := w.admit(prompt("x"))
		c := w.claim()
		w.must(w.m.Stop(w.ctx, "alpha", "me"))
		if s := w.settle(c.Attempt.ID, end); s.Status != ledger.Aborted ||
			w.entry(adm.MessageID).Status != ledger.Aborted {
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
	code(t, err, scheduler.CodeAgentStopped, "holon agent start alpha")
	_, err = w.m.Wake(w.ctx, scheduler.Wake{AgentID: "alpha", Context: ledger.LocalProcess})
	code(t, err, scheduler.CodeAgentStopped, "holon agent start alpha")
	w.settle(c.Attempt.ID, scheduler.End{Kind: ledger.TurnAborted})
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
	w.settle(c.Attempt.ID, scheduler.End{Kind: ledger.TurnCompleted})
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
	_, err := w.m.Notify(w.ctx, "alpha", " ", "", "")
	code(t, err, scheduler.CodeInvalidMessage, "")
	w.admit(prompt("x"))
	c := w.claim()
	n, err := w.m.Notify(w.ctx, "alpha", "\n  two ways \nmore", "corr", "cause")
	if err != nil || n.Summary != "two ways" || n.Boundary != "primary_operator" || n.CorrelationID != "corr" {
		t.Fatalf("%+v, %v", n, err)
	}
	if w.state().PendingWake != nil || w.entry(c.Message.ID).Status != ledger.Dequeued {
		t.Fatal("a notification moved the agent")
	}
	s := w.settle(c.Attempt.ID, scheduler.End{Kind: ledger.TurnCompleted, Last: "two ways\nmore"})
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
	code(t, err, scheduler.CodeInvalidAgent, "model clear alpha")
	before := w.state().EventSeq
	for range 2 {
		if a, err := w.m.SetModel(w.ctx, "alpha", "p/m", "high"); err != nil || a.Model != "p/m" ||
			a.ReasoningEffort != "high" {
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
	if f := w.state().LastFailure; f == nil || f.Code != "c" || !f.OccurredAt.Equal(w.now) {
		t.Fatalf("%+v", f)
	}
}

// Reading writes nothing and starts nothing (8): no byte of the ledger changes.
func TestReadingWritesNothing(t *testing.T) {
	w := open(t)
	w.admit(prompt("x"))
	c := w.claim()
	w.settle(c.Attempt.ID, scheduler.End{NotBegun: true, Failure: &ledger.Failure{Code: "engine"}})
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
		_, _ = w.m.Deliver(w.ctx, scheduler.Delivery{Token: "unknown"})
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
