package wire

import "holon/runner/agent/view"

// AttachWorkspace lets an agent work in a directory of the host.
type AttachWorkspace struct {
	Path string `json:"path"` // absolute
}

// UseWorkspace says where an agent is to work from its next turn on: one of Path and WorkspaceID.
type UseWorkspace struct {
	Path        string `json:"path,omitempty"` // absolute; it is attached if it was not
	WorkspaceID string `json:"workspace_id,omitempty"`
	Mode        string `json:"mode,omitempty"` // direct (default), isolated
	Wait        bool   `json:"wait,omitempty"` // for the end of a turn that runs
}

// WorkspaceRef names a workspace of an agent by its id, its alias or a tree of it.
type WorkspaceRef struct {
	WorkspaceID string `json:"workspace_id,omitempty"`
}

// ApplyWorkspace brings changes of an agent into the operator's files: those of one workspace, or of all.
type ApplyWorkspace struct {
	WorkspaceID   string `json:"workspace_id,omitempty"`
	AllowExecuted bool   `json:"allow_executed,omitempty"` // also files that programs execute unasked
}

// CheckoutWorkspace makes a branch of a change.
type CheckoutWorkspace struct {
	WorkspaceID   string `json:"workspace_id,omitempty"` // "": the active one
	Branch        string `json:"branch,omitempty"`
	Path          string `json:"path,omitempty"` // absolute
	AllowExecuted bool   `json:"allow_executed,omitempty"`
}

// WorkspaceAttached answers AttachWorkspace.
type WorkspaceAttached struct {
	OK        bool                 `json:"ok"`
	AgentID   string               `json:"agent_id"`
	Workspace view.WorkspaceRecord `json:"workspace"`
}

// WorkspaceEntered answers UseWorkspace and the exit from a workspace.
type WorkspaceEntered struct {
	OK      bool                `json:"ok"`
	AgentID string              `json:"agent_id"`
	Active  view.WorkspaceEntry `json:"active_workspace_entry"`
}

// WorkspaceDetached answers the detachment of a workspace.
type WorkspaceDetached struct {
	OK          bool   `json:"ok"`
	AgentID     string `json:"agent_id"`
	WorkspaceID string `json:"workspace_id"`
}
