package client

import (
	"context"
	"net/http"

	"holon/runner/agent/view"
	"holon/runner/control/wire"
)

// Registry returns the workspaces of the host.
func (c *Client) Registry(ctx context.Context) (out []view.WorkspaceRecord, err error) {
	return out, c.call(ctx, http.MethodGet, "/workspaces", nil, "", &out)
}

// Workspaces returns those of an agent.
func (c *Client) Workspaces(ctx context.Context, agentID string, limit int) (out []view.WorkspaceRecord, err error) {
	return out, c.get(ctx, agentID, limited("/workspaces", limit), &out)
}

// AttachWorkspace lets an agent work in a directory of the host.
func (c *Client) AttachWorkspace(ctx context.Context, agentID, path string) (out wire.WorkspaceAttached, err error) {
	return out, c.post(ctx, agentID, "/workspace/attach", wire.AttachWorkspace{Path: path}, "", &out)
}

// UseWorkspace says where an agent is to work.
func (c *Client) UseWorkspace(ctx context.Context, agentID string, u view.WorkspaceUse) (out wire.WorkspaceEntered,
	err error) {
	return out, c.post(ctx, agentID, "/workspace/use", u, "", &out)
}

// ExitWorkspace lets an agent work in its home again.
func (c *Client) ExitWorkspace(ctx context.Context, agentID string) (out wire.WorkspaceEntered, err error) {
	return out, c.post(ctx, agentID, "/workspace/exit", nil, "", &out)
}

// DetachWorkspace takes a workspace from an agent.
func (c *Client) DetachWorkspace(ctx context.Context, agentID, name string) (out wire.WorkspaceDetached, err error) {
	return out, c.post(ctx, agentID, "/workspace/detach", wire.WorkspaceRef{WorkspaceID: name}, "", &out)
}

// DiffWorkspace returns what an agent changed in a workspace, or in all of its own.
func (c *Client) DiffWorkspace(ctx context.Context, agentID string, d wire.DiffWorkspace) (out []view.TreeDiff,
	err error) {
	return out, c.post(ctx, agentID, "/workspace/diff", d, "", &out)
}

// ApplyWorkspace brings what an agent changed into the operator's files.
func (c *Client) ApplyWorkspace(ctx context.Context, agentID string, a view.WorkspaceApply) (out []view.TreeApplied,
	err error) {
	return out, c.post(ctx, agentID, "/workspace/apply", a, "", &out)
}

// CheckoutWorkspace makes a branch of what an agent changed.
func (c *Client) CheckoutWorkspace(ctx context.Context, agentID string, o view.WorkspaceCheckout) (
	out view.TreeCheckout, err error) {
	return out, c.post(ctx, agentID, "/workspace/checkout", o, "", &out)
}

// SyncWorkspace brings the operator's present state into the copy of an agent.
func (c *Client) SyncWorkspace(ctx context.Context, agentID, name string) (out view.TreeSync, err error) {
	return out, c.post(ctx, agentID, "/workspace/sync", wire.WorkspaceRef{WorkspaceID: name}, "", &out)
}

// DiscardCopy removes an isolated copy of an agent, whose change is kept as a patch.
func (c *Client) DiscardCopy(ctx context.Context, agentID, name string) (out view.TreeDiscarded, err error) {
	return out, c.post(ctx, agentID, "/workspace/discard", wire.WorkspaceRef{WorkspaceID: name}, "", &out)
}
