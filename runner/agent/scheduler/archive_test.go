package scheduler_test

import (
	"testing"
	"time"

	"holon/runner/agent/record"
	"holon/runner/agent/scheduler"
	"holon/state/ledger"
	"holon/test/expect"
)

// An agent that is removed loses what it holds in one step, and a turn that runs only by force. It gets nothing any
// more, its records stay, and its id is taken.
func TestArchive(t *testing.T) {
	w := open(t)
	w.must(w.store.Update(w.ctx, func(tx ledger.Tx) error {
		a, err := tx.Agent("alpha")
		if err != nil {
			return err
		}
		a.Kind = ledger.KindNamed
		return tx.Update(&a)
	}))
	w.rests(time.Hour)
	timer, _, err := w.m.CreateTimer(w.ctx, scheduler.NewTimer{AgentID: "alpha", After: time.Hour})
	w.must(err)
	_, token, err := w.m.EnsureTrigger(w.ctx, "alpha")
	w.must(err)
	c := w.working()
	w.sleep("2", 0)
	queued := w.admit(prompt("queued"))

	would, err := w.m.Archive(w.ctx, scheduler.Archive{AgentID: "alpha", By: "me", DryRun: true})
	want := scheduler.Losses{RunID: c.Attempt.TurnID, QueuedMessages: 1, Timers: 1, Triggers: 1, Waits: 1}
	if would != want || err != nil {
		t.Errorf("a dry run tells of %+v (%v), want %+v", would, err, want)
	}
	w.refused(scheduler.CodeAgentBusy)(w.m.Archive(w.ctx, scheduler.Archive{AgentID: "alpha", By: "me"}))
	expect.Equal(t, "the message after a refusal", w.entry(queued.MessageID).Status, ledger.Queued)
	force := scheduler.Archive{AgentID: "alpha", By: "me", Force: true}
	lost, err := w.m.Archive(w.ctx, force)
	w.must(err)
	expect.Equal(t, "what is lost", lost, want)
	w.refused(scheduler.CodeAgentArchived)(w.m.Archive(w.ctx, force))
	expect.Equal(t, "the queued message", w.entry(queued.MessageID).Status, ledger.Dropped)
	w.settle(c.Attempt.ID, scheduler.End{Turn: ledger.Turn{Kind: ledger.TurnAborted, Reason: "cancelled"}})
	expect.Equal(t, "the message of the turn", w.entry(c.Message.ID).Status, ledger.Aborted)
	w.view(func(v ledger.View) error {
		ended, err := v.Timer(timer.ID)
		expect.Equal(t, "the timer", ended.Status, ledger.TimerCancelled)
		return err
	})
	w.pass(48 * time.Hour)
	w.nothing()

	gone := w.refused(scheduler.CodeAgentArchived)
	gone(w.m.Start(w.ctx, "alpha", "me"))
	gone(w.m.Stop(w.ctx, "alpha", "me"))
	gone(w.m.Abort(w.ctx, scheduler.Abort{AgentID: "alpha", By: "me"}))
	gone(w.m.RevokeTrigger(w.ctx, "alpha", ""))
	gone(w.m.Remove(w.ctx, "alpha", queued.MessageID, "me"))
	gone(w.m.Resume(w.ctx, ledger.Command{AgentID: "alpha", ID: "c"}, "me"))
	gone(w.m.Admit(w.ctx, prompt("more")))
	gone(w.m.CreateTimer(w.ctx, scheduler.NewTimer{AgentID: "alpha", After: 1}))
	gone(w.m.EnsureTrigger(w.ctx, "alpha"))
	gone(w.m.RotateTrigger(w.ctx, "alpha", ""))
	gone(w.m.SetModel(w.ctx, "alpha", "a/b", ""))
	w.refused(scheduler.CodeTokenUnknown)(w.m.Deliver(w.ctx, scheduler.Delivery{Token: token}))
	w.refused(ledger.CodeExists)(w.m.Create(w.ctx, scheduler.NewAgent{ID: "alpha"}))
	w.newest(record.AgentCreated) // its record stays
}

// The default agent stays.
func TestArchiveDefault(t *testing.T) {
	w := open(t)
	for _, dry := range []bool{true, false} {
		w.refused(scheduler.CodeDefaultAgent)(
			w.m.Archive(w.ctx, scheduler.Archive{AgentID: "alpha", By: "me", DryRun: dry, Force: true}))
	}
}
