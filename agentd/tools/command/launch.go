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

// launch is a command as a model or the operator asks for it. resolve makes its directory absolute, and start sets the
// paths of its log files, "" where nothing is kept.
type launch struct {
	wire.Command
	yield   time.Duration
	tokens  int // budget of the preview
	timeout time.Duration
	log     string // beginning of the names of its log files
	task    string // id of the task that the command is or may become; its process is named after it
}

// resolve checks a command and finds its directory.
func (l *launch) resolve(env tools.Env) (bad *tools.Error) {
	if bad := l.check(); bad != nil {
		return bad
	}
	env.Users.Do(func() { l.Workdir, bad = workdir(env.WorkDir, l.Workdir) })
	return bad
}

func (l *launch) check() *tools.Error {
	if len(l.Cmd) > maxCommandBytes {
		return tools.InvalidInput("cmd", fmt.Sprintf("the command is %d bytes; the limit is %d", len(l.Cmd),
			maxCommandBytes),
			"write long scripts or data to a file first, with ApplyPatch, and run that")
	}
	if strings.ContainsRune(l.Cmd, 0) {
		return tools.InvalidInput("cmd", "the command contains a NUL character",
			"write it as \\0 for the program that shall see it")
	}
	if strings.TrimSpace(l.Cmd) == "" {
		return tools.InvalidInput("cmd", "the command is blank", "give the command to run")
	}
	if l.Shell != "" {
		named := slices.Contains(shells, filepath.Base(l.Shell))
		if !named || strings.Contains(l.Shell, "/") && !filepath.IsAbs(l.Shell) {
			return tools.InvalidInput("shell", fmt.Sprintf("%q is not a shell this tool can use",
				tools.Clip(l.Shell, 100)),
				"use one of "+strings.Join(shells, ", ")+", or its absolute path, or leave it out")
		}
	}
	return nil
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
		return nil, spawnError(err, l.Cmd, l.Workdir)
	}
	if err != nil {
		return nil, &tools.Error{Kind: tools.KindInternal,
			Message: "the log files of the command cannot be made: " + err.Error(), Retryable: true,
			RecoveryHint: "the output directory may be full or gone; report this to the operator if it stays"}
	}
	cmd.LogBytes = c.streamBytes
	flag := "-c"
	if l.Login {
		flag = "-lc"
	}
	candidates := defaultShells
	if l.Shell != "" {
		candidates = []string{l.Shell}
	}
	var p *process.Process
	for _, sh := range candidates {
		cmd.Argv = []string{sh, flag, l.Cmd}
		p, err = c.starter.Start(cmd)
		if start, ok := errors.AsType[*process.StartError](err); !ok || start.Op != "find" {
			break
		}
	}
	if err != nil {
		return nil, spawnError(err, l.Cmd, l.Workdir)
	}
	if l.task == "" {
		l.task = responses.NewID(wire.Prefix)
	}
	if env.Processes != nil {
		env.Processes.Started(turns.ProcessOf(l.task), turns.Process{Command: tasks.Preview(l.Cmd), Cwd: l.Workdir,
			TTY:          l.TTY,
			AcceptsInput: l.AcceptsInput})
	}
	return p, nil
}

// ended records the end of the command, which did not become a task.
func (l launch) ended(env tools.Env, r process.Result) complete {
	if env.Processes == nil {
		return complete{l, r}
	}
	end := turns.ProcessEnd{ExitCode: &r.ExitCode, Signal: int(r.Signal), DurationMS: r.Duration.Milliseconds()}
	for path, kept := range map[string]process.Capture{l.OutputPath: r.Stdout, l.StderrPath: r.Stderr} {
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
	if l.OutputPath, err = env.Artifacts.Reserve(l.log + stdoutLog); err != nil {
		return process.Command{}, err
	}
	if !l.TTY {
		if l.StderrPath, err = env.Artifacts.Reserve(l.log + stderrLog); err != nil {
			return process.Command{}, err
		}
	}
	budget, _ := env.Disk.(*process.Budget) // nil: only the cap of the command counts
	return process.Command{
		Dir: l.Workdir, Env: append(slices.Clone(env.Environ), "PWD="+l.Workdir), Timeout: l.timeout, TTY: l.TTY,
		Input: l.AcceptsInput,
		// Either end alone may have to fill the preview.
		KeepBytes:  previewBytes(l.tokens),
		StdoutPath: l.OutputPath, StderrPath: l.StderrPath, Budget: budget,
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

// defaultShells run a command that names none: the first that there is.
var defaultShells = []string{"bash", "sh"}

// DefaultShell is the path of the shell of commands that name none, found on PATH as they are; "" where there is none.
func DefaultShell() string {
	for _, name := range defaultShells {
		if path := process.LookPath(name); path != "" {
			return path
		}
	}
	return ""
}
