package wire

import "holon/runner/agent/view"

// AttachWorkspace lets an agent work in a directory of the host.
type AttachWorkspace struct {
	Path string `json:"path"` // absolute
}

// WorkspaceRef names a workspace of an agent by its id, its alias or a tree of it.
type WorkspaceRef struct {
	WorkspaceID string `json:"workspace_id,omitempty"`
}

// DiffWorkspace asks what an agent changed in a workspace, or in all.
type DiffWorkspace struct {
	WorkspaceID string `json:"workspace_id,omitempty"`
	PatchBytes  int64  `json:"patch_bytes,omitempty"` // how much of each patch is answered, at most MaxPatch
}

// MaxPatch bounds the text of a patch in an answer, in bytes.
const MaxPatch = 4 << 20

// WorkspaceAttached answers AttachWorkspace.
type WorkspaceAttached struct {
	OK        bool                 `json:"ok"`
	AgentID   string               `json:"agent_id"`
	Workspace view.WorkspaceRecord `json:"workspace"`
}

// WorkspaceEntered answers a view.WorkspaceUse and the exit from a workspace.
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
