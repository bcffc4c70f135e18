package oneshot

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"holon/runner"
	"holon/runner/sessions"

	"golang.org/x/sys/unix"

	"holon/state"
	"holon/state/files"
)

// Stop ends a run and returns its manifest. The holon that holds it is asked to
// (as Ctrl-C does), and gets grace for it; then the container is killed beneath
// it, which it settles. A run without a holder is settled here. A run that has
// ended is success.
func (rc *Recovery) Stop(ctx context.Context, id string, grace time.Duration) (*state.Manifest, error) {
	runs := files.New(rc.Home)
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	s := stopping{Recovery: rc, begin: time.Now(), grace: grace}
	for {
		e, err := runs.Open(ctx, id)
		if err != nil {
			return nil, err
		}
		if !e.Live {
			m, err := rc.recover(ctx, id, recovery{stopped: true})
			switch {
			case state.IsCode(err, codeEnded): // it did so itself
				return e.Manifest, nil
			case !state.IsCode(err, state.CodeRunLive):
				return m, err
			}
		}
		if err := s.press(ctx, e); err != nil {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-poll.C:
		}
	}
}

// stopping is one call of Stop.
type stopping struct {
	*Recovery
	begin         time.Time
	grace         time.Duration
	asked, killed bool
}

// press takes the next step against the holder of a run: it asks it once, kills the container after the
// grace, and gives up when the holder does not settle the run after that.
func (s *stopping) press(ctx context.Context, e *files.Entry) error {
	rec, err := sessions.ReadRun(e.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	waited := time.Since(s.begin)
	switch {
	case rec != nil && !s.asked:
		s.asked = true
		if e.Manifest != nil { // it is ending already
			return nil
		}
		return rec.Owner.Signal(unix.SIGTERM)
	case rec != nil && !s.killed && waited > s.grace:
		s.killed = true
		return s.kill(ctx, e.Dir, rec)
	case waited > s.grace+collectGrace:
		return &runner.Error{Code: sessions.CodeStillRunning, Param: "run",
			Message: e.ID + " did not end in time", Hint: "wait with holon ps, or kill its holon " +
				"and use holon gc"}
	}
	return nil
}

// kill ends the containers of a run and its parts.
func (s *stopping) kill(ctx context.Context, dir string, rec *sessions.Record) error {
	running, err := handles(dir, rec)
	for _, r := range running {
		eng, engineErr := s.engine(r)
		if err = errors.Join(err, engineErr); engineErr == nil {
			err = errors.Join(err, eng.Stop(ctx, *r.Handle, 0))
		}
	}
	return err
}

// collectGrace is what a holon gets to collect a run whose container was killed.
const collectGrace = time.Minute
