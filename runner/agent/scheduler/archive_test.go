package scheduler_test

import (
	"testing"
	"time"

	"holon/runner/agent/scheduler"
	"holon/state"
	"holon/state/ledger"
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
		return tx.UpdateAgent(a)
	}))
	w.admit(prompt("rest"))
	c := w.claim()
	w.sleep("1", time.Hour)
	w.settle(c.Attempt.ID, scheduler.End{Kind: ledger.TurnCompleted, Last: "ok", ResponseID: "resp_1"})
	timer, _, err := w.m.CreateTimer(w.ctx, scheduler.NewTimer{AgentID: "alpha", After: time.Hour})
	w.must(err)
	_, token, err := w.m.EnsureTrigger(w.ctx, "alpha")
	w.must(err)
	running := w.admit(prompt("work"))
	c = w.claim()
	w.sleep("2", 0)
	queued := w.admit(prompt("queued"))

	would, err := w.m.Archive(w.ctx, scheduler.Archive{AgentID: "alpha", By: "me", DryRun: true})
	want := scheduler.Losses{RunID: c.Attempt.TurnID, QueuedMessages: 1, Timers: 1, Triggers: 1, Waits: 1}
	if would != want || err != nil {
		t.Errorf("a dry run tells of %+v (%v), want %+v", would, err, want)
	}
	archive := func(force bool, code state.Code) {
		t.Helper()
		lost, err := w.m.Archive(w.ctx, scheduler.Archive{AgentID: "alpha", By: "me", Force: force})
		if code == "" && (err != nil || lost != want) || code != "" && !state.IsCode(err, code) {
			t.Errorf("Archive() = %+v, %v, want code %q", lost, err, code)
		}
	}
	archive(false, scheduler.CodeAgentBusy)
	equal(t, "the message after a refusal", w.entry(queued.MessageID).Status, ledger.Queued)
	archive(true, "")
	archive(true, scheduler.CodeAgentArchived)
	equal(t, "the queued message", w.entry(queued.MessageID).Status, ledger.Dropped)
	w.settle(c.Attempt.ID, scheduler.End{Kind: ledger.TurnAborted, Reason: "cancelled"})
	equal(t, "the message of the turn", w.entry(running.MessageID).Status, ledger.Aborted)
	w.view(func(v ledger.View) error {
		ended, err := v.Timer(timer.ID)
		equal(t, "the timer", ended.Status, ledger.TimerCancelled)
		return err
	})
	w.pass(48 * time.Hour)
	w.nothing()

	for name, do := range map[string]func() error{
		"start": func() error { return w.m.Start(w.ctx, "alpha", "me") },
		"stop":  func() error { return w.m.Stop(w.ctx, "alpha", "me") },
		"abort": func() error {
			_, _, err := w.m.Abort(w.ctx, scheduler.Abort{AgentID: "alpha", By: "me"})
			return err
		},
		"revoke": func() error { _, err := w.m.RevokeTrigger(w.ctx, "alpha"); return err },
		"remove": func() error { _, err := w.m.Remove(w.ctx, "alpha", queued.MessageID, "me"); return err },
		"resume": func() error {
			_, err := w.m.Resume(w.ctx, ledger.Command{AgentID: "alpha", ID: "c"}, "me")
			return err
		},
		"admit": func() error { _, err := w.m.Admit(w.ctx, prompt("more")); return err },
		"timer": func() error {
			_, _, err := w.m.CreateTimer(w.ctx, scheduler.NewTimer{AgentID: "alpha", After: 1})
			return err
		},
		"trigger": func() error { _, _, err := w.m.EnsureTrigger(w.ctx, "alpha"); return err },
		"rotate":  func() error { _, _, err := w.m.RotateTrigger(w.ctx, "alpha"); return err },
		"model":   func() error { _, err := w.m.SetModel(w.ctx, "alpha", "a/b", ""); return err },
	} {
		if err := do(); !state.IsCode(err, scheduler.CodeAgentArchived) {
			t.Errorf("%s: %v, want %s", name, err, scheduler.CodeAgentArchived)
		}
	}
	if _, err := w.m.Deliver(w.ctx, scheduler.Delivery{Token: token}); !state.IsCode(err, scheduler.CodeTokenUnknown) {
		t.Errorf("the URL of its trigger: %v, want %s", err, scheduler.CodeTokenUnknown)
	}
	if _, err := w.m.Create(w.ctx, scheduler.NewAgent{ID: "alpha"}); !state.IsCode(err, ledger.CodeExists) {
		t.Errorf("another agent of its id: %v, want %s", err, ledger.CodeExists)
	}
	if _, events := w.events(0); len(events) == 0 {
		t.Error("its events are gone")
	}
}

// The default agent stays.
func TestArchiveDefault(t *testing.T) {
	w := open(t)
	for _, dry := range []bool{true, false} {
		_, err := w.m.Archive(w.ctx, scheduler.Archive{AgentID: "alpha", By: "me", DryRun: dry, Force: true})
		if !state.IsCode(err, scheduler.CodeDefaultAgent) {
			t.Errorf("Archive() = %v, want %s", err, scheduler.CodeDefaultAgent)
		}
	}
}
