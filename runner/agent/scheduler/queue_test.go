package scheduler_test

import (
	"errors"
	"testing"
	"time"

	"holon/runner/agent/record"
	"holon/runner/agent/scheduler"
	"holon/state"
	"holon/state/ledger"
	"holon/test/expect"
)

// tryKeyless claims a message for which no turn can be begun before a setting changes.
func (w *world) tryKeyless(id string) {
	w.t.Helper()
	c, ok, err := w.m.Claim(w.ctx, "alpha")
	if err != nil || !ok || c.Message.ID != id {
		w.t.Fatalf("claim: %s, %v, %v, want %s", c.Message.ID, ok, err, id)
	}
	w.settle(c.Attempt.ID, scheduler.End{Turn: ledger.Turn{Failure: &ledger.Failure{Phase: "startup",
		Code: "missing_credentials", Summary: "There is no key.", Hint: "set one"}}, NotBegun: true, Permanent: true})
}

// A message for which no turn can be begun before a setting changes is recorded at once, lets every other message pass,
// and is next again when a setting changes, its agent is started, or a turn begins.
func TestBlocked(t *testing.T) {
	for name, heal := range map[string]func(w *world) error{
		"start": func(w *world) error { return w.m.Start(w.ctx, "alpha", "me") },
		"model": func(w *world) error { _, err := w.m.SetModel(w.ctx, "alpha", "a/b", ""); return err },
		"image": func(w *world) error { _, err := w.m.SetImage(w.ctx, "alpha", "x"); return err },
		"clear": func(w *world) error { _, err := w.m.ClearModel(w.ctx, "alpha"); return err },
		"boot":  func(w *world) error { return w.m.Unblock(w.ctx, "alpha") },
	} {
		t.Run(name, func(t *testing.T) {
			w := open(t)
			first, later := w.admit(urgent("urgent", ledger.Next)), w.admit(prompt("later"))
			for _, id := range []string{first.MessageID, later.MessageID} {
				w.tryKeyless(id)
				e := w.entry(id)
				if e.Status != ledger.Queued || !e.Blocked() || e.Reason != "There is no key; set one" ||
					e.Code != "missing_credentials" {
					t.Errorf("the entry is %+v, want it queued and blocked", e)
				}
			}
			w.nothing()
			if at, ok := w.retryAt("alpha"); ok {
				t.Errorf("the next try is at %v, want none", at)
			}
			expect.Equal(t, "level", w.newest(record.QueueEntryBlocked).Level, record.LevelActionRequired)
			w.pass(48 * time.Hour)
			w.nothing()
			w.must(heal(w))
			expect.Equal(t, "the code after it", w.entry(first.MessageID).Code, "")
			for _, want := range []scheduler.Admission{first, later} {
				c, _ := w.done()
				expect.Equal(t, "the message after it", c.Message.ID, want.MessageID)
			}
		})
	}
}

// A turn that begins shows that nothing is in the way any more.
func TestBegunTurnUnblocks(t *testing.T) {
	w := open(t)
	blocked := w.admit(prompt("blocked"))
	w.tryKeyless(blocked.MessageID)
	w.admit(prompt("next"))
	w.done()
	c, _ := w.done()
	expect.Equal(t, "the message after it", c.Message.ID, blocked.MessageID)
}

// A message is removed while it is queued, and neither before nor after. A wait that it was to end is over with it.
func TestRemove(t *testing.T) {
	w := open(t)
	rest := w.rests(time.Hour)
	gone, kept := w.admit(prompt("gone")), w.admit(prompt("kept"))
	e, err := w.m.Remove(w.ctx, "alpha", gone.MessageID, "me")
	if err != nil || e.Status != ledger.Dropped {
		t.Fatalf("Remove() = %+v, %v", e, err)
	}
	expect.Equal(t, "status", w.entry(gone.MessageID).Status, ledger.Dropped)
	expect.Equal(t, "status of the wait", w.wait(rest.ID).Status, ledger.WaitCancelled)
	w.refused(scheduler.CodeNotQueued)(w.m.Remove(w.ctx, "alpha", gone.MessageID, "me"))
	w.refused(ledger.CodeNotFound)(w.m.Remove(w.ctx, "alpha", "msg_unknown", "me"))
	expect.Equal(t, "the claimed message", w.claim().Message.ID, kept.MessageID)
	w.refused(scheduler.CodeNotQueued)(w.m.Remove(w.ctx, "alpha", kept.MessageID, "me"))
}

// A message that is in no queue, or in that of another agent, is refused with the remedy.
func TestMessageOfNoQueue(t *testing.T) {
	w := open(t)
	_, err := w.m.Promote(w.ctx, "alpha", "msg_nope", "operator")
	e, _ := errors.AsType[*state.Error](err)
	if e == nil || e.Code != ledger.CodeNotFound || e.Hint != "holon queue list --agent alpha" {
		t.Errorf("error %+v, want one that says where messages are listed", err)
	}
}
