package ledger

import (
	"encoding/json"
	"time"
)

// HomeWorkspace is the workspace that every agent has and falls back to: its home. It has no record.
const HomeWorkspace = "agent_home"

// WorkspaceKind is what the directory of a workspace is.
type WorkspaceKind string

const (
	WorkspaceGit       WorkspaceKind = "git"
	WorkspaceDirectory WorkspaceKind = "directory" // without a repository
)

// Workspace is a directory of the operator's in which agents may work on copies (runtime specification, "Execution
// Binding"). It is the host's, and stays when no agent has it attached any more.
type Workspace struct {
	ID        string        `json:"workspace_id"` // follows from Anchor
	Alias     string        `json:"workspace_alias"`
	Kind      WorkspaceKind `json:"workspace_kind"`
	Anchor    string        `json:"workspace_anchor"` // absolute path on the host: of a repository its main working tree
	RepoName  string        `json:"repo_name,omitempty"`
	CreatedAt time.Time     `json:"created_at"`
	UpdatedAt time.Time     `json:"updated_at"`
}

// Attachment says that an agent may work in a workspace.
type Attachment struct {
	WorkspaceID string    `json:"workspace_id"`
	AttachedAt  time.Time `json:"attached_at"`
}

// ActiveWorkspace is where an agent works when that is not its home.
type ActiveWorkspace struct {
	WorkspaceID string    `json:"workspace_id"`
	Tree        string    `json:"tree"`           // name of a tree of the agent
	Cwd         string    `json:"cwd,omitempty"`  // within the tree, slash-separated; "": its top
	From        string    `json:"from,omitempty"` // the tree that it left for an isolated one; "": its home
	EnteredAt   time.Time `json:"entered_at"`
}

// TreeMode says how long a tree is for.
type TreeMode string

const (
	TreeDirect   TreeMode = "direct"   // the agent's own copy of the workspace, as long as it has it
	TreeIsolated TreeMode = "isolated" // for one task
)

// TreeStatus is what became of a tree.
type TreeStatus string

const (
	TreeActive   TreeStatus = "active"
	TreeRemoved  TreeStatus = "removed"  // nothing of it was lost
	TreeRetained TreeStatus = "retained" // the agent is gone, and its change is kept as a patch
	TreeFailed   TreeStatus = "failed"   // it could not be removed, or is gone without its change
)

// Tree is a private copy of a workspace in which one agent writes. The record is written before the copy is made.
type Tree struct {
	AgentID     string          `json:"agent_id"`
	Name        string          `json:"name"` // of its directory beneath the workspaces of the agent
	WorkspaceID string          `json:"workspace_id"`
	Mode        TreeMode        `json:"mode"`
	Source      string          `json:"source,omitempty"`  // a linked working tree that it is a copy of; "": the anchor
	TaskID      string          `json:"task_id,omitempty"` // that owns it; "": its agent does
	Status      TreeStatus      `json:"status"`
	Held        json.RawMessage `json:"held,omitempty"`   // by which package workspace finds it; none: it is being made
	Base        string          `json:"base,omitempty"`   // the commit that it began with or was synchronised with
	Branch      string          `json:"branch,omitempty"` // that the user had checked out then
	CreatedAt   time.Time       `json:"created_at"`
	UpdatedAt   time.Time       `json:"updated_at"`
}

// Live reports whether the tree is there to be worked in.
func (t Tree) Live() bool { return t.Status == TreeActive && len(t.Held) > 0 }

// WorkspaceID is the workspace in which an agent works.
func (s AgentState) WorkspaceID() string {
	if s.Active == nil {
		return HomeWorkspace
	}
	return s.Active.WorkspaceID
}

// Row implements Record. Workspaces and trees are never pruned.
func (w *Workspace) Row() Row {
	return Row{"workspaces", "workspace", 1, []Column{{"id", &w.ID}}}
}

func (t *Tree) Row() Row {
	return Row{"trees", "tree", 2, []Column{{"agent_id", &t.AgentID}, {"name", &t.Name}, {"status", t.Status},
		{"task_id", t.TaskID}}}
}

// Workspace returns a workspace of the host.
func (v View) Workspace(id string) (Workspace, error) { return get[Workspace](v, id) }

// Workspaces returns all workspaces of the host.
func (v View) Workspaces() ([]Workspace, error) { return list[Workspace](v, "workspaces") }

// Tree returns a tree of an agent.
func (v View) Tree(agentID, name string) (Tree, error) { return get[Tree](v, agentID, name) }

// Trees returns the trees of an agent that were not removed, by name.
func (v View) Trees(agentID string) ([]Tree, error) { return list[Tree](v, "trees", agentID) }

// AllTrees returns those of all agents, by agent and name.
func (v View) AllTrees() ([]Tree, error) { return list[Tree](v, "all trees") }

// TreesOf returns those that a task owns.
func (v View) TreesOf(taskID string) ([]Tree, error) { return list[Tree](v, "trees of task", taskID) }
