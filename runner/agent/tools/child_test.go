package tools_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"holon/responses/tasks"
	"holon/runner/agent/scheduler"
	"holon/runner/agent/tools"
	"holon/runner/agent/view"
	"holon/runner/hosttools"
	"holon/test/expect"
)

// family makes children on a real ledger, without homes and containers.
type family struct{ *scheduler.Scheduler }

func (f family) SpawnAgent(ctx context.Context, n scheduler.Spawn) (scheduler.Spawned, error) {
	return f.Spawn(ctx, n)
}

func (f family) FollowUp(ctx context.Context, parent, task, key, text string, _ bool) (tasks.InputResult, error) {
	t, accepted, err := f.Scheduler.FollowUp(ctx, parent, task, key, text, false)
	return tasks.InputResult{Task: view.SnapshotOf(t), AcceptedInput: accepted}, err
}

func (f family) StopChild(ctx context.Context, parent, task, by string) (tasks.StopResult, error) {
	t, stopped, err := f.Scheduler.StopChild(ctx, parent, task, by)
	return tasks.StopResult{Task: view.SnapshotOf(t), StopRequested: stopped}, err
}

func (f family) ChildPatch(context.Context, string, string) (view.ChildPatch, error) {
	return view.ChildPatch{Patch: "+x\n", Bytes: 100, LeftOut: 97}, nil
}

func (f family) MergeChild(context.Context, string, string) (view.Merged, error) {
	return view.Merged{Conflicts: []string{"a"}}, nil
}

func (f family) TaskOutput(context.Context, string, string, time.Duration, int) (view.TaskOutput, error) {
	return view.TaskOutput{RetrievalStatus: tasks.NotReady}, nil
}

// called makes a call of a tool, and returns its result as JSON or the kind and the field of its error.
func (r *rig) called(t *testing.T, list []hosttools.Tool, name, id, arguments string) string {
	t.Helper()
	at := slices.IndexFunc(list, func(tool hosttools.Tool) bool { return tool.Name == name })
	if at < 0 {
		return "no tool"
	}
	got, err := list[at].Call(t.Context(), hosttools.Call{ID: id,
		Arguments: json.RawMessage(arguments)})
	if e, ok := errors.AsType[*hosttools.ToolError](err); ok {
		return e.Kind + " " + e.Field
	}
	expect.NoError(t, err)
	return string(got.Structured)
}

// An agent has the tools for children that its place in the tree allows, and a call that makes no sense is refused by the
// name of the argument.
func TestChildTools(t *testing.T) {
	r := newRig(t)
	r.turn()
	of := func(id string) []hosttools.Tool {
		return tools.New(tools.Options{AgentID: id, Scheduler: r.scheduler, Plans: plans{}, Ledger: r.store,
			Triggers: r.scheduler, Children: family{r.scheduler}})
	}
	main := of("main")
	for i, tt := range []struct{ arguments, want string }{
		{`{}`, "invalid_spawn initial_message"},
		{`{"prompt":"x"}`, "invalid_tool_input prompt"},
		{`{"initial_message":"x","agent_id":"y"}`, "invalid_tool_input agent_id"},
		{`{"initial_message":"x","preset":"twin"}`, "invalid_tool_input preset"},
		{`{"initial_message":"x","workspace_mode":"copy"}`, "invalid_spawn workspace_mode"},
		{`{"preset":"public_named"}`, "invalid_tool_input agent_id"},
		{`{"preset":"public_named","agent_id":"main"}`, "already_exists agent_id"},
		{`{"preset":"public_named","agent_id":"helper"}`, `{"agent_id":"helper"}`},
	} {
		expect.Equal(t, tt.arguments, r.called(t, main, "SpawnAgent", fmt.Sprint("bad", i), tt.arguments), tt.want)
	}
	var made struct {
		AgentID string       `json:"agent_id"`
		Handle  tasks.Handle `json:"task_handle"`
		TaskID  string       `json:"supervision_task_id"`
		view.ChildTask
	}
	first := r.called(t, main, "SpawnAgent", "one", `{"initial_message":"count"}`)
	expect.NoError(t, json.Unmarshal([]byte(first), &made))
	expect.Equal(t, "a repeated call", r.called(t, main, "SpawnAgent", "one", `{"initial_message":"count"}`), first)
	expect.Equal(t, "handle", made.Handle, tasks.Handle{TaskID: made.TaskID, Kind: tasks.KindChild, Status: tasks.Running})
	expect.Equal(t, "phase", made.ChildObservability.Phase, "running")

	named := fmt.Sprintf(`{"task_id":%q`, made.TaskID)
	for name, more := range map[string]string{"TaskStatus": "}", "TaskOutput": `,"block":false}`,
		"TaskInput": `,"input":"more"}`, "MergeChild": "}", "TaskStop": "}"} {
		expect.Contains(t, name, r.called(t, main, name, name, named+more), "{")
		unknown := `{"task_id":"task_none"` + more
		expect.Equal(t, name+" of none", r.called(t, main, name, "none", unknown), "not_found task_id")
	}
	expect.Equal(t, "a preview", r.called(t, main, "MergeChild", "preview", named+`,"preview":true}`),
		`{"patch":"+x\n","patch_bytes":100,"left_out_bytes":97}`)
	expect.Contains(t, "TaskList", r.called(t, main, "TaskList", "list", `{}`), made.TaskID)

	expect.Equal(t, "close_input", r.called(t, main, "TaskInput", "close", named+`,"close_input":true}`),
		"invalid_tool_input close_input")
	expect.Equal(t, "no input", r.called(t, main, "TaskInput", "none", named+`}`), "invalid_tool_input input")

	child, deep := of(made.AgentID), of(made.AgentID+".a1b2c3")
	for name, has := range map[string][3]bool{"SpawnAgent": {true, true, false}, "MergeChild": {true, true, false},
		"TaskStop": {true, true, false}, "ExternalTriggerGet": {true, false, false}, "Sleep": {true, true, true}} {
		for i, list := range [][]hosttools.Tool{main, child, deep} {
			there := slices.ContainsFunc(list, func(tool hosttools.Tool) bool { return tool.Name == name })
			expect.Equal(t, fmt.Sprintf("%s at depth %d", name, i), there, has[i])
		}
	}
}
