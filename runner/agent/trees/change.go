package trees

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"holon/internal/folder"
	"holon/runner/agent/record"
	"holon/runner/agent/scheduler"
	"holon/runner/agent/view"
	"holon/runner/workspace"
	"holon/runner/workspace/git"
	"holon/runner/workspace/landing"
	"holon/state"
	"holon/state/ledger"
)

// target is a tree that something is done with.
type target struct {
	workspace ledger.Workspace
	tree      ledger.Tree
}

func (g target) ref() view.TreeRef {
	return view.TreeRef{WorkspaceID: g.workspace.ID, WorkspaceAlias: g.workspace.Alias, Tree: g.tree.Name, Path: g.path()}
}

// path is the operator's directory.
func (g target) path() string { return cmp.Or(g.tree.Source, g.workspace.Anchor) }

// targets finds the trees that a name means: of a workspace the tree in which its agent works, else its direct one.
// Without a name that is the active workspace, or with all every one that is attached.
func (t *Trees) targets(ctx context.Context, agentID, name string, all bool) ([]target, error) {
	return ledger.Read(ctx, t.opts.Store, func(v ledger.View) ([]target, error) {
		stored, attached, err := attachedTo(v, agentID)
		if err != nil {
			return nil, err
		}
		trees, err := v.Trees(agentID)
		if err != nil {
			return nil, err
		}
		trees = slices.DeleteFunc(trees, func(t ledger.Tree) bool { return !t.Live() })
		if i := slices.IndexFunc(trees, func(t ledger.Tree) bool { return t.Name == name }); i >= 0 {
			w, err := v.Workspace(trees[i].WorkspaceID)
			return []target{{w, trees[i]}}, err
		}
		if name == "" && !all {
			if name = stored.WorkspaceID(); name == ledger.HomeWorkspace {
				return nil, &state.Error{Code: scheduler.CodeInvalidWorkspace, Param: "workspace_id",
					Message: "agent " + agentID + " works in its home", Hint: "name a workspace of the agent"}
			}
		}
		if name == "" {
			return mains(stored, attached, trees), nil
		}
		return mainOf(stored, attached, trees, name)
	})
}

// mainOf is the tree of a workspace that counts.
func mainOf(stored ledger.AgentState, attached []ledger.Workspace, trees []ledger.Tree, name string) ([]target, error) {
	w, ok, err := named(attached, name)
	if err == nil && !ok {
		err = notFound(stored.AgentID, name)
	}
	if err != nil {
		return nil, err
	}
	found := mains(stored, []ledger.Workspace{w}, trees)
	if len(found) == 0 {
		err = &state.Error{Code: ledger.CodeNotFound, Param: "workspace_id",
			Message: fmt.Sprintf("agent %s has no copy of %.100q: it did not work there", stored.AgentID, name),
			Hint:    "holon workspace use " + name + " --agent " + stored.AgentID + " makes one"}
	}
	return found, err
}

// mains are the trees of workspaces that count.
func mains(stored ledger.AgentState, attached []ledger.Workspace, trees []ledger.Tree) (found []target) {
	for _, w := range attached {
		at := slices.IndexFunc(trees, func(t ledger.Tree) bool {
			return stored.Active != nil && stored.Active.WorkspaceID == w.ID && stored.Active.Tree == t.Name
		})
		if at < 0 {
			at = slices.IndexFunc(trees, func(t ledger.Tree) bool {
				return t.WorkspaceID == w.ID && t.Mode == ledger.TreeDirect && t.Source == ""
			})
		}
		if at >= 0 {
			found = append(found, target{w, trees[at]})
		}
	}
	return found
}

// opened is a target whose tree was found.
type opened struct {
	target
	*workspace.Tree
	dir  string // for its change
	diff *workspace.Diff
}

// each opens the trees of targets while nothing in the agent's container runs, and calls do with all of them.
func (t *Trees) each(ctx context.Context, agentID string, targets []target,
	do func(ctx context.Context, trees []opened) error) error {
	if len(targets) == 0 {
		return do(ctx, nil)
	}
	unlock, err := t.lock(ctx, agentID)
	if err != nil {
		return err
	}
	defer unlock()
	return t.opts.Containers.Still(ctx, agentID, func(ctx context.Context, _ *folder.Owner) (err error) {
		var trees []opened
		defer func() {
			for _, o := range trees {
				err = errors.Join(err, o.Leave())
			}
		}()
		for _, g := range targets {
			tree, err := t.open(ctx, g.tree)
			if err != nil {
				return err
			}
			trees = append(trees, opened{target: g, Tree: tree, dir: filepath.Join(t.changesDir(agentID), g.tree.Name)})
		}
		return do(ctx, trees)
	})
}

// one is each for one target.
func (t *Trees) one(ctx context.Context, g target, do func(ctx context.Context, o *opened) error) error {
	return t.each(ctx, g.tree.AgentID, []target{g}, func(ctx context.Context, trees []opened) error {
		return do(ctx, &trees[0])
	})
}

// Names of files in the directory of a change.
const (
	patchFile  = "change.patch"
	objectsDir = "objects"
)

// missing is why the operator's directory of a tree cannot be written: it is gone, or another one is there.
func (o *opened) missing(ctx context.Context) error {
	err := o.CheckOrigin(ctx)
	e, ok := errors.AsType[*git.Error](err)
	if !ok {
		return err
	}
	see := "holon workspace diff " + o.tree.Name + " --agent " + o.tree.AgentID
	out := *e
	switch _, err := os.Stat(o.path()); {
	case errors.Is(err, fs.ErrNotExist):
		out.Hint = "put it back, or detach it; " + see + " shows what was changed"
	case e.Code == git.CodeBrokenRepository:
		out.Hint = "put the former one back, or take the change by hand: " + see + "; holon workspace use " +
			o.workspace.Alias + " --isolated --agent " + o.tree.AgentID + " makes a copy of the new one"
	}
	return &out
}

// compare finds out what was changed, and keeps it, with the agent's other commits.
func (o *opened) compare(ctx context.Context) (err error) {
	if err := os.MkdirAll(o.dir, 0o700); err != nil {
		return fmt.Errorf("keep the change of %s: %w", o.tree.Name, err)
	}
	o.diff, err = o.Diff(ctx, workspace.DiffOptions{Patch: filepath.Join(o.dir, patchFile),
		Objects: filepath.Join(o.dir, objectsDir), Bundle: filepath.Join(o.dir, bundleFile)})
	return err
}

// Diff returns what an agent changed in a workspace, or in all that it has attached.
func (t *Trees) Diff(ctx context.Context, agentID, name string) (found []view.TreeDiff, err error) {
	targets, err := t.targets(ctx, agentID, name, true)
	if err != nil {
		return nil, err
	}
	found = []view.TreeDiff{}
	err = t.each(ctx, agentID, targets, func(ctx context.Context, trees []opened) error {
		for _, o := range trees {
			if why := o.missing(ctx); name == "" && why != nil {
				found = append(found, view.TreeDiff{TreeRef: o.ref(), Changes: state.Diff{Files: []state.FileChange{}},
					Skipped: why.Error()})
				continue
			}
			if err := o.compare(ctx); err != nil {
				return err
			}
			found = append(found, view.TreeDiff{TreeRef: o.ref(), Changes: *o.diff})
		}
		return nil
	})
	return found, typed(err)
}

// syncFiles is workspace.Tree.Sync while nothing is applied.
func (t *Trees) syncFiles(ctx context.Context, o opened) (workspace.Synced, error) {
	unlock, err := t.lockFiles(ctx, false, o.path())
	if err != nil {
		return workspace.Synced{}, err
	}
	defer unlock()
	return o.Sync(ctx)
}

// Sync brings the operator's present state into the copy of an agent: three-way, or not at all.
func (t *Trees) Sync(ctx context.Context, agentID, name, by string) (done view.TreeSync, err error) {
	targets, err := t.targets(ctx, agentID, name, false)
	if err != nil {
		return done, err
	}
	err = t.each(ctx, agentID, targets, func(ctx context.Context, trees []opened) error {
		o := trees[0]
		synced, err := t.syncFiles(ctx, o)
		if err != nil {
			return err
		}
		if err := t.writeAnchor(ctx, agentID, o.workspace.ID, o.Tree); err != nil {
			return err
		}
		now := o.tree
		now.Base, now.Branch = synced.Base.BaseCommit, synced.Base.Branch
		done = view.TreeSync{TreeRef: o.ref(), Base: now.Base, Branch: now.Branch, Changed: len(synced.Files)}
		return t.opts.Steps.TreeChanged(ctx, scheduler.TreeChange{AgentID: agentID, Tree: now.Name, By: by,
			What: record.WorkspaceSynced, Files: done.Changed, Made: now})
	})
	return done, typed(err)
}

// Checkout makes a branch of what an agent changed, with a working tree. The same change again is where it is.
func (t *Trees) Checkout(ctx context.Context, agentID string, c view.WorkspaceCheckout, by string) (
	done view.TreeCheckout, err error) {
	targets, err := t.targets(ctx, agentID, c.WorkspaceID, false)
	if err != nil {
		return done, err
	}
	err = t.each(ctx, agentID, targets, func(ctx context.Context, trees []opened) error {
		o := trees[0]
		if err := o.missing(ctx); err != nil {
			return err
		}
		if err := o.compare(ctx); err != nil {
			return err
		}
		if len(o.diff.Files) == 0 {
			return &git.Error{Code: landing.CodeNothingChanged, Message: "agent " + agentID + " changed no file of " +
				o.workspace.Alias, Hint: "holon workspace diff --agent " + agentID + " shows its changes since the last apply"}
		}
		id, dir, err := landing.CheckoutDir(o.dir, agentID+"-"+o.tree.Name, *o.diff)
		if err != nil {
			return err
		}
		made, err := landing.Checkout(ctx, landing.CheckoutOptions{Run: id, RunDir: dir,
			Objects: filepath.Join(o.dir, objectsDir), Info: o.Info(), Diff: *o.diff, Dir: o.path(),
			Borrowing: t.opts.Borrowing(), Title: "Work of the agent " + agentID, At: time.Now(),
			Confirm: confirm(agentID, c.AllowExecuted), Branch: c.Branch, Path: c.Path, Default: t.opts.Home.WorktreesDir()})
		if err != nil {
			return err
		}
		done = view.TreeCheckout{TreeRef: o.ref(), ID: id, Branch: made.Branch, Base: made.Base, Commit: made.Commit,
			Commits: made.Commits, Worktree: made.Path}
		return t.opts.Steps.TreeChanged(ctx, scheduler.TreeChange{AgentID: agentID, Tree: o.tree.Name, By: by,
			What: record.WorkspaceCheckedOut, Files: len(o.diff.Files), Branch: made.Branch})
	})
	return done, typed(err)
}
