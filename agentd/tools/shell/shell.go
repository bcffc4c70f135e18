// Package shell is the ExecCommand tool: one shell command, run to its end.
//
// A command that fails is a completed command: its exit status is a result. An
// error means that it did not run or did not end by itself. The invariant: the
// raw bytes of both streams are in the log files (within the supervisor's cap),
// and previews say what they leave out and what they replaced, so that a model
// is never shown something that was not printed.
//
// It does not confine the command and does not promise an order between the two
// streams. Nothing that a command leaves running outlives it.
package shell

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"golang.org/x/sys/unix"

	"holon/agentd/process"
	"holon/agentd/tools"
)

// Name is the tool's public name.
const Name = "ExecCommand"

// Kinds of errors of this tool beside those of package tools.
const (
	KindTimeout = "command_timeout"
	KindSpawn   = "command_spawn_failed"
	KindWorkdir = "workdir_not_found"
)

// Bounds of the arguments.
const (
	DefaultTimeout = 120 * time.Second
	MaxTimeout     = time.Hour
	// MaxCommandBytes stays below the kernel's limit of 128 KiB for one argument.
	MaxCommandBytes = 120_000
)

// shells are the programs that understand -c, and -l for a login shell.
var shells = []string{"sh", "bash", "dash", "ash", "zsh", "ksh", "mksh"}

// Runner starts commands; *process.Supervisor is one.
type Runner interface {
	Run(ctx context.Context, c process.Command) (process.Result, error)
}

// Args are the arguments of ExecCommand.
type Args struct {
	Cmd             string `json:"cmd" jsonschema:"the shell command; several lines are allowed"`
	Workdir         string `json:"workdir,omitempty" jsonschema:"directory to run in, relative to the root of the working tree (the default)"`
	Shell           string `json:"shell,omitempty" jsonschema:"shell to use, such as sh, bash or zsh, by name or absolute path; default bash, or sh where there is no bash"`
	Login           bool   `json:"login,omitempty" jsonschema:"start the shell as a login shell, which reads the profile"`
	TimeoutMS       int    `json:"timeout_ms,omitempty" jsonschema:"end the command after this many milliseconds; default 120000"`
	MaxOutputTokens int    `json:"max_output_tokens,omitempty" jsonschema:"how much of the output to show, in tokens; the middle is left out of more; default 8000"`
}

const description = `Runs a shell command in the working tree and returns its exit status and output.
Standard input is empty, there is no terminal, and nobody can answer a prompt. Processes left in the background are ended when the command returns.
Prefer rg --files, rg -n, sed -n START,ENDp, head and tail over printing whole files. Long output is shown by its beginning and end, and the full output is kept in a file that the result names.`

// Tool is ExecCommand. It is safe for concurrent use.
type Tool struct {
	runner Runner
	def    tools.Definition
}

// New returns the tool on top of runner.
func New(runner Runner) (*Tool, error) {
	num := func(v float64) *float64 { return &v }
	schema, err := tools.Derive[Args](map[string]func(*jsonschema.Schema){
		"cmd": func(s *jsonschema.Schema) { s.MinLength = jsonschema.Ptr(1) },
		"timeout_ms": func(s *jsonschema.Schema) {
			s.Minimum, s.Maximum = num(1), num(float64(MaxTimeout.Milliseconds()))
		},
		"max_output_tokens": func(s *jsonschema.Schema) { s.Minimum = num(1) },
	})
	if err != nil {
		return nil, err
	}
	return &Tool{runner: runner, def: tools.Definition{Name: Name, Description: description, Parameters: schema}}, nil
}

// Definition implements tools.Tool.
func (t *Tool) Definition() tools.Definition { return t.def }

// Run implements tools.Tool.
func (t *Tool) Run(ctx context.Context, env tools.Env, call tools.Call) tools.Output {
	args, bad := tools.Decode[Args](call)
	if bad != nil {
		return tools.Fail(bad)
	}
	if bad := args.check(); bad != nil {
		return tools.Fail(bad)
	}
	dir, bad := workdir(env.WorkDir, args.Workdir)
	if bad != nil {
		return tools.Fail(bad)
	}
	done := complete{args: args, tokens: env.Policy.Budget(args.MaxOutputTokens)}
	cmd, err := t.command(env, args, dir, done.tokens)
	if err != nil {
		return tools.Fail(&tools.Error{Kind: tools.KindInternal, Message: "the log files of the command cannot be made: " + err.Error(), Retryable: true,
			RecoveryHint: "the output directory may be full or gone; report this to the operator if it stays"})
	}
	done.result, err = t.start(ctx, cmd, args)
	if err != nil {
		return tools.Fail(spawnError(err, args, dir))
	}
	return done.output(env)
}

func (a Args) check() *tools.Error {
	if len(a.Cmd) > MaxCommandBytes {
		return tools.InvalidInput("cmd", fmt.Sprintf("the command is %d bytes; the limit is %d", len(a.Cmd), MaxCommandBytes),
			"write long scripts or data to a file first, with ApplyPatch, and run that")
	}
	if strings.ContainsRune(a.Cmd, 0) {
		return tools.InvalidInput("cmd", "the command contains a NUL character", "write it as \\0 for the program that shall see it")
	}
	if strings.TrimSpace(a.Cmd) == "" {
		return tools.InvalidInput("cmd", "the command is blank", "give the command to run")
	}
	if a.Shell != "" {
		named := slices.Contains(shells, filepath.Base(a.Shell))
		if !named || strings.Contains(a.Shell, "/") && !filepath.IsAbs(a.Shell) {
			return tools.InvalidInput("shell", fmt.Sprintf("%q is not a shell this tool can use", tools.Clip(a.Shell, 100)),
				"use one of "+strings.Join(shells, ", ")+", or its absolute path, or leave it out")
		}
	}
	return nil
}

// workdir resolves the wish for a directory. The check keeps the model's
// picture of where it is right; it is not what confines a command.
func workdir(tree, wish string) (string, *tools.Error) {
	rel := filepath.Clean(wish)
	if filepath.IsAbs(rel) {
		if r, err := filepath.Rel(tree, rel); err == nil {
			rel = r
		}
	}
	violation := &tools.Error{
		Kind: tools.KindRootViolation, Message: "requested working directory is outside the current execution root",
		Details:      map[string]any{"workdir": tools.Clip(wish, 300), "field": "workdir"},
		RecoveryHint: "omit workdir or use a relative path inside the active workspace",
	}
	if !filepath.IsLocal(rel) {
		return "", violation
	}
	root, err := os.OpenRoot(tree)
	if err != nil {
		return "", &tools.Error{Kind: KindWorkdir, Message: "the working tree cannot be opened: " + err.Error(), RecoveryHint: "report this to the operator"}
	}
	defer root.Close()
	fi, err := root.Stat(rel)
	missing := &tools.Error{
		Kind: KindWorkdir, Details: violation.Details,
		RecoveryHint: "omit workdir, or list the directories that exist, for example with: ls -d */",
	}
	switch {
	case err == nil && fi.IsDir():
		return filepath.Join(tree, rel), nil
	case err == nil:
		missing.Message = "requested working directory is not a directory"
	case escapes(err):
		return "", violation
	case errors.Is(err, fs.ErrNotExist):
		missing.Message = "requested working directory does not exist"
	default:
		missing.Message = "requested working directory cannot be entered: " + errors.Unwrap(err).Error()
	}
	return "", missing
}

// escapes reports whether os.Root refused to follow a path. Its error for that
// is not exported, but every other one comes from the system.
func escapes(err error) bool {
	_, system := errors.AsType[unix.Errno](err)
	return !system
}

func (t *Tool) command(env tools.Env, args Args, dir string, tokens int) (process.Command, error) {
	stdout, err := env.Artifacts.Reserve(stdoutLog)
	if err != nil {
		return process.Command{}, err
	}
	stderr, err := env.Artifacts.Reserve(stderrLog)
	if err != nil {
		return process.Command{}, err
	}
	timeout := DefaultTimeout
	if args.TimeoutMS > 0 {
		timeout = time.Duration(args.TimeoutMS) * time.Millisecond
	}
	return process.Command{
		Dir: dir, Env: append(slices.Clone(env.Environ), "PWD="+dir), Timeout: timeout,
		// Either end alone may have to fill the preview.
		KeepBytes:  previewBytes(tokens),
		StdoutPath: stdout, StderrPath: stderr,
	}, nil
}

// start runs the command with the shell asked for, or with the best there is.
func (t *Tool) start(ctx context.Context, c process.Command, args Args) (process.Result, error) {
	flag := "-c"
	if args.Login {
		flag = "-lc"
	}
	candidates := []string{"bash", "sh"}
	if args.Shell != "" {
		candidates = []string{args.Shell}
	}
	var res process.Result
	var err error
	for _, sh := range candidates {
		c.Argv = []string{sh, flag, args.Cmd}
		res, err = t.runner.Run(ctx, c)
		if start, ok := errors.AsType[*process.StartError](err); !ok || start.Op != "find" {
			break
		}
	}
	return res, err
}

func spawnError(err error, args Args, dir string) *tools.Error {
	e := &tools.Error{
		Kind: KindSpawn, Message: "the command could not be started: " + err.Error(),
		Details: map[string]any{"cmd": tools.Clip(args.Cmd, 300), "workdir": dir},
	}
	switch start, _ := errors.AsType[*process.StartError](err); {
	case errors.Is(err, process.ErrClosed):
		e.Kind, e.RecoveryHint = tools.KindCanceled, "the runtime is shutting down; do not start anything"
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.ENOMEM):
		e.Retryable, e.RecoveryHint = true, "the limit of processes or memory is reached; try again with less at once"
	case start != nil && start.Op == "find":
		e.Details["field"], e.RecoveryHint = "shell", "this shell is not installed; leave shell out to use the default"
	default:
		e.RecoveryHint = "check that the command, the shell and the directory exist"
	}
	return e
}

// Render implements tools.Renderer.
func (t *Tool) Render(canonical tools.Result, policy tools.RenderPolicy) string {
	var r Result
	if err := json.Unmarshal(canonical.Result, &r); err != nil {
		return canonical.SummaryText
	}
	return r.render(canonical.SummaryText, policy)
}
