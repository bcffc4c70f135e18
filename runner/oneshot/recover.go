package oneshot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"holon/internal/visible"
	"holon/runner"

	"holon/internal/redact"
	"holon/responses/turns"
	"holon/runner/engine"
	"holon/runner/gateway"
	"holon/runner/sessions"
	"holon/runner/telemetry"
	"holon/runner/workspace"
	"holon/runner/workspace/git"
	"holon/state"
	"holon/state/files"
)

// Recovery takes up and settles runs whose holon was killed. A run is its own
// from the moment on that it has the lease: of several callers, one does it.
// Nothing is ever executed again but a check that was cut off.
type Recovery struct {
	Home      state.Home
	Borrowing git.Borrowing // of the repositories that results are checked out in
	Engines   Engines
	Engine    string // of the settings: a collection looks for its containers, too
	// Gateway, for Attach, makes what the models of a run on the directory
	// workspace need; nil for nothing.
	Gateway func(ctx context.Context, refs []string, workspace string) (*gateway.Gateway, error)
	Version string
	Watch   Watcher // nil for none
	// WatchAttempt, for Attach, is Watch of an attempt; nil for none.
	WatchAttempt func(number int) Watcher
	pool         *gateway.Pool // of the attempts; nil for other runs

	Secrets *redact.Set // known values that no record may show; nil for none
	Log     *slog.Logger
	// Telemetry tells of a turn that Attach watches to its end; nil for none.
	Telemetry *telemetry.Exporter
}

// Attach goes on with a run as if its holon had not been killed: while its
// container runs, its sockets are served again and its turn is watched to the
// end; then, or when the container is gone, it is settled. The manifest is
// returned as [Run.Do] does. A run that is alive is CodeRunLive, one that
// has ended codeEnded.
func (rc *Recovery) Attach(ctx context.Context, id string) (*state.Manifest, error) {
	return rc.recover(ctx, id, recovery{follow: true})
}

// Settle ends a run whose holon was killed: it stops the container, collects the results of the turn, and completes
// record and manifest.
func (rc *Recovery) Settle(ctx context.Context, id string) (*state.Manifest, error) {
	return rc.recover(ctx, id, recovery{})
}

// codeEnded is the code of an error about a run that has an end already and
// holds nothing.
const codeEnded runner.Code = "run_ended"

// recovery is how a run is taken up.
type recovery struct {
	follow  bool // to its end
	stopped bool // somebody ends it
}

func (rc *Recovery) recover(ctx context.Context, id string, how recovery) (*state.Manifest, error) {
	run, err := files.New(rc.Home).Take(ctx, id)
	if err != nil {
		return nil, err
	}
	defer run.Close() // frees the lease; the manifest is written by then
	entry, err := files.New(rc.Home).Open(ctx, id)
	if err != nil {
		return nil, err
	}
	if entry.Damaged { // it may be of another version, or edited by hand, and must not be lost
		return nil, &state.Error{Code: state.CodeManifestInvalid, Param: "run", Err: entry.Problem,
			Message: id + " has a manifest that cannot be read",
			Hint:    "correct or remove " + filepath.Join(entry.Dir, state.ManifestFile)}
	}
	rec, err := sessions.ReadRun(run.Dir())
	switch {
	case errors.Is(err, fs.ErrNotExist) && entry.Manifest != nil:
		return nil, &runner.Error{Code: codeEnded, Param: "run",
			Message: id + " has ended: " + string(entry.Manifest.Status),
			Hint:    "see its results in " + entry.OutputDir()}
	case errors.Is(err, fs.ErrNotExist):
		return rc.unbegun(ctx, run)
	case err != nil:
		return nil, err
	}
	return rc.resume(ctx, run, rec, entry.Manifest, how)
}

// resume finishes a run that holds something, whose lease the caller has. prior is the manifest that it has, or nil.
func (rc *Recovery) resume(ctx context.Context, run *files.Run, rec *sessions.Record, prior *state.Manifest,
	how recovery) (*state.Manifest, error) {
	eng, err := rc.engine(rec)
	if err != nil {
		return nil, err
	}
	if isAid(run.ID()) {
		return rc.drop(ctx, run, rec, prior, eng)
	}
	if m, done, err := rc.resumeParts(ctx, run, rec, prior, how); done || err != nil {
		return m, err
	}
	if prior != nil && prior.Workspace != nil && prior.Workspace.Changes != nil {
		return prior, errors.Join(rc.sessions().Clear(ctx, sessions.OfRun(run.ID()), eng, rec.Keep),
			files.RemoveAll(filepath.Join(run.Dir(), baseDir)))
	}
	r := rc.takeUp(run, rec, prior, eng)
	r.stopped = how.stopped
	if how.follow && prior == nil {
		rc.takeUpCheck(r, rec)
	}
	if how.follow && rc.Gateway != nil {
		r.config.Gateway, err = rc.Gateway(ctx, append([]string{r.config.Model}, rec.Fallbacks...), run.Start().Source)
		if err != nil {
			return nil, err
		}
	}
	if g := r.config.Gateway; g != nil {
		defer g.Close()
	}
	return rc.rejoin(ctx, r, rec, how)
}

// rejoin takes up the session of a run and watches its turn to the end.
func (rc *Recovery) rejoin(ctx context.Context, r *execution, rec *sessions.Record,
	how recovery) (*state.Manifest, error) {
	err := r.execute(ctx,
		func(ctx context.Context) (*sessions.Session, error) {
			return r.sessions.TakeUp(ctx, r.key, rec, r.config, how.follow)
		},
		func(ctx context.Context, s *sessions.Session) runner.End { return s.Rejoin(ctx, r.ask, r.observer()) })
	if starting, ok := errors.AsType[*startError](err); ok {
		return nil, interruption(ctx, starting.error)
	}
	if how.follow && errors.Is(context.Cause(ctx), runner.ErrInterrupted) { // perhaps before the turn was watched again
		r.stopped = true
	}
	return r.manifest, r.conclude(ctx, err)
}

func (rc *Recovery) sessions() *sessions.Manager {
	return &sessions.Manager{Home: rc.Home, Secrets: rc.Secrets, Log: rc.Log}
}

// engine opens the engine that holds the container of a record.
func (rc *Recovery) engine(rec *sessions.Record) (engine.Engine, error) {
	eng, err := rc.Engines(rec.Engine)
	if err == nil && eng == nil {
		err = &runner.Error{Code: runner.CodeUsage, Param: "engine",
			Message: fmt.Sprintf("the run is of the engine %.40q, of which nothing is left here", rec.Engine),
			Hint:    "use the HOLON_HOME of the run"}
	}
	return eng, err
}

// takeUp makes of a record what Run had when it wrote it.
func (rc *Recovery) takeUp(run *files.Run, rec *sessions.Record, prior *state.Manifest, eng engine.Engine) *execution {
	m := rec.Manifest
	if prior != nil {
		m = prior
		m.Warnings = slices.DeleteFunc(m.Warnings, isUnsaved)
	}
	rec.Owner, rec.Manifest = sessions.ThisProcess(), m
	watch := rc.Watch
	if watch == nil {
		watch = unwatched{}
	}
	r := &execution{run: run, record: rec, sessions: rc.sessions(), key: sessions.OfRun(run.ID()), manifest: m,
		recovered: true, prior: prior, ask: runner.NewTurn(rec.TurnID, rec.Prompt),
		config: runner.Config{
			Engine: eng, Log: rc.Log, Secrets: rc.Secrets, Telemetry: rc.Telemetry, Version: rc.Version,
			Models: runner.Models{Model: rec.Model, Fallbacks: rec.Fallbacks},
			Files:  runner.Files{TreeCache: rc.Home.CacheDir()}},
		spec: &Run{Keep: rec.Keep, Quota: runner.Quota{Run: rec.DiskBytes}, Watch: watch, Blame: withoutFlag}}
	limits := r.ask.Limits()
	limits.TimeoutMS, limits.MaxOutputBytes = m.Limits.TimeoutMS, m.Limits.MaxOutput
	r.ask.Budget = gateway.Budget{MaxTokens: m.Limits.MaxTokens, MaxRequests: m.Limits.MaxRequests,
		MaxCost: gateway.Amount(m.Limits.MaxCostMicros)}
	if rec.Tree != nil {
		r.info = rec.Tree.Info
	}
	var err error
	r.ask.Pool = rc.pool
	if r.ask.Taken, err = readUsage(run.Dir()); err != nil {
		m.Warnings = append(m.Warnings, "the budget begins anew: "+visible.OneLine(err.Error(), 300))
	}
	r.bound()
	r.resumeEgress()
	return r
}

// lookForTurn finds out whether agentd began the turn that was not watched, and how it ended when its container was
// stopped. Where commands could have written what the files say of that, it is claimed.
func (r *execution) lookForTurn(ctx context.Context) {
	asked := state.IsCode(r.turn.Err, runner.CodeInterrupted) // agentd was asked to end it
	before := r.turn
	r.turn = r.sessions.Unseen(ctx, r.key, before, asked && r.session.Separated())
	if end, seen := r.turn.Claimed, r.record.Seen; end != nil && seen != nil && end.ID == seen.ResponseID &&
		end.Status == seen.Status { // another holon saw it
		r.turn = r.sessions.Unseen(ctx, r.key, before, true)
	}
	if end := r.turn.Claimed; end != nil {
		r.manifest.Warnings = append(r.manifest.Warnings, fmt.Sprintf("the turn's files claim that it is %s; holon did "+
			"not see that", end.Status))
	}
}

// unbegun settles a run that was killed before it held anything but directories.
func (rc *Recovery) unbegun(ctx context.Context, run *files.Run) (*state.Manifest, error) {
	start := run.Start()
	m := &state.Manifest{
		Schema: state.ManifestSchema, RunID: run.ID(), Name: start.Name, StartedAt: start.CreatedAt,
		CompletedAt: turns.At(time.Now()),
		Status:      state.StatusInterrupted, Outcome: state.OutcomeRefused, ExitCode: state.OutcomeRefused.ExitCode(),
		HolonVersion: rc.Version,
		Error: &state.Failure{Code: string(runner.CodeNotStarted),
			Message: "holon was killed before it made a container",
			Hint:    "start it again"},
	}
	if err := errors.Join(rc.sessions().Clear(ctx, sessions.OfRun(run.ID()), nil, false),
		files.RemoveAll(filepath.Join(run.Dir(), baseDir)),
		workspace.SweepSlots(ctx, rc.Home.CacheDir())); err != nil {
		return nil, err
	}
	for _, name := range []string{runner.NotesFile, runner.EgressFile} { // begun before the record, and empty
		if err := os.Remove(filepath.Join(run.Dir(), name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("remove what was begun of %s: %w", run.ID(), err)
		}
	}
	return m, run.WriteManifest(m)
}
