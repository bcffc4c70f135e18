package oneshot

import (
	"context"
	"fmt"
	"path/filepath"

	"holon/runner"
	"holon/runner/engine"
	"holon/runner/workspace"
	"holon/state"
)

// Trial is the check of a change, of a run or of a child: what the change is, and what the run of the check is made
// with.
type Trial struct {
	Check   Check
	Session runner.Config // of what made the change; the check gets neither its models nor what it reaches but services
	Home    state.Home
	Name    string // of the run
	Keep    bool
	Quota   runner.Quota
	Version string
	Dir     string // see PrepareTrials

	Source    *workspace.Source // of the base
	BaseFiles func(ctx context.Context) ([]string, error)
	Prefix    string // directory in which the command runs
	Files     []state.FileChange
	Change    workspace.Continuation // without Restore

	beat func() error // see Run.beat
}

// Do makes the run c.RunID, which must not be there, and completes c. How it ends is no error, and warnings are what c
// has no room for.
func (t *Trial) Do(ctx context.Context, c *state.Check) (warnings []string) {
	of := t.Check.Paths.split(t.Files, t.Check.Command, t.Prefix)
	list := func(as string, paths []string) []string {
		if more := len(paths) - maxListedPaths; more > 0 {
			warnings = append(warnings, fmt.Sprintf("%d more files are %s for the check", more, as))
			return paths[:maxListedPaths]
		}
		return paths
	}
	c.Restored, c.Changed = list("as in the base", of.restored), list("changed", of.changed)
	if paths := t.Check.Paths; len(paths.given) > 0 {
		base, err := t.BaseFiles(ctx)
		if err != nil {
			c.Error = new(runner.Describe(err))
			return warnings
		}
		c.Unused = paths.unused(base, t.Files)
	}
	seen := new(commandWatch)
	run := t.run(c, of.restored, seen)
	m, err := run.Do(ctx)
	if err != nil {
		c.Error = new(runner.Describe(err))
		return warnings
	}
	c.DurationMS, c.Output = seen.end.DurationMS, printed(run.results)
	settleCheck(c, m, seen.end.ExitCode)
	distrust(c, of.named)
	return warnings
}

// maxListedPaths bounds the files that are listed of a check: the manifest of several attempts has them all.
const maxListedPaths = 200

// run is the run that the check is.
func (t *Trial) run(c *state.Check, restore []string, seen *commandWatch) *Run {
	cfg := t.Session
	cfg.Models = runner.Models{Model: "scripted/" + state.PartCheck, Scenario: filepath.Join(t.Dir, checkFile)}
	cfg.Files = runner.Files{InputDir: cfg.InputDir}
	cfg.Reach, cfg.AgentEnv, cfg.Network, cfg.SessionID = runner.Reach{Services: cfg.Services}, nil, engine.NetworkNone, ""
	turn := runner.NewTurn("", t.Check.Command)
	limits := turn.Limits()
	limits.TimeoutMS, limits.MaxOutputBytes = t.Check.Timeout.Milliseconds(), maxCheckOutput
	var from *workspace.Continuation
	if len(t.Files) > 0 {
		from = &t.Change
		from.Restore = restore
	}
	return &Run{ID: c.RunID, Name: t.Name, Session: cfg, Turn: turn, Home: t.Home, Keep: t.Keep, Quota: t.Quota,
		Version: t.Version, Watch: seen, source: t.Source.With(c.RunID, from), disposable: true, beat: t.beat}
}
