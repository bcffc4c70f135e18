package trees

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"holon/internal/durable"
	"holon/runner/sessions"
	"holon/runner/workspace"
	"holon/runner/workspace/git"
	"holon/runner/workspace/landing"
	"holon/state/ledger"
)

// Recover sees to what a killed process left: applies that were cut off, trees that were not made to their end or that
// are gone, and those of agents that were removed. It is called before any agent works. What cannot be done for one
// agent is logged.
func (t *Trees) Recover(ctx context.Context, is func(agentID string) bool) error {
	all, active, archived, err := t.recorded(ctx)
	if err != nil {
		return fmt.Errorf("find the trees of agents: %w", err)
	}
	wanted := make(map[string]bool)
	for _, tree := range all {
		switch {
		case !is(tree.AgentID):
		case len(tree.Held) > 0:
			wanted[claimOf(tree)] = tree.Status == ledger.TreeActive || tree.Status == ledger.TreeRetained
		case tree.Status == ledger.TreeActive:
			err = errors.Join(err, t.endLost(ctx, tree, ledger.TreeRemoved, "it was not made", false))
		}
	}
	err = errors.Join(err, t.disclaimOthers(ctx, is, wanted), workspace.SweepSlots(ctx, t.opts.Home.CacheDir()))
	if err != nil {
		t.opts.Log.Warn("trees that no agent has were not given up", "err", err)
	}
	for agentID, removed := range archived {
		if !is(agentID) {
			continue
		}
		if err := t.recoverAgent(ctx, agentID, active[agentID], removed); err != nil {
			t.opts.Log.Warn("the trees of an agent cannot be looked after", "agent", agentID, "err", err)
		}
	}
	if err := t.sweep(is); err != nil {
		t.opts.Log.Warn("what is half written of trees could not all be removed", "err", err)
	}
	return ctx.Err()
}

// recorded are all trees, with the active one of each agent that has any, and whether that was removed.
func (t *Trees) recorded(ctx context.Context) (all []ledger.Tree, active map[string]string, archived map[string]bool,
	err error) {
	active, archived = make(map[string]string), make(map[string]bool)
	err = t.opts.Store.View(ctx, func(v ledger.View) (err error) {
		if all, err = v.AllTrees(); err != nil {
			return err
		}
		for _, tree := range all {
			a, err := v.Agent(tree.AgentID)
			if err != nil {
				return err
			}
			stored, err := v.AgentState(tree.AgentID)
			if err != nil {
				return err
			}
			if archived[a.ID] = a.ArchivedAt != nil; stored.Active != nil {
				active[a.ID] = stored.Active.Tree
			}
		}
		return nil
	})
	return all, active, archived, err
}

// disclaimOthers gives up trees without a record.
func (t *Trees) disclaimOthers(ctx context.Context, is func(agentID string) bool, wanted map[string]bool) error {
	claims, err := workspace.Claims(ctx, t.opts.Home.CacheDir())
	for _, c := range claims {
		claim, ofAgent := strings.CutPrefix(c.By, sessions.AgentClaim)
		if id, _, _ := strings.Cut(claim, "/"); ofAgent && is(id) && !wanted[c.By] {
			err = errors.Join(err, workspace.Disclaim(ctx, t.opts.Home.CacheDir(), c))
		}
	}
	return err
}

func (t *Trees) recoverAgent(ctx context.Context, agentID, active string, removed bool) error {
	changes := filepath.Join(t.changesDir(agentID), "*")
	if err := t.recoverApply(ctx, agentID); err != nil { // what is to be finished must not be undone
		return err
	}
	killed, err := landing.UndoKilled(ctx, []string{changes}, false)
	for _, k := range killed {
		err = errors.Join(err, k.Err)
	}
	if removed {
		return errors.Join(err, t.Retire(ctx, agentID))
	}
	if tree := (ledger.Tree{AgentID: agentID, Name: active}); active != "" && !t.there(tree) {
		err = errors.Join(err, t.endLost(ctx, tree, ledger.TreeFailed, missing, true))
	}
	return err
}

// sweep removes the anchors of all agents that are half written, and the temporary files among changes, of which an
// agent without a tree may have some.
func (t *Trees) sweep(is func(agentID string) bool) error {
	agents, err := t.opts.Home.AgentIDs()
	errs := []error{err}
	for _, id := range agents {
		if !is(id) {
			continue
		}
		half, _ := filepath.Glob(t.private(id, "anchors", newAnchor+"*")) // the patterns are right
		dirs, _ := filepath.Glob(filepath.Join(t.changesDir(id), "*"))
		for _, dir := range half {
			errs = append(errs, os.RemoveAll(dir))
		}
		for _, dir := range dirs {
			errs = append(errs, durable.Sweep(dir))
		}
	}
	return errors.Join(errs...)
}

// Retire gives up the trees of an agent that was removed: those without changes go, and of the others the patch stays,
// beneath the agent's home. What cannot be done is left for the next start.
func (t *Trees) Retire(ctx context.Context, agentID string) error {
	trees, err := t.treesOf(ctx, agentID)
	if err != nil {
		return err
	}
	var errs []error
	for _, tree := range trees {
		switch {
		case tree.Status == ledger.TreeActive:
			_, err := t.end(ctx, tree, tree.TaskID != "")
			errs = append(errs, err)
		case tree.Status == ledger.TreeRetained && tree.TaskID != "" && len(tree.Held) > 0 && !t.there(tree):
			// a process that was killed discarded it
			errs = append(errs, t.endLost(ctx, tree, ledger.TreeRemoved, "it was discarded", false))
		}
	}
	if err := errors.Join(errs...); err != nil || len(trees) == 0 {
		return typed(err)
	}
	if slices.ContainsFunc(trees, t.there) { // one that stays needs them
		return nil
	}
	return errors.Join(os.RemoveAll(t.private(agentID, "objects")), os.RemoveAll(t.private(agentID, "anchors")))
}

// end removes a tree whose owner has ended. Of one with changes or commits those are kept, and with keep the tree too.
// found is the zero value when the tree was not there.
func (t *Trees) end(ctx context.Context, tree ledger.Tree, keep bool) (found contents, err error) {
	ended := func(status ledger.TreeStatus, why string) error { // follows what is done, also for a caller that is gone
		return t.opts.Steps.EndTree(context.WithoutCancel(ctx), tree.AgentID, tree.Name, status, why, false)
	}
	if tree, err = t.endUnmade(ctx, tree); err != nil || !tree.Live() {
		return contents{}, err
	}
	w, err := ledger.Read(ctx, t.opts.Store, func(v ledger.View) (ledger.Workspace, error) {
		return v.Workspace(tree.WorkspaceID)
	})
	if err != nil {
		return contents{}, err
	}
	status, why := ledger.TreeRemoved, "nothing in it was changed"
	err = t.one(ctx, target{w, tree}, func(ctx context.Context, o *opened) error {
		if found, err = o.examine(ctx); err != nil {
			return err
		}
		if text := found.text(); text != "" && (keep || untaken(found.diff)) {
			status, why = ledger.TreeRetained, text+", in "+o.dir
		}
		if len(workspace.Lost(found.diff)) > 0 || keep && status == ledger.TreeRetained {
			return ended(status, why)
		}
		if err := o.Release(ctx); err != nil {
			return err
		}
		return ended(status, why)
	})
	if isGone(err) {
		return contents{}, t.endGone(ctx, tree, err)
	}
	return found, err
}

// endGone ends a tree that is not there, unless another call ended it meanwhile. One that was given up, of which only
// the record lacks, was removed by a process that was killed, which had kept what was to be kept.
func (t *Trees) endGone(ctx context.Context, tree ledger.Tree, cause error) error {
	tree, _, err := t.found(ctx, tree.AgentID, tree.Name)
	if err != nil || tree.Status != ledger.TreeActive {
		return err
	}
	status, why := ledger.TreeFailed, missing
	if e, ok := errors.AsType[*git.Error](cause); ok && e.Code == workspace.CodeReleased && !t.there(tree) {
		status, why = ledger.TreeRemoved, "it was removed before"
		for _, name := range []string{patchFile, bundleFile} {
			kept := filepath.Join(t.changesDir(tree.AgentID), tree.Name, name)
			if info, err := os.Stat(kept); err == nil && info.Size() > 0 && tree.TaskID == "" {
				status, why = ledger.TreeRetained, why+"; kept: "+kept
			}
		}
	}
	return t.endLost(ctx, tree, status, why, false)
}

// endLost ends a tree that is not there, with what is left of it: a process that was killed may have taken it away
// without giving up its claim. The record follows what is done, also for a caller that is gone.
func (t *Trees) endLost(ctx context.Context, tree ledger.Tree, status ledger.TreeStatus, why string, lost bool) error {
	ctx = context.WithoutCancel(ctx)
	return errors.Join(t.disclaim(ctx, tree), t.opts.Steps.EndTree(ctx, tree.AgentID, tree.Name, status, why, lost))
}

// missing is why a tree has failed.
const missing = "its directory is gone"

// endUnmade ends a tree that was not made. One that is being made is waited for, and returned as it is then.
func (t *Trees) endUnmade(ctx context.Context, tree ledger.Tree) (ledger.Tree, error) {
	if len(tree.Held) > 0 {
		return tree, nil
	}
	unlock, err := t.lock(ctx, tree.AgentID)
	if err != nil {
		return tree, err
	}
	defer unlock()
	tree, _, err = t.found(ctx, tree.AgentID, tree.Name)
	if err != nil || tree.Status != ledger.TreeActive || tree.Live() {
		return tree, err
	}
	return tree, t.endLost(ctx, tree, ledger.TreeRemoved, "it was not made", false)
}

// isGone reports whether a tree, or what it was made from, is not there any more.
func isGone(err error) bool {
	e, ok := errors.AsType[*git.Error](err)
	return ok && (e.Code == workspace.CodeTreeGone || e.Code == workspace.CodeReleased)
}

// Digest changes with the files of the tree in which an agent works; "" when it works in its home.
func (t *Trees) Digest(ctx context.Context, agentID string) (string, error) {
	stored, err := ledger.Read(ctx, t.opts.Store, func(v ledger.View) (ledger.AgentState, error) {
		return v.AgentState(agentID)
	})
	if err != nil || stored.Active == nil || !t.there(ledger.Tree{AgentID: agentID, Name: stored.Active.Tree}) {
		return "", err
	}
	return workspace.Digest(ctx, t.treeDir(ledger.Tree{AgentID: agentID, Name: stored.Active.Tree}), ".git")
}
