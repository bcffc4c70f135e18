package view

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"path/filepath"

	"holon/responses/turns"
	"holon/state"
	"holon/state/ledger"
)

// Where an agent finds its files in its container.
const (
	homeMount  = workspaces + "/" + ledger.HomeWorkspace
	workspaces = "/holon/workspaces"
)

// workspaceState is where an agent works, and where it may.
type workspaceState struct {
	Attached    []string        `json:"attached_workspaces"`
	ActiveEntry *WorkspaceEntry `json:"active_workspace_entry"`
	// never shown: which agent has a tree follows from the tree
	ActiveOccupancy *json.RawMessage `json:"active_workspace_occupancy"`
	WorktreeSession *worktreeSession `json:"worktree_session"`
}

// WorkspaceEntry is the working tree in which an agent's commands run.
type WorkspaceEntry struct {
	WorkspaceID     string `json:"workspace_id"`
	WorkspaceAlias  string `json:"workspace_alias,omitempty"`
	WorkspaceAnchor string `json:"workspace_anchor"` // absolute path on the host
	ExecutionRootID string `json:"execution_root_id"`
	ExecutionRoot   string `json:"execution_root"` // absolute path in the container
	ProjectionKind  string `json:"projection_kind"`
	AccessMode      string `json:"access_mode"`
	Cwd             string `json:"cwd"`
}

// Kinds of WorkspaceEntry.ProjectionKind.
const (
	ProjectionCanonical = "canonical_root"
	ProjectionWorktree  = "git_worktree_root"
)

// worktreeSession says that an agent works in a tree that is not its own copy of the workspace.
type worktreeSession struct {
	OriginalCwd    string `json:"original_cwd"`
	OriginalBranch string `json:"original_branch"`
	WorktreePath   string `json:"worktree_path"`
	WorktreeBranch string `json:"worktree_branch"`
}

// WorkspaceRecord is a workspace of an agent, or of the host.
type WorkspaceRecord struct {
	ID         string               `json:"workspace_id"`
	Alias      string               `json:"workspace_alias"`
	Kind       ledger.WorkspaceKind `json:"workspace_kind"`
	Anchor     string               `json:"workspace_anchor"`
	RepoName   string               `json:"repo_name,omitempty"`
	CreatedAt  turns.Time           `json:"created_at"`
	UpdatedAt  turns.Time           `json:"updated_at"`
	AttachedAt turns.Time           `json:"attached_at,omitzero"` // to the agent, or first to any; absent: detached
	Active     bool                 `json:"active"`
	Trees      []TreeRecord         `json:"worktrees"` // of the agent, or of all
}

// TreeRecord is a copy of a workspace.
type TreeRecord struct {
	AgentID   string            `json:"agent_id"`
	Name      string            `json:"name"`
	Mode      ledger.TreeMode   `json:"mode"`
	Status    ledger.TreeStatus `json:"cleanup_status"`
	Path      string            `json:"path"` // in the container
	Source    string            `json:"source,omitempty"`
	TaskID    string            `json:"task_id,omitempty"`
	Base      string            `json:"base_commit,omitempty"`
	Branch    string            `json:"original_branch,omitempty"`
	Active    bool              `json:"active"`
	CreatedAt turns.Time        `json:"created_at"`
	UpdatedAt turns.Time        `json:"updated_at"`
}

// ofWorkspace shows a workspace of the host.
func ofWorkspace(w ledger.Workspace) WorkspaceRecord {
	return WorkspaceRecord{ID: w.ID, Alias: w.Alias, Kind: w.Kind, Anchor: w.Anchor, RepoName: w.RepoName,
		CreatedAt: turns.At(w.CreatedAt), UpdatedAt: turns.At(w.UpdatedAt), Trees: []TreeRecord{}}
}

// Registry returns the workspaces of the host, each as any agent that is not removed has it.
func (s Snapshot) Registry() ([]WorkspaceRecord, error) {
	all, err := s.ledger.Workspaces()
	if err != nil {
		return nil, err
	}
	out, at := make([]WorkspaceRecord, 0, len(all)), make(map[string]int, len(all))
	for i, w := range all {
		out, at[w.ID] = append(out, ofWorkspace(w)), i
	}
	agents, err := s.ledger.Agents()
	if err != nil {
		return nil, err
	}
	for _, a := range agents {
		if err := s.foldRegistry(a, out, at); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// foldRegistry adds what an agent has of the workspaces of the host.
func (s Snapshot) foldRegistry(a ledger.Agent, out []WorkspaceRecord, at map[string]int) error {
	stored, err := s.ledger.AgentState(a.ID)
	if err != nil {
		return err
	}
	trees, err := s.ledger.Trees(a.ID)
	if err != nil {
		return err
	}
	for _, attached := range stored.Workspaces {
		i, known := at[attached.WorkspaceID]
		if !known || a.ArchivedAt != nil {
			continue
		}
		if w := &out[i]; w.AttachedAt.IsZero() || attached.AttachedAt.Before(w.AttachedAt.Time()) {
			w.AttachedAt = turns.At(attached.AttachedAt)
		}
		out[i].Active = out[i].Active || stored.WorkspaceID() == attached.WorkspaceID
	}
	for _, t := range trees {
		if i, known := at[t.WorkspaceID]; known {
			out[i].Trees = append(out[i].Trees, s.ofTree(t, stored.Active))
		}
	}
	return nil
}

// Workspaces returns those that an agent has attached or has trees of, at most limit.
func (s Snapshot) Workspaces(agentID string, limit int) ([]WorkspaceRecord, error) {
	if _, err := s.shown(agentID); err != nil {
		return nil, err
	}
	stored, err := s.ledger.AgentState(agentID)
	if err != nil {
		return nil, err
	}
	trees, err := s.ledger.Trees(agentID)
	if err != nil {
		return nil, err
	}
	var out []WorkspaceRecord
	at := make(map[string]int)
	add := func(id string) error {
		if _, listed := at[id]; listed {
			return nil
		}
		w, err := s.ledger.Workspace(id)
		at[id], out = len(out), append(out, ofWorkspace(w))
		return err
	}
	for _, a := range stored.Workspaces {
		if err := add(a.WorkspaceID); err != nil {
			return nil, err
		}
		w := &out[at[a.WorkspaceID]]
		w.AttachedAt, w.Active = turns.At(a.AttachedAt), stored.WorkspaceID() == a.WorkspaceID
	}
	for _, t := range trees {
		if err := add(t.WorkspaceID); err != nil {
			return nil, err
		}
		w := &out[at[t.WorkspaceID]]
		w.Trees = append(w.Trees, s.ofTree(t, stored.Active))
	}
	return list(out[:min(len(out), clamp(limit))]), nil
}

// Workspace returns one of those of an agent.
func (s Snapshot) Workspace(agentID, id string) (WorkspaceRecord, error) {
	all, err := s.Workspaces(agentID, MaxLimit)
	for _, w := range all {
		if w.ID == id {
			return w, nil
		}
	}
	if err == nil {
		err = &state.Error{Code: ledger.CodeNotFound, Param: "workspace_id",
			Message: fmt.Sprintf("agent %s has no workspace %.100q", agentID, id)}
	}
	return WorkspaceRecord{}, err
}

func (s Snapshot) ofTree(t ledger.Tree, active *ledger.ActiveWorkspace) TreeRecord {
	return TreeRecord{AgentID: t.AgentID, Name: t.Name, Mode: t.Mode, Status: t.Status,
		Path:   s.treePath(t.AgentID, t.Name),
		Source: t.Source, TaskID: t.TaskID, Base: t.Base, Branch: t.Branch, Active: active != nil && active.Tree == t.Name,
		CreatedAt: turns.At(t.CreatedAt), UpdatedAt: turns.At(t.UpdatedAt)}
}

// mount is where an agent finds its home: the local engine makes no container.
func (s Snapshot) mount(agentID string) string {
	if home := s.home(agentID); s.facts.Engine == "local" && home != "" {
		return home
	}
	return homeMount
}

// HomePath is where an agent finds its home.
func (s Snapshot) HomePath(agentID string) string { return s.mount(agentID) }

// treePath is where an agent finds a tree.
func (s Snapshot) treePath(agentID, name string) string {
	if s.facts.Engine == "local" && s.facts.TreesDir != nil {
		return filepath.Join(s.facts.TreesDir(agentID), name)
	}
	return path.Join(workspaces, name)
}

func attachedTo(stored ledger.AgentState) []string {
	ids := make([]string, 0, len(stored.Workspaces))
	for _, a := range stored.Workspaces {
		ids = append(ids, a.WorkspaceID)
	}
	return ids
}

// Workspace is where an agent works, and where it may.
func (s Snapshot) workspace(stored ledger.AgentState) (workspaceState, error) {
	now, session, err := s.entered(stored)
	return workspaceState{Attached: attachedTo(stored), ActiveEntry: &now, WorktreeSession: session}, err
}

// Entered is where an agent works.
func (s Snapshot) Entered(agentID string) (WorkspaceEntry, error) {
	stored, err := s.ledger.AgentState(agentID)
	if err != nil {
		return WorkspaceEntry{}, err
	}
	now, _, err := s.entered(stored)
	return now, err
}

func (s Snapshot) entered(stored ledger.AgentState) (WorkspaceEntry, *worktreeSession, error) {
	at := stored.Active
	if at == nil {
		mount := s.mount(stored.AgentID)
		return WorkspaceEntry{WorkspaceID: ledger.HomeWorkspace, WorkspaceAnchor: s.home(stored.AgentID),
			ExecutionRootID: ProjectionCanonical + ":" + ledger.HomeWorkspace, ExecutionRoot: mount,
			ProjectionKind: ProjectionCanonical, AccessMode: accessMode, Cwd: mount}, nil, nil
	}
	w, err := s.ledger.Workspace(at.WorkspaceID)
	if err != nil {
		return WorkspaceEntry{}, nil, err
	}
	t, err := s.ledger.Tree(stored.AgentID, at.Tree)
	if err != nil {
		return WorkspaceEntry{}, nil, err
	}
	root := s.treePath(stored.AgentID, t.Name)
	now := WorkspaceEntry{WorkspaceID: w.ID, WorkspaceAlias: w.Alias, WorkspaceAnchor: w.Anchor,
		ExecutionRootID: ProjectionCanonical + ":" + w.ID, ExecutionRoot: root, ProjectionKind: ProjectionCanonical,
		AccessMode: accessMode, Cwd: path.Join(root, at.Cwd)}
	if t.Mode == ledger.TreeDirect && t.Source == "" {
		return now, nil, nil
	}
	now.ProjectionKind, now.ExecutionRootID = ProjectionWorktree, ProjectionWorktree+":"+w.ID+":"+t.Name
	from := s.mount(stored.AgentID)
	if at.From != "" {
		from = s.treePath(stored.AgentID, at.From)
	}
	return now, &worktreeSession{OriginalCwd: from, OriginalBranch: t.Branch, WorktreePath: root,
		WorktreeBranch: cmp.Or(t.Branch, "HEAD")}, nil
}

// Binding is what the commands of an agent are bound to, and which instructions it is given.
type Binding struct {
	AgentHome      string         `json:"agent_home"`
	Execution      execution      `json:"execution"`
	LoadedAgentsMD loadedAgentsMD `json:"loaded_agents_md"`
}

// Binding returns that of an agent.
func (s Snapshot) Binding(agentID string) (Binding, error) {
	a, err := s.ledger.Agent(agentID)
	if err != nil {
		return Binding{}, err
	}
	stored, err := s.ledger.AgentState(agentID)
	if err != nil {
		return Binding{}, err
	}
	now, _, err := s.entered(stored)
	return Binding{AgentHome: s.home(agentID), Execution: s.execution(a, now),
		LoadedAgentsMD: loadedAgentsMD{Sources: append(s.agentsMD(agentID), s.guidance(stored, now)...)}}, err
}

// accessMode of every tree: an agent has its trees for itself.
const accessMode = "exclusive_write"

// guidance are the instructions of the workspace in which an agent works.
func (s Snapshot) guidance(stored ledger.AgentState, now WorkspaceEntry) []AgentsMD {
	if stored.Active == nil || s.facts.Guidance == nil {
		return nil
	}
	name := s.facts.Guidance(stored.AgentID, stored.Active.WorkspaceID)
	if name == "" {
		return nil
	}
	kind := "agents_md"
	if name != "AGENTS.md" {
		kind = "claude_md_fallback"
	}
	return []AgentsMD{{Scope: "workspace", Kind: kind, Path: filepath.Join(now.WorkspaceAnchor, name)}}
}
