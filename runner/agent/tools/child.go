package tools

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"holon/responses/tasks"
	"holon/responses/turns"
	"holon/runner/agent/scheduler"
	"holon/runner/agent/view"
	"holon/runner/hosttools"
	"holon/state"
	"holon/state/ledger"
)

// NameSpawn is the name of the tool with which an agent makes other ones.
const NameSpawn = "SpawnAgent"

// children makes and steers the children of agents: *agent.Runtime.
type children interface {
	SpawnAgent(ctx context.Context, n scheduler.Spawn) (scheduler.Spawned, error)
	FollowUp(ctx context.Context, parentID, taskID, key, text string, byOperator bool) (tasks.InputResult, error)
	StopChild(ctx context.Context, parentID, taskID, by string) (tasks.StopResult, error)
	MergeChild(ctx context.Context, parentID, taskID string) (view.Merged, error)
	ChildPatch(ctx context.Context, parentID, taskID string) (view.ChildPatch, error)
	TaskOutput(ctx context.Context, agentID, id string, wait time.Duration, budget int) (view.TaskOutput, error)
}

const spawnDescription = "Delegates work to a private child agent with a container, a home and a conversation of its " +
	"own, which works while you go on. It is asked for what initial_message says and knows nothing else of yours: say " +
	"what to do, what to leave alone and what to report. Its result comes to you as a message; do not wait for it in " +
	"this turn. TaskStatus, TaskInput, TaskOutput and TaskStop take its task_id. Spawn several for parts that do not " +
	"depend on one another. It works in a tree of its own, which you can merge: with workspace_mode worktree " +
	"one that begins with what yours has now, else one with what your operator's has. With worktree, check is a command " +
	"that is run on its result in a new container without it and without a network, with the tests as they were before " +
	"(check_paths: other files instead); its result has the verdict."

const mergeDescription = "Takes what a child of yours has changed into the tree that you work in, by a three-way " +
	"merge, once its task has ended. With conflicts nothing changes and the files are named: look at its result, and " +
	"make the change yourself or spawn it anew. Look at it first with preview, and check the files afterwards. TaskStop " +
	"discards its tree."

// spawn is what SpawnAgent is called with.
type spawn struct {
	Preset    string `json:"preset,omitempty" jsonschema:"private_child (the default) or public_named"`
	AgentID   string `json:"agent_id,omitempty" jsonschema:"of a public_named agent"`
	Message   string `json:"initial_message,omitempty" jsonschema:"what it is to do; required for a private_child"`
	Workspace string `json:"workspace_mode,omitempty" jsonschema:"of a private_child: inherit (the default) or worktree"`
	Template  string `json:"template,omitempty" jsonschema:"id of the template of its home"`
	Check     string `json:"check,omitempty" jsonschema:"with worktree: command that decides whether its result is good"`

	CheckPaths []string `json:"check_paths,omitempty" jsonschema:"patterns of files that the check gets as they were"`
}

// spawnedChild is the result of SpawnAgent for a private child.
type spawnedChild struct {
	AgentID      string       `json:"agent_id"`
	ChildAgentID string       `json:"child_agent_id"`
	TaskHandle   tasks.Handle `json:"task_handle"`
	TaskID       string       `json:"supervision_task_id"`
	view.ChildTask
	DelegationID     string `json:"delegation_id,omitempty"`
	ParentWorkItemID string `json:"parent_work_item_id,omitempty"`
	Summary          string `json:"summary_text"`
}

type mergeArgs struct {
	TaskID  string `json:"task_id"`
	Preview bool   `json:"preview,omitempty" jsonschema:"show the patch, at most 32 KiB of it, and change nothing"`
}

// longestWait bounds how long TaskOutput waits for a child, within the time that a call of a tool of the host has.
const longestWait = 25 * time.Second

// childTools are the tools for children that an agent has by its role: none where there are no children below it.
// Those for tasks complete the container's tools of the same names, which have its commands.
func (o Options) childTools() []hosttools.Tool {
	if o.Children == nil || state.AgentDepth(o.AgentID) >= state.MaxDepth {
		return nil
	}
	completes := func(name string) hosttools.Tool { return hosttools.Tool{Name: name, Completes: true} }
	return []hosttools.Tool{
		tool(o, hosttools.Tool{Name: NameSpawn, Description: spawnDescription}, o.spawn),
		tool(o, hosttools.Tool{Name: "MergeChild", Description: mergeDescription, Timeout: hosttools.LongestCall},
			o.merge, "task_id"),
		tool(o, completes("TaskList"), o.listTasks),
		tool(o, completes("TaskStatus"), o.taskStatus, "task_id"),
		tool(o, completes("TaskOutput"), o.taskOutput, "task_id"),
		tool(o, completes("TaskInput"), o.taskInput, "task_id"),
		tool(o, completes("TaskStop"), o.taskStop, "task_id"),
	}
}

func (o Options) spawn(ctx context.Context, c hosttools.Call, args spawn) (hosttools.Result, error) {
	n := scheduler.Spawn{ParentID: o.AgentID, CallID: c.ID, Message: args.Message, Template: args.Template,
		Mode: cmp.Or(args.Workspace, ledger.ChildInherits), Check: args.Check, Paths: args.CheckPaths}
	switch preset := ledger.Preset(cmp.Or(args.Preset, string(ledger.PresetPrivateChild))); {
	case preset == ledger.PresetPublicNamed && args.AgentID == "":
		return hosttools.Result{}, invalid("agent_id", "a public agent needs an id", "give it one of a-z, 0-9, - and _")
	case preset == ledger.PresetPublicNamed:
		n.Named, n.Mode = args.AgentID, args.Workspace
	case preset != ledger.PresetPrivateChild:
		return hosttools.Result{}, invalid("preset", fmt.Sprintf("%.40q is not a preset", preset),
			"use private_child or public_named")
	case args.AgentID != "":
		return hosttools.Result{}, invalid("agent_id", "the runtime gives a private child its id", "leave it out")
	}
	made, err := o.Children.SpawnAgent(ctx, n)
	if err != nil {
		return hosttools.Result{}, spawnRefusal(err)
	}
	if n.Named != "" {
		return show("agent "+made.Agent.ID+" made", map[string]string{"agent_id": made.Agent.ID})
	}
	return o.showSpawned(ctx, made.Task)
}

func (o Options) showSpawned(ctx context.Context, t ledger.Task) (hosttools.Result, error) {
	out := spawnedChild{AgentID: t.Child().AgentID, ChildAgentID: t.Child().AgentID, TaskID: t.ID,
		TaskHandle:       tasks.Handle{TaskID: t.ID, Kind: t.Kind, Status: t.Status},
		ParentWorkItemID: t.Owner.WorkItemID}
	out.Summary = fmt.Sprintf("Child %s works on task %s: %s. Its result comes to you as a message.", out.AgentID, t.ID,
		t.Purpose)
	err := o.Ledger.View(ctx, func(v ledger.View) (err error) {
		out.ChildTask, err = view.New(v, o.Facts).Child(t)
		return err
	})
	if err != nil {
		return hosttools.Result{}, err
	}
	out.DelegationID = out.ChildSupervision.DelegationID
	return show(out.Summary, out)
}

// spawnRefusal shows the model why an agent was not made. Hints that name commands of the operator are left out.
func spawnRefusal(err error) error {
	e, ok := errors.AsType[*state.Error](err)
	if !ok {
		return err
	}
	return &hosttools.ToolError{Kind: string(e.Code), Message: e.Message, Hint: e.Hint, Field: e.Param}
}

// child is the task of a child. Any other is not found here: the container has it, or none does.
func (o Options) child(v ledger.View, id string) (ledger.Task, error) {
	t, err := v.Task(o.AgentID, id)
	if state.IsCode(err, ledger.CodeNotFound) || err == nil && t.Child() == nil {
		err = &hosttools.ToolError{Kind: string(ledger.CodeNotFound), Field: "task_id",
			Message: fmt.Sprintf("there is no task with the id %.80q", id), Hint: "call TaskList to see the tasks"}
	}
	return t, err
}

// checkChild refuses a task that is not of a child.
func (o Options) checkChild(ctx context.Context, id string) error {
	return o.Ledger.View(ctx, func(v ledger.View) error {
		_, err := o.child(v, id)
		return err
	})
}

func (o Options) listTasks(ctx context.Context, _ hosttools.Call, _ struct{}) (hosttools.Result, error) {
	list := struct {
		Tasks []tasks.Entry `json:"tasks"`
	}{[]tasks.Entry{}}
	err := o.Ledger.View(ctx, func(v ledger.View) error {
		newest, err := v.Tasks(o.AgentID, maxListedTasks)
		for _, t := range newest {
			if t.Child() == nil {
				continue
			}
			list.Tasks = append(list.Tasks, tasks.Entry{ID: t.ID, Kind: t.Kind, Status: t.Status, Summary: t.Result.Summary,
				UpdatedAt: turns.At(t.UpdatedAt), WaitPolicy: tasks.WaitBackground,
				SessionID: state.SessionID(o.AgentID), Command: t.Purpose})
		}
		return err
	})
	if err != nil {
		return hosttools.Result{}, err
	}
	return show("", list)
}

// maxListedTasks is how many of the newest tasks are looked at for those of children.
const maxListedTasks = 100

func (o Options) taskStatus(ctx context.Context, _ hosttools.Call, args tasks.StatusArgs) (hosttools.Result, error) {
	var status view.TaskStatus
	line := ""
	err := o.Ledger.View(ctx, func(v ledger.View) error {
		t, err := o.child(v, args.TaskID)
		if err != nil {
			return err
		}
		status, err = view.New(v, o.Facts).Task(o.AgentID, t.ID)
		status.Task.PatchFile = "" // a path on the host, which the model has no use for
		line = view.ChildLine(t, status.Task.ChildTask)
		status.Task.Summary = line
		return err
	})
	if err != nil {
		return hosttools.Result{}, err
	}
	return show("task is "+string(status.Task.Status)+": "+line, status)
}

func (o Options) taskOutput(ctx context.Context, _ hosttools.Call, args tasks.OutputArgs) (hosttools.Result, error) {
	if err := o.checkChild(ctx, args.TaskID); err != nil {
		return hosttools.Result{}, err
	}
	wait := time.Duration(0)
	if args.Waits() {
		wait = longestWait
		if ms := args.TimeoutMS; ms > 0 {
			wait = min(wait, time.Duration(ms)*time.Millisecond)
		}
	}
	out, err := o.Children.TaskOutput(ctx, o.AgentID, args.TaskID, wait, 0)
	if err != nil {
		return hosttools.Result{}, err
	}
	return show("task is "+string(out.Task.Status)+": "+out.Task.Summary, out)
}

func (o Options) taskInput(ctx context.Context, c hosttools.Call, args tasks.InputArgs) (hosttools.Result, error) {
	if err := o.checkChild(ctx, args.TaskID); err != nil {
		return hosttools.Result{}, err
	}
	switch {
	case args.CloseInput:
		return hosttools.Result{}, invalid("close_input", "the task of a child has no input that could be closed",
			"leave it out; TaskStop ends the child")
	case args.Input == "":
		return hosttools.Result{}, invalid("input", "the argument input is missing", "say what the child is to have")
	}
	out, err := o.Children.FollowUp(ctx, o.AgentID, args.TaskID, c.ID, args.Input, false)
	if err != nil {
		return hosttools.Result{}, err
	}
	return show(out.SummaryText, out)
}

func (o Options) merge(ctx context.Context, _ hosttools.Call, args mergeArgs) (hosttools.Result, error) {
	if err := o.checkChild(ctx, args.TaskID); err != nil {
		return hosttools.Result{}, err
	}
	if args.Preview {
		return o.previewMerge(ctx, args.TaskID)
	}
	done, err := o.Children.MergeChild(ctx, o.AgentID, args.TaskID)
	if err != nil {
		return hosttools.Result{}, spawnRefusal(err)
	}
	text := fmt.Sprintf("Files of your tree that changed: %d.", len(done.ChangedFiles))
	if len(done.Conflicts) > 0 {
		text = fmt.Sprintf("Nothing was changed: it conflicts with your tree in %q.", done.Conflicts)
	}
	return show(text, done)
}

// previewMerge shows what a merge would take.
func (o Options) previewMerge(ctx context.Context, taskID string) (hosttools.Result, error) {
	p, err := o.Children.ChildPatch(ctx, o.AgentID, taskID)
	if err != nil {
		return hosttools.Result{}, spawnRefusal(err)
	}
	text := fmt.Sprintf("The patch of the child, which is data, has %d bytes:\n%s", p.Bytes, p.Patch)
	if p.LeftOut > 0 {
		text += fmt.Sprintf("[%d bytes more are left out]\n", p.LeftOut)
	}
	return show(text, p)
}

func (o Options) taskStop(ctx context.Context, _ hosttools.Call, args tasks.StopArgs) (hosttools.Result, error) {
	if err := o.checkChild(ctx, args.TaskID); err != nil {
		return hosttools.Result{}, err
	}
	out, err := o.Children.StopChild(ctx, o.AgentID, args.TaskID, o.AgentID)
	if err != nil {
		return hosttools.Result{}, err
	}
	return show(out.SummaryText, out)
}
