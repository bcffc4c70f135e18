package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"holon/internal/procfs"
	"holon/runner/agent/view"
	"holon/runner/control/client"
	"holon/state"
)

// sighting is what was found of the daemon at one moment.
type sighting struct {
	meta    *metadata           // as it was written, whether or not it is true
	process *procfs.Process     // that is the daemon and lives; nil: there is none
	answer  *view.RuntimeStatus // what it says; nil: it does not answer
	silent  error               // why not
	stale   bool                // the socket exists and does not answer
}

// look finds the daemon, changing nothing. When what is at the path of the
// socket is not ours, that is an error with codeForeign.
func (d *Daemon) look(ctx context.Context) (sighting, error) {
	seen := sighting{meta: d.files.readMetadata()}
	if seen.meta != nil && seen.meta.Running() {
		seen.process = &seen.meta.Process
	}
	info, err := os.Lstat(d.opts.Socket)
	if errors.Is(err, fs.ErrNotExist) {
		seen.silent = errors.New("it has no control socket")
		return seen, nil
	}
	if err != nil {
		return seen, d.files.unusable(err)
	}
	if info.Mode().Type() != fs.ModeSocket {
		return seen, d.foreign("a file that is not a socket is there",
			"remove it, or choose another path with --socket")
	}
	asking, cancel := context.WithTimeout(ctx, d.opts.AskWithin)
	defer cancel()
	owner, err := d.askOwner(asking, &seen)
	if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, fs.ErrNotExist) {
		seen.stale, seen.silent = true, errors.New("no process listens on its control socket")
		return seen, nil
	}
	if ctx.Err() != nil {
		return seen, context.Cause(ctx)
	}
	if err != nil && (seen.process == nil || owner != 0 && seen.process.PID != owner) {
		return seen, d.foreign(fmt.Sprintf("another program, process %d, has it and does not answer as the daemon "+
			"of this home: %v", owner, err), "stop that program, or choose another path with --socket")
	}
	seen.silent = err
	return seen, nil
}

// askOwner asks the owner of the socket for its status, and returns which process that
// is. An owner that ends meanwhile is ignored: whether the socket is stale shows when
// it is gone.
func (d *Daemon) askOwner(ctx context.Context, seen *sighting) (owner int, err error) {
	for {
		if owner, err = listener(ctx, d.opts.Socket); err != nil {
			return owner, err
		}
		if err = d.ask(ctx, owner, seen); err == nil || owner == 0 {
			return owner, err
		}
		if st, gone := procfs.ReadStat(owner); gone == nil && st.Running() || !pause(ctx) {
			return owner, err
		}
	}
}

// ask asks the owner of the socket, whose process the kernel names, for its status.
// Only a daemon of this home that is that process counts.
func (d *Daemon) ask(ctx context.Context, owner int, seen *sighting) error {
	control := client.Unix(d.opts.Socket)
	defer control.Close()
	answer, err := control.RuntimeStatus(ctx)
	if err != nil {
		return err
	}
	info := answer.Runtime
	if info.HomeDir != d.opts.Home {
		return fmt.Errorf("it serves the home %.200q", info.HomeDir)
	}
	if owner != 0 && info.PID != owner {
		return fmt.Errorf("it says that it is process %d", info.PID)
	}
	process, err := procfs.Identify(info.PID)
	if err != nil {
		return err
	}
	if !process.Running() {
		return os.ErrProcessDone
	}
	seen.process, seen.answer = &process, &answer
	return nil
}

func (d *Daemon) foreign(what, remedy string) error {
	return &state.Error{Code: codeForeign, Param: "--socket",
		Message: fmt.Sprintf("%.200q is not the control socket of this home: %s", d.opts.Socket, what), Hint: remedy}
}

// heal removes what a daemon left that is gone. The caller holds the lock.
func (d *Daemon) heal(seen sighting) error {
	if seen.process != nil {
		return nil
	}
	if seen.stale {
		if err := d.files.remove(d.opts.Socket); err != nil {
			return err
		}
	}
	return d.files.remove(d.files.metadata())
}
