package command

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"holon/agentd/preview"
	"holon/agentd/process"
	"holon/agentd/tasks"
	"holon/agentd/tools"
	wire "holon/responses/tasks"
)

// Policies for a command that is already running as a task.
const (
	reuseRunning = "reuse_running"
	startNew     = "start_new"
)

// execArgs are the arguments of ExecCommand.
type execArgs struct {
	Cmd             string `json:"cmd"`
	Workdir         string `json:"workdir,omitempty"`
	Shell           string `json:"shell,omitempty"`
	Login           bool   `json:"login,omitempty"`
	TTY             bool   `json:"tty,omitempty"`
	YieldTimeMS     int    `json:"yield_time_ms,omitempty"`
	MaxOutputTokens int    `json:"max_output_tokens,omitempty"`
	AcceptsInput    bool   `json:"accepts_input,omitempty"`
	DuplicatePolicy string `json:"duplicate_policy,omitempty"`
}

const execDescription = "Runs a shell command in the working tree and returns its exit status and output.\n" +
	"A command that still runs after yield_time_ms becomes a task: you get its task id and go on with TaskOutput, " +
	"TaskInput and TaskStop. Start servers and watchers this way, not with &: processes left in the background " +
	"are ended when their command completes.\n" +
	"Standard input is empty unless accepts_input is set. No one answers prompts.\n" +
	"Prefer rg --files, rg -n, sed -n START,ENDp, head and tail over printing whole files. Long output is shown " +
	"by its beginning and end; the result names the file with all of it."

const execAloneDescription = "Runs a shell command in the working tree and returns its exit status and output.\n" +
	"A command that still runs after yield_time_ms is ended. Standard input is empty, and no one answers prompts. " +
	"Processes left in the background are ended when the command completes.\n" +
	"Prefer rg --files, rg -n, sed -n START,ENDp, head and tail over printing whole files. Long output is shown " +
	"by its beginning and end; the result names the file with all of it."

// outputTokens describes an argument of ExecCommand and TaskOutput.
var outputTokens = about("how much of the output to show, in tokens; the middle is left out of more; default 8000",
	positive)

type execTool struct {
	Family
	*commands
	def tools.Definition
}

func newExec(c *commands) (tools.Tool, error) {
	description := execDescription
	if c.tasks == nil {
		description = execAloneDescription
	}
	def, err := define[execArgs](execName, description, map[string]func(*jsonschema.Schema){
		"cmd":     about("the shell command; several lines are allowed", notEmpty),
		"workdir": about("directory to run in, relative to the root of the working tree (the default)"),
		"shell": about("shell to use, such as sh, bash or zsh, by name or absolute path; default bash, or sh " +
			"where there is no bash"),
		"login": about("start the shell as a login shell, which reads the profile"),
		"tty":   about("give the command a terminal; both streams are then one"),
		"yield_time_ms": about("how long to wait for the command, in milliseconds; one that still runs then "+
			"goes on as a task; default 30000; use 1 for a server", upTo(maxYield)),
		"max_output_tokens": outputTokens,
		"accepts_input":     about("keep the command's input open for TaskInput; otherwise it is empty"),
		"duplicate_policy": about("when the same command already runs as a task: reuse_running (the default) "+
			"returns that task, start_new starts another",
			func(s *jsonschema.Schema) { s.Enum = []any{reuseRunning, startNew} }),
	})
	return &execTool{commands: c, def: def}, err
}

func (t *execTool) Definition() tools.Definition { return t.def }

func (t *execTool) Run(ctx context.Context, env tools.Env, call tools.Call) tools.Output {
	args, bad := tools.Decode[execArgs](call)
	if bad != nil {
		return tools.Fail(bad)
	}
	l := launch{
		Command: wire.Command{Cmd: args.Cmd, Workdir: args.Workdir, Shell: args.Shell, Login: args.Login, TTY: args.TTY,
			AcceptsInput: args.AcceptsInput},
		yield: milliseconds(args.YieldTimeMS, defaultYield), tokens: env.Policy.Budget(args.MaxOutputTokens),
		timeout: t.taskTime,
	}
	if bad := l.resolve(env); bad != nil {
		return tools.Fail(bad)
	}
	if t.tasks == nil {
		l.timeout = l.yield
	} else if args.DuplicatePolicy != startNew {
		if task, ok := t.tasks.Active(env.SessionID, tasks.Digest(l.Command)); ok {
			return alreadyRunning(task)
		}
	}
	return t.runOrPromote(ctx, env, l)
}

// wait waits for the end of p, and ends it when ctx ends first.
func wait(ctx context.Context, p *process.Process) process.Result {
	select {
	case <-p.Done():
		return p.Result()
	case <-ctx.Done():
	}
	p.Stop(0)
	res := p.Result()
	res.Canceled = res.Canceled || res.Stopped
	return res
}

// runOrPromote waits for the command as long as the caller wants to, and makes a
// task of it when it is still running then. Without tasks it waits for the end.
func (t *execTool) runOrPromote(ctx context.Context, env tools.Env, l launch) tools.Output {
	p, bad := t.start(env, &l)
	if bad != nil {
		return tools.Fail(bad)
	}
	var promote <-chan time.Time
	if t.tasks != nil {
		promote = time.After(l.yield)
	}
	select {
	case <-p.Done():
		return l.ended(env, p.Result()).output(env)
	case <-ctx.Done():
		return l.ended(env, wait(ctx, p)).output(env)
	case <-promote:
	}
	owner := tasks.Owner{SessionID: env.SessionID, ThreadID: env.ThreadID, TurnID: env.TurnID}
	task, err := t.tasks.Adopt(l.task, owner, l.Command, p)
	if err != nil {
		p.Stop(0)
		return l.ended(env, p.Result()).notAdopted(env, err)
	}
	r := promotedResult{Disposition: promotedToTask, TaskHandle: handle(task)}
	stdout, stderr := p.Snapshot()
	if text, cut := preview.Joined(stdout, stderr, previewBytes(l.tokens)); text != "" {
		r.InitialOutputPreview, r.InitialOutputTruncated = &text, cut
	}
	return tools.Output{Summary: "command promoted to managed task", Result: r}
}

func handle(s wire.Snapshot) wire.Handle {
	return wire.Handle{TaskID: s.TaskID, Kind: s.Kind, Status: s.Status}
}

func alreadyRunning(task wire.Snapshot) tools.Output {
	return tools.Output{Summary: "the same command is already running as a task", Result: alreadyResult{
		Disposition: duplicateRun, TaskHandle: handle(task), Command: task.Command, Summary: task.Summary,
		Instructions: "Read it with TaskOutput or stop it with TaskStop; pass duplicate_policy start_new to " +
			"start another.",
	}}
}

// notAdopted is the outcome of a command that could not become a task.
func (c complete) notAdopted(env tools.Env, err error) tools.Output {
	e := &tools.Error{
		Kind: tools.KindInternal, Message: "the command still ran and could not become a task: " + err.Error() +
			"; it was ended",
		Details: c.details(env, map[string]any{}), RecoveryHint: "report this to the operator if it stays",
		Retryable: true,
	}
	switch {
	case errors.Is(err, tasks.ErrTooMany):
		e.Kind, e.RecoveryHint = kindTaskLimit,
			fmt.Sprintf("stop tasks that are not needed with %s, then call again", StopName)
	case errors.Is(err, tasks.ErrClosed):
		e.Kind, e.RecoveryHint, e.Retryable = tools.KindCanceled, "the runtime is shutting down; do not start anything",
			false
	}
	return tools.Fail(e)
}

func dispositionOf(canonical tools.Result) disposition {
	r, _ := decoded[struct {
		Disposition disposition `json:"disposition"`
	}](canonical)
	return r.Disposition
}

func renderExec(canonical tools.Result, policy tools.RenderPolicy) string {
	text, ok := "", false
	switch dispositionOf(canonical) {
	case promotedToTask:
		text, ok = rendered(canonical, promotedResult.render)
	case duplicateRun:
		text, ok = rendered(canonical, alreadyResult.render)
	case completedRun:
		text, ok = rendered(canonical, func(c completedResult) string { return c.render(policy) })
	}
	if !ok {
		return canonical.SummaryText
	}
	return text
}
