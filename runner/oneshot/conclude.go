package oneshot

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"holon/internal/durable"
	"holon/internal/visible"
	"holon/responses"
	"holon/responses/turns"
	"holon/runner"
	"holon/runner/engine"
	"holon/runner/gateway"
	"holon/runner/sessions"
	"holon/runner/turnfiles"
	"holon/runner/workspace"
	"holon/state"
	"holon/state/files"
)

// unsaved begins the warning that the change of a run is still to be collected.
const unsaved = "what was changed is not saved yet, and kept in "

func isUnsaved(warning string) bool { return strings.HasPrefix(warning, unsaved) }

// conclude records how the run ended, and only then gives up what it holds: a
// crash in between leaves things to be tidied up, but no run without an end. What
// could not be collected is kept, for another attempt.
func (r *execution) conclude(ctx context.Context, err error) error {
	keep, finishErr := r.finishKeeping(ctx, err)
	if errors.Is(finishErr, syscall.ENOSPC) && r.prior == nil { // its end takes less room than its results
		if err = errors.Join(err, finishErr, r.uncollect()); r.session != nil {
			keep, finishErr = r.finishKeeping(ctx, err)
		}
	}
	if finishErr != nil {
		return errors.Join(finishErr, r.release(ctx, true))
	}
	if err := r.release(ctx, keep); err != nil { // session.json stays: there is something left for gc
		return r.amend(err)
	}
	return nil
}

// finishKeeping is finish, and reports whether something is left to be collected.
func (r *execution) finishKeeping(ctx context.Context, err error) (keep bool, _ error) {
	if keep = r.session != nil && r.session.Tree() != nil && r.diff == nil && !r.spec.disposable; keep {
		r.manifest.Warnings = slices.DeleteFunc(r.manifest.Warnings, isUnsaved)
		r.manifest.Warnings = append(r.manifest.Warnings,
			visible.OneLine(unsaved+r.session.Tree().Dir()+"; holon gc tries again", 500))
	}
	return keep, r.finish(ctx, err)
}

// uncollect removes the results that were collected, where the disk has no room for the end of the run: they are
// collected again when it has.
func (r *execution) uncollect() error {
	r.diff = nil
	var errs []error
	for _, name := range []string{DiffFile, BundleFile, LogFile, SummaryFile, turns.JournalFile, turns.EventsFile,
		turns.RuntimeFile, turns.RecordFile, turns.FailureFile, turns.ToolsDir, turns.ArtifactsDir} {
		errs = append(errs, files.RemoveAll(filepath.Join(r.run.OutputDir(), name)))
	}
	return errors.Join(errs...)
}

// release gives up what the session holds. With keep its tree and its directory stay, for another attempt.
func (r *execution) release(ctx context.Context, keep bool) error {
	ctx = context.WithoutCancel(ctx) // also when the user has had enough
	switch {
	case r.session == nil:
		return nil
	case keep:
		return r.session.Abandon(ctx)
	}
	return errors.Join(r.session.Close(ctx, r.spec.Keep), files.RemoveAll(filepath.Join(r.run.Dir(), baseDir)))
}

// amend corrects the manifest of a run that could not give up what it held.
func (r *execution) amend(err error) error {
	m, f := r.manifest, runner.Describe(err)
	m.Warnings = append(m.Warnings, f.Message)
	if m.Outcome == state.OutcomeSuccess {
		m.Status, m.Outcome, m.ExitCode, m.Error = state.StatusFailed, state.OutcomeFailure,
			state.OutcomeFailure.ExitCode(), &f
	}
	return r.writeManifest()
}

// stop ends the container, and fetches what it wrote elsewhere. One that cannot be ended is not collected from, since
// it could still write.
func (r *execution) stop(ctx context.Context, s *sessions.Session) error {
	fetching, cancel := context.WithTimeout(ctx, collectTime)
	defer cancel()
	ctx, cancel = context.WithTimeout(ctx, runner.StopGrace+20*time.Second)
	defer cancel()
	if err := s.Stop(ctx); err != nil {
		return err
	}
	if err := s.Fetch(fetching); err != nil || !r.spec.Keep {
		return err
	}
	logs, err := s.Logs(ctx, 1<<20)
	if err == nil {
		err = os.WriteFile(filepath.Join(r.run.OutputDir(), LogFile), r.config.Secrets.Bytes(logs), 0o600)
	}
	if err != nil {
		r.manifest.Warnings = append(r.manifest.Warnings,
			"the container's log could not be kept: "+visible.OneLine(err.Error(), 300))
	}
	return nil
}

// collectTime bounds how long the results of a turn may take to be fetched, and to be collected.
const collectTime = 10 * time.Minute

// collect takes what the turn left: its directory and the change of the tree.
func (r *execution) collect(ctx context.Context, s *sessions.Session) error {
	ctx, cancel := context.WithTimeout(ctx, collectTime)
	defer cancel()
	out := r.run.OutputDir()
	warnings, err := turnfiles.Collect(ctx, r.sessions.SessionDir(r.key), r.turn.TurnID, out,
		r.ask.Limits().MaxOutputBytes)
	r.manifest.Warnings = append(r.manifest.Warnings, warnings...)
	if err != nil {
		return err
	}
	r.keepConversation(ctx)
	if err := r.complete(ctx, out); err != nil {
		return err
	}
	if s.Tree() == nil || r.spec.disposable {
		return nil
	}
	r.diff, err = s.Tree().Diff(ctx, workspace.DiffOptions{Patch: filepath.Join(out, DiffFile),
		Objects: filepath.Join(r.run.Dir(), ObjectsDir), Bundle: filepath.Join(out, BundleFile), Submodules: true})
	if err != nil {
		return err
	}
	r.warnOfBranches()
	r.warnOfSecrets(r.patchPath())
	for _, w := range append(r.info.Warnings, r.diff.Warnings...) {
		if w.Code != workspace.WarnExecuted { // these are shown by themselves, so that others can't hide them
			r.manifest.Warnings = append(r.manifest.Warnings,
				visible.OneLine(fmt.Sprintf("%s: %s", visible.Name(w.Path), w.Message), 300))
		}
	}
	return nil
}

// complete completes the files of the turn that were collected into out.
func (r *execution) complete(ctx context.Context, out string) error {
	completion := turnfiles.Completion{Facts: append(r.egressFacts(), r.costFacts()...), Secrets: r.config.Secrets}
	if r.turn.Err != nil {
		completion.Gone = responses.Internal(runner.Describe(r.turn.Err).Message, nil)
		completion.Gone.Code = responses.CodeInterrupted
	}
	settled, err := completion.Complete(out)
	if errors.Is(err, turnfiles.ErrUnsettled) {
		r.manifest.Warnings = append(r.manifest.Warnings, visible.OneLine(err.Error(), 300))
	} else if err != nil {
		return err
	}
	if settled != nil {
		r.turn.Response, r.turn.Answer = settled, settled.OutputText()
	} else if r.turn.Err != nil && r.recovered {
		r.lookForTurn(ctx)
	}
	return nil
}

// warnOfBranches names the commits of the agent that are not in the result.
func (r *execution) warnOfBranches() {
	for _, b := range r.diff.Branches {
		commits, files := "commits", "files"
		if b.Commits == 1 {
			commits = "commit"
		}
		if b.Files == 1 {
			files = "file"
		}
		r.manifest.Warnings = append(r.manifest.Warnings, visible.OneLine(fmt.Sprintf(
			"%d %s of the agent on %s (%d %s) left out of the result; to get them: holon checkout --from %s %s",
			b.Commits, commits, b.Name, b.Files, files, quoteFrom(b.Name), r.manifest.RunID), 500))
	}
}

// quoteFrom quotes a name for a shell where it needs that: stash@{0}, and what an agent calls its branches.
func quoteFrom(name string) string {
	if strings.ContainsAny(name, "{}$;&|<>()'\"`!#") {
		return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
	}
	return name
}

// finish records how the run ended.
func (r *execution) finish(ctx context.Context, err error) error {
	m := r.manifest
	r.collectNotes()
	if r.prior == nil {
		r.judge(context.Cause(ctx), err)
	} else if err != nil {
		return err // the manifest that is there says more
	}
	if m.Engine.Version == "" {
		if r.version == nil { // another process began the run
			r.version = askVersion(ctx, r.config.Engine, r.config.Log)
		}
		m.Engine.Version = r.version()
	}
	if r.prior == nil || r.turn.Response != nil {
		m.Turn = r.turnRef()
	}
	r.countUsage()
	if rec := r.turn.Record; rec != nil {
		m.Provider = rec.ProviderAttempts
	}
	r.describeWorkspace()
	if r.prior == nil {
		m.CompletedAt = turns.At(time.Now())
	}
	m.Timings.TotalMS = m.CompletedAt.Sub(m.StartedAt).Milliseconds()
	if err := r.listResults(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	return r.writeManifest()
}

// countUsage records the tokens of the run: by the gateway's account, which counts for the budget, or else as its
// response reports them.
func (r *execution) countUsage() {
	m := r.manifest
	if resp := r.turn.Response; resp != nil && resp.Usage != nil {
		m.Usage = new(turns.UsageOf(*resp.Usage))
	}
	m.ModelUsage = r.account()
	if a := m.ModelUsage; a != nil && a.Requests > 0 {
		m.Usage = new(turns.UsageOf(a.Tokens.Responses(a.Estimated > 0)))
	}
}

// account is what the gateway metered of the run, nil where it was asked for nothing.
func (r *execution) account() *state.Account {
	if r.turn.Account == nil && r.ask.Taken.Requests > 0 { // no model can be asked any more
		r.turn.Account = &r.ask.Taken
	}
	return r.turn.Account
}

// costFacts has what the turn cost, of which its container knows no prices.
func (r *execution) costFacts() []turns.RuntimeEvent {
	a := r.account()
	if a == nil || a.Requests == 0 {
		return nil
	}
	return []turns.RuntimeEvent{r.scope().Event(turns.CostRecorded, a.Spent().Recorded(a.Total, true))}
}

// scope makes the facts of the host about the turn.
func (r *execution) scope() turns.Scope {
	return turns.Scope{RuntimeID: r.run.ID(), SessionID: r.turn.SessionID, TurnID: r.turn.TurnID}
}

// listResults puts the results into the manifest, and writes the summary, which names those that are not listed.
func (r *execution) listResults(ctx context.Context) error {
	m, out := r.manifest, r.run.OutputDir()
	artifacts, warnings, err := files.Artifacts(ctx, out, append(slices.Clone(ownDirs), SummaryFile)...)
	if err != nil {
		return err
	}
	m.Warnings = append(m.Warnings, warnings...)
	text := r.config.Secrets.Bytes(r.summary())
	if err := os.WriteFile(filepath.Join(out, SummaryFile), text, 0o600); err != nil {
		return fmt.Errorf("write the summary: %w", err)
	}
	m.Artifacts = append(artifacts[:min(len(artifacts), state.MaxArtifacts-1)], state.Artifact{Path: SummaryFile,
		Bytes: int64(len(text)), SHA256: fmt.Sprintf("%x", sha256.Sum256(text))})
	slices.SortFunc(m.Artifacts, func(a, b state.Artifact) int { return strings.Compare(a.Path, b.Path) })
	return nil
}

// askVersion asks the engine for its version, and returns what waits for it. A run begins so: what the engine reports
// of itself is there then when the container is made, and no step waits for either.
func askVersion(ctx context.Context, eng engine.Engine, log *slog.Logger) (version func() string) {
	version = sync.OnceValue(func() string {
		info, err := eng.Check(context.WithoutCancel(ctx)) // which has its own bound
		if err != nil {
			log.Debug("the engine does not report its version", "err", err)
		}
		return info.Version
	})
	go version()
	return version
}

func (r *execution) turnRef() *state.TurnRef {
	known := cmp.Or(r.turn.Response, r.turn.Claimed)
	if known == nil {
		return nil
	}
	return &state.TurnRef{TurnID: r.turn.TurnID, ResponseID: known.ID, SessionID: r.turn.SessionID}
}

// describeWorkspace puts into the manifest what the run started from and what
// it changed.
func (r *execution) describeWorkspace() {
	info := r.info
	if info.Kind == "" && r.config.Source != nil {
		info = r.config.Source.Info()
	}
	if r.diff != nil {
		r.diff.Patch = DiffFile // among the artifacts, wherever they are moved
		if r.diff.Bundle != "" {
			r.diff.Bundle = BundleFile
		}
	}
	r.manifest.Workspace = &state.Workspace{Source: info, Changes: r.diff}
}

// noteUsage records, next to the session's record, what the turn took of models so far. It is
// called while the turn runs, from a goroutine of its own.
func (r *execution) noteUsage(a gateway.Account) {
	data, err := json.MarshalIndent(a, "", "  ")
	if err == nil {
		err = durable.WriteFile(filepath.Join(r.run.Dir(), state.UsageFile), append(data, '\n'), 0o600)
	}
	if err != nil {
		r.config.Log.Warn("what the models took is not kept: a holon that attaches to the run would begin "+
			"its budget anew", "run", r.run.ID(), "err", err)
	}
}

// readUsage reads what noteUsage kept last, nothing where no model was asked.
func readUsage(dir string) (a gateway.Account, err error) {
	data, err := durable.ReadFile(filepath.Join(dir, state.UsageFile), maxUsage)
	if errors.Is(err, fs.ErrNotExist) {
		return a, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &a)
	}
	if err != nil {
		return gateway.Account{}, fmt.Errorf("read %s: %w", state.UsageFile, err)
	}
	return a, nil
}

const maxUsage = 4 << 20 // bytes of model-usage.json
