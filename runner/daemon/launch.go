package daemon

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"holon/internal/duration"
	"holon/internal/procfs"
	"holon/internal/visible"
	"holon/state"
)

// launch starts the process and waits until it is ready. One that does not get
// there is ended.
func (d *Daemon) launch(ctx context.Context) (sighting, error) {
	log, from, err := d.files.openLog()
	if err != nil {
		return sighting{}, err
	}
	defer log.Close()
	// The process outlives this command, so no context ends it.
	cmd := exec.Command(d.opts.Program, d.opts.Args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = "/", d.opts.Env, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // no terminal of ours is its terminal
	if err := cmd.Start(); err != nil {
		return sighting{}, &state.Error{Code: codeNotStarted, Param: "daemon", Message: "it cannot be started",
			Hint: "check that the program is there", Err: err}
	}
	process, err := procfs.Identify(cmd.Process.Pid)
	if err != nil { // it has ended already
		return sighting{}, d.died(cmd, from)
	}
	err = d.files.writeJSON(d.files.metadata(),
		metadata{Process: process, HomeDir: d.opts.Home, SocketPath: d.opts.Socket, LogPath: d.files.log(),
			ConfigFingerprint: d.opts.Fingerprint, StartedAt: time.Now().UTC()})
	var seen sighting
	if err == nil {
		seen, err = d.await(ctx, process)
	}
	if err == nil {
		return seen, cmd.Process.Release()
	}
	if !process.Running() {
		return seen, d.died(cmd, from)
	}
	// The process is ended even if ctx is the reason: no other caller would end it.
	d.kill(context.WithoutCancel(ctx), process)
	_ = cmd.Wait() // how it ended follows from what was done to it
	return seen, err
}

// await waits until a process that was just started is the daemon and is ready.
func (d *Daemon) await(ctx context.Context, process procfs.Process) (sighting, error) {
	deadline := time.Now().Add(d.opts.StartWithin)
	for {
		seen, err := d.look(ctx)
		if err != nil {
			return seen, err
		}
		if seen.answer != nil && seen.answer.Runtime.PID == process.PID && seen.answer.Runtime.Ready {
			return seen, nil
		}
		if !process.Running() {
			return seen, &state.Error{Code: codeNotStarted, Param: "daemon", Message: "it ended before it was ready",
				Hint: "look at: holon daemon logs"}
		}
		if time.Now().After(deadline) {
			return seen, &state.Error{Code: codeNotStarted, Param: "daemon",
				Message: fmt.Sprintf("it was not ready within %s", duration.Text(d.opts.StartWithin)),
				Hint:    "look at: holon daemon logs", Err: seen.silent}
		}
		if !pause(ctx) {
			return seen, context.Cause(ctx)
		}
	}
}

// awaitOther waits for a daemon that was started before and does not answer yet.
func (d *Daemon) awaitOther(ctx context.Context, seen sighting) (sighting, error) {
	pid := seen.process.PID
	found, err := d.await(ctx, *seen.process)
	if err == nil || found.process == nil { // it ended: there is none now
		return found, nil
	}
	if ctx.Err() != nil {
		return found, err
	}
	return found, &state.Error{Code: codeNotAnswering, Param: "daemon",
		Message: fmt.Sprintf("process %d is the daemon and does not answer", pid),
		Hint:    "replace it with: holon daemon restart; its log: holon daemon logs", Err: found.silent}
}

// died returns why a process ended before it was ready, as far as its log has it.
func (d *Daemon) died(cmd *exec.Cmd, from int64) error {
	reason := "it ended before it was ready"
	if err := cmd.Wait(); err != nil {
		reason += ", with " + err.Error()
	}
	lines, _, _ := d.files.tail(200, from) // without a log the reason is what there is
	for i := len(lines) - 1; i >= 0; i-- {
		if message, ok := strings.CutPrefix(lines[i], "holon: "); ok {
			reason += ": " + visible.OneLine(message, 500)
			break
		}
	}
	return &state.Error{Code: codeNotStarted, Param: "daemon", Message: reason, Hint: "look at: holon daemon logs"}
}
