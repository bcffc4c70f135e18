package runner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"holon/internal/procfs"
	"holon/state"
	"holon/state/files"
)

// CodeStillRunning is the code of an error about a run that did not stop in time.
const CodeStillRunning Code = "still_running"

// Stop ends a run and returns its manifest. The holon that holds it is asked to
// (as Ctrl-C does), and gets grace for it; then the container is killed beneath
// it, which it settles. A run that nobody holds is settled here. A run that has
// ended is success.
func (rc *Recovery) Stop(ctx context.Context, id string, grace time.Duration) (*state.Manifest, error) {
	runs := files.New(rc.Home)
	begin, poll := time.Now(), time.NewTicker(50*time.Millisecond)
	defer poll.Stop()
	for asked, killed := false, false; ; {
		e, err := runs.Open(ctx, id)
		if err != nil {
			return nil, err
		}
		if !e.Live {
			m, err := rc.Settle(ctx, id)
			switch {
			case state.IsCode(err, CodeEnded): // it did so itself
				return e.Manifest, nil
			case !state.IsCode(err, state.CodeRunLive):
				return m, err
			}
		}
		rec, err := readRunRecord(e.Dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		waited := time.Since(begin)
		switch {
		case rec != nil && !asked:
			if asked = true; e.Manifest == nil { // else it is ending already
				if err := rec.Owner.signal(unix.SIGTERM); err != nil {
					return nil, err
				}
			}
		case rec != nil && !killed && waited > grace && rec.Handle != nil:
			killed = true
			eng, err := rc.engine(rec)
			if err == nil {
				err = eng.Stop(ctx, *rec.Handle, 0)
			}
			if err != nil {
				return nil, err
			}
		case waited > grace+collectGrace:
			return nil, &Error{Code: CodeStillRunning, Param: "run", Message: "run " + id + " did not end in time",
				Hint: "wait with holon ps, or kill its holon and use holon gc"}
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-poll.C:
		}
	}
}

// collectGrace is what a holon gets to collect a run whose container was killed.
const collectGrace = time.Minute

// signal sends sig to the process, unless it has ended: the lease of its run
// shows that.
func (p Process) signal(sig os.Signal) error {
	err := procfs.Process(p).Signal(sig)
	switch {
	case errors.Is(err, os.ErrProcessDone):
		return nil
	case errors.Is(err, procfs.ErrOther):
		return &Error{Code: CodeStillRunning, Param: "run",
			Message: fmt.Sprintf("the run is held by a process that cannot be seen from here (%d)", p.PID),
			Hint:    "stop it where it was started"}
	}
	return err
}
