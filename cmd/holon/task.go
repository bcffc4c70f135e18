package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"holon/internal/duration"
	"holon/internal/visible"
	"holon/responses/tasks"
	"holon/runner/agent/view"
	"holon/runner/control/wire"
	"holon/state"
)

// newTaskCommand makes `holon task`.
func newTaskCommand(streams Streams) *cobra.Command {
	var start wire.Task
	var key string
	run, r := remoteCommand(streams, "run COMMAND", "Run a command in the container of an agent", 1, 1,
		func(ctx context.Context, r *remote) error {
			start.Cmd = r.args[0]
			task, err := r.StartTask(ctx, r.Agent, start, key)
			return r.printTask(task, err)
		})
	run.Long = `Run a command in the container of an agent, as a task: it goes on by itself, and the
agent is told of its end by a message. COMMAND is one argument for a shell.`
	flags := run.Flags()
	flags.StringVar(&start.Summary, "summary", "", "`text` that says what it is for")
	flags.StringVar(&start.Workdir, "workdir", "", "`directory` in the workspace to run it in")
	flags.StringVar(&start.Shell, "shell", "", "`name` of the shell")
	flags.BoolVar(&start.TTY, "tty", false, "give it a terminal")
	flags.BoolVar(&start.AcceptsInput, "accepts-input", false, "keep its input open for holon task input")
	flags.StringVar(&key, "key", "", "`text` under which it is started once, however often that is asked for")
	r.onAgent(run)

	all, limit := false, 50
	list, r := remoteCommand(streams, "list", "List the tasks of an agent", 0, 0,
		func(ctx context.Context, r *remote) error { return runTaskList(ctx, r, all, limit) })
	list.Flags().BoolVarP(&all, "all", "a", false, "also those that have ended")
	list.Flags().IntVar(&limit, "limit", limit, "`number` of the newest, besides all that have\nnot ended")
	tableCommand(list, streams)
	r.onAgent(list)

	show, r := remoteCommand(streams, "show TASK", "Show a task", 1, 1, runTaskShow)
	r.onAgent(show)

	wait, tokens := time.Duration(0), 0
	output, r := remoteCommand(streams, "output TASK", "Show what a task has printed", 1, 1,
		func(ctx context.Context, r *remote) error { return runTaskOutput(ctx, r, wait, tokens) })
	timeVar(output.Flags(), &wait, "wait", "wait for its end, but no longer than this `time`")
	output.Flags().IntVar(&tokens, "tokens", 0, "show about so many `tokens` of it, 64000 at most")
	r.onAgent(output)

	var in tasks.Input
	input, r := remoteCommand(streams, "input TASK [TEXT]", "Write to a task", 1, 2,
		func(ctx context.Context, r *remote) error { return runTaskInput(ctx, r, in) })
	input.Long = `Write a line to a task that was started with input. Without TEXT, standard input is
written as it is.`
	input.Flags().BoolVar(&in.Close, "close", false, "end the input after that")
	r.onAgent(input)

	force := false
	stop, r := remoteCommand(streams, "stop TASK", "End a task", 1, 1,
		func(ctx context.Context, r *remote) error { return runTaskStop(ctx, r, force) })
	stop.Flags().BoolVar(&force, "force", false, "kill it without asking first")
	r.onAgent(stop)
	return group("task", "Run commands in the containers of agents and follow them", "", run, list, show, output, input,
		stop)
}

// printTask shows the task that a command made.
func (r *remote) printTask(task view.TaskRecord, err error) error {
	if err != nil {
		return err
	}
	if r.JSON {
		return printJSON(r.streams, task)
	}
	return taskTable(r.streams, task)
}

func runTaskList(ctx context.Context, r *remote, all bool, limit int) error {
	if err := checkRange("--limit", limit, 1, view.MaxLimit); err != nil {
		return err
	}
	list, err := r.Client.Tasks(ctx, r.Agent, limit)
	if err != nil {
		return err
	}
	shown := []view.TaskRecord{}
	for _, t := range list {
		if all || !t.Status.Terminal() {
			shown = append(shown, t)
		}
	}
	if r.JSON {
		return printJSON(r.streams, shown)
	}
	return taskTable(r.streams, shown...)
}

func taskTable(streams Streams, list ...view.TaskRecord) error {
	t := newTable(streams, "TASK", "STATUS", "STARTED", "CHANGED", "COMMAND").cutting("COMMAND")
	for _, task := range list {
		command := task.Command.CmdPreview
		if streams.OutTTY {
			command = visible.OneLine(command, 40)
		}
		t.row(task.ID, string(task.Status), streams.moment(task.CreatedAt), streams.moment(task.UpdatedAt), command)
	}
	return t.end()
}

func runTaskShow(ctx context.Context, r *remote) error {
	status, err := r.Client.Task(ctx, r.Agent, r.args[0])
	if err != nil {
		return err
	}
	if r.JSON {
		return printJSON(r.streams, status)
	}
	t, c := status.Task, status.Task.Command
	exit := ""
	if c.ExitStatus != nil {
		exit = fmt.Sprint(*c.ExitStatus)
	}
	return facts(r.streams, [][2]string{{"task", t.TaskID}, {"status", string(t.Status)}, {"purpose", t.Purpose},
		{
			"command",
			r.streams.oneLine(c.Cmd, 1000),
		}, {"how it is", r.streams.oneLine(t.Summary, 300)}, {"exit status", exit},
		{"directory", c.Workdir}, {"input", c.InputTarget}, {"started", r.streams.moment(t.CreatedAt)},
		{"changed", r.streams.moment(t.UpdatedAt)}, {"turn", t.TurnID}, {"work item", t.WorkItemID},
		{"output in the container", c.OutputPath}, {"errors in the container", c.StderrPath}}...)
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

func runTaskStop(ctx context.Context, r *remote, force bool) error {
	res, err := r.Client.StopTask(ctx, r.Agent, r.args[0], force)
	if err != nil {
		return err
	}
	if r.JSON {
		return printJSON(r.streams, res)
	}
	return r.noteTask(res.Task.TaskID, res.SummaryText)
}

// noteTask says how a task is, beside its output.
func (r *remote) noteTask(id, text string) error {
	_, err := fmt.Fprintf(r.streams.Err, "task %s: %s\n", visible.OneLine(id, 100), r.streams.oneLine(text, 300))
	return err
}
