package control_test

import (
	"context"
	"testing"
	"time"

	"holon/responses/tasks"
	"holon/runner/agent/scheduler"
	"holon/runner/agent/view"
	"holon/runner/control"
	"holon/runner/control/wire"
	"holon/state"
	"holon/state/ledger"
	"holon/test/expect"
)

// The host of these tests accepts tasks and has no containers to run them in.

func (h *host) StartTask(ctx context.Context, n scheduler.NewTask) (ledger.Task, error) {
	t, _, err := h.machine.CreateTask(ctx, n)
	return t, err
}

func (h *host) TaskInput(_ context.Context, agentID, id string, in tasks.Input) (tasks.InputResult, error) {
	if in.Input == "to a container that is gone" {
		return tasks.InputResult{}, &state.Error{Code: "missing_credentials", Message: "is not set", Param: "ACME_KEY"}
	}
	return tasks.InputResult{AcceptedInput: true, BytesWritten: len(in.Input), SummaryText: agentID + " " + id}, nil
}

func (h *host) StopTask(ctx context.Context, agentID, id string, _ bool) (tasks.StopResult, error) {
	return tasks.StopResult{StopRequested: true}, h.machine.EndTask(ctx, agentID, id, ledger.TaskNotStarted, "stopped by a test")
}

func (h *host) StopTasks(ctx context.Context, agentID string) error {
	return h.machine.SettleTasks(ctx, agentID, nil, time.Now(), "stopped by a test")
}

func (h *host) Retire(ctx context.Context, agentID string) {
	if err := h.StopTasks(ctx, agentID); err != nil {
		panic(err)
	}
	h.retired.Store(&agentID)
}

func (h *host) TaskOutput(_ context.Context, _, id string, wait time.Duration, tokens int) (view.TaskOutput, error) {
	return view.TaskOutput{RetrievalStatus: tasks.NotReady, Task: view.Output{Output: tasks.Output{TaskID: id,
		Status: tasks.Running, Artifacts: []tasks.Artifact{}, OutputBytes: wait.Milliseconds() + int64(tokens)}}}, nil
}

func TestTaskRoutes(t *testing.T) {
	t.Parallel()
	r := newRig(t, control.Limits{}, tcp())
	c, ctx := r.client(), t.Context()
	createWorker(t, r, c)
	made := must(c.StartTask(ctx, "worker", wire.Task{Cmd: "make", Summary: "build it"}, "once"))(t)
	again := must(c.StartTask(ctx, "worker", wire.Task{Cmd: "make", Summary: "build it"}, "once"))(t)
	expect.Equal(t, "the task of the same key", again.ID, made.ID)
	expect.Equal(t, "status", made.Status, tasks.Queued)
	expect.Equal(t, "purpose", made.Purpose, "build it")
	expect.Equal(t, "listed tasks", len(must(c.Tasks(ctx, "worker", 0))(t)), 1)
	status := must(c.Task(ctx, "worker", made.ID))(t)
	expect.Equal(t, "command", status.Task.Command.Cmd, "make")
	expect.Equal(t, "tasks of the state", must(c.State(ctx, "worker"))(t).Tasks[0].ID, made.ID)
	expect.Equal(t, "active tasks", must(c.Status(ctx, "worker"))(t).ActiveTaskCount, 1)
	out := must(c.TaskOutput(ctx, "worker", made.ID, 2*time.Second, 7))(t)
	expect.Equal(t, "wait and tokens that arrive", out.Task.OutputBytes, int64(2007))
	expect.Equal(t, "bytes written",
		must(c.TaskInput(ctx, "worker", made.ID, tasks.Input{Input: "abc"}))(t).BytesWritten, 3)
	_, err := c.StartTask(ctx, "worker", wire.Task{Cmd: "other"}, "once")
	refused(t, "another command of the same key", err, scheduler.CodeKeyConflict)
	expect.Equal(t, "stop", must(c.StopTask(ctx, "worker", made.ID, false))(t).StopRequested, true)
	expect.Equal(t, "status after that", must(c.Task(ctx, "worker", made.ID))(t).Task.Status, tasks.Failed)

	_, err = c.StartTask(ctx, "worker", wire.Task{}, "")
	refused(t, "no command", err, wire.CodeMissingField)
	_, err = c.TaskInput(ctx, "worker", made.ID, tasks.Input{})
	refused(t, "no input", err, wire.CodeMissingField)
	_, err = c.TaskInput(ctx, "worker", made.ID, tasks.Input{Input: "to a container that is gone"})
	refused(t, "a container that cannot be made", err, wire.CodeUnusable)
	expect.Equal(t, "why", err.Error(), "ACME_KEY: is not set")
	_, err = c.Task(ctx, "main", made.ID)
	refused(t, "the task of another agent", err, ledger.CodeNotFound)
}
