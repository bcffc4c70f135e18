package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"holon/internal/peercred"
	"holon/responses/client"
)

// Process names a process for ever: its number may be reused, but not together
// with the tick at which it started, within one boot.
type Process struct {
	PID    int    `json:"pid"`
	Start  uint64 `json:"start_ticks"` // since boot, of /proc/PID/stat
	BootID string `json:"boot_id"`
}

// identify names the process that has a number now.
func identify(pid int) (Process, error) {
	start, alive, err := stat(pid)
	if err == nil && !alive {
		err = os.ErrProcessDone
	}
	if err != nil {
		return Process{}, err
	}
	boot, err := bootID()
	return Process{PID: pid, Start: start, BootID: boot}, err
}

// alive reports whether it still runs. One that ended and was not waited for by
// its parent does not.
func (p Process) alive() bool {
	boot, err := bootID()
	if err != nil || boot != p.BootID || p.PID <= 0 {
		return false
	}
	start, alive, err := stat(p.PID)
	return err == nil && alive && start == p.Start
}

// signal sends it a signal. The number is bound to a process before that is
// looked at, so that no other process can be hit.
func (p Process) signal(sig os.Signal) error {
	handle, err := os.FindProcess(p.PID)
	if err != nil {
		return fmt.Errorf("find process %d: %w", p.PID, err)
	}
	defer handle.Release()
	if !p.alive() {
		return nil
	}
	if err := handle.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("send %s to process %d: %w", sig, p.PID, err)
	}
	return nil
}

// gone waits until it has ended, at most so long.
func (p Process) gone(ctx context.Context, within time.Duration) bool {
	deadline := time.Now().Add(within)
	for p.alive() {
		if time.Now().After(deadline) || !pause(ctx) {
			return !p.alive()
		}
	}
	return true
}

// pause waits a moment between two looks; false: ctx has ended.
func pause(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(20 * time.Millisecond):
		return true
	}
}

// stat reads when a process was started and whether it still runs.
func stat(pid int) (start uint64, alive bool, err error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, false, fmt.Errorf("look at process %d: %w", pid, err)
	}
	return parseStat(data)
}

// parseStat reads a line of proc(5): the name, which may hold anything, ends with
// the last parenthesis.
func parseStat(data []byte) (start uint64, alive bool, err error) {
	const startTime = 22 - 3 // fields are counted from 1, and the state is the third
	at := bytes.LastIndexByte(data, ')')
	fields := strings.Fields(string(data[at+1:]))
	if at < 0 || len(fields) <= startTime {
		return 0, false, errors.New("the kernel tells nothing of the process")
	}
	start, err = strconv.ParseUint(fields[startTime], 10, 64)
	return start, fields[0] != "Z" && fields[0] != "X", err
}

func bootID() (string, error) {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(data)), err
}

// listener returns the process that serves the socket at path.
func listener(ctx context.Context, path string) (pid int, err error) {
	conn, err := client.DialSocket(ctx, path)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	return peercred.PID(conn)
}
