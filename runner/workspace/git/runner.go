// Package git runs git and reads repositories of users, which may be hostile.
//
//	Locate ─▶ UserRepository (layout, settings, HEAD) ─▶ View ─▶ Runner
//
// Invariants. Git starts in one place (Runner), with an environment and settings of ours, within bounds of time, memory
// (not on macOS) and output. It never loads configuration that a user, a repository or a container wrote: those files
// are read as data, and git gets a View, a git directory of ours that borrows the repository's objects. A repository
// is used only where its parts belong to the caller and name each other. Nothing in a user's repository is written
// except through the Runner that View.References returns.
//
// Not promised: a consistent reading of a repository in which another program is at work. A View is not for concurrent
// changes.
package git

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"holon/internal/duration"
)

// hardening are the settings of every git process: git runs no program that a configuration names, fetches nothing, and
// starts no work in the background.
var hardening = []string{
	"safe.bareRepository=explicit", "core.hooksPath=/dev/null", "core.fsmonitor=false", "core.untrackedCache=false",
	"core.splitIndex=false", "core.safecrlf=false", "core.pager=cat", "core.askPass=", "credential.helper=",
	"protocol.allow=never", "diff.external=", "gc.auto=0", "maintenance.auto=false", "rerere.enabled=false",
	"submodule.recurse=false", "core.looseCompression=1", "pack.compression=1", "core.protectHFS=true",
	"core.protectNTFS=true",
}

// A Runner starts git processes. NewRunner is its only constructor.
type Runner struct {
	Dir       string        // where the process starts
	env       []string      // its whole environment
	config    []string      // settings beyond hardening
	processor time.Duration // that it may use
	memory    uint64        // bytes, likewise
	output    int           // bytes that Run returns; 0: maxGitOutput
	clock     time.Duration // bound of the time on the clock; 0: maxGitTime
	bound     bool          // the process ends with this one
}

// NewRunner returns a Runner with gitDir as git's repository. gitDir is a directory that only we write, or
// does not exist. So git looks for no other repository and loads no configuration except that of gitDir and
// of the command line: neither the system's, nor the user's, nor that of a user's repository.
func NewRunner(gitDir string, env ...string) Runner {
	own := append(InheritedEnv(keepForHost), fixedEnv...)
	// No file can be below /dev/null, and git does not warn about that.
	own = append(own, "GIT_DIR="+gitDir, "HOME=/dev/null", "XDG_CONFIG_HOME=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_ATTR_NOSYSTEM=1")
	return Runner{Dir: gitDir, env: append(own, env...), processor: defaultProcessorTime, memory: maxGitMemory}
}

// Version returns the version of the host's git program, such as "2.39.5".
// Errors are *Error with CodeGitMissing where there is none.
func Version(ctx context.Context) (string, error) {
	g := NewRunner("/nonexistent")
	g.Dir = "/"
	printed, err := g.Line(ctx, "version")
	if err != nil {
		return "", WithCode("run git", err)
	}
	return strings.TrimPrefix(printed, "git version "), nil
}

func (g Runner) With(env ...string) Runner {
	g.env = append(g.env[:len(g.env):len(g.env)], env...)
	return g
}

func (g Runner) WithConfig(config ...string) Runner {
	g.config = append(g.config[:len(g.config):len(g.config)], config...)
	return g
}

// WithCPUTime limits the processor time.
func (g Runner) WithCPUTime(limit time.Duration) Runner {
	g.processor = limit
	return g
}

// WithOutput limits what Run returns, in bytes.
func (g Runner) WithOutput(limit int) Runner {
	g.output = limit
	return g
}

// EndingWithParent kills a command of Run or Stream when this process ends, where the system can. It is not for
// commands that write to a user's repository, whose locks would stay.
func (g Runner) EndingWithParent() Runner {
	g.bound = true
	return g
}

var fixedEnv = []string{
	"LC_ALL=C", "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0", "GIT_NO_REPLACE_OBJECTS=1",
	"GIT_NO_LAZY_FETCH=1", "GIT_PAGER=cat", "GIT_EDITOR=false", "GIT_ASKPASS=",
}

func keepForHost(name string) bool { return name == "PATH" || name == "TMPDIR" }

// InheritedEnv returns the variables of this process that keep accepts, to pass them to git.
func InheritedEnv(keep func(name string) bool) []string {
	var kept []string
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); keep(name) {
			kept = append(kept, variable)
		}
	}
	return kept
}

// Run returns what the command printed.
func (g Runner) Run(ctx context.Context, stdin io.Reader, args ...string) ([]byte, error) {
	out := &boundedBuffer{limit: cmp.Or(g.output, maxGitOutput)}
	err := g.Stream(ctx, stdin, out, args...)
	if out.passed {
		err = overBudget(args[0], fmt.Sprintf("printed more than %d MiB", out.limit>>20))
	}
	return out.kept.Bytes(), err
}

// Line returns the first line that the command printed, without its end.
func (g Runner) Line(ctx context.Context, args ...string) (string, error) {
	out, err := g.Run(ctx, nil, args...)
	first, _, _ := bytes.Cut(out, []byte("\n"))
	return string(first), err
}

// Stream copies what the command prints to stdout.
func (g Runner) Stream(ctx context.Context, stdin io.Reader, stdout io.Writer, args ...string) error {
	clock := cmp.Or(g.clock, maxGitTime)
	ctx, cancel := context.WithTimeoutCause(ctx, clock,
		overBudget(args[0], fmt.Sprintf("did not end within %s", duration.Text(clock))))
	defer cancel()
	cmd, stderr := g.command(ctx, args)
	cmd.Stdin, cmd.Stdout = stdin, stdout
	if g.bound { // to the thread that starts it, which must not end before it
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		endWithParent(cmd.SysProcAttr)
	}
	err := g.begin(cmd)
	if err == nil {
		err = cmd.Wait()
	}
	return g.result(ctx, args, err, stderr)
}

// command prepares a process in a group of its own, which dies as a whole when ctx ends.
func (g Runner) command(ctx context.Context, args []string) (*exec.Cmd, *headBuffer) {
	var full []string
	for _, setting := range slices.Concat(hardening, memorySettings, g.config) {
		full = append(full, "-c", setting)
	}
	cmd := exec.CommandContext(ctx, "git", append(full, args...)...)
	cmd.Dir, cmd.Env = g.Dir, g.env
	stderr := &headBuffer{}
	cmd.Stderr = stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	return cmd, stderr
}

// begin starts a process within its limits.
func (g Runner) begin(cmd *exec.Cmd) error {
	if g.processor == 0 {
		return errors.New("the Runner was not made by NewRunner")
	}
	return g.start(cmd)
}

// A Process is a running git command with open pipes. It is not for concurrent use, except that one goroutine may write
// while another reads.
type Process struct {
	ctx    context.Context // of this process only; its end kills the process
	git    Runner
	args   []string
	cmd    *exec.Cmd
	In     *bufio.Writer
	Out    *bufio.Reader
	stdin  io.Closer
	stderr *headBuffer
}

// Start begins a command; the caller must call close.
func (g Runner) Start(ctx context.Context, args ...string) (*Process, error) {
	cmd, stderr := g.command(ctx, args)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := g.begin(cmd); err != nil {
		return nil, fmt.Errorf("start git %s: %w", args[0], err)
	}
	return &Process{ctx: ctx, git: g, args: args, cmd: cmd, In: bufio.NewWriterSize(stdin, 64<<10),
		Out: bufio.NewReaderSize(stdout, 64<<10), stdin: stdin, stderr: stderr}, nil
}

// FinishInput flushes and closes the input.
func (p *Process) FinishInput() error {
	return errors.Join(p.In.Flush(), p.stdin.Close())
}

// Kill ends the process at once; close must still be called.
func (p *Process) Kill() { _ = p.cmd.Cancel() }

// Close ends the process and returns why it failed, if it did. An error of git is worth more than the broken pipe it
// caused, so callers return close's error before their own.
func (p *Process) Close() error {
	flushed := p.In.Flush()
	p.stdin.Close() // closing twice is harmless
	io.Copy(io.Discard, p.Out)
	err := p.git.result(p.ctx, p.args, p.cmd.Wait(), p.stderr)
	if err == nil && flushed != nil && !errors.Is(flushed, os.ErrClosed) {
		err = flushed
	}
	return err
}

// ExitError is the failure of a git process.
type ExitError struct {
	command string
	Exit    int    // -1 when a signal ended it
	Stderr  string // its beginning, trimmed
	Cause   error  // the context's or a passed limit's, when that is why it ended
}

func (e *ExitError) Error() string {
	if e.Cause != nil {
		return fmt.Sprintf("git %s: %v", e.command, e.Cause)
	}
	how := fmt.Sprintf("exit %d", e.Exit)
	if e.Exit < 0 {
		how = "it was killed"
	}
	if first := firstLine(e.Stderr); first != "" {
		how += ": " + first
	}
	return "git " + e.command + ": " + how
}

func (e *ExitError) Unwrap() error { return e.Cause }

func (e *ExitError) missesObjects() bool {
	for _, text := range []string{"unable to read", "bad object", "Needed a single revision",
		"missing blob", "could not read object", "not a valid object", "promisor"} {
		if strings.Contains(e.Stderr, text) {
			return true
		}
	}
	return false
}

func (g Runner) result(ctx context.Context, args []string, err error, stderr *headBuffer) error {
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); cause != nil {
		return &ExitError{command: args[0], Exit: -1, Cause: cause}
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		failed := &ExitError{command: args[0], Exit: exit.ExitCode(), Stderr: stderr.String()}
		if passed := g.passedLimit(args[0], exit, failed.Stderr); passed != nil {
			failed.Cause = passed
		}
		return failed
	}
	return fmt.Errorf("git %s: %w", args[0], err)
}

func IsCancelled(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

func firstLine(text string) string {
	first, _, _ := strings.Cut(text, "\n")
	return first
}

// boundedBuffer fails instead of growing beyond its limit. The buffer is not embedded, because io.Copy would use its
// ReadFrom, which has no limit.
type boundedBuffer struct {
	kept   bytes.Buffer
	limit  int
	passed bool
}

func (b *boundedBuffer) Write(p []byte) (int, error) {
	if b.passed = b.kept.Len()+len(p) > b.limit; b.passed {
		return 0, io.ErrShortBuffer
	}
	return b.kept.Write(p)
}

// headBuffer keeps the beginning of what is written and drops the rest.
type headBuffer struct{ kept []byte }

func (b *headBuffer) Write(p []byte) (int, error) {
	b.kept = append(b.kept, p[:min(len(p), maxGitStderr-len(b.kept))]...)
	return len(p), nil
}

func (b *headBuffer) String() string { return strings.TrimSpace(string(b.kept)) }
