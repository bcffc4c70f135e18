package scheduler

import (
	"context"
	"fmt"
	"path"
	"path/filepath"
	"slices"

	"holon/runner/agent/record"
	"holon/state"
	"holon/state/ledger"
)

// Codes of errors about workspaces.
const (
	CodeInvalidWorkspace state.Code = "invalid_workspace" // Param names the field
	CodeWorkspaceNested  state.Code = "workspace_nested"  // it lies within another one of the agent, or holds one
	CodeWorkspaceActive  state.Code = "workspace_active"  // of what cannot be done with the active one
	CodeWorkspaceLimit   state.Code = "workspace_limit_reached"
	CodeWorkspaceFailed  state.Code = "workspace_failed" // of the host: no client can do something about it
)

// maxWorkspaces bounds the workspaces that an agent has attached at a time, and maxTrees its trees, of which
// maxIsolated may be isolated ones that belong to no task: a model makes them as it likes.
const (
	maxWorkspaces = 64
	maxTrees      = 256
	maxIsolated   = 8
)

// WorkspaceID is the id of the workspace with an anchor.
func WorkspaceID(anchor string) string { return derivedID("ws_", anchor) }

// Attach lets an agent work in a workspace, which is registered if it was not. The id follows from its anchor. made
// says whether this call did it. Errors: CodeWorkspaceNested, CodeWorkspaceLimit, CodeAgentArchived,
// ledger.CodeNotFound.
func (m *Scheduler) Attach(ctx context.Context, agentID string, w ledger.Workspace, by string) (_ ledger.Workspace,
	made bool, err error) {
	w.ID = WorkspaceID(w.Anchor)
	err = m.liveStep(ctx, agentID, func(s *step) error {
		made = false
		old, registered := find(s, ledger.View.Workspace, w.ID)
		if s.attached(w.ID) {
			w = old
			return nil
		}
		if err := s.checkAttach(w); err != nil {
			return err
		}
		w.CreatedAt, w.UpdatedAt, made = s.now, s.now, true
		if registered {
			w.Alias, w.CreatedAt = old.Alias, old.CreatedAt
			s.update(&w)
		} else {
			s.insert(&w)
		}
		s.state.Workspaces = append(s.state.Workspaces, ledger.Attachment{WorkspaceID: w.ID, AttachedAt: s.now})
		s.emitWorkspace(record.WorkspaceAttached, w.ID, fields{record.RecordWorkspace: w, "by": clip(by)})
		return nil
	})
	return w, made, err
}

func (s *step) attached(workspaceID string) bool {
	return slices.ContainsFunc(s.state.Workspaces, func(a ledger.Attachment) bool { return a.WorkspaceID == workspaceID })
}

// checkAttach refuses a workspace that the agent may not get next to those that it has.
func (s *step) checkAttach(w ledger.Workspace) error {
	if len(s.state.Workspaces) >= maxWorkspaces {
		return refused(CodeWorkspaceLimit, "agent_id", "detach some of them first",
			"agent %s has %d workspaces, and no more may be attached", s.state.AgentID, len(s.state.Workspaces))
	}
	for _, a := range s.state.Workspaces {
		other := read(s, ledger.View.Workspace, a.WorkspaceID)
		if beneath(other.Anchor, w.Anchor) || beneath(w.Anchor, other.Anchor) {
			return refused(CodeWorkspaceNested, "path", "use "+other.ID+", or detach it first",
				"%.500s and the workspace %.500s of agent %s lie within each other", w.Anchor, other.Anchor, s.state.AgentID)
		}
	}
	return nil
}

// beneath reports whether path lies in dir, both clean.
func beneath(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// Enter says where an agent is to work.
type Enter struct {
	AgentID, WorkspaceID, By string
	Tree                     string // of the agent, made from that workspace
	Cwd                      string // within it, clean and slash-separated; "": its top
	Idle                     bool   // refused with CodeAgentBusy while a turn runs
}

// Use makes a workspace the one in which the agent works from its next call of a tool on. The same again changes
// nothing. Nothing is removed. Errors: CodeInvalidWorkspace, CodeAgentArchived, ledger.CodeNotFound.
func (m *Scheduler) Use(ctx context.Context, e Enter) (now ledger.ActiveWorkspace, err error) {
	if e.Cwd != "" && (!filepath.IsLocal(e.Cwd) || path.Clean(e.Cwd) != e.Cwd || e.Cwd == ".") {
		return now, refused(CodeInvalidWorkspace, "cwd", "", "%.300q is not a path within a tree", e.Cwd)
	}
	err = m.liveStep(ctx, e.AgentID, func(s *step) error {
		if e.Idle && s.busy() {
			return refused(CodeAgentBusy, "agent_id", "wait for its end", "a turn of agent %s runs", e.AgentID)
		}
		t, ok := find(s, s.treeNamed, e.Tree)
		switch {
		case !s.attached(e.WorkspaceID):
			return notAttached(e.AgentID, e.WorkspaceID)
		case !ok || !t.Live() || t.WorkspaceID != e.WorkspaceID:
			return refused(ledger.CodeNotFound, "tree", "", "agent %s has no tree %.100q of %s", e.AgentID, e.Tree,
				e.WorkspaceID)
		}
		now = s.enter(e, t)
		return nil
	})
	return now, err
}

// enter has the agent work in a tree.
func (s *step) enter(e Enter, t ledger.Tree) ledger.ActiveWorkspace {
	now := ledger.ActiveWorkspace{WorkspaceID: e.WorkspaceID, Tree: e.Tree, Cwd: e.Cwd, EnteredAt: s.now}
	at := s.state.Active
	stays := at != nil && at.Tree == e.Tree
	switch {
	case stays && at.Cwd == e.Cwd:
		return *at
	case stays:
		now.From, now.EnteredAt = at.From, at.EnteredAt
	case at != nil:
		now.From = at.Tree
	}
	s.leaveTree(e.Tree)
	w := read(s, ledger.View.Workspace, e.WorkspaceID)
	s.emitWorkspace(record.WorkspaceUsed, w.ID, fields{record.RecordWorkspace: w, "tree": t.Name, "mode": string(t.Mode),
		"cwd": clip(e.Cwd), "by": clip(e.By)})
	if !stays {
		s.emitTree(record.WorktreeEntered, t, nil)
	}
	s.state.Active = &now
	return now
}

// leaveTree records that the agent leaves the tree in which it works, unless it stays there.
func (s *step) leaveTree(next string) {
	at := s.state.Active
	if at == nil || at.Tree == next {
		return
	}
	if t, ok := find(s, s.treeNamed, at.Tree); ok {
		s.emitTree(record.WorktreeExited, t, nil)
	}
}

// ExitWorkspace lets an agent work in its home again; left is false when it does.
func (m *Scheduler) ExitWorkspace(ctx context.Context, agentID, by string) (left bool, err error) {
	err = m.liveStep(ctx, agentID, func(s *step) error {
		if left = s.state.Active != nil; left {
			s.exit(by, "")
		}
		return nil
	})
	return left, err
}

func (s *step) exit(by, reason string) {
	at := s.state.Active
	s.leaveTree("")
	s.emitWorkspace(record.WorkspaceExited, at.WorkspaceID,
		fields{"tree": at.Tree, "by": clip(by), "reason": clip(reason)})
	s.state.Active = nil
}

// Detach takes a workspace from what an agent has attached, also one whose directory is gone. It removes nothing else.
// Errors: CodeInvalidWorkspace of its home, CodeWorkspaceActive, ledger.CodeNotFound.
func (m *Scheduler) Detach(ctx context.Context, agentID, workspaceID, by string) error {
	if workspaceID == ledger.HomeWorkspace {
		return refused(CodeInvalidWorkspace, "workspace_id", "name another one: holon workspace list --agent "+agentID,
			"the home of an agent cannot be detached")
	}
	return m.liveStep(ctx, agentID, func(s *step) error {
		if at := s.state.Active; at != nil && at.WorkspaceID == workspaceID {
			return refused(CodeWorkspaceActive, "workspace_id", "switch to another one first: holon workspace use "+
				ledger.HomeWorkspace+" --agent "+agentID, "agent %s works in %s", agentID, workspaceID)
		}
		if !s.attached(workspaceID) {
			if _, registered := find(s, ledger.View.Workspace, workspaceID); registered {
				return nil
			}
			return notAttached(agentID, workspaceID)
		}
		s.state.Workspaces = slices.DeleteFunc(s.state.Workspaces, func(a ledger.Attachment) bool {
			return a.WorkspaceID == workspaceID
		})
		s.emitWorkspace(record.WorkspaceDetached, workspaceID, fields{"by": clip(by)})
		return nil
	})
}

func notAttached(agentID, workspaceID string) error {
	return refused(ledger.CodeNotFound, "workspace_id", "holon workspace list --agent "+agentID+" shows them",
		"agent %s has no workspace %.100q", agentID, workspaceID)
}

func (s *step) emitWorkspace(label, workspaceID string, f fields) {
	s.emit(label, ledger.Event{Ref: workspaceID}, f)
}

// ReserveTree records a tree that is about to be made, and returns its record. One that the agent has for the same is
// returned as it is: of direct ones there is one for each workspace and working tree of the user, and of isolated ones
// one for each name. A direct tree gets a name after t.Name that no other tree has had.
func (m *Scheduler) ReserveTree(ctx context.Context, t ledger.Tree) (ledger.Tree, error) {
	err := m.liveStep(ctx, t.AgentID, func(s *step) error {
		if !s.attached(t.WorkspaceID) {
			return notAttached(t.AgentID, t.WorkspaceID)
		}
		trees := read(s, ledger.View.Trees, t.AgentID)
		if i := slices.IndexFunc(trees, func(old ledger.Tree) bool {
			return old.Status == ledger.TreeActive && sameOrigin(old, t) &&
				(t.Mode == ledger.TreeDirect || old.TaskID == t.TaskID && old.Name == t.Name)
		}); i >= 0 {
			t = trees[i]
			return nil
		}
		if err := checkTree(trees, t); err != nil {
			return err
		}
		write := s.insert
		if s.nameTree(&t) {
			write = s.update
		}
		t.Status, t.Held, t.CreatedAt, t.UpdatedAt = ledger.TreeActive, nil, s.now, s.now
		write(&t)
		return nil
	})
	return t, err
}

// checkTree refuses a tree that an agent may not get next to those that it has.
func checkTree(trees []ledger.Tree, t ledger.Tree) error {
	have, isolated := 0, 0
	for _, old := range trees {
		if old.Status != ledger.TreeActive && old.Status != ledger.TreeRetained {
			continue
		}
		if have++; old.Mode == ledger.TreeIsolated && old.TaskID == "" {
			isolated++
		}
	}
	discard := "use one that is there, or have the operator discard one: holon workspace discard COPY --agent " + t.AgentID
	switch {
	case have >= maxTrees:
		return refused(CodeWorkspaceLimit, "agent_id", discard, "agent %s has %d copies, and may have no more", t.AgentID,
			have)
	case t.Mode == ledger.TreeIsolated && t.TaskID == "" && isolated >= maxIsolated:
		return refused(CodeWorkspaceLimit, "mode", discard, "agent %s has %d isolated copies, and may have no more",
			t.AgentID, isolated)
	}
	return nil
}

// sameOrigin reports whether two trees are copies of the same for as long.
func sameOrigin(a, b ledger.Tree) bool {
	return a.WorkspaceID == b.WorkspaceID && a.Mode == b.Mode && a.Source == b.Source
}

// nameTree gives a tree a name that no other has had, and reports whether it takes the place of one that is gone.
func (s *step) nameTree(t *ledger.Tree) (replaces bool) {
	name := t.Name
	for n := 2; ; n++ {
		old, taken := find(s, s.treeNamed, t.Name)
		gone := old.Status == ledger.TreeRemoved || old.Status == ledger.TreeFailed
		if !taken || gone && sameOrigin(old, *t) {
			return taken
		}
		t.Name = fmt.Sprintf("%s-%d", name, n)
	}
}

func (s *step) treeNamed(v ledger.View, name string) (ledger.Tree, error) {
	return v.Tree(s.state.AgentID, name)
}

// TreeMade records how a tree is found that was reserved, and what it began with.
func (m *Scheduler) TreeMade(ctx context.Context, made ledger.Tree) error {
	return m.treeStep(ctx, made.AgentID, made.Name, func(s *step, t *ledger.Tree) {
		if t.Live() {
			return
		}
		t.Held, t.Base, t.Branch = made.Held, made.Base, made.Branch
		s.emitTree(record.WorktreeCreated, *t, nil)
	})
}

// TreeChange is what was done with the change of a tree, or with its base.
type TreeChange struct {
	AgentID, Tree, By string
	What              string // one of record.WorkspaceApplied, WorkspaceSynced, WorkspaceCheckedOut, WorkspaceMerged
	Files             int    // that were written or deleted
	Branch            string // that was made
	From              string // whose change was merged
	Made              ledger.Tree
}

// TreeChanged records it. Of Made, what is not empty replaces what the record of the tree has.
func (m *Scheduler) TreeChanged(ctx context.Context, c TreeChange) error {
	return m.treeStep(ctx, c.AgentID, c.Tree, func(s *step, t *ledger.Tree) {
		if c.Made.Held != nil {
			t.Held, t.Base, t.Branch = c.Made.Held, c.Made.Base, c.Made.Branch
		}
		s.emitWorkspace(c.What, t.WorkspaceID, fields{"workspace_id": t.WorkspaceID, "tree": t.Name, "files": c.Files,
			"branch": clip(c.Branch), "from": clip(c.From), "base_commit": t.Base, "by": clip(c.By)})
	})
}

// EndTree records what became of a tree, and why. An agent that works in it works in its home again. missing says that
// it was gone when a process looked for it.
func (m *Scheduler) EndTree(ctx context.Context, agentID, name string, status ledger.TreeStatus, why string,
	missing bool) error {
	return m.treeStep(ctx, agentID, name, func(s *step, t *ledger.Tree) {
		if t.Status == status {
			return
		}
		if t.Status = status; status != ledger.TreeRetained {
			t.Held = nil
		}
		label := map[ledger.TreeStatus]string{ledger.TreeRemoved: record.WorktreeRemoved,
			ledger.TreeRetained: record.WorktreeRetained, ledger.TreeFailed: record.WorktreeFailed}[status]
		if missing {
			label = record.WorktreeMissing
		}
		s.emitTree(label, *t, fields{"reason": clip(why)})
		if at := s.state.Active; at != nil && at.Tree == name {
			s.exit("runtime", why)
		}
	})
}

// KeepTree takes a tree from an agent that does not work there and never will again: it is kept for what becomes of it.
// The same again changes nothing. Errors: CodeWorkspaceActive, ledger.CodeNotFound.
func (m *Scheduler) KeepTree(ctx context.Context, agentID, name, why string) error {
	active := false
	err := m.treeStep(ctx, agentID, name, func(s *step, t *ledger.Tree) {
		if active = s.state.Active != nil && s.state.Active.Tree == name; active || t.Status != ledger.TreeActive {
			return
		}
		t.Status = ledger.TreeRetained
		s.emitTree(record.WorktreeRetained, *t, fields{"reason": clip(why)})
	})
	if err == nil && active {
		err = refused(CodeWorkspaceActive, "workspace_id", "switch to another one first: holon workspace use WORKSPACE "+
			"--agent "+agentID, "agent %s works in the copy %s", agentID, name)
	}
	return err
}

// treeStep changes the record of a tree. The agent may have been removed.
func (m *Scheduler) treeStep(ctx context.Context, agentID, name string, change func(*step, *ledger.Tree)) error {
	return m.step(ctx, agentID, func(s *step) error {
		t, ok := find(s, s.treeNamed, name)
		if !ok {
			return refused(ledger.CodeNotFound, "tree", "", "agent %s has no tree %.100q", agentID, name)
		}
		t.UpdatedAt = s.now
		if change(s, &t); len(s.events) > 0 {
			s.update(&t)
		}
		return nil
	})
}

// emitTree records what became of a tree. How it is found is the host's own business.
func (s *step) emitTree(label string, t ledger.Tree, f fields) {
	t.Held = nil
	s.emitWorkspace(label, t.WorkspaceID, f.with(record.RecordTree, t))
}
