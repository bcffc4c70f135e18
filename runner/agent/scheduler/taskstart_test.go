package scheduler_test

import (
	"testing"

	"holon/responses/tasks"
	"holon/runner/agent/scheduler"
	"holon/state/ledger"
)

// The same request under a key is answered with its task, another one refused, whatever the difference, and whatever
// the container says of the command meanwhile.
func TestTaskOfAKey(t *testing.T) {
	w := open(t)
	ask := func(change func(*scheduler.NewTask)) (string, bool, error) {
		n := scheduler.NewTask{AgentID: "alpha", Key: "k", Purpose: "build", Start: tasks.Start{Cmd: "make"}}
		change(&n)
		task, made, err := w.m.CreateTask(w.ctx, n)
		return task.ID, made, err
	}
	same := func(*scheduler.NewTask) {}
	id, made, err := ask(same)
	if w.must(err); !made {
		t.Error("the first call made no task")
	}
	r := report(id, tasks.Running, w.now)
	r.Task.Command.Workdir = "/somewhere"
	w.must(w.m.ReportTask(w.ctx, "alpha", r))
	for name, change := range map[string]func(*scheduler.NewTask){
		"cmd":           func(n *scheduler.NewTask) { n.Start.Cmd = "make all" },
		"summary":       func(n *scheduler.NewTask) { n.Purpose = "test" },
		"workdir":       func(n *scheduler.NewTask) { n.Start.Workdir = "work" },
		"shell":         func(n *scheduler.NewTask) { n.Start.Shell = "sh" },
		"login":         func(n *scheduler.NewTask) { n.Start.Login = true },
		"tty":           func(n *scheduler.NewTask) { n.Start.TTY = true },
		"accepts_input": func(n *scheduler.NewTask) { n.Start.AcceptsInput = true },
	} {
		t.Log(name)
		w.refused(scheduler.CodeKeyConflict)(ask(change))
	}
	if again, made, err := ask(same); err != nil || made || again != id {
		t.Errorf("the same again: %s, made %v (%v), want %s", again, made, err, id)
	}
	w.check()
}

// A task that could not be started leaves its key free, one that is lost does not.
func TestTaskThatWasNotStarted(t *testing.T) {
	w := open(t)
	create := func(wantMade bool) string {
		t.Helper()
		task, made, err := w.m.CreateTask(w.ctx, scheduler.NewTask{AgentID: "alpha", Key: "k",
			Start: tasks.Start{Cmd: "make"}})
		if w.must(err); made != wantMade {
			t.Errorf("made = %v, want %v", made, wantMade)
		}
		return task.ID
	}
	ids := map[string]bool{}
	for range 3 {
		id := create(true)
		ids[id] = true
		w.must(w.m.EndTask(w.ctx, "alpha", id, ledger.TaskNotStarted, "there is no container"))
	}
	last := create(true)
	w.must(w.m.EndTask(w.ctx, "alpha", last, tasks.FailureLost, "its start was not answered"))
	if again := create(false); len(ids) != 3 || ids[last] || again != last {
		t.Errorf("the tasks are %v, then %s and %s, want four", ids, last, again)
	}
	w.check()
}
