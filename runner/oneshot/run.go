// Package oneshot makes runs, each a session with one turn, and looks after those of a home.
//
//	Run.Do ─▶ prepare ─▶ start ─▶ turn ─▶ stop ─▶ collect ─▶ manifest
//	                                ▲
//	Recovery.Attach, .Settle, .Stop ┘   Inventory lists runs, Collector removes what none of them owns.
//
// A run with a check makes a second one for it, and a Best makes several: these parts are runs as well, in directories
// within that of the whole, whose holder is theirs.
//
// The invariant: a run that was started gets a manifest, by the holon that started it or, when that was
// killed, by the one that settles it, and what it changed is never lost silently. Only the holder of its
// lease acts on a run; nothing is ever executed again but a check, which has no effects outside of its container.
package oneshot

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"holon/internal/visible"
	"holon/responses"
	"holon/responses/turns"
	"holon/runner"
	"holon/runner/engine"
	"holon/runner/sessions"
	"holon/runner/settings"
	"holon/runner/turnfiles"
	"holon/runner/workspace"
	"holon/state"
	"holon/state/files"
)

// Names of the files that a run adds to what its turn left.
const (
	DiffFile    = "diff.patch"
	SummaryFile = "summary.md"
	BundleFile  = "branches.bundle" // commits of the agent that are not in the result
	LogFile     = "container.log"   // with Keep only
	ObjectsDir  = "objects"         // contents that the patch starts from; in the run's own directory
	sessionDir  = "session"

	conversationDir = "conversation" // the stored responses of the turn and those before it; in the run's own directory
)

// ownDirs are what the directory of a run holds besides its results.
var ownDirs = []string{ObjectsDir, sessionDir, conversationDir, baseDir, state.PartCheck, state.PartJudge,
	state.AttemptsDir}

// Run is a session with one turn: what `holon run` does.
type Run struct {
	ID        string        // of state.NewRunID; "": a new one
	Session   runner.Config // without Source, TreeName and Version
	Workspace workspace.Options
	Turn      runner.Turn // without an id
	Home      state.Home
	Name      string
	OutputDir string // "": the run's own directory
	Keep      bool   // keep the session's directory and the container's log
	Quota     runner.Quota
	Version   string
	Watch     Watcher
	Check     *Check // nil for none
	// RequireTools refuses an image without what the files of the workspace need. Otherwise that is a warning.
	RequireTools bool
	// Blame names in a failure the variable or file that set the value at fault, instead of its flag. nil: flags set
	// all.
	Blame func(*state.Failure)

	parent  string // id of the run that this one continues
	results string // the output directory, once there is a run
	answer  string // what the agent said last

	source     *workspace.Source // of a part of a run, which is admitted with it; nil: Workspace is opened
	base       string            // where that is pinned, or will be
	disposable bool              // what it leaves in its tree is not collected
	beat       func() error      // runner.Turn.Beat of what it is a part of
}

// ResultDir returns where the results of the run are, "" before there is a run.
func (o *Run) ResultDir() string { return o.results }

// Watcher is an Observer that is also told of the phases of a run.
type Watcher interface {
	runner.Observer
	// Phase is called when a phase begins: prepare, start, turn, stop, collect, check.
	Phase(name string)
	// Begin is called before the turn begins, with the manifest as it is by then.
	Begin(m *state.Manifest)
}

// Do runs the pipeline once and returns the run's manifest, which is also in
// the output directory. The error is not nil only when there is no manifest because
// the run could not be recorded at all. Every other failure is in the manifest.
// When ctx ends, the turn is cancelled and what exists is collected.
func (o *Run) Do(ctx context.Context) (*state.Manifest, error) {
	if g := o.Session.Gateway; g != nil {
		if err := cmp.Or(g.Check(o.Session.GatewayModels(), o.Turn.Budget), g.Admit()); err != nil {
			return nil, err
		}
	}
	started, version := time.Now(), askVersion(ctx, o.Session.Engine, o.Session.Log)
	id := cmp.Or(o.ID, state.NewRunID())
	source, err := o.open(ctx, id)
	if err != nil {
		return nil, interruption(ctx, err)
	}
	run, err := files.New(o.Home).Create(ctx,
		files.NewRun{ID: id, Name: o.Name, Source: source.Info().Path, OutputDir: o.OutputDir, CreatedAt: started})
	if err != nil {
		return nil, interruption(ctx, err)
	}
	defer run.Close() // frees the lease; the manifest is written by then
	o.results = run.OutputDir()
	if err := o.pin(ctx, run, source); err != nil {
		return nil, errors.Join(interruption(ctx, err), discard(run))
	}
	r := o.plan(run, source, started)
	r.version = version
	record := &sessions.Record{Asked: sessions.Asked{TurnID: r.ask.ID()}, Run: &sessions.Run{Owner: sessions.ThisProcess(),
		Prompt:    r.config.Secrets.Text(visible.Clip(r.ask.Prompt(), sessions.MaxRecordedPrompt)),
		DiskBytes: o.Quota.Run, Keep: o.Keep, Manifest: r.manifest, Check: o.recordCheck()}}
	r.record = record
	err = r.execute(ctx,
		func(ctx context.Context) (*sessions.Session, error) {
			s, err := r.sessions.Start(ctx, r.key, record, r.config)
			if err != nil {
				return nil, o.namePatch(err)
			}
			if err = r.checkTools(s); err != nil {
				return nil, errors.Join(err, s.Close(context.WithoutCancel(ctx), o.Keep))
			}
			return s, nil
		},
		func(ctx context.Context, s *sessions.Session) runner.End {
			return s.Turn(ctx, r.ask, r.observer())
		})
	if starting, ok := errors.AsType[*startError](err); ok && !o.Keep {
		return nil, errors.Join(interruption(ctx, starting.error), discard(run))
	}
	o.answer = r.turn.Answer
	return r.manifest, r.conclude(ctx, err)
}

// open admits the run and opens its workspace.
func (o *Run) open(ctx context.Context, id string) (*workspace.Source, error) {
	if o.source != nil {
		return o.source, nil
	}
	if _, err := runner.RunsAs(o.Session.User, o.Session.Engine); err != nil {
		return nil, err
	}
	if err := o.Quota.Admit(ctx, o.Home); err != nil {
		return nil, err
	}
	from := o.Workspace
	from.Claim = id
	return workspace.Open(ctx, from)
}

// plan computes what the run does, once: from here on o is only read.
func (o *Run) plan(run *files.Run, source *workspace.Source, started time.Time) *execution {
	r := &execution{spec: o, run: run, config: o.Session, ask: o.Turn, key: sessions.OfRun(run.ID()),
		sessions: &sessions.Manager{Home: o.Home, Secrets: o.Session.Secrets, Log: o.Session.Log}}
	r.config.Source, r.config.TreeName, r.config.Version = source, treeName(source.Info()), o.Version
	req := *o.Turn.Request
	req.Holon.TurnID, req.Holon.Limits = responses.NewID(responses.PrefixTurn), o.limits()
	r.ask.Request = &req
	r.bound()
	r.manifest = o.manifest(run, started)
	r.planEgress()
	return r
}

// manifest is what the manifest of a run has from the beginning.
func (o *Run) manifest(run *files.Run, started time.Time) *state.Manifest {
	budget, req, limits := o.Turn.Budget, o.Turn.Request, o.limits()
	m := &state.Manifest{
		Schema: state.ManifestSchema, RunID: run.ID(), ParentRunID: o.parent, Name: o.Name,
		Task:      o.Session.Secrets.Text(title(o.Turn.Prompt())),
		StartedAt: turns.At(started),
		Model:     o.Session.Model, Image: o.Session.Image, HolonVersion: o.Version,
		Engine: state.Engine{Name: o.Session.Engine.Name()},
		Limits: state.Limits{TimeoutMS: limits.TimeoutMS, MaxRounds: limits.MaxRounds, MaxOutput: limits.MaxOutputBytes,
			DiskBytes: o.Quota.Run, MaxTokens: budget.MaxTokens, MaxRequests: budget.MaxRequests,
			MaxCostMicros: int64(budget.MaxCost)},
	}
	if o.Check != nil {
		m.Checked = &state.Check{RunID: state.PartID(run.ID(), state.PartCheck), Status: state.CheckNotRun,
			Command: o.Session.Secrets.Text(o.Check.Command), Restored: []string{}, Changed: []string{},
			Unused: []string{}}
	}
	if req.MaxToolCalls != nil {
		m.Limits.MaxToolCalls = *req.MaxToolCalls
	}
	if m.Engine.Name == settings.EngineLocal {
		m.Image = "" // it was not used
	}
	return m
}

// limits are those of the turn, with the defaults of a run.
func (o *Run) limits() *responses.Limits {
	limits := *o.Turn.Limits()
	limits.MaxRounds = cmp.Or(limits.MaxRounds, settings.DefaultMaxRounds)
	limits.MaxOutputBytes = cmp.Or(limits.MaxOutputBytes, turnfiles.MaxCollect)
	return &limits
}

// unwatched is the Watcher of a run without one.
type unwatched struct{}

func (unwatched) Event(responses.Event)   {}
func (unwatched) Fact(turns.RuntimeEvent) {}
func (unwatched) Phase(string)            {}
func (unwatched) Begin(*state.Manifest)   {}

// interruption returns why ctx ended, which is then the reason for err.
func interruption(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// discard removes the directories of a run that did not start. Such a run
// leaves no record: there is nothing in it that its error does not say.
func discard(run *files.Run) error {
	err := run.Remove()
	if out := run.OutputDir(); out != run.Dir() {
		if removeErr := os.Remove(filepath.Join(out, state.AttemptsDir)); !errors.Is(removeErr, fs.ErrNotExist) {
			err = errors.Join(err, removeErr)
		}
		err = errors.Join(err, os.Remove(out)) // made by us or empty before; never more than that
	}
	return err
}

// bound has the turn keep its account, its lease and its quota while it runs.
func (r *execution) bound() {
	r.ask.Note, r.ask.Beat, r.ask.DiskBytes = r.noteUsage, r.run.Beat, r.spec.Quota.Run
	if whole := r.spec.beat; whole != nil {
		r.ask.Beat = func() error { return errors.Join(r.run.Beat(), whole()) }
	}
}

// title is the first line of a prompt that says something.
func title(prompt string) string {
	for line := range strings.Lines(prompt) {
		if line = visible.OneLine(line, 72); line != "" {
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

// execution is a Run on its way.
type execution struct {
	spec     *Run
	run      *files.Run
	config   runner.Config
	ask      runner.Turn
	sessions *sessions.Manager
	key      sessions.Key
	manifest *state.Manifest
	record   *sessions.Record
	session  *sessions.Session // nil before there is one
	turn     runner.End
	diff     *workspace.Diff
	denied   []string // by the egress proxy
	warned   []string // of MCP servers, by agentd
	info     workspace.Info
	version  func() string // of the engine; nil: not asked for yet

	recovered bool            // another process began the run
	stopped   bool            // with recovered: somebody ends it
	prior     *state.Manifest // what that process said of its end, nil if nothing
}

// execute runs the phases, with a session that begin makes or takes up and the
// turn that it runs or joins. The session stays for conclude. The error is that
// of the phase that failed; what came before is in r all the same.
func (r *execution) execute(ctx context.Context, begin func(context.Context) (*sessions.Session, error),
	turn func(context.Context, *sessions.Session) runner.End) (err error) {
	r.spec.Watch.Phase("prepare")
	if r.session, err = begin(ctx); err != nil {
		return &startError{err}
	}
	// From here on everything is undone and collected even if the user has had
	// enough: nothing may be left behind or lost. Each step has its own bound.
	finishing := context.WithoutCancel(ctx)
	r.describeSession(r.session)
	r.spec.Watch.Phase("turn")
	r.spec.Watch.Begin(r.manifest)
	timed(&r.manifest.Timings.TurnMS, func() { r.turn = turn(ctx, r.session) })
	r.noteEnd()
	r.manifest.Warnings = append(r.manifest.Warnings, r.warned...)

	r.spec.Watch.Phase("stop")
	timed(&r.manifest.Timings.StopMS, func() { err = r.stop(finishing, r.session) })
	if err != nil {
		return err
	}
	r.session.Discard(finishing) // what is collected are files
	r.spec.Watch.Phase("collect")
	timed(&r.manifest.Timings.CollectMS, func() { err = r.collect(finishing, r.session) })
	if err == nil {
		r.check(ctx)
	}
	return err
}

// describeSession puts into the manifest, and its record, what runs and what confines it.
func (r *execution) describeSession(s *sessions.Session) {
	if s.Tree() != nil {
		r.info = s.Tree().Info()
	}
	r.manifest.Warnings = append(r.manifest.Warnings, s.Warnings...)
	r.describeWorkspace()
	r.describeContainer(s)
	if err := s.Save(); err != nil { // the record of before is enough to take the run up
		r.config.Log.Warn("what runs is not recorded", "run", r.run.ID(), "err", err)
	}
}

func (r *execution) describeContainer(s *sessions.Session) {
	m := r.manifest
	// the run's first holon said it, or it is unknown
	if r.recovered && (m.Isolation != nil || s.ContainerID() == "") {
		return
	}
	m.Timings.PrepareMS, m.Timings.StartMS = s.Prepared.Milliseconds(), s.Started.Milliseconds()
	m.Engine.ContainerID, m.Engine.Runtime = s.ContainerID(), s.Runtime
	isolation := s.Isolation
	m.Isolation, m.Services = &isolation, s.Services
	// A limit is in force when the engine says so, not when it was asked for.
	inForce := func(axis engine.Axis) bool { return axis.Level != engine.NotEnforced }
	if inForce(s.Isolation.Memory) {
		m.Limits.MemoryBytes = max(s.Spec.Memory, 0)
	}
	if inForce(s.Isolation.Pids) {
		m.Limits.Pids = engine.MaxPids
	}
	if inForce(s.Isolation.CPU) { // which the engine may have chosen
		m.Limits.CPUs, _ = strconv.ParseFloat(s.Isolation.CPU.Value, 64)
		if part := s.Spec.Portion; part.Parts > 0 { // services have the rest
			m.Limits.CPUs *= float64(part.Of) / float64(part.Parts)
		}
	}
}

// startError marks that the run could not start.
type startError struct{ error }

func (e *startError) Unwrap() error { return e.error }

func timed(ms *int64, step func()) {
	begin := time.Now()
	step()
	*ms = time.Since(begin).Milliseconds()
}

// maxWarned bounds the warnings of the turn in the manifest. All of them are in its facts.
const maxWarned = 20

// warned is the observer of the turn: it puts what agentd warns of about MCP servers and skills into the manifest, too.
type warned struct {
	Watcher
	run *execution
}

func (r *execution) observer() runner.Observer { return warned{r.spec.Watch, r} }

// Fact implements runner.Observer.
func (w warned) Fact(ev turns.RuntimeEvent) {
	if n, ok := MCPWarning(ev); ok && len(w.run.warned) < maxWarned {
		w.run.warned = append(w.run.warned, n)
	}
	w.Watcher.Fact(ev)
}

// MCPWarning is what a fact warns of about MCP servers and skills, for a person; false for any other fact.
func MCPWarning(ev turns.RuntimeEvent) (string, bool) {
	var n turns.Notice
	if ev.Type != turns.RuntimeWarning || json.Unmarshal(ev.Payload, &n) != nil ||
		n.Component != "mcp" && n.Component != "skills" {
		return "", false
	}
	return visible.OneLine(n.Message, 300), true
}
