package trees

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"holon/internal/durable"
	"holon/runner/agent/record"
	"holon/runner/agent/scheduler"
	"holon/runner/agent/view"
	"holon/runner/workspace"
	"holon/runner/workspace/git"
	"holon/runner/workspace/landing"
	"holon/state"
)

// group is what one Apply does to several trees, durably from before the first write until the last tree has gone on
// from it. Until all is written a process that was killed is undone, and finished from then on.
type group struct {
	Trees   []member `json:"trees"`
	Written bool     `json:"written"` // all of it
	By      string   `json:"by"`
}

type member struct {
	Tree   string `json:"tree"`
	Result string `json:"result_tree"` // of its diff
	Files  int    `json:"files"`       // that the operator got
}

// groupDir is a name that no tree has.
const groupDir, groupFile = "+apply", "apply.json"

func (t *Trees) groupPath(agentID string) string {
	return filepath.Join(t.changesDir(agentID), groupDir, groupFile)
}

func (t *Trees) writeGroup(agentID string, g group) error {
	data, err := json.Marshal(g)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(t.groupPath(agentID)), 0o700)
	}
	if err == nil {
		err = durable.WriteFile(t.groupPath(agentID), data, 0o600)
	}
	if err != nil {
		return fmt.Errorf("record the apply: %w", err)
	}
	return nil
}

// settle ends an Apply that was cut off as far as the operator's files are concerned. g is what the trees are still to
// go on from; the caller removes its file then.
func (t *Trees) settle(ctx context.Context, agentID string) (g group, err error) {
	data, err := durable.ReadFile(t.groupPath(agentID), maxGroup)
	if errors.Is(err, fs.ErrNotExist) {
		return g, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &g)
	}
	if err != nil {
		return g, fmt.Errorf("read what is being applied: %w", err)
	}
	return g, t.endJournals(ctx, agentID, g)
}

const maxGroup = 8 << 20

// endJournals keeps what was written of a group, or undoes it: of as many as that is possible for.
func (t *Trees) endJournals(ctx context.Context, agentID string, g group) (err error) {
	end := landing.Undo
	if g.Written {
		end = landing.Settle
	}
	for _, m := range g.Trees {
		err = errors.Join(err, end(ctx, filepath.Join(t.changesDir(agentID), m.Tree)))
	}
	return err
}

func (t *Trees) dropGroup(agentID string) error {
	if err := os.Remove(t.groupPath(agentID)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("end the apply: %w", err)
	}
	return nil
}

// recoverApply ends an Apply that a process was killed in. A tree that changed since goes on with the next Apply.
func (t *Trees) recoverApply(ctx context.Context, agentID string) error {
	g, err := t.settle(ctx, agentID)
	if err != nil {
		return err
	}
	if !g.Written {
		return t.dropGroup(agentID)
	}
	for _, m := range g.Trees {
		tree, w, err := t.found(ctx, agentID, m.Tree)
		if err != nil || !tree.Live() {
			continue
		}
		err = t.one(ctx, target{w, tree}, func(ctx context.Context, o *opened) error {
			if err := o.compare(ctx); err != nil || o.diff.ResultTree != m.Result {
				return err
			}
			return t.goOn(ctx, *o, m.Files, g.By)
		})
		if err != nil {
			return err
		}
	}
	return t.dropGroup(agentID)
}

// Apply brings what an agent changed into the operator's files, of one workspace or of all: all of it or nothing, also
// where the process is killed. A file that has its change already stays as it is. The copies go on from there.
func (t *Trees) Apply(ctx context.Context, agentID string, a view.WorkspaceApply, by string) (done []view.TreeApplied,
	err error) {
	targets, err := t.targets(ctx, agentID, a.WorkspaceID, true)
	if err != nil {
		return nil, err
	}
	var dirs []string
	for _, g := range targets {
		dirs = append(dirs, g.path())
	}
	err = t.each(ctx, agentID, targets, func(ctx context.Context, trees []opened) error {
		unlock, err := t.lockFiles(ctx, true, dirs...)
		if err != nil {
			return err
		}
		defer unlock()
		if _, err := t.settle(ctx, agentID); err != nil {
			return err
		}
		trees, skipped, err := reachable(ctx, trees, a.WorkspaceID == "")
		if err != nil {
			return err
		}
		g, err := t.prove(ctx, trees, a, by)
		if err != nil {
			return err
		}
		// what is begun is finished, also for a caller that is gone
		ctx = context.WithoutCancel(ctx)
		if done, err = t.landAll(ctx, agentID, trees, g, a.AllowExecuted); err != nil {
			return err
		}
		done = append(done, skipped...)
		g.Written = true
		return t.advance(ctx, agentID, trees, g)
	})
	return done, typed(err)
}

// reachable are the trees whose directories are there. With skip the others are left out, and said.
func reachable(ctx context.Context, trees []opened, skip bool) (there []opened, skipped []view.TreeApplied, err error) {
	for _, o := range trees {
		switch why := o.missing(ctx); {
		case why == nil:
			there = append(there, o)
		case !skip:
			return nil, nil, why
		default:
			skipped = append(skipped, view.TreeApplied{TreeRef: o.ref(), Written: []string{}, Deleted: []string{},
				Skipped: why.Error()})
		}
	}
	return there, skipped, nil
}

// prove compares trees, and fails unless all that they have can be applied.
func (t *Trees) prove(ctx context.Context, trees []opened, a view.WorkspaceApply, by string) (g group, err error) {
	g.By = by
	for i := range trees {
		if err := trees[i].compare(ctx); err != nil {
			return g, err
		}
		if err := landing.AsRead(trees[i].diff, a.ResultTrees); err != nil {
			return g, err
		}
		result, err := t.land(ctx, &trees[i], a.AllowExecuted, true)
		if err != nil {
			return g, err
		}
		g.Trees = append(g.Trees, member{trees[i].tree.Name, trees[i].diff.ResultTree,
			len(result.Written) + len(result.Deleted)})
	}
	return g, nil
}

// landAll writes a group, or nothing of it.
func (t *Trees) landAll(ctx context.Context, agentID string, trees []opened, g group, allowExecuted bool) (
	done []view.TreeApplied, err error) {
	done = []view.TreeApplied{}
	if err := t.writeGroup(agentID, g); err != nil {
		return nil, err
	}
	for i := range trees {
		o := &trees[i]
		if t.interrupt != nil {
			t.interrupt(i)
		}
		result, err := t.land(ctx, o, allowExecuted, false)
		if err != nil {
			return nil, t.undo(ctx, agentID, g, o.target, err)
		}
		done = append(done, view.TreeApplied{TreeRef: o.ref(), Written: result.Written, Deleted: result.Deleted,
			Warnings: leftOut(o.diff.Warnings)})
	}
	if t.interrupt != nil {
		t.interrupt(len(trees))
	}
	g.Written = true
	if err := t.writeGroup(agentID, g); err != nil {
		g.Written = false
		return nil, t.undo(ctx, agentID, g, trees[len(trees)-1].target, err)
	}
	return done, t.endJournals(ctx, agentID, g)
}

// leftOut are the warnings but for those of executed files, which were agreed to.
func leftOut(all []state.Warning) []state.Warning {
	return slices.DeleteFunc(slices.Clone(all), func(w state.Warning) bool { return w.Code == workspace.WarnExecuted })
}

// undo moves back what was written of a group that failed at a tree, and says what became of it.
func (t *Trees) undo(ctx context.Context, agentID string, g group, failed target, cause error) error {
	e, _ := errors.AsType[*git.Error](git.WithCode("apply the changes", cause))
	out := *e
	if len(g.Trees) > 1 {
		out.Message = failed.path() + " cannot have its change, so nothing was applied: " + out.Message
	}
	err := t.endJournals(ctx, agentID, g)
	if err == nil {
		return errors.Join(&out, t.dropGroup(agentID))
	}
	out.Message = fmt.Sprintf("%s; not everything that was written before could be undone: %v", out.Message, err)
	return &out
}

// land applies a change to the operator's files, or with check finds out whether that can be done.
func (t *Trees) land(ctx context.Context, o *opened, allowExecuted, check bool) (*landing.ApplyResult, error) {
	return landing.Apply(ctx, landing.ApplyOptions{Dir: o.path(), Patch: o.diff.Patch, Check: check, Hold: true,
		Objects: filepath.Join(o.dir, objectsDir), Borrowing: t.opts.Borrowing(), RunDir: o.dir,
		Merge:    "holon workspace checkout " + o.workspace.Alias + " --agent " + o.tree.AgentID + " makes a branch of it",
		Warnings: o.diff.Warnings, Confirm: confirm(o.tree.AgentID, allowExecuted)})
}

func confirm(agentID string, allowed bool) landing.Confirm {
	return func(files []workspace.Warning) error {
		if allowed {
			return nil
		}
		e := landing.Unconfirmed(files, "")
		e.Hint, e.Paths = "read them with holon workspace diff --agent "+agentID+
			", then give --allow-executed if you mean it", nil
		return e
	}
}

// advance has the trees of a group that is written go on from it.
func (t *Trees) advance(ctx context.Context, agentID string, trees []opened, g group) error {
	for _, o := range trees {
		if o.diff.PatchBytes > 0 {
			if err := t.goOn(ctx, o, g.Trees[0].Files, g.By); err != nil {
				return err
			}
		}
		if g.Trees = g.Trees[1:]; len(g.Trees) > 0 {
			if err := t.writeGroup(agentID, g); err != nil {
				return err
			}
		}
	}
	return t.dropGroup(agentID)
}

// goOn makes the present state of a tree its base.
func (t *Trees) goOn(ctx context.Context, o opened, files int, by string) error {
	if err := o.Advance(ctx); err != nil {
		return err
	}
	if err := t.writeAnchor(ctx, o.tree.AgentID, o.workspace.ID, o.Tree); err != nil {
		return err
	}
	return t.opts.Steps.TreeChanged(ctx, scheduler.TreeChange{AgentID: o.tree.AgentID, Tree: o.tree.Name, By: by,
		What: record.WorkspaceApplied, Files: files})
}

// Unapplied returns what is in any copy of an agent and was not taken. A copy that is gone has nothing.
func (t *Trees) Unapplied(ctx context.Context, agentID string) (found []view.TreeDiff, err error) {
	trees, err := t.treesOf(ctx, agentID)
	for _, tree := range trees {
		if err != nil || !tree.Live() {
			continue
		}
		diffs, diffErr := t.Diff(ctx, agentID, tree.Name)
		if state.IsCode(diffErr, workspace.CodeTreeGone) {
			continue
		}
		for _, d := range diffs {
			if untaken(&d.Changes) {
				found = append(found, d)
			}
		}
		err = diffErr
	}
	return found, err
}
