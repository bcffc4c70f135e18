package procfs

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"holon/internal/platform"
)

// ReadStat returns what identifies a process, and whether it is a zombie. The error wraps os.ErrNotExist when no
// process has this number.
func ReadStat(pid int) (Stat, error) {
	found, err := unix.SysctlKinfoProcSlice("kern.proc.pid", pid)
	if err == nil && len(found) == 0 {
		err = os.ErrNotExist
	}
	if err != nil {
		return Stat{}, fmt.Errorf("read the state of process %d: %w", pid, err)
	}
	const zombie = 5 // SZOMB of sys/proc.h
	p := found[0]
	st := Stat{PID: pid, Parent: int(p.Eproc.Ppid), Group: int(p.Eproc.Pgid), State: 'R', Threads: 1,
		Start: uint64(p.Proc.P_starttime.Nano()) / 1000}
	if p.Proc.P_stat == zombie {
		st.State = 'Z'
	}
	return st, nil
}

// BootID identifies the present boot of the kernel.
func BootID() (string, error) {
	id, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return "", fmt.Errorf("read the boot ID: %w", err)
	}
	return id, nil
}

// SinceBoot is the present time in the unit of Stat.Start.
func SinceBoot() uint64 { return uint64(time.Now().UnixMicro()) }

// ReadFile fails. The error is not os.ErrNotExist, which would say of a process that it has ended.
func ReadFile(path string, _ int) ([]byte, error) {
	return nil, platform.NeedsLinux{What: "reading " + path}
}
