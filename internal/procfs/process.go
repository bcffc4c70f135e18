package procfs

import (
	"errors"
	"fmt"
	"os"
)

// ErrOther reports that a number belongs to another process by now.
var ErrOther = errors.New("another process has this number")

// Process identifies a process of this machine for good: a number may be used
// again, but not together with the tick at which it was given out, within one
// boot. Two values are equal if and only if they identify the same process.
type Process struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start_ticks"` // Stat.Start
	Boot  string `json:"boot_id"`
}

// Identify returns the identity of the process that has this number now, even of
// a zombie. The error wraps os.ErrNotExist when there is none.
func Identify(pid int) (Process, error) {
	st, err := ReadStat(pid)
	if err != nil {
		return Process{}, err
	}
	boot, err := BootID()
	if err != nil {
		return Process{}, err
	}
	return Process{PID: pid, Start: st.Start, Boot: boot}, nil
}

// Running reports whether the process has not exited.
func (p Process) Running() bool {
	st, err := ReadStat(p.PID)
	if err != nil || st.Start != p.Start || !st.Running() {
		return false
	}
	boot, err := BootID()
	return err == nil && boot == p.Boot
}

// Signal sends a signal to the process. On Linux the number is bound to a process
// before the identity is compared, so that no other process can get the signal; on
// macOS one could that got the number in the moment after that. The error
// wraps os.ErrProcessDone when no process has the number any more, and ErrOther
// when another one has it.
func (p Process) Signal(sig os.Signal) error {
	handle, err := os.FindProcess(p.PID)
	if err != nil {
		return fmt.Errorf("find process %d: %w", p.PID, err)
	}
	defer handle.Release()
	now, err := Identify(p.PID)
	switch {
	case errors.Is(err, os.ErrNotExist):
		err = os.ErrProcessDone
	case err == nil && now != p:
		err = ErrOther
	case err == nil:
		err = handle.Signal(sig)
	}
	if err != nil {
		return fmt.Errorf("send %s to process %d: %w", sig, p.PID, err)
	}
	return nil
}
