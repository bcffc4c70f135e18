package git

import (
	"errors"
	"fmt"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// start starts a process and sets its bounds.
func (g Runner) start(cmd *exec.Cmd) error {
	if err := cmd.Start(); err != nil {
		return err
	}
	err := g.limit(cmd.Process.Pid)
	if err != nil {
		err = errors.Join(err, cmd.Cancel(), cmd.Wait())
	}
	return err
}

// limit sets the bounds of a process that has just started, and with them those of the processes that it starts.
func (g Runner) limit(pid int) error {
	seconds := g.seconds()
	for resource, limit := range map[int]unix.Rlimit{
		unix.RLIMIT_CPU:  {Cur: seconds, Max: seconds + 5},
		unix.RLIMIT_DATA: {Cur: g.memory, Max: g.memory},
		unix.RLIMIT_CORE: {},
	} {
		var own unix.Rlimit // which may be lower, and is not ours to raise
		if err := unix.Getrlimit(resource, &own); err != nil {
			return fmt.Errorf("bound git: %w", err)
		}
		limit.Cur, limit.Max = min(limit.Cur, own.Max), min(limit.Max, own.Max)
		err := unix.Prlimit(pid, resource, &limit, nil)
		if err != nil && !errors.Is(err, unix.ESRCH) { // ended already
			return fmt.Errorf("bound git: %w", err)
		}
	}
	return nil
}

func endWithParent(attributes *syscall.SysProcAttr) { attributes.Pdeathsig = syscall.SIGKILL }
