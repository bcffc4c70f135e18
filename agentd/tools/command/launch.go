package command

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"holon/agentd/preview"
	"holon/agentd/process"
	"holon/agentd/tasks"
	"holon/agentd/tools"
	"holon/internal/roots"
	"holon/responses"
	wire "holon/responses/tasks"
	"holon/responses/turns"
)

// shells are the programs that understand -c, and -l for a login shell.
var shells = []string{"sh", "bash", "dash", "ash", "zsh", "ksh", "mksh"}

// request is a command as a model asks for it: what ExecCommand and the items of
// a batch have in common.
type request struct {
	cmd, workdir, shell string
	login               bool
	tty, input          bool
	yield               time.Duration
	tokens              int // budget of the preview
	timeout             time.Duration
	log                 string // beginning of the names of its log files
}

// launch is a request with its place found.
type launch struct {
	request
	task           string // id of the task that the command is or may become; its process is named after it
	dir            string // absolute
	stdout, stderr string // paths of the log files; "" where nothing is kept
}

// resolve checks a request and finds its directory.
func (r request) resolve(env tools.Env) (launch, *tools.Error) {
	l := launch{request: r}
	if bad := r.check(); bad != nil {
		return l, bad
	}
	var bad *tools.Error
	env.Users.Do(func() { l.dir, bad = workdir(env.WorkDir, r.workdir) })
	return l, bad
}

func (r request) check() *tools.Error {
	if len(r.cmd) > maxCommandBytes {
		return tools.InvalidInput("cmd", fmt.Sprintf("the command is %d bytes; the limit is %d", len(r.cmd),
			maxCommandBytes),
			"write long scripts or data to a file first, with ApplyPatch, and run that")
	}
	if strings.ContainsRune(r.cmd, 0) {
		return tools.InvalidInput("cmd", "the command contains a NUL character",
			"write it as \\0 for the program that shall see it")
	}
	if strings.TrimSpace(r.cmd) == "" {
		return tools.InvalidInput("cmd", "the command is blank", "give the command to run")
	}
	if r.shell != "" {
		named := slices.Contains(shells, filepath.Base(r.shell))
		if !named || strings.Contains(r.shell, "/") && !filepath.IsAbs(r.shell) {
			return tools.InvalidInput("shell", fmt.Sprintf("%q is not a shell this tool can use",
				tools.Clip(r.shell, 100)),
				"use one of "+strings.Join(shells, ", ")+", or its absolute path, or leave it out")
		}
	}
	return nil
}

// spec is what a task records of the command, and what makes two the same.
func (l launch) spec() tasks.Spec {
	return tasks.Spec{
		Cmd: l.cmd, Workdir: l.dir, Shell: l.shell, Login: l.login, TTY: l.tty,
		YieldTimeMS: l.yield.Milliseconds(), MaxOutputTokens: l.tokens, AcceptsInput: l.input,
	}
}

// workdir resolves the wish for a directory. The check keeps the model's
// picture of where it is right; it is not what confines a command.
func workdir(tree, wish string) (string, *tools.Error) {
	rel, local := tools.Local(tree, wish)
	violation := &tools.Error{
		Kind: tools.KindRootViolation, Message: "requested working directory is outside the current execution root",
		Details:      map[string]any{"workdir": tools.Clip(wish, 300), "field": "workdir"},
		RecoveryHint: "omit workdir or use a relative path inside the active workspace",
	}
	if !local {
		return "", violation
	}
	root, err := roots.Open(tree)
	if err != nil {
		return "", &tools.Error{Kind: kindWorkdir, Message: "the working tree cannot be opened: " + err.Error(),
			RecoveryHint: "report this to the operator"}
	}
	defer root.Close()
	fi, err := root.Stat(rel)
	missing := &tools.Error{
		Kind: kindWorkdir, Details: violation.Details,
		RecoveryHint: "omit workdir, or list the directories that exist, for example with: ls -d */",
	}
	switch {
	case err == nil && fi.IsDir():
		return filepath.Join(tree, rel), nil
	case err == nil:
		missing.Message = "requested working directory is not a directory"
	case tools.Escapes(err):
		return "", violation
	case errors.Is(err, fs.ErrNotExist):
		missing.Message = "requested working directory does not exist"
	default:
		missing.Message = "requested working directory cannot be entered: " + errors.Unwrap(err).Error()
	}
	return "", missing
}

// start starts the command with the shell asked for, or with the best there is, and records its process.
func (c *commands) start(env tools.Env, l *launch) (*process.Process, *tools.Error) {
	cmd, err := l.command(env)
	if diskFull(err) {
		return nil, spawnError(err, l.cmd, l.dir)
	}
	if err != nil {
		return nil, &tools.Error{Kind: tools.KindInternal,
			Message: "the log files of the command cannot be made: " + err.Error(), Retryable: true,
			RecoveryHint: "the output directory may be full or gone; report this to the operator if it stays"}
	}
	cmd.LogBytes = c.streamBytes
	flag := "-c"
	if l.login {
		flag = "-lc"
	}
	candidates := []string{"bash", "sh"}
	if l.shell != "" {
		candidates = []string{l.shell}
	}
	var p *process.Process
	for _, sh := range candidates {
		cmd.Argv = []string{sh, flag, l.cmd}
		p, err = c.starter.Start(cmd)
		if start, ok := errors.AsType[*process.StartError](err); !ok || start.Op != "find" {
			break
		}
	}
	if err != nil {
		return nil, spawnError(err, l.cmd, l.dir)
	}
	if l.task == "" {
		l.task = responses.NewID(wire.Prefix)
	}
	if env.Processes != nil {
		env.Processes.Started(turns.ProcessOf(l.task), turns.Process{Command: l.spec().Preview(), Cwd: l.dir, TTY: l.tty,
			AcceptsInput: l.input})
	}
	return p, nil
}

// ended records the end of the command, which did not become a task.
func (l launch) ended(env tools.Env, r process.Result) complete {
	if env.Processes == nil {
		return complete{l, r}
	}
	end := turns.ProcessEnd{ExitCode: &r.ExitCode, Signal: int(r.Signal), DurationMS: r.Duration.Milliseconds()}
	for path, kept := range map[string]process.Capture{l.stdout: r.Stdout, l.stderr: r.Stderr} {
		if rel, err := filepath.Rel(filepath.Dir(env.LogDir), path); err == nil && kept.Logged > 0 {
			end.OutputRefs = append(end.OutputRefs, rel)
		}
	}
	slices.Sort(end.OutputRefs)
	switch {
	case r.TimedOut:
		end.FailureCategory, end.Message = "timeout", "it was ended at its time limit"
	case r.Canceled:
		end.By = turns.ByParentCancel
	case r.Stopped:
		end.By = turns.ByPolicy
	}
	env.Processes.Ended(turns.ProcessOf(l.task), end)
	return complete{l, r}
}

func (l *launch) command(env tools.Env) (process.Command, error) {
	var err error
	if l.stdout, err = env.Artifacts.Reserve(l.log + stdoutLog); err != nil {
		return process.Command{}, err
	}
	if !l.tty {
		if l.stderr, err = env.Artifacts.Reserve(l.log + stderrLog); err != nil {
			return process.Command{}, err
		}
	}
	budget, _ := env.Disk.(*process.Budget) // nil: only the cap of the command counts
	return process.Command{
		Dir: l.dir, Env: append(slices.Clone(env.Environ), "PWD="+l.dir), Timeout: l.timeout, TTY: l.tty,
		Input: l.input,
		// Either end alone may have to fill the preview.
		KeepBytes:  previewBytes(l.tokens),
		StdoutPath: l.stdout, StderrPath: l.stderr, Budget: budget,
	}, nil
}

func previewBytes(tokens int) int { return max(tokens*tools.BytesPerToken, preview.MinBytes) }

func diskFull(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }

func spawnError(err error, cmd, dir string) *tools.Error {
	e := &tools.Error{
		Kind: kindSpawn, Message: "the command could not be started: " + err.Error(),
		Details: map[string]any{"cmd": tools.Clip(cmd, 300), "workdir": dir},
	}
	switch start, _ := errors.AsType[*process.StartError](err); {
	case errors.Is(err, process.ErrClosed):
		e.Kind, e.RecoveryHint = tools.KindCanceled, "the runtime is shutting down; do not start anything"
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.ENOMEM):
		e.Retryable, e.RecoveryHint = true, "the limit of processes or memory is reached; try again with less at once"
	case diskFull(err):
		e.Kind, e.Message = kindDiskFull, "the command was not started: the disk is full: "+err.Error()
		e.Retryable, e.RecoveryHint = true, "delete files that are not needed with ApplyPatch, then repeat the call"
	case start != nil && start.Op == "record":
		e.RecoveryHint = "the runtime cannot write its own files; report this to the operator"
	case start != nil && start.Op == "find":
		e.Details["field"], e.RecoveryHint = "shell", "this shell is not installed; leave shell out to use the default"
	default:
		e.RecoveryHint = "check that the command, the shell and the directory exist"
	}
	return e
}
