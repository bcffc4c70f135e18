package scheduler_test

import (
	"testing"

	"holon/responses/tasks"
	"holon/runner/agent/rules"
	"holon/runner/agent/scheduler"
	"holon/runner/agent/view"
	"holon/state/ledger"
	"holon/test/expect"
)

// wakeThrough is a wake through the external trigger of alpha.
func wakeThrough(trigger string) scheduler.Wake {
	return scheduler.Wake{AgentID: "alpha", Context: ledger.TriggerCapability,
		WakeHint: ledger.WakeHint{Reason: "changed", ExternalTriggerID: trigger}}
}

// restsOutside has alpha pick an item and rest for its external trigger.
func (w *world) restsOutside() (item, trigger string) {
	c := w.working()
	item = w.picked("wait for the review")
	trg, _, err := w.m.EnsureTrigger(w.ctx, "alpha")
	w.must(err)
	w.ok(w.m.RevealTrigger(w.ctx, "alpha"))
	w.sleep("call", 0)
	w.settle(c.Attempt.ID, unchanged)
	return item, trg.ID
}

// An item whose agent rests for its external trigger waits for that over other turns, its agent is shown as waiting,
// and a wake through the trigger comes to the item.
func TestItemWaitsForOutside(t *testing.T) {
	for name, between := range map[string]func(w *world){
		"at once": func(*world) {},
		"after a turn": func(w *world) {
			w.admit(prompt("how is it?"))
			w.completes(w.claim())
		},
		"after a rest while a task of it runs": func(w *world) {
			w.admit(prompt("how is it?"))
			w.completes(w.claim())
			w.admit(prompt("and the build?"))
			c := w.claim()
			r := report("task_1", tasks.Running, w.now)
			r.Task.TurnID = c.Attempt.TurnID
			w.must(w.m.ReportTask(w.ctx, "alpha", r))
			w.sleep("again", 0)
			w.completes(c)
		},
		"after a turn with another rest": func(w *world) {
			w.admit(prompt("how is it?"))
			c := w.claim()
			w.sleep("again", 0)
			w.completes(c)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := open(t)
			item, trigger := w.restsOutside()
			between(w)
			w.isItem(item, rules.WorkWaitingExternal)
			w.isClosure(ledger.OutcomeWaiting, ledger.AwaitingExternal)
			w.view(func(v ledger.View) error {
				shown, err := view.New(v, view.Facts{}).Summary("alpha")
				expect.Equal(t, "status", shown.Agent.Status, rules.Asleep)
				expect.Equal(t, "posture", shown.SchedulingPosture.Posture, "waiting_for_external")
				if shown.SchedulingPosture.WaitingIntentID == "" {
					t.Error("the posture names no waiting intent")
				}
				return err
			})
			w.nothing()
			w.ok(w.m.Wake(w.ctx, wakeThrough(trigger)))
			c := w.claim()
			expect.Equal(t, "item of the wake", c.Message.WorkItemID, item)
			expect.Equal(t, "continues", c.Continuation.Class, ledger.ResumeExpectedWait)
			w.isItem(item, rules.WorkRunnable)
			w.completes(c)
			w.check()
		})
	}
}

// A wake that comes while a turn runs names what waits for it, and ends that although a wake of the operator, which
// says more, takes its place in the tick.
func TestKeptWakeReachesItsItem(t *testing.T) {
	w := open(t)
	item, trigger := w.restsOutside()
	w.admit(prompt("how is it?"))
	c := w.claim()
	w.ok(w.m.Wake(w.ctx, wakeThrough(trigger)))
	expect.Equal(t, "items of the hint", len(w.state().PendingWake.WorkItemIDs), 1)
	expect.Equal(t, "intents of the hint", len(w.state().PendingWake.WaitingIntentIDs), 1)
	w.ok(w.m.Wake(w.ctx, scheduler.Wake{AgentID: "alpha", Context: ledger.ControlAuthenticated,
		WakeHint: ledger.WakeHint{Reason: "look", Description: "at the review"}}))
	w.completes(c)
	c = w.claim()
	expect.Equal(t, "item of the wake", c.Message.WorkItemID, item)
	w.isItem(item, rules.WorkRunnable)
	w.completes(c)
	w.check()
}

// Who says that nothing blocks an item any more ends its wait.
func TestItemWaitsForOutsideNoMore(t *testing.T) {
	w := open(t)
	item, _ := w.restsOutside()
	nothing := ""
	w.ok(w.m.UpdateWork(w.ctx, "alpha", item, "clear", scheduler.WorkChange{BlockedBy: &nothing}))
	w.isItem(item, rules.WorkRunnable)
	w.check()
}

// A rest for the external trigger that something else ended goes on with the next rest.
func TestRestForOutsideGoesOn(t *testing.T) {
	w := open(t)
	_, trigger := w.restsOutside()
	for range 2 {
		w.admit(prompt("how is it?"))
		c := w.claim()
		if wait := w.sleep(c.Attempt.ID, 0); wait.Kind != ledger.WaitExternal || wait.SubjectRef != trigger {
			t.Errorf("it waits for %+v, want its trigger", wait)
		}
		w.completes(c)
	}
	w.ok(w.m.Wake(w.ctx, wakeThrough(trigger)))
	c := w.claim()
	expect.Equal(t, "kind of the rest after the wake", w.sleep(c.Attempt.ID, 0).Kind, ledger.WaitSystem)
	w.completes(c)
	w.check()
}
