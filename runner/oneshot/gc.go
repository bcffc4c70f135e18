package oneshot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"holon/runner"

	"holon/internal/duration"
	"holon/runner/engine"
	"holon/runner/sessions"
	"holon/runner/workspace"
	"holon/runner/workspace/git"
	"holon/runner/workspace/landing"
	"holon/state"
	"holon/state/files"
)

// DefaultOrphanAge is how long a run's holon must have been dead before Collect
// stops its container, if that still runs.
const DefaultOrphanAge = time.Hour

// leftoverAge is how old a temporary file must be before it counts as left over.
const leftoverAge = time.Hour

// Collector removes what no live run owns: it settles the runs of killed holons,
// so that their work is saved, and removes containers, sockets, claims and
// temporary files without an owner. Anything that may belong to a run is
// removed under that run's lease, so any number of collectors and runs can work at once.
// Containers of other homes are never looked at.
type Collector struct {
	Recovery
	OrphanAge time.Duration // of a run whose container still runs
	Force     bool          // settle those too, however young
	KeepRuns  int           // ended runs to keep, the newest; negative: all
	KeepFor   time.Duration // ended runs older than that are removed; negative: none
	DryRun    bool
	Now       time.Time
}

// Finding is one thing that a Collector found, and what became of it.
type Finding struct {
	Kind  string `json:"kind"` // run, apply, worktree, container, image, sockets, tree, temporary
	Do    string `json:"do"`   // settle, remove, free
	What  string `json:"what"` // id or path
	Why   string `json:"why"`
	Kept  bool   `json:"kept"`  // left as it is: Why says for how long
	Done  bool   `json:"done"`  // it is removed or settled
	Error string `json:"error"` // why it could not be
}

// collection is one call of Collect.
type collection struct {
	*Collector
	found   []Finding
	runs    *files.Runs
	settled map[string]bool // runs that are settled by now, or would be
}

// Collect looks once at everything and returns what it found. Errors of single
// findings are in them; the error is for what could not be looked at.
func (c *Collector) Collect(ctx context.Context) ([]Finding, error) {
	run := &collection{Collector: c, runs: files.New(c.Home), settled: map[string]bool{}}
	var errs []error
	for _, step := range []func(context.Context) error{
		run.orphans, run.containers, run.sweeper().Sockets, run.sweeper().Claims, run.trees, run.applies,
		run.old, run.temporary,
	} {
		if ctx.Err() != nil {
			return run.found, context.Cause(ctx)
		}
		errs = append(errs, step(ctx))
	}
	return run.found, errors.Join(errs...)
}

// add notes a finding and deals with it. In a dry run act changes nothing, and says only whether it could.
func (c *collection) add(kind, do, what, why string, act func() error) (done bool) {
	f := Finding{Kind: kind, Do: do, What: what, Why: why}
	err := act()
	switch {
	case state.IsCode(err, state.CodeRunLive), state.IsCode(err, codeEnded),
		state.IsCode(err, state.CodeRunNotFound):
		return false // another process was quicker
	case isInUse(err):
		f.Kept, f.Why = true, f.Why+", but "+runner.Describe(err).Message
	case err != nil:
		f.Error = runner.Describe(err).Message
	default:
		f.Done, done = !c.DryRun, true
	}
	c.found = append(c.found, f)
	return done
}

// unlessDry is act, and nothing in a dry run.
func (c *collection) unlessDry(act func() error) func() error {
	if c.DryRun {
		return func() error { return nil }
	}
	return act
}

// isInUse reports whether a checked-out result holds something of the user's.
func isInUse(err error) bool {
	e, ok := errors.AsType[*git.Error](err)
	return ok && e.Code == landing.CodeWorktreeInUse
}

// orphans settles runs without a holder that still hold something or have no end.
func (c *collection) orphans(ctx context.Context) error {
	views, err := Inventory(ctx, c.Home, c.Engines)
	if err != nil {
		return err
	}
	for _, v := range views {
		if v.Status == state.StatusRunning || v.record == nil && v.Outcome != nil {
			err = errors.Join(err, c.orphanParts(ctx, v))
			continue
		}
		e, openErr := c.runs.Open(ctx, v.ID)
		if openErr != nil || e.Live {
			continue // its manifest is written, and it is giving up what it holds
		}
		if e.Damaged {
			c.found = append(c.found, Finding{Kind: "run", Do: "settle", What: v.ID, Kept: true,
				Why: "its manifest cannot be read: correct it, or remove " +
					filepath.Join(e.Dir, state.ManifestFile)})
			continue
		}
		why := "its holon was killed, or could not record its end"
		if v.Outcome != nil {
			why = "it has ended and still holds something"
		}
		if v.Container == containerRunning && v.Outcome == nil {
			why += " and its container still runs"
			if dead := c.Now.Sub(v.SeenAt.Time()); !c.Force && dead < c.OrphanAge {
				c.found = append(c.found, Finding{Kind: "run", Do: "settle", What: v.ID, Kept: true,
					Why: fmt.Sprintf("%s; holon attach goes on with it, --force ends it, and so does a gc in %s", why,
						leftText(c.OrphanAge-dead))})
				continue
			}
		}
		c.settled[v.ID] = c.add("run", "settle", v.ID, why,
			c.unlessDry(func() error { _, err := c.Settle(ctx, v.ID); return err }))
	}
	return err
}

// orphanParts settles the parts of a run that has ended which still hold something.
func (c *collection) orphanParts(ctx context.Context, v View) error {
	if v.Status == state.StatusRunning {
		return nil
	}
	held, err := sessions.Parts(c.Home.RunDir(v.ID))
	for _, rec := range held {
		c.settled[rec.ID] = c.add("run", "settle", rec.ID, "its run has ended and it still holds something",
			c.unlessDry(func() error { _, err := c.Settle(ctx, rec.ID); return err }))
	}
	return err
}

// sweeper removes what no run of the home owns, and notes it.
func (c *collection) sweeper() sessions.Sweeper {
	return sessions.Sweeper{Home: c.Home, Unowned: c.unowned, Found: func(l sessions.Leftover, err error) {
		f := Finding{Kind: l.Kind, Do: "remove", What: l.Name, Why: "its run has ended or is gone",
			Done: err == nil && !c.DryRun}
		if l.Kind == "tree" {
			f.Do, f.Why = "free", "it is claimed by a run that has ended or is gone"
		}
		if err != nil {
			f.Error = runner.Describe(err).Message
		}
		c.found = append(c.found, f)
	}}
}

// unowned removes what a run left, under its lease, when that run does not exist, or has ended and holds nothing.
func (c *collection) unowned(ctx context.Context, l sessions.Leftover, remove func() error) (bool, error) {
	remove = c.unlessDry(remove)
	if state.CheckRunID(l.Session) != nil {
		return true, remove()
	}
	run, err := c.runs.Take(ctx, l.Session)
	if state.IsCode(err, state.CodeRunNotFound) { // ids are used once: it will not come to exist
		return true, remove()
	}
	if state.IsCode(err, state.CodeRunLive) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer run.Close()
	e, err := c.runs.Open(ctx, l.Session)
	if err != nil {
		return false, err
	}
	if _, err := sessions.ReadRun(run.Dir()); e.Manifest == nil || !errors.Is(err, fs.ErrNotExist) {
		return false, nil // to be settled first
	}
	return true, remove()
}

// containers removes those of this home whose run is gone.
func (c *collection) containers(ctx context.Context) error {
	var errs []error
	names := []string{"docker", "local"}
	if c.Engine != "" && !slices.Contains(names, c.Engine) {
		names = append(names, c.Engine)
	}
	for _, name := range names {
		eng, err := c.Engines(name)
		if err != nil || eng == nil {
			continue // it is not used here; runs that need it say so
		}
		err = c.sweeper().Containers(ctx, eng)
		if state.IsCode(err, engine.CodeUnreachable) || state.IsCode(err, engine.CodePermissionDenied) {
			c.found = append(c.found, Finding{Kind: "container", Do: "remove", What: name, Kept: true,
				Why: "the engine does not answer, so its containers were not looked at"})
			continue
		}
		errs = append(errs, err, c.images(ctx, eng))
	}
	return errors.Join(errs...)
}

// images removes those that an engine made and needs no more.
func (c *collection) images(ctx context.Context, eng engine.Engine) error {
	cleaner, ok := eng.(engine.ImageCleaner)
	if !ok {
		return nil
	}
	old, err := cleaner.OldImages(ctx, !c.DryRun)
	for _, name := range old {
		c.found = append(c.found, Finding{Kind: "image", Do: "remove", What: name, Done: !c.DryRun,
			Why: "it was made to bring agentd to containers, of which none has it any more"})
	}
	return err
}

// trees removes the cached trees of directories that are gone.
func (c *collection) trees(ctx context.Context) error {
	gone, err := workspace.Prune(ctx, c.Home.CacheDir(), c.DryRun, c.frees)
	for _, dir := range gone {
		c.found = append(c.found, Finding{Kind: "tree", Do: "remove", What: dir,
			Why: "the directory that it was made from is gone", Done: !c.DryRun})
	}
	return err
}

// frees reports whether a claim is given up by what was found so far.
func (c *collection) frees(claim workspace.Claim) bool {
	return c.settled[claim.By] || slices.ContainsFunc(c.found, func(f Finding) bool {
		return f.Do == "free" && f.What == claim.Slot && f.Error == ""
	})
}

// applies undoes or completes what an apply or a checkout that was killed left.
func (c *collection) applies(ctx context.Context) error {
	killed, err := landing.UndoKilled(ctx, c.Home.RunPatterns(), c.DryRun)
	for _, k := range killed {
		c.add("apply", "settle", k.What, "the holon that landed "+c.Home.RunAt(k.Dir)+" was killed; "+k.Files(),
			func() error { return k.Err })
	}
	return err
}

// leftText is a time that is left, to the minute.
func leftText(d time.Duration) string { return duration.Text(d.Round(time.Minute)) }

// agoText is a time that has passed, in whole minutes, or seconds of the first.
func agoText(d time.Duration) string {
	unit := time.Minute
	if d < unit {
		unit = time.Second
	}
	return duration.Text(d.Truncate(unit))
}

// old removes ended runs that need not be kept.
func (c *collection) old(ctx context.Context) error {
	if c.KeepRuns < 0 && c.KeepFor < 0 {
		return nil
	}
	entries, err := c.runs.List(ctx)
	if err != nil {
		return err
	}
	ended := 0
	for _, e := range entries {
		if e.Live || e.Manifest == nil && !c.settled[e.ID] {
			continue
		}
		ended++
		why := ""
		if c.KeepRuns >= 0 && ended > c.KeepRuns {
			why = fmt.Sprintf("it is not among the newest %d", c.KeepRuns)
		} else if m := e.Manifest; m != nil && c.KeepFor >= 0 && c.Now.Sub(m.CompletedAt.Time()) > c.KeepFor {
			why = fmt.Sprintf("it ended %s ago", agoText(c.Now.Sub(m.CompletedAt.Time())))
		}
		if why != "" {
			var worktrees []string
			c.add("run", "remove", e.ID, why, func() (err error) { worktrees, err = c.forget(ctx, e.ID); return err })
			for _, worktree := range worktrees {
				c.found = append(c.found, Finding{Kind: "worktree", Do: "remove", What: worktree, Done: !c.DryRun,
					Why: "the result of " + e.ID + " is checked out there; files that git ignores go too"})
			}
		}
	}
	return nil
}

// forget removes an ended run that holds nothing, with the working trees of its
// results, whose paths it returns. One that holds what is saved nowhere else keeps the run.
func (c *collection) forget(ctx context.Context, id string) (worktrees []string, err error) {
	if c.DryRun && c.settled[id] { // it holds something until then, and is not checked out
		return nil, nil
	}
	run, err := c.runs.Take(ctx, id)
	if err != nil {
		return nil, err
	}
	if holds(run.Dir()) {
		return nil, errors.Join(&runner.Error{Code: sessions.CodeStillRunning, Param: "run",
			Message: id + " still holds something",
			Hint:    "settle it first"}, run.Close())
	}
	for _, dir := range dirsOf(run.Dir()) {
		if _, err := os.Lstat(filepath.Join(dir, landing.ApplyFile)); err == nil {
			return nil, errors.Join(&runner.Error{Code: sessions.CodeStillRunning, Param: "run",
				Message: "an apply of " + c.Home.RunAt(dir) + " goes on, or was killed and could not be undone",
				Hint:    "see what holon gc says of it"}, run.Close())
		}
		removed, err := landing.Remove(ctx, landing.RemoveOptions{RunDir: dir, Borrowing: c.Borrowing, DryRun: c.DryRun})
		if err != nil {
			return worktrees, errors.Join(err, run.Close())
		}
		if removed != nil && removed.Removed {
			worktrees = append(worktrees, removed.Path)
		}
	}
	if c.DryRun {
		return worktrees, run.Close()
	}
	return worktrees, run.Remove()
}

// temporary removes what crashes left half made.
func (c *collection) temporary(ctx context.Context) error {
	found, err := c.runs.Leftovers(ctx, c.Now, leftoverAge)
	for _, f := range found {
		c.add("temporary", "remove", f.Path, f.Why, c.unlessDry(func() error { return c.runs.Sweep(f) }))
	}
	fetched, globErr := filepath.Glob(filepath.Join(c.Home.CacheDir(), "skill-*"))
	for _, dir := range fetched {
		if info, err := os.Lstat(dir); err == nil && c.Now.Sub(info.ModTime()) > leftoverAge {
			c.add("temporary", "remove", dir, "a skill that was not fetched to the end",
				c.unlessDry(func() error { return files.RemoveAll(dir) }))
		}
	}
	return errors.Join(err, globErr)
}
