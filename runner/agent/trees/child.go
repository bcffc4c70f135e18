package trees

import (
	"context"
	"errors"
	"path"
	"path/filepath"

	"holon/runner"
	"holon/runner/agent/record"
	"holon/runner/agent/scheduler"
	"holon/runner/workspace"
	"holon/runner/workspace/git"
	"holon/state"
	"holon/state/ledger"
)

// CheckChild refuses a child in a mode that its parent has no workspace for.
func (t *Trees) CheckChild(ctx context.Context, parentID, mode string) error {
	stored, _, err := t.attached(ctx, parentID)
	if err == nil && mode == ledger.ChildWorktree && stored.Active == nil {
		err = &state.Error{Code: scheduler.CodeInvalidWorkspace, Param: "workspace_mode",
			Message: "a child gets a tree of the workspace that you work in, and you work in your home",
			Hint:    "use a workspace first, or leave workspace_mode out"}
	}
	return err
}

// ForChild gives a child the workspaces of its parent, and has it work in the parent's, if that works in one. It may be
// called again.
func (t *Trees) ForChild(ctx context.Context, parentID, childID, taskID, mode string) error {
	return typed(t.forChild(ctx, parentID, childID, taskID, mode))
}

func (t *Trees) forChild(ctx context.Context, parentID, childID, taskID, mode string) error {
	stored, attached, err := t.attached(ctx, parentID)
	if err != nil {
		return err
	}
	by := "agent " + parentID
	for _, w := range attached {
		if _, _, err := t.opts.Steps.Attach(ctx, childID, w, by); err != nil {
			return err
		}
	}
	if stored.Active == nil {
		return nil
	}
	parent, w, err := t.found(ctx, parentID, stored.Active.Tree)
	if err != nil {
		return err
	}
	want := ledger.Tree{AgentID: childID, Name: w.Alias, WorkspaceID: w.ID, Mode: ledger.TreeDirect, TaskID: taskID,
		Source: parent.Source}
	if mode == ledger.ChildWorktree {
		want.Name, want.Mode = w.Alias+"-"+short(taskID), ledger.TreeIsolated
	}
	unlock, err := t.lock(ctx, childID)
	if err != nil {
		return err
	}
	defer unlock()
	if err := t.endOthers(ctx, want); err != nil {
		return err
	}
	tree, err := t.opts.Steps.ReserveTree(ctx, want)
	if err == nil && !tree.Live() {
		if mode == ledger.ChildWorktree {
			tree, err = t.fork(ctx, w, parent, tree)
		} else {
			tree, err = t.make(ctx, w, tree)
		}
	}
	if err == nil {
		_, err = t.opts.Steps.Use(ctx, scheduler.Enter{AgentID: childID, WorkspaceID: w.ID, Tree: tree.Name,
			Cwd: stored.Active.Cwd, By: by})
	}
	return err
}

// endOthers ends the trees of a child that were not made before its parent used another workspace.
func (t *Trees) endOthers(ctx context.Context, want ledger.Tree) error {
	trees, err := t.treesOf(ctx, want.AgentID)
	for _, old := range trees {
		if old.Status == ledger.TreeActive && len(old.Held) == 0 && old.Name != want.Name {
			err = errors.Join(err, t.endLost(ctx, old, ledger.TreeRemoved, "its parent works elsewhere now", false))
		}
	}
	return err
}

// found is a tree of an agent with its workspace.
func (t *Trees) found(ctx context.Context, agentID, name string) (tree ledger.Tree, w ledger.Workspace, err error) {
	err = t.opts.Store.View(ctx, func(v ledger.View) (err error) {
		if tree, err = v.Tree(agentID, name); err == nil {
			w, err = v.Workspace(tree.WorkspaceID)
		}
		return err
	})
	return tree, w, err
}

// fork makes a tree from the present state of another agent's.
func (t *Trees) fork(ctx context.Context, w ledger.Workspace, from, tree ledger.Tree) (made ledger.Tree, err error) {
	err = t.one(ctx, target{w, from}, func(ctx context.Context, parent *opened) (err error) {
		made, err = t.makeBy(ctx, w, tree, func(o workspace.Options) (*workspace.Tree, error) {
			return parent.Fork(ctx, workspace.Options{TreeDir: o.TreeDir, Claim: o.Claim, Owner: o.Owner,
				ObjectsDir: o.ObjectsDir, ContainerObjects: o.ContainerObjects})
		})
		return err
	})
	return made, err
}

// Ended is what the tree of a task holds, and what becomes of it.
type Ended struct {
	Path         string // as its agent sees it
	Branch       string // that is checked out in it
	ChangedFiles []string
	Patch        string // file on the host
	Reason       string // why it was kept
	Status       ledger.TreeStatus
}

// EndOf says what the tree of a task holds. ended gives it up if nothing is lost with it, and keeps it with its patch
// and its agent's commits otherwise. A task without a tree has no Path.
func (t *Trees) EndOf(ctx context.Context, taskID string, ended bool) (e Ended, err error) {
	tree, ok, err := t.treeOf(ctx, taskID)
	if err != nil || !ok {
		return e, err
	}
	var found contents
	switch {
	case ended && tree.Status == ledger.TreeActive:
		found, err = t.end(ctx, tree, true)
	case tree.Live() || ended && len(tree.Held) > 0: // it was kept, and that is not on record yet
		found, err = t.contents(ctx, tree)
	}
	if err != nil {
		return e, typed(err)
	}
	if tree, _, err = t.found(ctx, tree.AgentID, tree.Name); err != nil {
		return e, err
	}
	e = Ended{Path: path.Join(runner.WorkspacesPath, tree.Name), Branch: tree.Branch, Status: tree.Status}
	if tree.Status == ledger.TreeFailed {
		e.Reason = missing
	}
	found.tell(&e, tree)
	return e, nil
}

// treeOf is the tree of a task: the one that was made, when others were given up before.
func (t *Trees) treeOf(ctx context.Context, taskID string) (tree ledger.Tree, ok bool, err error) {
	trees, err := ledger.Read(ctx, t.opts.Store, func(v ledger.View) ([]ledger.Tree, error) { return v.TreesOf(taskID) })
	for _, one := range trees {
		if !ok || one.Status == ledger.TreeActive || one.Status == ledger.TreeRetained {
			tree, ok = one, true
		}
	}
	return tree, ok, err
}

// contents are what would be lost with a tree.
func (t *Trees) contents(ctx context.Context, tree ledger.Tree) (found contents, err error) {
	_, w, err := t.found(ctx, tree.AgentID, tree.Name)
	if err != nil {
		return found, err
	}
	err = t.one(ctx, target{w, tree}, func(ctx context.Context, o *opened) (err error) {
		found, err = o.examine(ctx)
		return err
	})
	return found, err
}

// Patch is the file on the host with what the tree of a task has changed; "" when it has none.
func (t *Trees) Patch(ctx context.Context, taskID string) (file string, err error) {
	if _, err := t.EndOf(ctx, taskID, false); err != nil { // which keeps the patch
		return "", err
	}
	tree, ok, err := t.treeOf(ctx, taskID)
	if err != nil || !ok {
		return "", err
	}
	return filepath.Join(t.changesDir(tree.AgentID), tree.Name, patchFile), nil
}

// Change is what the tree of a task has changed, and of what.
type Change struct {
	Source *workspace.Source // of its base, as long as the tree stays
	Base   []string          // files of the base
	Prefix string            // directory of the tree in which its agent was to work
	Files  []state.FileChange
	Kept   workspace.Continuation
	Dir    string // that keeps it
}

// Change finds out what the tree of a task has changed. containerObjects is where runs see objects of repositories.
func (t *Trees) Change(ctx context.Context, taskID, containerObjects string) (c Change, err error) {
	tree, ok, err := t.treeOf(ctx, taskID)
	if err == nil && !ok {
		err = &state.Error{Code: ledger.CodeNotFound, Param: "task_id", Message: "the task has no tree of its own"}
	}
	if err != nil {
		return c, err
	}
	_, w, err := t.found(ctx, tree.AgentID, tree.Name)
	if err != nil {
		return c, err
	}
	err = t.one(ctx, target{w, tree}, func(ctx context.Context, o *opened) (err error) {
		if err = o.compare(ctx); err != nil {
			return err
		}
		c = Change{Source: o.Detached(containerObjects), Prefix: o.Info().Prefix, Files: o.diff.Files, Dir: o.dir,
			Kept: workspace.Continuation{Run: taskID, Patch: filepath.Join(o.dir, patchFile),
				Objects: filepath.Join(o.dir, objectsDir)}}
		c.Base, err = o.BaseFiles(ctx)
		return err
	})
	return c, typed(err)
}

// Merge takes what the tree of a task has changed into the tree in which an agent works: three-way, or not at all. With
// conflicts nothing is changed.
func (t *Trees) Merge(ctx context.Context, agentID, taskID string) (changed, conflicts []string, err error) {
	if _, err := t.EndOf(ctx, taskID, false); err != nil { // which keeps the patch
		return nil, nil, err
	}
	tree, ok, err := t.treeOf(ctx, taskID)
	if err == nil && !ok {
		err = &state.Error{Code: ledger.CodeNotFound, Param: "task_id", Message: "the task has no tree of its own"}
	}
	if err != nil {
		return nil, nil, err
	}
	into, err := t.targets(ctx, agentID, "", false)
	if err != nil {
		return nil, nil, err
	}
	dir := filepath.Join(t.changesDir(tree.AgentID), tree.Name)
	err = t.each(ctx, agentID, into, func(ctx context.Context, opened []opened) error {
		merged, err := opened[0].Merge(ctx, workspace.Continuation{Run: taskID, Patch: filepath.Join(dir, patchFile),
			Objects: filepath.Join(dir, objectsDir)})
		if err != nil {
			return err
		}
		for _, f := range merged.Files {
			changed = append(changed, f.Path)
		}
		return t.opts.Steps.TreeChanged(ctx, scheduler.TreeChange{AgentID: agentID, Tree: into[0].tree.Name,
			By: "agent " + agentID, What: record.WorkspaceMerged, Files: len(changed), From: taskID})
	})
	if e, ok := errors.AsType[*git.Error](err); ok && e.Code == workspace.CodeConflict {
		return nil, e.Paths, nil
	}
	return changed, nil, typed(err)
}

// Discard removes the tree of a task that was kept; its patch stays.
func (t *Trees) Discard(ctx context.Context, taskID string) error {
	trees, err := ledger.Read(ctx, t.opts.Store, func(v ledger.View) ([]ledger.Tree, error) { return v.TreesOf(taskID) })
	for _, tree := range trees {
		if err != nil || len(tree.Held) == 0 {
			continue
		}
		var w ledger.Workspace
		if _, w, err = t.found(ctx, tree.AgentID, tree.Name); err != nil {
			continue
		}
		err = t.one(ctx, target{w, tree}, func(ctx context.Context, o *opened) error {
			if _, err := o.examine(ctx); err != nil {
				return err
			}
			return o.Release(ctx)
		})
		if err == nil || isGone(err) {
			err = t.endLost(ctx, tree, ledger.TreeRemoved, "it was discarded", false)
		}
	}
	return typed(err)
}
