package scheduler_test

import (
	"strings"
	"testing"

	"holon/responses/tasks"
	"holon/runner/agent/scheduler"
	"holon/state"
	"holon/state/ledger"
	"holon/test/expect"
)

// checked makes a child whose tree is checked, and brings its turn to an end.
func (w *world) checked(fails bool) (made scheduler.Spawned) {
	w.t.Helper()
	w.admit(prompt("delegate"))
	w.must(w.begin("alpha", false))
	made, err := w.m.Spawn(w.ctx, scheduler.Spawn{ParentID: "alpha", CallID: "1", Message: "x", Check: "make test",
		Mode: ledger.ChildWorktree})
	w.must(err)
	w.delegates = true
	w.findChildren()
	w.must(w.finish("alpha", false))
	w.must(w.begin(made.Agent.ID, false))
	w.must(w.finish(made.Agent.ID, fails))
	w.check()
	return made
}

// The task of a child with a check ends with the verdict, in one step and once; until then it goes on.
func TestChecked(t *testing.T) {
	w := open(t)
	made := w.checked(false)
	task := w.taskOf("alpha", made.Task.ID)
	expect.Equal(t, "waits for its check", task.Checking(), true)
	_, queued, err := w.m.Claim(w.ctx, "alpha")
	expect.NoError(t, err)
	expect.Equal(t, "a message before the verdict", queued, false)
	_, accepted, err := w.m.FollowUp(w.ctx, "alpha", task.ID, "2", "more", false)
	expect.NoError(t, err)
	expect.Equal(t, "takes a message", accepted, false)
	w.must(w.m.Interrupted(w.ctx, "alpha"))

	verdict := state.Check{Command: "make test", Status: state.CheckFailed, ExitCode: new(2), Output: "1 of 3 failed",
		Restored: []string{"a_test.go"}}
	for range 2 {
		w.must(w.m.Checked(w.ctx, "alpha", task.ID, verdict, nil))
		verdict.Status = state.CheckPassed
	}
	w.check()
	task = w.taskOf("alpha", task.ID)
	expect.Equal(t, "status", task.Status, tasks.Completed)
	expect.Equal(t, "verdict", task.Child().Verdict().Status, state.CheckFailed)
	expect.Equal(t, "text", task.Result.Output.OutputPreview, "done")
	c, ok, err := w.m.Claim(w.ctx, "alpha")
	expect.NoError(t, err)
	for _, part := range []string{"exit code 2", "1 of 3 failed", "a_test.go"} {
		if !ok || !strings.Contains(c.Message.Body.Text, part) {
			t.Errorf("the result lacks %q: %s", part, c.Message.Body.Text)
		}
	}
}

// What is not checked says why, and a verdict that comes later changes nothing.
func TestUnchecked(t *testing.T) {
	for code, tt := range map[string]struct {
		fails bool
		then  func(w *world, task string) error
	}{
		"child_failed": {true, func(*world, string) error { return nil }},
		"stopped": {false, func(w *world, task string) error {
			_, _, err := w.m.StopChild(w.ctx, "alpha", task, "test")
			return err
		}},
	} {
		t.Run(code, func(t *testing.T) {
			w := open(t)
			made := w.checked(tt.fails)
			w.must(tt.then(w, made.Task.ID))
			w.must(w.m.Checked(w.ctx, "alpha", made.Task.ID, state.Check{Status: state.CheckPassed}, nil))
			w.check()
			task := w.taskOf("alpha", made.Task.ID)
			expect.Equal(t, "ended", task.Status.Terminal(), true)
			expect.Equal(t, "status", task.Child().Verdict().Status, state.CheckNotRun)
			expect.Equal(t, "why", task.Child().Verdict().Error.Code, code)
		})
	}
}

// The verdict on a child that is stopped does not count: its check is made again when it is started.
func TestCheckedWhileStopped(t *testing.T) {
	w := open(t)
	made := w.checked(false)
	w.must(w.m.Stop(w.ctx, "alpha", "test"))
	w.must(w.m.Checked(w.ctx, "alpha", made.Task.ID, state.Check{Status: state.CheckPassed}, nil))
	w.must(w.m.Start(w.ctx, "alpha", "test"))
	w.check()
	expect.Equal(t, "waits for its check", w.taskOf("alpha", made.Task.ID).Checking(), true)
}
