package scheduler_test

import (
	"encoding/json"
	"testing"

	"holon/responses/agentruntime"
	"holon/responses/tasks"
	"holon/responses/turns"
	"holon/runner/agent/record"
	"holon/runner/agent/rules"
	"holon/runner/agent/scheduler"
	"holon/state/ledger"
	"holon/test/expect"
)

// fact records what the container of an attempt tells next.
func (w *world) fact(attempt string, p scheduler.Progress) {
	p.Event.ProducerSeq = get(w, ledger.View.Attempt, attempt).Facts + 1
	w.must(w.m.Progress(w.ctx, attempt, scheduler.Through{Facts: p.Event.ProducerSeq}, []scheduler.Progress{p}))
}

// calls and called are the beginning and the end of a call of a tool.
func calls(id string) scheduler.Progress {
	e := ledger.Event{Class: turns.ToolStarted, Status: "running",
		Data: json.RawMessage(`{"tool_name":"ExecCommand","call_id":"` + id + `"}`)}
	e.IDs[agentruntime.ToolCall], e.IDs[agentruntime.Step] = id, "step_1"
	return scheduler.Progress{Event: e}
}

func called(id string) scheduler.Progress {
	e := ledger.Event{Class: turns.ToolResult, Status: "completed",
		Data: json.RawMessage(`{"tool_name":"ExecCommand"}`)}
	e.IDs[agentruntime.ToolCall], e.IDs[agentruntime.Step] = id, "step_1"
	return scheduler.Progress{Event: e}
}

// runs is the beginning of the process of a task.
func runs(taskID string) scheduler.Progress {
	e := ledger.Event{Class: turns.ProcessStarted, Status: "running",
		Data: json.RawMessage(`{"command":"make"}`)}
	e.IDs[agentruntime.Process] = turns.ProcessOf(taskID)
	return scheduler.Progress{Event: e}
}

// Calls, tasks and briefs belong to the work item that was current when they were made, whenever their facts come, and
// not to the one at the beginning of their turn.
func TestWorkBelongsToTheCurrentItem(t *testing.T) {
	w := open(t)
	c := w.working()
	attempt, turn := c.Attempt.ID, c.Attempt.TurnID
	w.fact(attempt, calls("before"))
	first := w.picked("first")
	w.fact(attempt, called("before"))
	w.fact(attempt, calls("starts"))
	early := report("task_early", tasks.Running, w.now)
	early.Task.TurnID = turn
	w.must(w.m.ReportTask(w.ctx, "alpha", early))
	w.fact(attempt, runs("task_late"))
	w.ok(w.m.CompleteWork(w.ctx, "alpha", first, "done", &scheduler.Round{}))
	late := report("task_late", tasks.Running, w.now)
	late.Task.TurnID = turn
	w.must(w.m.ReportTask(w.ctx, "alpha", late))
	w.fact(attempt, called("starts"))
	w.fact(attempt, calls("none"))
	second := w.picked("second")
	w.fact(attempt, called("none"))
	w.fact(attempt, calls("cut off"))
	w.settle(attempt, scheduler.End{Turn: ledger.Turn{Kind: ledger.TurnCompleted, Last: "ok"}, Home: "same"})

	w.view(func(v ledger.View) error {
		ran, err := record.Executions(v, "alpha", 10)
		w.must(err)
		got := map[string]string{}
		for _, t := range ran {
			got[t.ID] = t.WorkItemID
		}
		for _, id := range []string{"task_early", "task_late"} {
			task, err := v.Task("alpha", id)
			w.must(err)
			got[id] = task.Owner.WorkItemID
		}
		briefs, err := v.Briefs("alpha", 1)
		got["brief"] = briefs[0].WorkItemID
		for id, want := range map[string]string{"before": "", "starts": first, "task_early": first, "task_late": first,
			"none": "", "cut off": second, "brief": second} {
			expect.Equal(t, "work item of "+id, got[id], want)
		}
		expect.Equal(t, "work item of the turn, which is bound when it begins",
			get(w, ledger.View.Turn, turn).WorkItemID, "")
		return err
	})
}

// picked is the id of a new work item that the agent picks.
func (w *world) picked(objective string) string {
	item, _, err := w.m.CreateWork(w.ctx, scheduler.NewWork{AgentID: "alpha", Key: objective, Objective: objective})
	w.must(err)
	w.ok(w.m.PickWork(w.ctx, "alpha", item.ID, "pick "+objective))
	return item.ID
}

// An agent that makes and picks an item, starts a task, and rests in a later turn, rests until the task has ended, also
// where its container tells of the task after the turn.
func TestItemWaitsForTaskOfAnEarlierTurn(t *testing.T) {
	for name, late := range map[string]bool{"reported in the turn": false, "reported after the turn": true} {
		t.Run(name, func(t *testing.T) {
			w := open(t)
			c := w.working()
			item := w.picked("build the site")
			r := report("task_1", tasks.Running, w.now)
			r.Task.TurnID = c.Attempt.TurnID
			if !late {
				w.must(w.m.ReportTask(w.ctx, "alpha", r))
			}
			w.settle(c.Attempt.ID, unchanged)
			w.must(w.m.ReportTask(w.ctx, "alpha", r))
			c = w.claim()
			expect.Equal(t, "kind of the next turn", c.Message.Kind, ledger.KindSystemTick)
			w.sleep("call", 0)
			w.settle(c.Attempt.ID, unchanged)
			w.isItem(item, rules.WorkWaitingTask)
			w.nothing()
			w.must(w.m.ReportTask(w.ctx, "alpha", report("task_1", tasks.Completed, w.now)))
			c, ok := w.claimDue()
			if !ok || c.Message.Kind != ledger.KindTaskResult || c.Message.WorkItemID != item {
				t.Errorf("the next turn has %+v, want the result of the task, of its item", c.Message)
			}
			w.check()
		})
	}
}
