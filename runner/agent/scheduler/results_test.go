package scheduler_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"holon/responses/tasks"
	"holon/runner/agent/rules"
	"holon/runner/agent/scheduler"
	"holon/runner/agent/view"
	"holon/state/ledger"
	"holon/test/expect"
)

const manyTasks = 16

var unchanged = scheduler.End{Turn: ledger.Turn{Kind: ledger.TurnCompleted}, Home: "the same"}

// begins has a turn start many tasks.
func (w *world) begins(c scheduler.Claim) {
	for i := range manyTasks {
		r := report(fmt.Sprint("task_", i), tasks.Running, w.now)
		r.Task.TurnID = c.Attempt.TurnID
		w.must(w.m.ReportTask(w.ctx, "alpha", r))
	}
}

// ends ends those tasks from the one with a number to the one before another.
func (w *world) ends(from, to int) {
	for i := from; i < to; i++ {
		w.must(w.m.ReportTask(w.ctx, "alpha", report(fmt.Sprint("task_", i), tasks.Completed, w.now)))
	}
}

// deliveries are the newest states of delivery that the record has of the tasks.
func (w *world) deliveries() map[string]string {
	newest := map[string]string{}
	_, events := w.events(0)
	for _, e := range events {
		var data struct {
			Delivery string `json:"delivery_state"`
		}
		if json.Unmarshal(e.Data, &data) == nil && data.Delivery != "" {
			newest[e.Ref] = data.Delivery
		}
	}
	return newest
}

// Each result of a task that ends while an operator's turn runs, or shortly after it, enters one turn, and is recorded
// as delivered with that turn and not before.
func TestResultsOfAnOperatorsTurn(t *testing.T) {
	for _, c := range []struct {
		name   string
		other  bool // a later turn runs when they end
		during int  // that end in the turn; the others end in the second of the turns after it
	}{
		{"all in the turn that started them", false, manyTasks},
		{"two after it", false, manyTasks - 2},
		{"all in another turn", true, manyTasks},
		{"two after another turn", true, manyTasks - 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := open(t)
			w.admit(prompt("go"))
			claim := w.claim()
			w.begins(claim)
			if c.other {
				w.settle(claim.Attempt.ID, unchanged)
				w.admit(prompt("and then"))
				claim = w.claim()
			}
			w.ends(0, c.during)
			w.settle(claim.Attempt.ID, unchanged)
			turns := map[string]int{}
			w.began(func(claim scheduler.Claim) {
				id := claim.Message.TaskID
				expect.Equal(t, "delivery of "+id, w.deliveries()[id], "delivered")
				if turns[id]++; len(turns) == 2 { // the first changed nothing
					w.ends(c.during, manyTasks)
				}
			})
			for i := range manyTasks {
				id := fmt.Sprint("task_", i)
				expect.Equal(t, "turns with the result of "+id, turns[id], 1)
			}
			w.check()
		})
	}
}

// began takes and begins turns that change nothing as long as there are some, and calls fn in each.
func (w *world) began(fn func(scheduler.Claim)) {
	for {
		c, ok := w.claimDue()
		if !ok {
			return
		}
		w.must(w.m.Began(w.ctx, c.Attempt.ID, scheduler.Sent{Prompt: json.RawMessage(`{}`), Digest: "digest"}))
		fn(c)
		w.settle(c.Attempt.ID, unchanged)
	}
}

// An agent that goes on by itself for too long is stopped although results of its tasks come. They wait in the queue,
// and its operator's next message lets it take them.
func TestResultsOfAStalledAgent(t *testing.T) {
	for name, lets := range map[string]func(w *world){
		"prompt": func(w *world) { w.admit(prompt("go on")) },
		"work item": func(w *world) {
			w.ok(w.m.CreateWork(w.ctx, scheduler.NewWork{AgentID: "alpha", Key: "item", Objective: "tidy up",
				PlanStatus: ledger.PlanNeedsInput}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := open(t)
			w.admit(prompt("go"))
			w.ok(w.m.Admit(w.ctx, note("start them", "")))
			w.done() // of the prompt
			claim := w.claim()
			w.begins(claim)
			w.settle(claim.Attempt.ID, unchanged)
			w.ends(0, manyTasks)
			turns := map[string]int{}
			count := func(c scheduler.Claim) { turns[c.Message.TaskID]++ }
			w.began(count)
			expect.Equal(t, "turns before the operator is asked", len(turns), rules.MaxIdle-1)
			expect.Equal(t, "notifications", len(w.notifications()), 1)
			w.isClosure(ledger.OutcomeWaiting, ledger.AwaitingOperator)
			w.view(func(v ledger.View) error {
				shown, err := view.New(v, view.Facts{}).Summary("alpha")
				expect.Equal(t, "status", shown.Agent.Status, rules.Asleep)
				expect.Equal(t, "posture", shown.SchedulingPosture.Posture, "waiting_for_operator")
				expect.Equal(t, "messages that wait", shown.Agent.Pending, manyTasks-len(turns))
				return err
			})
			w.crash(false)
			w.must(w.m.Unblock(w.ctx, "alpha")) // no setting lets it go on
			w.nothing()
			for i := range manyTasks {
				id := fmt.Sprint("task_", i)
				want := "queued"
				if turns[id] > 0 {
					want = "delivered"
				}
				expect.Equal(t, "delivery of "+id, w.deliveries()[id], want)
			}
			lets(w)
			w.began(count)
			delete(turns, "") // of the operator's message
			expect.Equal(t, "results that came to a turn", len(turns), manyTasks)
			for id, n := range turns {
				expect.Equal(t, "turns with the result of "+id, n, 1)
			}
			w.check()
		})
	}
}

// A result that its operator takes out of the queue is recorded as not delivered.
func TestResultThatIsRemoved(t *testing.T) {
	w := open(t)
	w.must(w.m.ReportTask(w.ctx, "alpha", report("task_1", tasks.Completed, w.now)))
	w.view(func(v ledger.View) error {
		head, _, err := v.Head("alpha")
		w.must(err)
		w.ok(w.m.Remove(w.ctx, "alpha", head.MessageID, "test"))
		return nil
	})
	expect.Equal(t, "delivery", w.deliveries()["task_1"], "failed")
	w.check()
}
