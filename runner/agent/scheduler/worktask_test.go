package scheduler_test

import (
	"testing"
	"time"

	"holon/responses/tasks"
	"holon/runner/agent/rules"
	"holon/runner/agent/scheduler"
	"holon/runner/agent/view"
	"holon/state/ledger"
)

// The item of an agent that leaves work to a task and rests waits for the task: it is not gone on with, another one is,
// and the result of the task ends the wait. It is the same whether the container tells of the task before the turn ends
// or after.
func TestItemWaitsForTask(t *testing.T) {
	for name, late := range map[string]bool{"reported in the turn": false, "reported after the turn": true} {
		t.Run(name, func(t *testing.T) {
			w := open(t)
			item := w.item("build the site")
			c := w.claim()
			r := report("task_1", tasks.Running, w.now)
			r.Task.TurnID = c.Attempt.TurnID
			end := scheduler.End{Turn: ledger.Turn{Kind: ledger.TurnCompleted, Last: "ok",
				ResponseID: "resp_1"}, Home: "built"}
			w.sleep("call", 0)
			if late {
				w.settle(c.Attempt.ID, end)
				w.must(w.m.ReportTask(w.ctx, "alpha", r))
			} else {
				w.must(w.m.ReportTask(w.ctx, "alpha", r))
				w.settle(c.Attempt.ID, end)
			}
			w.isItem(item.ID, rules.WorkWaitingTask)
			w.isClosure(ledger.OutcomeWaiting, ledger.AwaitingTask)
			w.nothing()

			other, _, err := w.m.CreateWork(w.ctx, scheduler.NewWork{AgentID: "alpha", Key: "notes", Objective: "notes"})
			w.must(err)
			w.isClosure(ledger.OutcomeContinuable, "")
			w.pass(time.Second)
			if c = w.claim(); c.Message.WorkItemID != other.ID {
				t.Errorf("the next turn is for %q, want %s, which may run", c.Message.WorkItemID, other.ID)
			}
			if got := c.Continuation; got.PriorOutcome != ledger.OutcomeContinuable {
				t.Errorf("the tick continues as %+v, want continuable before it", got)
			}
			w.ok(w.m.CompleteWork(w.ctx, "alpha", other.ID, "done", nil))
			end.ResponseID, end.Home = "resp_2", "notes"
			w.settle(c.Attempt.ID, end)
			w.nothing()

			w.must(w.m.ReportTask(w.ctx, "alpha", report("task_1", tasks.Completed, w.now)))
			if c = w.claim(); c.Message.Kind != ledger.KindTaskResult || len(c.Attempt.Waits) == 0 {
				t.Errorf("the next turn has %s, which ended the waits %v; want the result, and the wait of the item",
					c.Message.Kind, c.Attempt.Waits)
			}
			if got := c.Continuation; got.PriorWaiting != ledger.AwaitingTask || !got.MatchedWait {
				t.Errorf("the result continues as %+v, want what was waited for", got)
			}
			w.isItem(item.ID, rules.WorkRunnable)
			w.check()
		})
	}
}

// What a completed item waited for is given up, and a rest with a time makes no item wait for a task.
func TestItemThatDoesNotWait(t *testing.T) {
	w := open(t)
	item := w.item("build the site")
	c := w.claim()
	r := report("task_1", tasks.Running, w.now)
	r.Task.TurnID = c.Attempt.TurnID
	w.must(w.m.ReportTask(w.ctx, "alpha", r))
	w.sleep("call", rules.DefaultRecheck)
	w.settle(c.Attempt.ID, scheduler.End{Turn: ledger.Turn{Kind: ledger.TurnCompleted, Last: "ok",
		ResponseID: "resp_1"}, Home: "built"})
	w.isItem(item.ID, rules.WorkRunnable)
	w.pass(rules.DefaultRecheck)
	c = w.claim()
	w.sleep("call 2", 0)
	w.settle(c.Attempt.ID, scheduler.End{Turn: ledger.Turn{Kind: ledger.TurnCompleted, Last: "ok",
		ResponseID: "resp_2"}, Home: "more"})
	w.isItem(item.ID, rules.WorkWaitingTask)
	w.ok(w.m.CompleteWork(w.ctx, "alpha", item.ID, "done", nil))
	w.view(func(v ledger.View) error {
		wait, waits, err := v.UnresolvedWait("alpha", item.ID)
		if waits {
			t.Errorf("the completed item has the wait %+v", wait)
		}
		return err
	})
	w.check()
}

// An agent whose work item needs its operator waits for a prompt, and a prompt is what was expected.
func TestItemAsksOperator(t *testing.T) {
	w := open(t)
	item := w.item("build the site")
	c := w.claim()
	asks := ledger.PlanNeedsInput
	w.ok(w.m.UpdateWork(w.ctx, "alpha", item.ID, "ask", scheduler.WorkChange{PlanStatus: &asks}))
	w.settle(c.Attempt.ID, scheduler.End{Turn: ledger.Turn{Kind: ledger.TurnCompleted, Last: "which?",
		ResponseID: "resp_1"}})
	w.isClosure(ledger.OutcomeWaiting, ledger.AwaitingOperator)
	w.admit(prompt("this one"))
	if got := w.claim().Continuation; got.Class != ledger.ResumeExpectedWait ||
		got.PriorWaiting != ledger.AwaitingOperator {
		t.Errorf("the prompt continues as %+v, want what was waited for", got)
	}
	w.check()
}

// An agent whose work item is blocked waits, until it is not.
func TestItemIsBlocked(t *testing.T) {
	w := open(t)
	item := w.item("build the site")
	c := w.claim()
	why, nothing := "the review", ""
	w.ok(w.m.UpdateWork(w.ctx, "alpha", item.ID, "block", scheduler.WorkChange{BlockedBy: &why}))
	w.completes(c)
	w.isClosure(ledger.OutcomeWaiting, ledger.AwaitingExternal)
	w.nothing()
	w.ok(w.m.UpdateWork(w.ctx, "alpha", item.ID, "clear", scheduler.WorkChange{BlockedBy: &nothing}))
	w.isClosure(ledger.OutcomeContinuable, "")
	w.check()
}

// isItem fails unless a work item has a scheduling state.
func (w *world) isItem(id string, want rules.WorkState) {
	w.t.Helper()
	w.view(func(v ledger.View) error {
		item, err := v.WorkItem(id)
		if err != nil {
			return err
		}
		waits, err := v.UnresolvedWaits(item.AgentID)
		if got := rules.Scheduling(item, waits); got != want {
			w.t.Fatalf("the item %q is %s, want %s", item.Objective, got, want)
		}
		return err
	})
}

// isClosure fails unless the newest closure that was recorded, and the one that is shown, has an outcome and a reason
// to wait.
func (w *world) isClosure(outcome ledger.Outcome, reason ledger.WaitingReason) {
	w.t.Helper()
	w.view(func(v ledger.View) error {
		l, err := v.AgentState("alpha")
		if err != nil {
			return err
		}
		shown, err := view.New(v, view.Facts{}).Summary("alpha")
		for _, got := range []*ledger.Closure{l.LastClosure, shown.Closure} {
			if got == nil || got.Outcome != outcome || got.WaitingReason != reason {
				w.t.Fatalf("closure %+v, want %s %q", got, outcome, reason)
			}
		}
		return err
	})
}
