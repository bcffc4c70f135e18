package tools_test

import (
	"testing"

	"holon/responses/tasks"
	"holon/runner/agent/scheduler"
	"holon/state/ledger"
	"holon/test/expect"
)

// Sleep says whether the agent rests after its turn, and it does so.
func TestSleepTellsWhatGoesOn(t *testing.T) {
	item := func(pick bool, status ledger.PlanStatus) func(r *rig) string {
		return func(r *rig) string {
			w, _, err := r.scheduler.CreateWork(r.t.Context(), scheduler.NewWork{AgentID: "main", Key: "item",
				Objective: "tidy up", PlanStatus: status})
			expect.NoError(r.t, err)
			if pick {
				_, err = r.scheduler.PickWork(r.t.Context(), "main", w.ID, "pick")
				expect.NoError(r.t, err)
			}
			return w.ID
		}
	}
	task := func(r *rig) {
		expect.NoError(r.t, r.scheduler.ReportTask(r.t.Context(), "main", tasks.Report{Task: &tasks.Snapshot{TaskID: "task_1",
			Status: tasks.Running, TurnID: r.attempt.TurnID, Command: &tasks.Command{Cmd: "make"}}}))
	}
	for _, c := range []struct {
		name, arguments string
		before          func(r *rig)
		rests           bool
	}{
		{"nothing is to be done", `{}`, func(*rig) {}, true},
		{"its item can go on", `{}`, func(r *rig) { item(true, "")(r) }, false},
		{"its item can go on after a time", `{"duration_ms":60000}`, func(r *rig) { item(true, "")(r) }, true},
		{"its item needs the operator", `{}`, func(r *rig) { item(true, ledger.PlanNeedsInput)(r) }, true},
		{"its item is blocked", `{}`, func(r *rig) {
			why := "the review"
			_, err := r.scheduler.UpdateWork(r.t.Context(), "main", item(true, "")(r), "block",
				scheduler.WorkChange{BlockedBy: &why})
			expect.NoError(r.t, err)
		}, true},
		{"its item has a task", `{}`, func(r *rig) { item(true, "")(r); task(r) }, true},
		{"its turn has a task, and then an item", `{}`, func(r *rig) { task(r); item(true, "")(r) }, true},
		{"another item can go on", `{}`, func(r *rig) { item(false, "")(r) }, false},
		{"a message waits", `{}`, func(r *rig) { r.admit() }, false},
		{"a message waits, and it has a time", `{"duration_ms":60000}`, func(r *rig) { r.admit() }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			r.turn()
			c.before(r)
			got, kind := r.call("Sleep", "t/c1", c.arguments)
			expect.Equal(t, "kind of error", kind, "")
			expect.Equal(t, "told that it rests", got["sleeping"], any(c.rests))
			r.end()
			_, ok, err := r.scheduler.Claim(t.Context(), "main")
			expect.NoError(t, err)
			expect.Equal(t, "the next turn follows at once", ok, !c.rests)
		})
	}
}
