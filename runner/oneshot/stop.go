package oneshot

import (
	"context"
	"errors"
	"holon/runner"
	"io/fs"
	"time"

	"golang.org/x/sys/unix"

	"holon/state"
	"holon/state/files"
)

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
		rec, err := runner.ReadRunRecord(e.Dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		waited := time.Since(begin)
		switch {
		case rec != nil && !asked:
			if asked = true; e.Manifest == nil { // else it is ending already
				if err := rec.Owner.Signal(unix.SIGTERM); err != nil {
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
			return nil, &runner.Error{Code: runner.CodeStillRunning, Param: "run",
				Message: "run " + id + " did not end in time",
				Hint:    "wait with holon ps, or kill its holon and use holon gc"}
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
