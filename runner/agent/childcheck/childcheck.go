// Package childcheck makes the checks of children.
//
//	tree of the task ─▶ its change ─▶ run of its own: fresh tree and container, no model ─▶ verdict
//
// The invariants: the run of a check has an id that follows from the task, so that what a killed process left of it is
// found and ended before it is made again; a check has no effects outside of its container.
package childcheck

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"holon/responses/tasks"
	"holon/runner"
	"holon/runner/agent/scheduler"
	"holon/runner/agent/trees"
	"holon/runner/engine"
	"holon/runner/oneshot"
	"holon/runner/sessions"
	"holon/state"
	"holon/state/ledger"
)

// timeout is that of a check, as of holon run.
const timeout = 10 * time.Minute

// Checks makes the checks of the children of a home. All fields but Claim are required.
type Checks struct {
	Home    state.Home
	Engine  engine.Engine
	Trees   *trees.Trees
	Session runner.Config // of the runs, without engine and image
	Quota   runner.Quota
	Claim   *sessions.Claim // nil: as of a pool
}

// Admit refuses patterns that no check can have.
func (c *Checks) Admit(patterns []string) error {
	_, err := oneshot.NewPaths(patterns)
	if err != nil {
		err = &state.Error{Code: scheduler.CodeInvalidSpawn, Param: "check_paths", Message: err.Error(),
			Hint: "* is any part of a name, ** any directories, {a,b} one of both"}
	}
	return err
}

// Clear ends what a killed process left of checks. Those that have ended stay, as other runs do.
func (c *Checks) Clear(ctx context.Context) error {
	left, err := filepath.Glob(filepath.Join(c.Home.RunsDir(), oneshot.CheckRuns+"*", state.SessionFile))
	for _, file := range left {
		err = errors.Join(err, c.recovery().Forget(ctx, filepath.Base(filepath.Dir(file))))
	}
	return err
}

func (c *Checks) recovery() *oneshot.Recovery {
	return &oneshot.Recovery{Home: c.Home, Engines: func(string) (engine.Engine, error) { return c.Engine, nil },
		Version: c.Session.Version, Secrets: c.Session.Secrets, Log: c.Session.Log}
}

// Check checks what the tree of a task holds, in a container of the image. What was begun of it before is removed. It
// may end with ctx: then what it returns says nothing.
func (c *Checks) Check(ctx context.Context, t ledger.Task, image string) state.Check {
	check := t.Child().Check
	verdict := state.Check{Command: c.Session.Secrets.Text(check.Command), Status: state.CheckNotRun,
		Restored: []string{}, Changed: []string{}, Unused: []string{}}
	if err := c.check(ctx, t, image, &verdict); err != nil {
		verdict.Error = new(runner.Describe(err))
	}
	if e := verdict.Error; e != nil {
		e.Message = c.Session.Secrets.Text(e.Message)
		if e.Hint, e.Param = "", "check"; e.Code == "check_changed" { // hints are for flags of holon run
			e.Param, e.Hint = "check_paths", "look at the change; patterns in check_paths that fit these files restore them"
		}
	}
	return verdict
}

func (c *Checks) check(ctx context.Context, t ledger.Task, image string, verdict *state.Check) error {
	id := oneshot.CheckRuns + strings.TrimPrefix(t.ID, tasks.Prefix)
	if err := c.recovery().Forget(ctx, id); err != nil {
		return fmt.Errorf("remove what was begun of the check: %w", err)
	}
	if err := c.Quota.Admit(ctx, c.Home); err != nil {
		return err
	}
	paths, err := oneshot.NewPaths(t.Child().Check.Paths)
	if err != nil {
		return err
	}
	session, objects := c.Session, ""
	session.Engine, session.Image = c.Engine, image
	session.Labels = c.Claim.Labels(sessions.OfAgent(t.AgentID), session.Labels)
	if c.Engine.Name() == "docker" {
		objects = runner.ObjectsPath
	}
	change, err := c.Trees.Change(ctx, t.ID, objects)
	if err != nil {
		return err
	}
	if err := oneshot.PrepareTrials(change.Dir); err != nil {
		return err
	}
	verdict.RunID = id
	trial := oneshot.Trial{Check: oneshot.Check{Command: t.Child().Check.Command, Paths: paths, Timeout: timeout},
		Session: session, Home: c.Home, Name: "check of " + t.ID, Quota: c.Quota, Version: session.Version,
		Dir: change.Dir, Source: change.Source, Prefix: change.Prefix, Files: change.Files, Change: change.Kept,
		BaseFiles: func(context.Context) ([]string, error) { return change.Base, nil }}
	trial.Do(ctx, verdict)
	return nil
}
