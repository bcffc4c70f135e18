package scheduler

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"holon/responses/tasks"
	"holon/responses/turns"
	"holon/state"
	"holon/state/ledger"
)

// Bounds of the check of a child, in bytes, and of its patterns.
const (
	maxCheck      = 16 << 10
	maxCheckPaths = 100
	maxCheckPath  = 512
)

// checkCheck refuses a check that cannot be made.
func (n Spawn) checkCheck() error {
	tooLong := func(p string) bool { return len(p) > maxCheckPath || strings.ContainsRune(p, 0) }
	switch {
	case n.Check == "" && n.Paths != nil:
		return refused(CodeInvalidSpawn, "check_paths", "give check too, or leave it out", "check_paths is for a check")
	case n.Check == "":
		return nil
	case n.Mode != ledger.ChildWorktree:
		return refused(CodeInvalidSpawn, "check", "use workspace_mode worktree, or leave it out",
			"a check is for a child with a tree of its own")
	case !isTextWithin(n.Check, maxCheck), strings.ContainsRune(n.Check, 0):
		return refused(CodeInvalidSpawn, "check", "put what is longer into a file of the repository",
			"a check is a command of 1 to %d bytes of text", maxCheck)
	case len(n.Paths) > maxCheckPaths, slices.ContainsFunc(n.Paths, tooLong):
		return refused(CodeInvalidSpawn, "check_paths", "give fewer or shorter ones",
			"check_paths are at most %d patterns of at most %d bytes", maxCheckPaths, maxCheckPath)
	}
	return nil
}

// awaitCheck leaves the task of a child that has ended open until its check is made; false: there is none to be made.
func (s *step) awaitCheck(parent *step, t *ledger.Task) bool {
	if t.Status != tasks.Completed {
		uncheck(t.Handle.Child, "child_failed", "the child failed")
	}
	if t.Child().Check == nil || t.Child().Verdict() != nil {
		return false
	}
	check := *t.Child().Check
	check.Begun, t.Handle.Child.Check = true, &check
	t.Status, t.Result.Summary, t.UpdatedAt = tasks.Running, "the child is done, and its check is made", s.now
	t.Handle.Runtime = s.m.opts.Owner
	parent.emitTask(turns.RuntimeEvent{Type: "task.updated", TaskID: t.ID,
		Payload: mustJSON(fields{"message": t.Result.Summary})}, *t, ledger.Event{Cause: createdEvent(*t)})
	parent.update(t)
	return true
}

// uncheck records that the check of a child is not made, unless it was.
func uncheck(c *ledger.ChildHandle, code, why string) {
	if c.Check == nil || c.Verdict() != nil {
		return
	}
	check := *c.Check
	check.Begun = false
	check.Verdict = &state.Check{Command: check.Command, Status: state.CheckNotRun, Restored: []string{},
		Changed: []string{}, Unused: []string{}, Error: &state.Failure{Code: code, Message: why}}
	c.Check = &check
}

// Checked ends the task of a child that has ended, with the verdict of its check and its tree, nil if that cannot be
// seen. It changes nothing when the task does not wait for that, or the child is stopped: then the check is made again.
func (m *Scheduler) Checked(ctx context.Context, parentID, taskID string, verdict state.Check,
	tree *ledger.Worktree) error {
	return m.childStep(ctx, parentID, taskID, func(s, child *step, t ledger.Task) error {
		if !t.Checking() || child.state.Stopped {
			return nil
		}
		handle, check := *t.Child(), *t.Child().Check
		check.Begun, check.Verdict = false, &verdict
		handle.Check, handle.Worktree = &check, cmp.Or(tree, handle.Worktree)
		t.Handle.Child, child.worktree = &handle, tree
		child.endChild(s, child.agentRow(), t)
		return nil
	})
}
