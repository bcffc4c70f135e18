package scheduler_test

import (
	"slices"
	"strings"
	"testing"

	"holon/responses/tasks"
	"holon/runner/agent/scheduler"
	"holon/state/ledger"
	"holon/test/expect"
)

// spawn has the open turn of an agent make a child.
func (w *world) spawn(parent, call, text string) scheduler.Spawned {
	w.t.Helper()
	out, err := w.m.Spawn(w.ctx, scheduler.Spawn{ParentID: parent, CallID: call, Message: text, Mode: ledger.ChildInherits})
	if err != nil {
		w.t.Fatalf("spawn: %v", err)
	}
	if !slices.Contains(w.children, out.Agent.ID) {
		w.children = append(w.children, out.Agent.ID)
	}
	return out
}

// TestChild: what a child was asked for comes back to its parent as the result of a task, in the step that settles the
// last turn of the child.
func TestChild(t *testing.T) {
	w := open(t)
	w.admit(prompt("delegate"))
	w.must(w.begin("alpha", false))
	made := w.spawn("alpha", "turn/call_1", "Count the files\nof the tree.")
	again, err := w.m.Spawn(w.ctx, scheduler.Spawn{ParentID: "alpha", CallID: "turn/call_1", Message: "Count the files\nof the tree.",
		Mode: ledger.ChildInherits})
	expect.NoError(t, err)
	expect.Equal(t, "a repeated call", again.Agent.ID, made.Agent.ID)
	expect.Equal(t, "label", made.Task.Purpose, "Count the files")
	expect.Equal(t, "depth", strings.Count(made.Agent.ID, "."), 1)
	w.check()
	w.must(w.finish("alpha", false))

	child := made.Agent.ID
	w.must(w.begin(child, false))
	w.check()
	w.must(w.finish(child, false))
	w.check()
	task := w.taskOf("alpha", made.Task.ID)
	expect.Equal(t, "status", task.Status, tasks.Completed)
	expect.Equal(t, "text", task.Result.Output.OutputPreview, "done")
	if get(w, ledger.View.Agent, child).ArchivedAt == nil {
		t.Error("the child goes on after its task has ended")
	}
	c, ok, err := w.m.Claim(w.ctx, "alpha")
	if err != nil || !ok || c.Message.TaskID != made.Task.ID || c.Message.Kind != ledger.KindTaskResult {
		t.Fatalf("the parent claims %+v, %v, %v", c.Message, ok, err)
	}
	if !strings.Contains(c.Message.Body.Text, "done") {
		t.Errorf("the result is not in the message: %s", c.Message.Body.Text)
	}
}

func (w *world) taskOf(agent, id string) (t ledger.Task) {
	w.view(func(v ledger.View) (err error) {
		t, err = v.Task(agent, id)
		return err
	})
	return t
}
