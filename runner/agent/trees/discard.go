package trees

import (
	"context"
	"fmt"
	"strings"

	"holon/internal/visible"
	"holon/runner/agent/scheduler"
	"holon/runner/agent/view"
	"holon/runner/workspace"
	"holon/state"
	"holon/state/ledger"
)

// DiscardCopy removes an isolated copy of an agent for its operator. What was changed there stays as a patch, and
// commits as a bundle. The one in which the agent works is refused, and one that cannot all be kept stays. It may be
// called again.
func (t *Trees) DiscardCopy(ctx context.Context, agentID, name string) (done view.TreeDiscarded, err error) {
	tree, w, err := t.found(ctx, agentID, name)
	if err == nil {
		err = discardable(tree)
	}
	if state.IsCode(err, ledger.CodeNotFound) || err == nil && len(tree.Held) == 0 && tree.Status != ledger.TreeActive {
		return done, &state.Error{Code: ledger.CodeNotFound, Param: "workspace_id",
			Message: fmt.Sprintf("agent %s has no copy %.100q", agentID, name),
			Hint:    "holon workspace list --agent " + agentID + " shows them"}
	}
	if err == nil {
		err = t.opts.Steps.KeepTree(ctx, agentID, name, "the operator discards it")
	}
	if err != nil {
		return done, err
	}
	g := target{w, tree}
	done.TreeRef = g.ref()
	err = t.one(ctx, g, func(ctx context.Context, o *opened) error { return o.discard(ctx, &done) })
	status, why := ledger.TreeRemoved, "it was discarded"
	switch {
	case isGone(err):
		err, status, why = nil, ledger.TreeFailed, missing
	default:
		for _, kept := range []string{done.Patch, done.Bundle} {
			if kept != "" {
				why += "; kept: " + kept
			}
		}
	}
	if err != nil {
		return done, typed(err)
	}
	return done, t.endLost(ctx, tree, status, why, false)
}

// discardable refuses a tree that somebody else sees to.
func discardable(tree ledger.Tree) error {
	message, hint := "", ""
	switch {
	case tree.TaskID != "":
		message, hint = "it belongs to the task "+tree.TaskID, "stop or discard the task"
	case tree.Mode != ledger.TreeIsolated:
		message, hint = "it is the copy of the workspace that the agent always has",
			"name an isolated one: holon workspace list --agent "+tree.AgentID
	case tree.Status == ledger.TreeActive && len(tree.Held) == 0:
		return &state.Error{Code: scheduler.CodeAgentBusy, Param: "workspace_id",
			Message: "the copy " + tree.Name + " is being made", Hint: "try again"}
	default:
		return nil
	}
	return &state.Error{Code: scheduler.CodeInvalidWorkspace, Param: "workspace_id",
		Message: "the copy " + tree.Name + " cannot be discarded: " + message, Hint: hint}
}

// discard removes the tree once what was changed in it is kept.
func (o *opened) discard(ctx context.Context, done *view.TreeDiscarded) error {
	if _, err := o.examine(ctx); err != nil {
		return err
	}
	if lost := workspace.Lost(o.diff); len(lost) > 0 {
		return &state.Error{Code: scheduler.CodeWorkspaceFailed, Param: "workspace_id",
			Message: "not all of the copy " + o.tree.Name + " can be kept, and it stays: " +
				visible.Clip(strings.Join(lost, "; "), maxKeptText),
			Hint: "take what you want from " + o.Dir() + " and remove it there, or make it readable; then discard it again"}
	}
	done.Bundle = o.diff.Bundle
	if done.Changed = len(o.diff.Files); done.Changed > 0 {
		done.Patch = o.diff.Patch
	}
	return o.Release(ctx)
}
