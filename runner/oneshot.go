package runner

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"holon/responses"
	"holon/responses/turns"
	"holon/runner/engine"
	"holon/runner/workspace"
	"holon/state"
	"holon/state/files"
)

// Names of the files that a run adds to what its turn left.
const (
	DiffFile    = "diff.patch"
	SummaryFile = "summary.md"
	LogFile     = "container.log" // with Keep only
	ObjectsDir  = "objects"       // contents that the patch starts from; in the run's own directory
	sessionDir  = "session"
)

// reservedNames are those that nothing of a turn may have: the turn directory
// is written by a container, and what the host reads back must be the host's.
var reservedNames = []string{
	DiffFile, SummaryFile, LogFile, ObjectsDir, sessionDir, state.ManifestFile, state.StartFile, state.LeaseFile,
}

// DefaultMaxRounds is how often a model may be asked in a turn that sets no
// limit of its own.
const DefaultMaxRounds = 200

// OneShot is a session with one turn: what `holon run` does.
type OneShot struct {
	Session   Config // ID, Dir, SocketDir and Source are filled in here
	Workspace workspace.Options
	Turn      TurnRequest
	Home      state.Home
	Name      string
	OutputDir string // "": the run's own directory
	Keep      bool   // keep the session's directory and the container's log
	Version   string
	Watch     Watcher

	results string // the output directory, once there is a run
}

// ResultDir returns where the results of the run are, "" before there is a run.
func (o *OneShot) ResultDir() string { return o.results }

// Watcher is an Observer that is also told of the phases of a run.
type Watcher interface {
	Observer
	// Phase is called when a phase begins: prepare, start, turn, stop, collect.
	Phase(name string)
}

// Run runs the pipeline once and returns the run's manifest, which is also in
// the output directory. The error is not nil only when there is no manifest:
// the run could not be recorded at all. Whatever else fails is in the manifest.
// When ctx ends, the turn is cancelled and what exists is collected.
func (o *OneShot) Run(ctx context.Context) (*state.Manifest, error) {
	started := time.Now()
	id := state.NewRunID()
	user, err := runAs(o.Session.User, o.Session.Engine)
	if err != nil {
		return nil, err
	}
	o.Session.User, o.Workspace.Owner = user, treeOwner(user)
	source, err := workspace.Open(ctx, o.Workspace)
	if err != nil {
		return nil, interruption(ctx, err)
	}
	run, err := files.New(o.Home).Create(ctx, files.NewRun{ID: id, Name: o.Name, Source: source.Info().Path, OutputDir: o.OutputDir, CreatedAt: started})
	if err != nil {
		return nil, interruption(ctx, err)
	}
	defer run.Close() // frees the lease; the manifest is written by then
	o.results = run.OutputDir()
	r := &oneShot{OneShot: o, run: run, manifest: &state.Manifest{
		Schema: state.ManifestSchema, RunID: id, Name: o.Name, Task: title(o.Turn.Prompt), StartedAt: turns.At(started),
		Model: o.Session.Model, Image: o.Session.Image, HolonVersion: o.Version,
		Engine: state.Engine{Name: o.Session.Engine.Name()},
		Limits: state.Limits{TimeoutMS: o.Turn.Timeout.Milliseconds(), MaxRounds: cmp.Or(o.Turn.MaxRounds, DefaultMaxRounds)},
	}}
	r.Turn.MaxRounds = r.manifest.Limits.MaxRounds // said to agentd, so that the record cannot differ from what holds
	r.Session.ID, r.Session.Source = id, source
	r.Session.Dir, r.Session.SocketDir = filepath.Join(run.Dir(), sessionDir), o.Home.IPCDir(id)
	r.Session.TreeName = treeName(source.Info())
	err = r.execute(ctx)
	if starting, ok := errors.AsType[*startError](err); ok && !o.Keep {
		return nil, errors.Join(interruption(ctx, starting.error), r.discard())
	}
	return r.manifest, r.finish(ctx, err)
}

// interruption returns why ctx ended, which is then the reason for err.
func interruption(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// discard removes the directories of a run that did not start. Such a run
// leaves no record: there is nothing in it that its error does not say.
func (r *oneShot) discard() error {
	err := files.RemoveAll(r.run.Dir())
	if out := r.run.OutputDir(); out != r.run.Dir() {
		err = errors.Join(err, os.Remove(out)) // made by us or empty before; never more than that
	}
	return err
}

// title is the first line of a prompt that says something.
func title(prompt string) string {
	for line := range strings.Lines(prompt) {
		if line = OneLine(line, 72); line != "" {
			return line
		}
	}
	return ""
}

// treeName names the tree inside the container after the user's directory, so
// that paths in the agent's output look familiar.
func treeName(info workspace.Info) string {
	name := strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || r == '.' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
			return r
		}
		return '-'
	}, filepath.Base(info.Path))
	if name = strings.Trim(name, ".-"); name == "" || len(name) > 64 {
		return "workspace"
	}
	return name
}

// oneShot is the state of a running OneShot.
type oneShot struct {
	*OneShot
	run      *files.Run
	manifest *state.Manifest
	turn     TurnResult
	diff     *workspace.Diff
	info     workspace.Info
	version  chan string // of the engine; receives once
}

// execute runs the phases. Its error is that of the phase that failed; what
// came before is in r all the same.
func (r *oneShot) execute(ctx context.Context) (err error) {
	r.Watch.Phase("prepare")
	session, err := Start(ctx, r.Session)
	if err != nil {
		return &startError{err}
	}
	// From here on everything is undone and collected even if the user has had
	// enough: nothing may be left behind or lost. Each step has its own bound.
	finishing := context.WithoutCancel(ctx)
	defer func() { err = errors.Join(err, session.Close(finishing), r.removeSession()) }()
	r.manifest.Timings.PrepareMS, r.manifest.Timings.StartMS = session.Prepared.Milliseconds(), session.Started.Milliseconds()
	if err := r.describeSession(finishing, session); err != nil {
		return err
	}
	r.Watch.Phase("turn")
	timed(&r.manifest.Timings.TurnMS, func() { r.turn = session.Turn(ctx, r.Turn, r.Watch) })

	r.Watch.Phase("stop")
	timed(&r.manifest.Timings.StopMS, func() { err = r.stop(finishing, session) })
	if err != nil {
		return err
	}
	r.Watch.Phase("collect")
	timed(&r.manifest.Timings.CollectMS, func() { err = r.collect(finishing, session) })
	return err
}

// describeSession puts into the manifest what runs and what confines it. The
// engine's version is asked for beside the turn: nothing waits for it.
func (r *oneShot) describeSession(ctx context.Context, s *Session) (err error) {
	m := r.manifest
	m.Engine.ContainerID, m.Engine.Runtime = s.handle.ID, s.Runtime
	if m.Isolation, err = json.Marshal(s.Isolation); err != nil {
		return fmt.Errorf("describe the isolation: %w", err)
	}
	// A limit is in force when the engine says so, not when it was asked for.
	inForce := func(axis engine.Axis) bool { return axis.Level != engine.NotEnforced }
	if inForce(s.Isolation.Memory) {
		m.Limits.MemoryBytes = max(s.Spec.Memory, 0)
	}
	if inForce(s.Isolation.Pids) {
		m.Limits.Pids = max(s.Spec.PidsLimit, 0)
	}
	if inForce(s.Isolation.CPU) { // which the engine may have chosen
		m.Limits.CPUs, _ = strconv.ParseFloat(s.Isolation.CPU.Value, 64)
	}
	r.manifest.Warnings = append(r.manifest.Warnings, s.Warnings...)
	r.info = s.tree.Info()
	r.version = make(chan string, 1)
	go func() { // finish receives from it; Check has its own bound
		info, err := s.cfg.Engine.Check(ctx)
		if err != nil {
			s.cfg.Log.Debug("the engine does not say its version", "err", err)
		}
		r.version <- info.Version
	}()
	return nil
}

// startError marks that the run could not start.
type startError struct{ error }

func (e *startError) Unwrap() error { return e.error }

func timed(ms *int64, step func()) {
	begin := time.Now()
	step()
	*ms = time.Since(begin).Milliseconds()
}

// stop ends the container. One that cannot be ended is not collected from,
// since it could still write.
func (r *oneShot) stop(ctx context.Context, s *Session) error {
	ctx, cancel := context.WithTimeout(ctx, stopGrace+20*time.Second)
	defer cancel()
	if err := s.Stop(ctx); err != nil || !r.Keep {
		return err
	}
	logs, err := s.cfg.Engine.Logs(ctx, s.handle, 1<<20)
	if err == nil {
		err = os.WriteFile(filepath.Join(r.run.OutputDir(), LogFile), logs, 0o600)
	}
	if err != nil {
		r.manifest.Warnings = append(r.manifest.Warnings, "the container's log could not be kept: "+OneLine(err.Error(), 300))
	}
	return nil
}

// collect takes what the turn left: its directory and the change of the tree.
func (r *oneShot) collect(ctx context.Context, s *Session) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	out := r.run.OutputDir()
	warnings, err := s.collectTurn(ctx, r.turn.TurnID, out, reservedNames)
	r.manifest.Warnings = append(r.manifest.Warnings, warnings...)
	if err != nil {
		return err
	}
	if r.turn.Err != nil {
		gone := responses.Internal(Describe(r.turn.Err).Message, nil)
		gone.Code = responses.CodeInterrupted
		settled, err := settleTurn(out, gone)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			r.manifest.Warnings = append(r.manifest.Warnings, "the turn's record could not be completed: "+OneLine(err.Error(), 300))
		}
		if settled != nil {
			r.turn.Response = settled
		}
	}
	r.diff, err = s.tree.Diff(ctx, workspace.DiffOptions{Patch: filepath.Join(out, DiffFile), Objects: filepath.Join(r.run.Dir(), ObjectsDir)})
	if err != nil {
		return err
	}
	for _, w := range append(r.info.Warnings, r.diff.Warnings...) {
		r.manifest.Warnings = append(r.manifest.Warnings, OneLine(fmt.Sprintf("%s: %s", w.Path, w.Message), 300))
	}
	return nil
}

// removeSession removes the directories that only the container needed.
func (r *oneShot) removeSession() error {
	if r.Keep {
		return nil
	}
	return files.RemoveAll(r.Session.Dir)
}

// finish records how the run ended.
func (r *oneShot) finish(ctx context.Context, err error) error {
	m := r.manifest
	r.judge(err)
	if r.version != nil {
		m.Engine.Version = <-r.version
	}
	m.Turn = r.turnRef()
	if resp := r.turn.Response; resp != nil {
		m.Usage = resp.Usage
	}
	if err := r.describeWorkspace(); err != nil {
		return err
	}
	m.CompletedAt = turns.At(time.Now())
	m.Timings.TotalMS = m.CompletedAt.Sub(m.StartedAt).Milliseconds()
	out := r.run.OutputDir()
	if err := os.WriteFile(filepath.Join(out, SummaryFile), r.summary(), 0o600); err != nil {
		return fmt.Errorf("write the summary: %w", err)
	}
	artifacts, warnings, err := files.Artifacts(context.WithoutCancel(ctx), out, files.Limits{Skip: []string{ObjectsDir, sessionDir}})
	if err != nil {
		return err
	}
	m.Artifacts = artifacts
	m.Warnings = append(m.Warnings, warnings...)
	return r.run.WriteManifest(m)
}

func (r *oneShot) turnRef() *state.TurnRef {
	if r.turn.Response == nil {
		return nil
	}
	return &state.TurnRef{TurnID: r.turn.TurnID, ResponseID: r.turn.Response.ID, SessionID: r.turn.SessionID}
}

// describeWorkspace puts into the manifest what the run started from and what
// it changed.
func (r *oneShot) describeWorkspace() (err error) {
	info := r.info
	if info.Kind == "" {
		info = r.Session.Source.Info()
	}
	if r.diff != nil {
		r.diff.Patch = DiffFile // among the artifacts, wherever they are moved
	}
	r.manifest.Workspace, err = json.Marshal(struct {
		workspace.Info
		Changes *workspace.Diff `json:"changes"`
	}{info, r.diff})
	return err
}
