package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"holon/internal/procfs"
	"holon/internal/unixsocket"
	"holon/runner/control/client"
	"holon/runner/control/wire"
	"holon/state"
)

// end ends the daemon that was seen, and returns how.
func (d *Daemon) end(ctx context.Context, seen sighting) (how string, err error) {
	process := *seen.process
	if seen.answer != nil && d.askToEnd(ctx) && gone(ctx, process, d.opts.StopWithin) {
		return Graceful, nil
	}
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if how = d.kill(ctx, process); how == "" {
		return "", &state.Error{Code: codeNotStopped, Param: "daemon",
			Message: fmt.Sprintf("process %d does not end", process.PID), Hint: "look at: holon daemon logs"}
	}
	return how, nil
}

// askToEnd reports whether the daemon accepted to end. A connection that breaks is an end that
// was quicker than its answer.
func (d *Daemon) askToEnd(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, d.opts.AskWithin)
	defer cancel()
	control := client.Unix(d.opts.Socket)
	defer control.Close()
	err := control.Shutdown(ctx)
	return err == nil || state.IsCode(err, wire.CodeDisconnected)
}

// kill ends a process by signals: first the one that it can follow in good
// order. "": it did not end.
func (d *Daemon) kill(ctx context.Context, process procfs.Process) (how string) {
	for _, with := range []struct {
		signal syscall.Signal
		how    string
	}{{syscall.SIGTERM, Terminated}, {syscall.SIGKILL, Killed}} {
		if signal(process, with.signal) == nil && gone(ctx, process, d.opts.KillWithin) {
			return with.how
		}
	}
	return ""
}

// signal sends a signal to the process, unless it has ended.
func signal(p procfs.Process, sig os.Signal) error {
	err := p.Signal(sig)
	if errors.Is(err, os.ErrProcessDone) || errors.Is(err, procfs.ErrOther) {
		return nil
	}
	return err
}

// gone waits until a process has ended, at most within, and reports whether it did.
func gone(ctx context.Context, p procfs.Process, within time.Duration) bool {
	deadline := time.Now().Add(within)
	for p.Running() {
		if time.Now().After(deadline) || !pause(ctx) {
			return !p.Running()
		}
	}
	return true
}

// pause waits between two polls. It returns false when ctx has ended.
func pause(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(20 * time.Millisecond):
		return true
	}
}

// listener returns the process that serves the socket at path.
func listener(ctx context.Context, path string) (pid int, err error) {
	conn, err := unixsocket.Dial(ctx, path)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	return unixsocket.PeerPID(conn)
}
