package oneshot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"holon/responses/turns"
	"holon/runner"
	"holon/runner/engine"
	"holon/runner/gateway"
	"holon/runner/sessions"
	"holon/state"
	"holon/state/files"
)

// killedBefore is why a part of a run did not come to its end.
func killedBefore(what string) *runner.Error {
	return &runner.Error{Code: runner.CodeInterrupted, Message: "holon was killed before " + what,
		Hint: "start it again"}
}

// CheckRuns begins the ids of runs that are the checks of what no run made. Their parts have no ids of their own.
const CheckRuns = "run_check_"

// isAid reports whether a run is a check, or the judge of another. Nothing of them is collected.
func isAid(id string) bool {
	_, part := state.WholeOf(id)
	return part == state.PartCheck || part == state.PartJudge || strings.HasPrefix(id, CheckRuns)
}

// resumeParts brings the parts of a run to their end: checks and judges, and its attempts, if it has some. Then it is
// done itself.
func (rc *Recovery) resumeParts(ctx context.Context, run *files.Run, rec *sessions.Record, prior *state.Manifest,
	how recovery) (m *state.Manifest, done bool, err error) {
	held, err := sessions.Parts(run.Dir())
	// Its own may have begun, and not have a record yet.
	aids := []string{state.PartID(run.ID(), state.PartCheck), state.PartID(run.ID(), state.PartJudge)}
	for _, part := range held {
		if isAid(part.ID) {
			aids = append(aids, part.ID)
		}
	}
	for _, id := range aids {
		_, settleErr := rc.recover(ctx, id, recovery{})
		if !state.IsCode(settleErr, codeEnded) && !state.IsCode(settleErr, state.CodeRunNotFound) {
			err = errors.Join(err, settleErr)
		}
	}
	if err != nil || len(rec.Manifest.Attempts) == 0 {
		return nil, false, err
	}
	m, err = rc.resumeWhole(ctx, run, rec, prior, how)
	return m, true, err
}

// drop ends a check or a judge that was killed. Nothing of its tree is collected.
func (rc *Recovery) drop(ctx context.Context, run *files.Run, rec *sessions.Record, m *state.Manifest,
	eng engine.Engine) (*state.Manifest, error) {
	if m == nil {
		m = rec.Manifest
		m.Status, m.Outcome, m.ExitCode = state.StatusInterrupted, state.OutcomeFailure, state.OutcomeFailure.ExitCode()
		m.Error, m.CompletedAt = new(runner.Describe(killedBefore("it ended"))), turns.At(time.Now())
		if err := run.WriteManifest(m); err != nil {
			return nil, err
		}
	}
	return m, rc.sessions().Clear(ctx, sessions.OfRun(run.ID()), eng, rec.Keep)
}

// resumeWhole brings a run with attempts to its end: each of them is taken up as a run of its own.
func (rc *Recovery) resumeWhole(ctx context.Context, run *files.Run, rec *sessions.Record, prior *state.Manifest,
	how recovery) (*state.Manifest, error) {
	g := &group{run: run, sessions: rc.sessions(), secrets: rc.Secrets, prompt: rec.Prompt, manifest: rec.Manifest,
		recovered: true}
	if prior != nil {
		g.manifest = prior
	}
	attempts, whole := g.manifest.Attempts, *rc
	whole.pool = gateway.NewPool()
	for _, a := range attempts {
		if e, err := files.New(rc.Home).Open(ctx, a.RunID); err == nil && e.Manifest != nil && e.Manifest.ModelUsage != nil {
			whole.pool.Take(e.Manifest.ModelUsage.Usage)
		}
	}
	failures := make([]error, len(attempts))
	var all sync.WaitGroup
	for i := range attempts {
		all.Go(func() { failures[i] = whole.resumeAttempt(ctx, &attempts[i], how) })
	}
	all.Wait()
	if err := errors.Join(failures...); err != nil {
		return nil, err
	}
	if prior == nil {
		g.manifest.Winner = rank(attempts)
		cause := context.Cause(ctx)
		if how.stopped {
			cause = runner.ErrInterrupted
		}
		g.judge(cause)
	}
	return g.manifest, g.conclude(context.WithoutCancel(ctx))
}

func (rc *Recovery) resumeAttempt(ctx context.Context, a *state.Attempt, how recovery) error {
	part := *rc
	if part.Watch = nil; rc.WatchAttempt != nil {
		part.Watch = rc.WatchAttempt(a.Number)
	}
	m, err := part.recover(ctx, a.RunID, how)
	switch {
	case state.IsCode(err, codeEnded):
		e, err := files.New(rc.Home).Open(ctx, a.RunID)
		if err != nil {
			return err
		}
		m = e.Manifest
	case state.IsCode(err, state.CodeRunNotFound):
		if a.Status == "" {
			notBegun(a, &runner.Error{Code: runner.CodeNotStarted, Message: "holon was killed before it began",
				Hint: "start it again"})
		}
		return nil
	case err != nil:
		return fmt.Errorf("attempt %d: %w", a.Number, err)
	}
	if m != nil {
		describe(a, m)
	}
	return nil
}

// Attempts are those of a run, as far as its files say of them; none of a run that is its only one.
func Attempts(e *files.Entry) []state.Attempt {
	if e.Manifest != nil {
		return e.Manifest.Attempts
	}
	if rec, err := sessions.ReadRun(e.Dir); err == nil {
		return rec.Manifest.Attempts
	}
	return nil
}

// dirsOf are the directories of a run and its attempts, which landing puts its files in.
func dirsOf(dir string) []string {
	attempts, _ := filepath.Glob(filepath.Join(dir, state.AttemptsDir, "*")) // the pattern is ours
	return append([]string{dir}, attempts...)
}

// holds reports whether a run, or a part of it, holds something.
func holds(dir string) bool {
	parts, err := sessions.Parts(dir)
	if err != nil || len(parts) > 0 {
		return true
	}
	_, err = os.Lstat(filepath.Join(dir, state.SessionFile))
	return !errors.Is(err, fs.ErrNotExist)
}

// handles are the containers of a run and its parts.
func handles(dir string, rec *sessions.Record) (list []*sessions.Record, err error) {
	parts, err := sessions.Parts(dir)
	return slices.DeleteFunc(append(parts, rec), func(r *sessions.Record) bool { return r.Handle == nil }), err
}
