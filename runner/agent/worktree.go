package agent

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"holon/runner/agent/scheduler"
	"holon/runner/agent/trees"
	"holon/runner/agent/view"
	"holon/state"
	"holon/state/ledger"
)

// childTrees gives children their workspaces: *trees.Trees. All methods may be called again.
type childTrees interface {
	// CheckChild refuses a child in a mode that its parent has no workspace for.
	CheckChild(ctx context.Context, parentID, mode string) error
	// ForChild gives a child the workspaces of its parent: trees of its own, or in worktree mode one that is forked from
	// the parent's present state and belongs to the task.
	ForChild(ctx context.Context, parentID, childID, taskID, mode string) error
	// EndOf says what the tree of a task holds. ended removes it if it has no changes.
	EndOf(ctx context.Context, taskID string, ended bool) (trees.Ended, error)
	// Patch is the file with what the tree of a task has changed; "" for a task without a tree.
	Patch(ctx context.Context, taskID string) (string, error)
	// Merge takes what the tree of a task has changed into that of the agent, three-way, or nothing with conflicts.
	Merge(ctx context.Context, agentID, taskID string) (changed, conflicts []string, err error)
	// Discard removes the tree of a task; its patch stays.
	Discard(ctx context.Context, taskID string) error
}

func (r *Runtime) checkWorktree(ctx context.Context, parentID string) error {
	if r.cfg.Trees == nil {
		return &state.Error{Code: scheduler.CodeInvalidSpawn, Param: "workspace_mode",
			Message: "there is no repository that a tree could be made of", Hint: "use inherit"}
	}
	return r.cfg.Trees.CheckChild(ctx, parentID, ledger.ChildWorktree)
}

// maxChangedFiles bounds the files that a task names of its tree.
const maxChangedFiles = 100

// worktree is the tree of a task as it is now, or with ended as it stays.
func (r *Runtime) worktree(ctx context.Context, t ledger.Task, ended bool) (ledger.Worktree, error) {
	e, err := r.cfg.Trees.EndOf(ctx, t.ID, ended)
	var old ledger.Worktree
	if t.Child().Worktree != nil {
		old = *t.Child().Worktree
	}
	if err != nil {
		return old, err
	}
	w := ledger.Worktree{Path: cmp.Or(e.Path, old.Path), Branch: cmp.Or(e.Branch, old.Branch), Patch: e.Patch,
		ChangedFiles: e.ChangedFiles[:min(len(e.ChangedFiles), maxChangedFiles)], Changed: len(e.ChangedFiles),
		Cleanup: cmp.Or(string(e.Status), ledger.WorktreeRemoved), Reason: e.Reason}
	if w.Cleanup == ledger.WorktreeRetained && e.Reason == "" { // another step kept its patch
		w.ChangedFiles, w.Changed, w.Patch, w.Reason = old.ChangedFiles, old.Changed, cmp.Or(w.Patch, old.Patch), old.Reason
	}
	if w.ChangedFiles == nil {
		w.ChangedFiles = []string{}
	}
	return w, nil
}

// worktreeOf is the tree of the task of a child after a turn, nil when it has none or that cannot be said.
func (r *Runtime) worktreeOf(agentID string) *ledger.Worktree {
	if !state.IsChild(agentID) || r.cfg.Trees == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.turns), settleGrace)
	defer cancel()
	t, err := r.taskOfChild(ctx, agentID)
	if err != nil || t.Child() == nil || t.Child().Worktree == nil {
		return nil
	}
	w, err := r.worktree(ctx, t, false)
	if err != nil {
		r.log.Info("what a child changed in its tree is found out after its end", "agent", agentID, "err", err)
		return nil
	}
	return &w
}

// taskOfChild is the task that supervises a child.
func (r *Runtime) taskOfChild(ctx context.Context, childID string) (t ledger.Task, err error) {
	err = r.store.View(ctx, func(v ledger.View) error {
		a, err := v.Agent(childID)
		if err == nil {
			t, err = v.Task(a.ParentID, a.DelegatedFromTask)
		}
		return err
	})
	return t, err
}

// endTree removes the tree of the task of a child that has ended if nothing is lost with it, and records what became of
// it. It changes nothing the second time, and tries again what failed. The caller has locked r.ending: who ends a tree
// records what it held.
func (r *Runtime) endTree(ctx context.Context, childID string) error {
	if r.cfg.Trees == nil {
		return nil
	}
	t, err := r.taskOfChild(ctx, childID)
	if err != nil || !unsettled(t) {
		return err
	}
	w, err := r.worktree(ctx, t, true)
	if err != nil {
		w.Cleanup, w.Reason = ledger.WorktreeFailed, r.failure(phaseTurn, err).Summary // it holds up nothing
	}
	if old := t.Child().Worktree; w.Cleanup == old.Cleanup && w.Reason == old.Reason {
		return nil
	}
	return r.scheduler.WorktreeOf(ctx, t.AgentID, t.ID, w)
}

// unsettled reports whether it is open what becomes of the tree of a task.
func unsettled(t ledger.Task) bool {
	c := t.Child()
	return c != nil && c.Worktree != nil &&
		(c.Worktree.Cleanup == ledger.WorktreeActive || c.Worktree.Cleanup == ledger.WorktreeFailed)
}

// endTrees sees to the trees of tasks that ended while no process did.
func (r *Runtime) endTrees(ctx context.Context) {
	var left []string
	err := r.eachAgent(ctx, r.cfg.Leases.Held, func(ctx context.Context, id string) error {
		list, err := ledger.Read(ctx, r.store, func(v ledger.View) ([]ledger.Task, error) { return v.Tasks(id, 0) })
		for _, t := range list {
			if t.Status.Terminal() && unsettled(t) {
				left = append(left, t.Child().AgentID)
			}
		}
		return err
	})
	for _, id := range left {
		r.ending.Lock()
		err = errors.Join(err, r.endTree(ctx, id))
		r.ending.Unlock()
	}
	if err != nil && ctx.Err() == nil {
		r.log.Warn("trees of tasks that have ended cannot be looked after", "err", err)
	}
}

// discardTree removes the tree of a task that has ended, which was kept for its changes. Its patch stays.
func (r *Runtime) discardTree(ctx context.Context, t ledger.Task) error {
	if err := r.cfg.Trees.Discard(ctx, t.ID); err != nil {
		return err
	}
	w := *t.Child().Worktree
	w.Cleanup, w.Reason = ledger.WorktreeRemoved, "it was discarded; the patch stays"
	return r.scheduler.WorktreeOf(ctx, t.AgentID, t.ID, w)
}

// MergeChild takes what the tree of a child's task has changed into the tree in which its parent works. With conflicts
// it changes nothing. What is there already is not merged again.
func (r *Runtime) MergeChild(ctx context.Context, parentID, taskID string) (view.Merged, error) {
	if err := r.checkMerge(ctx, parentID, taskID); err != nil {
		return view.Merged{}, err
	}
	changed, conflicts, err := r.cfg.Trees.Merge(ctx, parentID, taskID)
	if changed == nil {
		changed = []string{}
	}
	return view.Merged{ChangedFiles: changed, Conflicts: conflicts}, err
}

// discardWithRoot discards the tree of a child that was kept for its task, if the public agent above it was removed.
func (r *Runtime) discardWithRoot(ctx context.Context, childID string) error {
	if r.cfg.Trees == nil {
		return nil
	}
	removed, err := r.scheduler.Removed(ctx, state.RootAgent(childID))
	if err != nil || !removed {
		return err
	}
	t, err := r.taskOfChild(ctx, childID)
	if w := t.Handle.Child; err != nil || w == nil || w.Worktree == nil || w.Worktree.Cleanup != ledger.WorktreeRetained {
		return err
	}
	return r.discardTree(ctx, t)
}

// checkMerge refuses to take or show what a task has no tree for, or has not ended with.
func (r *Runtime) checkMerge(ctx context.Context, parentID, taskID string) error {
	t, err := r.task(ctx, parentID, taskID)
	if err != nil {
		return err
	}
	if t.Child() == nil || t.Child().Worktree == nil || r.cfg.Trees == nil {
		return &state.Error{Code: scheduler.CodeInvalidSpawn, Param: "task_id",
			Message: "the task has no tree of its own", Hint: "use a workspace before you spawn a child"}
	}
	if !t.Status.Terminal() {
		return &state.Error{Code: scheduler.CodeAgentBusy, Param: "task_id", Message: "the child is at work",
			Hint: "merge its tree when its result has come, or stop it first"}
	}
	return nil
}

// maxShownPatch bounds what is shown of a patch, in bytes.
const maxShownPatch = 32 << 10

// ChildPatch shows what the tree of a child's task has changed.
func (r *Runtime) ChildPatch(ctx context.Context, parentID, taskID string) (p view.ChildPatch, err error) {
	if err := r.checkMerge(ctx, parentID, taskID); err != nil {
		return p, err
	}
	name, err := r.cfg.Trees.Patch(ctx, taskID)
	if err != nil || name == "" {
		return p, err
	}
	file, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	if err != nil {
		return p, fmt.Errorf("read the patch of a child: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return p, fmt.Errorf("read the patch of a child: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(file, maxShownPatch))
	if err != nil {
		return p, fmt.Errorf("read the patch of a child: %w", err)
	}
	if int64(len(text)) < info.Size() { // whole lines, if there is one
		text = text[:cmp.Or(bytes.LastIndexByte(text, '\n')+1, len(text))]
	}
	return view.ChildPatch{Patch: strings.ToValidUTF8(string(text), "\uFFFD"), Bytes: info.Size(),
		LeftOut: info.Size() - int64(len(text))}, nil
}
