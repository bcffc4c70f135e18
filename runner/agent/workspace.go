package agent

import (
	"context"

	"holon/runner/agent/prompt"
	"holon/runner/agent/view"
	"holon/runner/pool"
	"holon/state/ledger"
)

// Workspaces are those of agents, and their copies of them: *trees.Trees.
type Workspaces interface {
	// Turn says where the next turn of an agent works, and where it reads the guidance of its workspace: names beneath the
	// directories of its trees and anchors, "" for its home.
	Turn(ctx context.Context, agentID string) (workDir, anchor string, err error)
	// Digest changes with the files of the tree in which an agent works; "" when it works in its home.
	Digest(ctx context.Context, agentID string) (string, error)
	// Retire gives up the trees of an agent that was removed. What of them is saved nowhere else is kept as a patch.
	Retire(ctx context.Context, agentID string) error
}

// placeTurn says where a turn works.
func (r *Runtime) placeTurn(ctx context.Context, t *pool.Turn) (err error) {
	if r.cfg.Workspaces == nil {
		return nil
	}
	t.WorkDir, t.AnchorDir, err = r.cfg.Workspaces.Turn(ctx, t.AgentID)
	return err
}

// workspaces are what the prompt of a turn says of where its agent works.
func (r *Runtime) workspaces(v ledger.View, agentID string) (prompt.Workspaces, error) {
	var w prompt.Workspaces
	if r.cfg.Workspaces == nil {
		return w, nil
	}
	shown := view.New(v, r.cfg.Facts)
	now, err := shown.Entered(agentID)
	if err != nil {
		return w, err
	}
	w.Active = now
	stored, err := v.AgentState(agentID)
	for _, a := range stored.Workspaces {
		attached, err := v.Workspace(a.WorkspaceID)
		if err != nil {
			return w, err
		}
		w.Attached = append(w.Attached, attached)
	}
	return w, err
}
