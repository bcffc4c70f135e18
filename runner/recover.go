package runner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"holon/responses/turns"
	"holon/runner/engine"
	"holon/runner/gateway"
	"holon/runner/workspace"
	"holon/state"
	"holon/state/files"
)

// Recovery takes up and settles runs whose holon was killed. A run is its own
// from the moment on that it has the lease: of several who try, one does it.
// Nothing is ever executed again.
type Recovery struct {
	Home    state.Home
	Engine  engine.Engine    // the one that the run's record names
	Gateway *gateway.Gateway // for Attach, when the run's model needs one
	Version string
	Watch   Watcher // nil: nobody watches
	Log     *slog.Logger
}

// Attach goes on with a run as if its holon had not been killed: while its
// container runs, its sockets are served again and its turn is watched to the
// end; then, or when the container is gone, it is settled. The manifest is
// returned as [OneShot.Run] does. A run that is alive is CodeRunLive, one that
// has ended CodeEnded.
func (rc *Recovery) Attach(ctx context.Context, id string) (*state.Manifest, error) {
	return rc.recover(ctx, id, true)
}

// Settle ends a run whose holon was killed: its container is stopped, what the
// turn did is collected, its record and its manifest are completed.
func (rc *Recovery) Settle(ctx context.Context, id string) (*state.Manifest, error) {
	return rc.recover(ctx, id, false)
}

// CodeEnded is the code of an error about a run that has an end already and
// holds nothing.
const CodeEnded Code = "run_ended"

func (rc *Recovery) recover(ctx context.Context, id string, follow bool) (*state.Manifest, error) {
	run, err := files.New(rc.Home).Take(ctx, id)
	if err != nil {
		return nil, err
	}
	defer run.Close() // frees the lease; the manifest is written by then
	entry, err := files.New(rc.Home).Open(ctx, id)
	if err != nil {
		return nil, err
	}
	rec, err := ReadRecord(run.Dir())
	switch {
	case errors.Is(err, fs.ErrNotExist) && entry.Manifest != nil:
		return nil, &Error{Code: CodeEnded, Param: "run", Message: "run " + id + " has ended: " + string(entry.Manifest.Status), Hint: "see its results in " + entry.OutputDir()}
	case errors.Is(err, fs.ErrNotExist):
		return rc.unbegun(ctx, run)
	case err != nil:
		return nil, err
	case rec.Engine != rc.Engine.Name():
		return nil, &Error{Code: CodeUsage, Param: "engine", Message: fmt.Sprintf("run %s is of the engine %.40q, not %s", id, rec.Engine, rc.Engine.Name()), Hint: "use that"}
	case entry.Manifest != nil && collected(entry.Manifest):
		return entry.Manifest, rc.tidy(ctx, run, rec)
	}
	r := rc.takeUp(run, rec, entry.Manifest)
	err = r.execute(ctx,
		func(ctx context.Context) (*Session, error) {
			return Reattach(ctx, r.Session, rc.Home.CacheDir(), rec, follow)
		},
		r.join)
	if starting, ok := errors.AsType[*startError](err); ok {
		return nil, interruption(ctx, starting.error)
	}
	return r.manifest, r.conclude(ctx, err)
}

// takeUp makes of a record what Run had when it wrote it.
func (rc *Recovery) takeUp(run *files.Run, rec *Record, prior *state.Manifest) *oneShot {
	m := rec.Manifest
	if prior != nil {
		m = prior
	}
	watch := rc.Watch
	if watch == nil {
		watch = unwatched{}
	}
	shot := &OneShot{
		Session: Config{ID: run.ID(), Engine: rc.Engine, Gateway: rc.Gateway, Log: rc.Log, Dir: rec.Dir, SocketDir: rec.Sockets, User: rec.User,
			Model: m.Model, Image: m.Image, Labels: map[string]string{LabelHome: rc.Home.Dir()}},
		Turn: TurnRequest{ID: rec.TurnID, Prompt: rec.Prompt, MaxRounds: m.Limits.MaxRounds, Timeout: time.Duration(m.Limits.TimeoutMS) * time.Millisecond},
		Home: rc.Home, Name: m.Name, OutputDir: run.OutputDir(), Keep: rec.Keep, Version: rc.Version, Watch: watch, results: run.OutputDir(),
	}
	r := &oneShot{OneShot: shot, run: run, manifest: m, recovered: true, prior: prior}
	if rec.Tree != nil {
		r.info = rec.Tree.Info
	}
	r.resumeEgress()
	return r
}

// join watches the turn of a session that was taken up, if there is one to watch.
func (r *oneShot) join(ctx context.Context, s *Session) TurnResult {
	if s.gone != nil {
		return TurnResult{TurnID: r.Turn.ID, SessionID: s.id, Err: s.gone}
	}
	return s.Rejoin(ctx, r.Turn, r.Watch)
}

// findEnd looks up how a turn ended that nobody watched, in what was collected.
func (r *oneShot) findEnd(s *Session, out string) {
	_, err := os.Lstat(filepath.Join(s.cfg.Dir, "output", "turns", r.turn.TurnID))
	r.accepted = err == nil
	end, err := readEnd(out)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.manifest.Warnings = append(r.manifest.Warnings, "the turn's end cannot be read: "+OneLine(err.Error(), 300))
	}
	if end != nil {
		r.turn.Response, r.turn.Err = end, nil
	}
}

// unbegun settles a run that was killed before it held anything but directories.
func (rc *Recovery) unbegun(ctx context.Context, run *files.Run) (*state.Manifest, error) {
	start := run.Start()
	m := &state.Manifest{
		Schema: state.ManifestSchema, RunID: run.ID(), Name: start.Name, StartedAt: start.CreatedAt, CompletedAt: turns.At(time.Now()),
		Status: state.StatusInterrupted, Outcome: state.OutcomeRefused, ExitCode: state.OutcomeRefused.ExitCode(), HolonVersion: rc.Version,
		Error: &state.Failure{Code: string(CodeNotStarted), Message: "holon was killed before it made a container", Hint: "start it again"},
	}
	rec := &Record{Dir: filepath.Join(run.Dir(), sessionDir), Sockets: rc.Home.IPCDir(run.ID())}
	return m, errors.Join(rc.tidy(ctx, run, rec), run.WriteManifest(m))
}

// collected reports whether the run's change is in its results.
func collected(m *state.Manifest) bool {
	return Changes(m) != nil
}

// tidy removes what a run still holds that has nothing left to be saved.
func (rc *Recovery) tidy(ctx context.Context, run *files.Run, rec *Record) error {
	var errs []error
	list, err := rc.Engine.List(ctx, map[string]string{LabelRun: run.ID(), LabelHome: rc.Home.Dir()})
	errs = append(errs, err)
	for _, c := range list {
		errs = append(errs, rc.Engine.Remove(ctx, c.Handle))
	}
	claims, err := workspace.Claims(ctx, rc.Home.CacheDir())
	errs = append(errs, err)
	for _, claim := range claims {
		if claim.By == run.ID() {
			errs = append(errs, workspace.Disclaim(ctx, rc.Home.CacheDir(), claim))
		}
	}
	for _, dir := range []string{rec.Sockets, otherSocketDir(rc.Home.IPCDir(run.ID()))} {
		errs = append(errs, files.RemoveAll(dir))
	}
	if !rec.Keep {
		errs = append(errs, files.RemoveAll(rec.Dir))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return removeRecord(run.Dir())
}
