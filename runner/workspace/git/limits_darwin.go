package git

import (
	"fmt"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// start starts a process within the bound of its processor time. Nothing on macOS bounds the memory of a process.
func (g Runner) start(cmd *exec.Cmd) error {
	var own unix.Rlimit // which may be lower, and is not ours to raise
	if err := unix.Getrlimit(unix.RLIMIT_CPU, &own); err != nil {
		return fmt.Errorf("bound git: %w", err)
	}
	byShell(cmd, min(g.seconds(), own.Max))
	return cmd.Start()
}

// endWithParent does nothing: the system has no signal for the end of a parent.
func endWithParent(*syscall.SysProcAttr) {}
