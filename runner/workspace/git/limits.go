package git

import (
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"holon/internal/duration"
)

// Bounds on a git process. Hostile content can make git slow or large: a tree that contains itself a million times,
// patterns that backtrack, files that are all renamed. Times are processor times unless stated otherwise, so
// that a slow disk or a busy machine has no effect.
const (
	maxGitMemory = 2 << 30 // private memory; files that git maps do not count; macOS keeps no such bound
	maxGitOutput = 256 << 20
	maxGitStderr = 8 << 10
	// wall time: git waits for a pipe in place of a file without using the processor
	maxGitTime           = 10 * time.Minute
	maxIgnoreTime        = 2 * time.Minute // the same for commands that read ignore rules
	defaultProcessorTime = 5 * time.Minute
	PackTime             = 2 * time.Minute // to pack objects or check a pack
)

// IgnoreTime bounds the commands that read ignore patterns, RenameTime a diff in which renamed files are looked for.
var (
	IgnoreTime = 20 * time.Second
	RenameTime = 3 * time.Second
)

// memorySettings make git stay below maxGitMemory where it can choose.
var memorySettings = []string{"core.packedGitLimit=512m", "core.deltaBaseCacheLimit=96m", "core.bigFileThreshold=256m",
	"pack.windowMemory=128m", "pack.deltaCacheSize=64m", "pack.threads=1"}

// passedLimit returns an error for the limit that ended a process, nil if none did.
func (g Runner) passedLimit(command string, exit *exec.ExitError, stderr string) error {
	status, ok := exit.Sys().(syscall.WaitStatus)
	if ok && status.Signaled() && status.Signal() == syscall.SIGXCPU {
		return overBudget(command, fmt.Sprintf("used more than %s of processor time", duration.Text(g.processor)))
	}
	// If a child of git was ended, git reports only this.
	if strings.Contains(stderr, "died of signal 24") {
		return overBudget(command, fmt.Sprintf("used more than %s of processor time", duration.Text(g.processor)))
	}
	texts := []string{"Out of memory, ", "out of memory", "Cannot allocate memory"}
	if slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(stderr, text) }) {
		return overBudget(command, fmt.Sprintf("needed more than %d MiB of memory", g.memory>>20))
	}
	return nil
}

func overBudget(command, what string) *Error {
	return &Error{Code: codeGitBudget, Param: command, Message: "git " + command + " " + what,
		Hint: "what it looked at is too large or made to be slow; leave it out, or name a smaller workspace"}
}

func IsOverBudget(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Code == codeGitBudget
}
