package scheduler_test

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

	"holon/responses/turns"
	"holon/runner/agent/rules"
	"holon/runner/agent/scheduler"
	"holon/runner/agent/view"
	"holon/state/ledger"
)

// TestOffer looks that the operator's interjections are found, however many messages of
// others are in the queue.
func TestOffer(t *testing.T) {
	w := open(t)
	w.admit(prompt("work"))
	c := w.claim()
	for range 40 {
		w.admit(webhook("event", ledger.Next))
	}
	in := prompt("also")
	in.Priority = ledger.Interject
	also := w.admit(in)
	in.Body.Text = "late"
	late := w.admit(in)
	_, err := w.m.Admit(w.ctx, webhook("event", ledger.Interject))
	code(t, err, scheduler.CodeInvalidMessage, "")
	for range 2 {
		msgs, err := w.m.Offer(w.ctx, "alpha")
		switch {
		case err != nil:
			t.Fatalf("unexpected error: %v", err)
		case len(msgs) != 2:
			t.Fatalf("len(msgs) = %d (%+v), want 2", len(msgs), msgs)
		case msgs[0].ID != also.MessageID:
			t.Fatalf("msgs[0].ID = %q, want %q", msgs[0].ID, also.MessageID)
		case msgs[1].ID != late.MessageID:
			t.Fatalf("msgs[1].ID = %q, want %q", msgs[1].ID, late.MessageID)
		}
	}
	if s := w.settle(c.Attempt.ID, scheduler.End{Kind: ledger.TurnCompleted,
		Inserted: []string{also.MessageID}}); s.Status != ledger.Processed {
		t.Fatalf("%+v", s)
	}
	switch {
	case w.entry(also.MessageID).Status != ledger.Interjected:
		t.Fatalf("w.entry(also.MessageID).Status = %q, want %q", w.entry(also.MessageID).Status, ledger.Interjected)
	case w.entry(late.MessageID).Status != ledger.Queued:
		t.Fatalf("w.entry(late.MessageID).Status = %q, want %q", w.entry(late.MessageID).Status, ledger.Queued)
	}
	if c, _ := w.done(); c.Message.ID != late.MessageID {
		t.Fatalf("%+v", c.Message)
	}
}

// The transcript has an interjection where the turn took it in, before the answer to it, once; and what was said in a
// message that comes back.
func TestTranscriptOfInterjection(t *testing.T) {
	w := open(t)
	first := w.admit(prompt("work"))
	c := w.claim()
	in := prompt("faster")
	in.Priority = ledger.Interject
	also := w.admit(in)
	_, err := w.m.Offer(w.ctx, "alpha")
	w.must(err)
	w.now = w.now.Add(time.Second)
	at := w.now
	heard := ledger.Event{Type: turns.InputInserted, Class: turns.InputInserted, CreatedAt: at,
		Data: fmt.Appendf(nil, `{"input_id":%q,"round":2}`, also.MessageID)}
	other := heard
	other.Data = json.RawMessage(`{"input_id":"msg_other","round":2}`)
	answer := ledger.TranscriptEntry{Kind: ledger.TranscriptRound, Round: 2}
	w.must(w.m.Progress(w.ctx, c.Attempt.ID, scheduler.Through{Facts: 3},
		[]scheduler.Progress{{Event: heard}, {Event: other}, {Transcript: &answer}}))
	w.now = w.now.Add(time.Second)
	w.settle(c.Attempt.ID, scheduler.End{Lost: true, ResponseID: "resp_1", Inserted: []string{also.MessageID}})
	w.claim()
	var said []ledger.TranscriptEntry
	w.view(func(v ledger.View) (err error) {
		said, err = view.New(v, view.Facts{}).Transcript("alpha", 0)
		return err
	})
	var lines []string
	for _, e := range said {
		var data struct{ Body ledger.Body }
		_ = json.Unmarshal(e.Data, &data)
		lines = append(lines, fmt.Sprint(e.Kind, " ", e.MessageID, " ", data.Body.Text))
	}
	want := []string{"incoming_message " + first.MessageID + " work", "incoming_message " + also.MessageID + " faster",
		"assistant_round " + first.MessageID + " ", "runtime_failure " + first.MessageID + " ",
		"continuation_prompt " + first.MessageID + " work"}
	if !slices.Equal(lines, want) || !said[1].CreatedAt.Equal(at) {
		t.Errorf("the transcript is %q, the second at %s, want %q, at %s", lines, said[1].CreatedAt, want, at)
	}
}

func TestAbort(t *testing.T) {
	w := open(t)
	_, _, err := w.m.Abort(w.ctx, scheduler.Abort{AgentID: "alpha"})
	code(t, err, scheduler.CodeNoRun, "holon agent status alpha")
	w.admit(prompt("1"))
	w.admit(prompt("2"))
	c := w.claim()
	_, _, err = w.m.Abort(w.ctx, scheduler.Abort{AgentID: "alpha", RunID: "turn_other"})
	code(t, err, scheduler.CodeRunMismatch, "")
	_, _, err = w.m.Abort(w.ctx, scheduler.Abort{AgentID: "alpha", Mode: "hard"})
	code(t, err, scheduler.CodeInvalidMessage, scheduler.StopAfterAbort)
	for i, ab := range []scheduler.Abort{{By: "me"}, {By: "you", RunID: c.Attempt.TurnID},
		{Mode: scheduler.StopAfterAbort}, {}} {
		ab.AgentID = "alpha"
		a, changed, err := w.m.Abort(w.ctx, ab)
		if want := i%2 == 0; err != nil || a.AbortedBy != "me" || changed != want {
			t.Fatalf("%+v: %+v, changed %v, %v, want changed %v", ab, a, changed, err, want)
		}
	}
	_, err = w.m.Sleep(w.ctx, "alpha", "1", 0, "")
	code(t, err, scheduler.CodeNoRun, "")
	s := w.settle(c.Attempt.ID, scheduler.End{Kind: ledger.TurnAborted, Reason: "cancelled"})
	switch {
	case s.Status != ledger.Aborted:
		t.Fatalf("s.Status = %q, want %q", s.Status, ledger.Aborted)
	case s.Turn.Kind != ledger.TurnAborted:
		t.Fatalf("s.Turn.Kind = %q, want %q", s.Turn.Kind, ledger.TurnAborted)
	case s.Closure.Outcome != ledger.OutcomeFailed:
		t.Fatalf("s.Closure.Outcome = %q, want %q", s.Closure.Outcome, ledger.OutcomeFailed)
	}
	switch b := w.briefs(); {
	case len(b) != 1:
		t.Fatalf("len(b) = %d (%+v), want 1", len(b), b)
	case b[0].Kind != ledger.BriefFailure:
		t.Fatalf("b[0].Kind = %q, want %q", b[0].Kind, ledger.BriefFailure)
	case !strings.Contains(b[0].Text, "me"):
		t.Fatalf(`b[0].Text = %q, want it to contain "me"`, b[0].Text)
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
		t.Run(name, func(t *testing.T) {
			w := open(t)
			adm := w.admit(prompt("x"))
			c := w.claim()
			w.must(w.m.Stop(w.ctx, "alpha", "me"))
			equal(t, "status", w.settle(c.Attempt.ID, end).Status, ledger.Aborted)
			equal(t, "status of the entry", w.entry(adm.MessageID).Status, ledger.Aborted)
			w.check()
		})
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
	switch c := w.claim(); {
	case c.Message.ID != adm.MessageID:
		t.Fatalf("c.Message.ID = %q, want %q", c.Message.ID, adm.MessageID)
	case c.Wait == nil:
		t.Fatal("c.Wait = nil, want a value")
	case c.Wait.ID != wait.ID:
		t.Fatalf("c.Wait.ID = %q, want %q", c.Wait.ID, wait.ID)
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
	switch {
	case err != nil:
		t.Fatalf("unexpected error: %v", err)
	case n.Summary != "two ways":
		t.Fatalf(`n.Summary = %q, want "two ways"`, n.Summary)
	case n.Boundary != "primary_operator":
		t.Fatalf(`n.Boundary = %q, want "primary_operator"`, n.Boundary)
	case n.CorrelationID != "corr":
		t.Fatalf(`n.CorrelationID = %q, want "corr"`, n.CorrelationID)
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
	_, err = w.m.SetModel(w.ctx, "alpha", "p/m", "bogus")
	code(t, err, scheduler.CodeInvalidAgent, "none, minimal, low, medium, high, xhigh, max")
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
	switch f := w.state().LastFailure; {
	case f == nil:
		t.Fatal("f = nil, want a value")
	case f.Code != "c":
		t.Fatalf(`f.Code = %q, want "c"`, f.Code)
	case !f.OccurredAt.Equal(w.now):
		t.Fatal("f.OccurredAt.Equal(w.now) = false, want true")
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
