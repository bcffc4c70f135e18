package scheduler_test

import (
	"testing"
	"time"

	"holon/responses/tasks"
	"holon/runner/agent/record"
	"holon/runner/agent/scheduler"
	"holon/state/ledger"
)

// What ends or begins between turns is recorded: after each commit the fold of the record says what the tables say.
func TestRecordTellsWhatChangesBetweenTurns(t *testing.T) {
	for name, script := range map[string]func(*world){
		"work completed by the operator": func(w *world) {
			item := w.item("build the site")
			w.done()
			w.ok(w.m.CompleteWork(w.ctx, "alpha", item.ID, "key", nil))
		},
		"an agent that is removed": func(w *world) {
			in := prompt("x")
			in.AgentID = "beta"
			w.admit(in)
			c, _, err := w.m.Claim(w.ctx, "beta")
			w.must(err)
			w.must(w.m.Began(w.ctx, c.Attempt.ID, scheduler.Sent{}))
			w.settle(c.Attempt.ID, scheduler.End{Turn: ledger.Turn{Kind: ledger.TurnCompleted, Last: "ok"}})
			w.ok(w.m.Archive(w.ctx, scheduler.Archive{AgentID: "beta", By: "me"}))
		},
		"a work item that waits for a task": func(w *world) {
			w.item("build the site")
			c := w.claim()
			r := report("task_1", tasks.Running, w.now)
			r.Task.TurnID = c.Attempt.TurnID
			w.must(w.m.ReportTask(w.ctx, "alpha", r))
			w.sleep("call", 0)
			w.settle(c.Attempt.ID, scheduler.End{Turn: ledger.Turn{Kind: ledger.TurnCompleted, Last: "ok",
				ResponseID: "resp_1"}})
			w.must(w.m.ReportTask(w.ctx, "alpha", report("task_1", tasks.Completed, w.now)))
			w.pass(time.Second) // the turn changed nothing
			w.done()
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := open(t)
			r := replay(w)
			w.committed = r.compare
			script(w)
			r.again()
		})
	}
}

// An item that needs its operator is answered by the operator who completes it, and by the runtime where its agent does.
func TestWhoCompletesAnItem(t *testing.T) {
	for by, r := range map[string]*scheduler.Round{"operator": nil, "runtime": {}} {
		t.Run(by, func(t *testing.T) {
			w := open(t)
			item, _, err := w.m.CreateWork(w.ctx, scheduler.NewWork{AgentID: "alpha", Key: "k", Objective: "x",
				PlanStatus: ledger.PlanNeedsInput})
			w.must(err)
			w.ok(w.m.CompleteWork(w.ctx, "alpha", item.ID, "done", r))
			contains(t, "the decision", string(w.newest(record.ActionResolved).Data), `"resolved_by":"`+by+`"`)
		})
	}
}
