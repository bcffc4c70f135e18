package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"holon/internal/duration"
	"holon/internal/visible"
	"holon/responses/tasks"
	"holon/runner/agent/view"
	"holon/runner/control/wire"
	"holon/state"
)

func newTaskCommand(streams Streams) *cobra.Command {
	var start wire.Task
	var key string
	run := remoteCommand(streams, "run COMMAND", "Run a command in the container of an agent",
		func(ctx context.Context, r *remote) error {
			start.Cmd = r.args[0]
			task, err := r.StartTask(ctx, r.Agent, start, key)
			return r.show(task, err, func() error {
				return printTable(r.streams, []view.TaskRecord{task}, taskHeads, r.taskRow)
			})
		})
	run.Long = `Run a command in the container of an agent, as a task: it goes on by itself, and the
agent gets a message when it ends. COMMAND is one argument for a shell.`
	flags := run.Flags()
	flags.StringVar(&start.Summary, "summary", "", "`text` that says what it is for")
	flags.StringVar(&start.Workdir, "workdir", "", "`directory` in the workspace to run it in")
	flags.StringVar(&start.Shell, "shell", "", "`name` of the shell")
	flags.BoolVar(&start.TTY, "tty", false, "give it a terminal")
	flags.BoolVar(&start.AcceptsInput, "accepts-input", false, "keep its input open for holon task input")
	flags.StringVar(&key, "key", "", "`text` under which it is started once, however often that is asked for")

	all, limit := false, 50
	list := remoteCommand(streams, "list", "List the tasks of an agent",
		func(ctx context.Context, r *remote) error { return runTaskList(ctx, r, all, limit) })
	list.Flags().BoolVarP(&all, "all", "a", false, "also those that have ended")
	list.Flags().IntVar(&limit, "limit", limit, "`number` of the newest, besides all that have\nnot ended")

	wait, tokens := time.Duration(0), 0
	output := remoteCommand(streams, "output TASK", "Show what a task has printed",
		func(ctx context.Context, r *remote) error { return runTaskOutput(ctx, r, wait, tokens) })
	timeVar(output.Flags(), &wait, "wait", "wait for its end, but no longer than this `time`")
	output.Flags().IntVar(&tokens, "tokens", 0, "show about so many `tokens` of it, 64000 at most")

	var in tasks.Input
	input := remoteCommand(streams, "input TASK [TEXT]", "Write to a task",
		func(ctx context.Context, r *remote) error { return runTaskInput(ctx, r, in) })
	input.Long = `Write a line to a task that was started with input. Without TEXT, standard input is
written as it is.`
	input.Flags().BoolVar(&in.Close, "close", false, "end the input after that")

	force := false
	stop := remoteCommand(streams, "stop TASK", "End a task", func(ctx context.Context, r *remote) error {
		res, err := r.Client.StopTask(ctx, r.Agent, r.args[0], force)
		return r.show(res, err, func() error { return r.noteTask(res.Task.TaskID, res.SummaryText) })
	})
	stop.Flags().BoolVar(&force, "force", false, "kill it without asking first")
	return group("task", "Run commands in the containers of agents and follow them", "", run,
		tableCommand(list, streams), remoteCommand(streams, "show TASK", "Show a task", runTaskShow), output, input, stop)
}

func runTaskList(ctx context.Context, r *remote, all bool, limit int) error {
	list, err := r.Client.Tasks(ctx, r.Agent, limit)
	if !all {
		list = slices.DeleteFunc(list, func(t view.TaskRecord) bool { return t.Status.Terminal() })
	}
	return showList(&r.base, list, err, taskHeads, r.taskRow)
}

var taskHeads = []string{"TASK", "STATUS", "STARTED", "CHANGED", "COMMAND*"}

func (r *remote) taskRow(t view.TaskRecord) []string {
	command := cmp.Or(t.Command.CmdPreview, t.Purpose)
	if r.streams.OutTTY {
		command = visible.OneLine(command, 40)
	}
	return []string{t.ID, string(t.Status), r.streams.when(t.CreatedAt), r.streams.when(t.UpdatedAt), command}
}

func runTaskShow(ctx context.Context, r *remote) error {
	status, err := r.Client.Task(ctx, r.Agent, r.args[0])
	if err != nil {
		return err
	}
	t, c := status.Task, cmp.Or(status.Task.Command, &tasks.Command{})
	exit := ""
	if c.ExitStatus != nil {
		exit = fmt.Sprint(*c.ExitStatus)
	}
	return r.showFacts(status, nil, "task", t.TaskID, "status", string(t.Status), "purpose", t.Purpose,
		"command", r.streams.oneLine(c.Cmd, 1000), "how it is", r.streams.oneLine(t.Summary, 300), "exit status", exit,
		"directory", c.Workdir, "input", c.InputTarget, "started", r.streams.when(t.CreatedAt),
		"changed", r.streams.when(t.UpdatedAt), "turn", t.TurnID, "work item", t.WorkItemID,
		"child agent", t.ChildAgentID, "patch", t.PatchFile,
		"output in the container", c.OutputPath, "errors in the container", c.StderrPath)
}

func runTaskOutput(ctx context.Context, r *remote, wait time.Duration, tokens int) error {
	if err := checkRange("--tokens", tokens, 0, 64_000); err != nil {
		return err
	}
	if wait > wire.MaxTaskWait {
		return usage("--wait", duration.Text(wait)+" is too long", "wait for at most 10m, and again after that")
	}
	out, err := r.Client.TaskOutput(ctx, r.Agent, r.args[0], wait, tokens)
	if err != nil {
		return err
	}
	if r.JSON {
		return printJSON(r.streams, out)
	}
	text := r.streams.defuse(out.Task.OutputPreview)
	if r.streams.OutTTY {
		text = r.streams.shown(out.Task.OutputPreview)
	}
	if _, err := io.WriteString(r.streams.Out, text); err != nil {
		return err
	}
	note := cmp.Or(out.Task.ResultSummary, out.Task.Summary)
	if out.Task.OutputTruncated {
		note += fmt.Sprintf("; not all of the %d bytes are shown", out.Task.OutputBytes)
	}
	return r.noteTask(out.Task.TaskID, note)
}

func runTaskInput(ctx context.Context, r *remote, in tasks.Input) error {
	if len(r.args) > 1 {
		in.Input = r.args[1] + "\n"
	} else if !in.Close || !r.streams.InTTY {
		data, err := readAll(ctx, r.streams.In)
		if err != nil {
			return err
		}
		in.Input = string(data)
	}
	res, err := r.Client.TaskInput(ctx, r.Agent, r.args[0], in)
	if err != nil {
		return err
	}
	switch {
	case r.JSON:
		if err := printJSON(r.streams, res); err != nil || res.AcceptedInput {
			return err
		}
		return exitError(exitRefused)
	case !res.AcceptedInput:
		return &state.Error{Code: "no_input", Param: res.Task.TaskID, Message: "took no input: " + res.SummaryText,
			Hint: "holon task show" + r.agentFlag() + " " + res.Task.TaskID + " says how it is"}
	}
	return r.noteTask(res.Task.TaskID, res.SummaryText)
}

// noteTask prints how a task is to stderr; its output is on stdout.
func (r *remote) noteTask(id, text string) error {
	_, err := fmt.Fprintf(r.streams.Err, "task %s: %s\n", visible.OneLine(id, 100), r.streams.oneLine(text, 300))
	return err
}
