package oneshot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"holon/internal/redact"
	"holon/internal/visible"
	"holon/responses/turns"
	"holon/runner"
	"holon/runner/gateway"
	"holon/runner/sessions"
	"holon/runner/workspace"
	"holon/state"
	"holon/state/files"
)

// Best makes several runs of one task side by side, its attempts, and says which is the best. Each is a Run, with a
// check, whose directory lies in that of the whole. They have one base, which is taken once, and one budget.
type Best struct {
	ID        string // of state.NewRunID
	Home      state.Home
	Name      string
	OutputDir string // "": the run's own directory
	Version   string
	Workspace workspace.Options
	Quota     runner.Quota // of each attempt
	Attempts  []*Run       // Session, Turn, Keep, Watch and Blame of each; at least one
	Check     Check
	KeepGoing bool // an attempt that passes does not end the others
	Judge     *Run // Session, Turn and Watch of what compares attempts that are equal; nil for none

	results string
}

// ResultDir returns where the results of the run are, "" before there is a run.
func (b *Best) ResultDir() string { return b.results }

// codeSuperseded is the code of an attempt that another one beat.
const codeSuperseded = "superseded"

// superseded is why an attempt is ended that another one beat. It counts as [runner.ErrInterrupted].
type superseded struct{ by int }

func (s *superseded) Error() string { return fmt.Sprintf("attempt %d passed the check before", s.by) }

func (s *superseded) Is(target error) bool { return target == runner.ErrInterrupted }

func (s *superseded) failure() error {
	return &runner.Error{Code: codeSuperseded, Message: "ended because " + s.Error(),
		Hint: "with --keep-going all attempts come to their end"}
}

// group is a Best on its way, or one that is taken up.
type group struct {
	run      *files.Run
	sessions *sessions.Manager
	secrets  *redact.Set
	prompt   string
	manifest *state.Manifest

	recovered bool // another process began it
}

// Do makes the attempts and returns the manifest of the whole, as [Run.Do] does. The error is not nil only when none of
// them began.
func (b *Best) Do(ctx context.Context) (*state.Manifest, error) {
	started := time.Now()
	source, err := b.open(ctx)
	if err != nil {
		return nil, interruption(ctx, err)
	}
	run, err := files.New(b.Home).Create(ctx, files.NewRun{ID: b.ID, Name: b.Name, Source: source.Info().Path,
		OutputDir: b.OutputDir, CreatedAt: started})
	if err != nil {
		return nil, interruption(ctx, err)
	}
	defer run.Close()
	b.results = run.OutputDir()
	g := b.plan(run, source, started)
	if err = g.begin(ctx, b, source); err == nil {
		err = b.race(ctx, g)
	}
	if err != nil { // none of them left anything
		return nil, errors.Join(interruption(ctx, err), g.sessions.RemoveRecord(sessions.OfRun(run.ID())), discard(run))
	}
	g.manifest.Winner = rank(g.manifest.Attempts)
	b.compare(ctx, g)
	g.judge(context.Cause(ctx))
	return g.manifest, g.conclude(ctx)
}

// open admits the attempts and opens their workspace.
func (b *Best) open(ctx context.Context) (*workspace.Source, error) {
	for _, o := range append([]*Run{b.Judge}, b.Attempts...) {
		if o == nil || o.Session.Gateway == nil {
			continue
		}
		g := o.Session.Gateway
		if err := cmp.Or(g.Check(o.Session.GatewayModels(), o.Turn.Budget), g.Admit()); err != nil {
			return nil, err
		}
	}
	first := b.Attempts[0]
	first.Home, first.Workspace, first.Quota = b.Home, b.Workspace, b.Quota
	first.Quota.Free *= int64(len(b.Attempts))
	first.Quota.Files *= int64(len(b.Attempts))
	return first.open(ctx, "")
}

// plan says what is known of the run before it begins.
func (b *Best) plan(run *files.Run, source *workspace.Source, started time.Time) *group {
	first := b.Attempts[0]
	cfg := &first.Session
	g := &group{run: run, secrets: cfg.Secrets, prompt: first.Turn.Prompt(),
		sessions: &sessions.Manager{Home: b.Home, Secrets: cfg.Secrets, Log: cfg.Log}}
	first.Version, first.Check = b.Version, &b.Check
	g.manifest = first.manifest(run, started)
	g.manifest.Checked = nil
	g.manifest.Workspace = &state.Workspace{Source: source.Info()}
	for i, o := range b.Attempts {
		g.manifest.Attempts = append(g.manifest.Attempts, state.Attempt{Number: i + 1,
			RunID: state.AttemptID(run.ID(), i+1), Model: o.Session.Model})
		if o.Session.Model != g.manifest.Model {
			g.manifest.Model = "" // each attempt has its own
		}
	}
	return g
}

// begin takes the base and records the run, before there is anything that has to be removed.
func (g *group) begin(ctx context.Context, b *Best, source *workspace.Source) error {
	base := filepath.Join(g.run.Dir(), baseDir)
	if err := makeBase(ctx, base, source); err != nil {
		return err
	}
	if b.OutputDir != "" {
		if err := os.Mkdir(filepath.Join(g.run.OutputDir(), state.AttemptsDir), 0o755); err != nil {
			return fmt.Errorf("make the directory of the attempts: %w", err)
		}
	}
	pool := gateway.NewPool()
	for i, o := range b.Attempts {
		o.ID, o.Home, o.Version, o.Quota, o.Check = g.manifest.Attempts[i].RunID, b.Home, b.Version, b.Quota, &b.Check
		o.source, o.base, o.beat, o.Turn.Pool = source.With(o.ID, o.Workspace.Continue), base, g.run.Beat, pool
		if o.Name = b.Name; o.Name != "" {
			o.Name += fmt.Sprintf("-%d", i+1)
		}
		if b.OutputDir != "" {
			o.OutputDir = filepath.Join(g.run.OutputDir(), state.AttemptsDir, fmt.Sprint(i+1))
		}
	}
	if o := b.Judge; o != nil {
		o.ID, o.Home, o.Version, o.Quota = state.PartID(g.run.ID(), state.PartJudge), b.Home, b.Version, b.Quota
		o.source, o.base, o.beat, o.Turn.Pool, o.Check = source.With(o.ID, nil), base, g.run.Beat, pool, nil
	}
	return g.sessions.RecordWhole(sessions.OfRun(g.run.ID()), b.Attempts[0].Session.Engine.Name(),
		&sessions.Run{Owner: sessions.ThisProcess(), Manifest: g.manifest,
			Prompt: g.secrets.Text(visible.Clip(g.prompt, sessions.MaxRecordedPrompt))})
}

// race makes the attempts. The error is that of the first, if none of them began.
func (b *Best) race(ctx context.Context, g *group) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	begun, failures := make([]bool, len(b.Attempts)), make([]error, len(b.Attempts))
	var all sync.WaitGroup
	for i, o := range b.Attempts {
		all.Go(func() {
			a := &g.manifest.Attempts[i]
			var m *state.Manifest
			if m, failures[i] = o.Do(ctx); m == nil {
				notBegun(a, failures[i])
				return
			}
			begun[i] = true
			if describe(a, m); passed(a) && !b.KeepGoing {
				stop(&superseded{by: a.Number})
			}
		})
	}
	all.Wait()
	if !slices.Contains(begun, true) {
		return failures[0]
	}
	for i, err := range failures {
		if err != nil && begun[i] { // its end could not be recorded, which is tried again
			g.manifest.Warnings = append(g.manifest.Warnings, fmt.Sprintf("attempt %d: %s", i+1, runner.Describe(err).Message))
		}
	}
	return nil
}

// notBegun records of an attempt why it could not start.
func notBegun(a *state.Attempt, err error) {
	v := failed(state.StatusFailed, state.OutcomeRefused, err)
	if errors.Is(err, runner.ErrInterrupted) {
		v = failed(state.StatusCancelled, state.OutcomeCancelled, err)
	}
	if beaten, ok := errors.AsType[*superseded](err); ok {
		v.failure = new(runner.Describe(beaten.failure()))
	}
	a.Status, a.Outcome, a.Error = v.status, v.outcome, v.failure
}

// describe puts into the record of an attempt what its own manifest says.
func describe(a *state.Attempt, m *state.Manifest) {
	a.Status, a.Outcome, a.Error, a.Checked, a.Took = m.Status, m.Outcome, m.Error, m.Checked, m.Timings.TotalMS
	if m.Workspace == nil || m.Workspace.Changes == nil {
		return
	}
	a.Files, a.Lines, a.Result = len(m.Workspace.Changes.Files), 0, m.Workspace.Changes.ResultTree
	for _, s := range m.Workspace.Changes.Submodules {
		a.Result += " " + s.ResultTree
	}
	for _, f := range m.Workspace.Changes.Files {
		a.Lines += f.Added + f.Deleted
	}
}

// judge decides status, outcome and exit code of the whole. cause is why its context ended, nil if it did not.
func (g *group) judge(cause error) {
	m := g.manifest
	m.Status, m.Outcome, m.Error = state.StatusCompleted, state.OutcomeSuccess, nil
	same, checked := m.Attempts[0], false
	for _, a := range m.Attempts {
		if a.Status != same.Status || a.Outcome != same.Outcome {
			same = state.Attempt{Status: state.StatusCompleted, Outcome: state.OutcomeFailure}
		}
		checked = checked || a.Rank > 0
	}
	v := verdict{m.Status, m.Outcome, nil}
	switch {
	case cause != nil:
		v = failed(state.StatusCancelled, state.OutcomeCancelled, runner.ErrInterrupted)
	case len(best(m.Attempts)) > 0:
	case g.recovered && slices.ContainsFunc(m.Attempts, func(a state.Attempt) bool { return a.Rank == 0 }):
		v = failed(state.StatusInterrupted, state.OutcomeFailure, killedBefore("an attempt passed the check"))
	case checked:
		v = failed(state.StatusCompleted, state.OutcomeFailure, &runner.Error{Code: CodeCheckFailed, Param: "--check",
			Message: "no attempt passed the check", Hint: "see why with: holon show " + m.RunID})
	default:
		v = verdict{same.Status, same.Outcome, same.Error}
		if v.failure == nil {
			v.failure = &state.Failure{Code: string(CodeCheckFailed), Param: "--check",
				Message: "no attempt came to its check", Hint: "see why with: holon show " + m.RunID}
		}
	}
	m.Status, m.Outcome, m.Error, m.ExitCode = v.status, v.outcome, v.failure, v.outcome.ExitCode()
}

// conclude records how the run ended, and then gives up what the attempts shared.
func (g *group) conclude(ctx context.Context) error {
	m, out := g.manifest, g.run.OutputDir()
	g.add(ctx)
	if m.CompletedAt.IsZero() {
		m.CompletedAt = turns.At(time.Now())
	}
	m.Timings.TotalMS = m.CompletedAt.Sub(m.StartedAt).Milliseconds()
	if err := os.WriteFile(filepath.Join(out, SummaryFile), g.secrets.Bytes(g.summary()), 0o600); err != nil {
		return fmt.Errorf("write the summary: %w", err)
	}
	artifacts, warnings, err := files.Artifacts(context.WithoutCancel(ctx), out, ownDirs...)
	if err != nil {
		return err
	}
	m.Artifacts, m.Warnings = artifacts, append(m.Warnings, warnings...)
	hideSecrets(g.secrets, m)
	if err := g.run.WriteManifest(m); err != nil {
		return err
	}
	if held, err := sessions.Parts(g.run.Dir()); err != nil || len(held) > 0 { // which borrows from the base
		return err
	}
	return errors.Join(files.RemoveAll(filepath.Join(g.run.Dir(), baseDir)),
		g.sessions.RemoveRecord(sessions.OfRun(g.run.ID())))
}

// add adds what confined the parts of the run, and what they took of models in all.
func (g *group) add(ctx context.Context) {
	m := g.manifest
	m.Usage, m.ModelUsage = nil, nil
	var ids []string
	for _, a := range m.Attempts {
		ids = append(ids, a.RunID)
	}
	for _, id := range append(ids, state.PartID(m.RunID, state.PartJudge)) {
		e, err := files.New(g.sessions.Home).Open(ctx, id)
		if err != nil || e.Manifest == nil {
			continue
		}
		of := e.Manifest
		if of.Isolation != nil && m.Isolation == nil { // that of all
			m.Engine.Version, m.Engine.Runtime, m.Isolation, m.Limits = of.Engine.Version, of.Engine.Runtime, of.Isolation,
				of.Limits
		}
		if of.Usage != nil {
			if m.Usage == nil {
				m.Usage = new(turns.Usage)
			}
			m.Usage.Usage = m.Usage.Add(of.Usage.Usage)
			m.Usage.Estimated = m.Usage.Estimated || of.Usage.Estimated
		}
		if of.ModelUsage != nil {
			m.ModelUsage = gateway.Sum(m.ModelUsage, of.ModelUsage)
		}
	}
}
