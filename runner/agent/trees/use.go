package trees

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"holon/internal/roots"
	"holon/responses"
	"holon/runner"
	"holon/runner/agent/scheduler"
	"holon/runner/agent/view"
	"holon/state"
	"holon/state/ledger"
)

// maxShownGuidance bounds the guidance that comes with a switch, in bytes.
const maxShownGuidance = 32 << 10

// Attach lets an agent work in a directory of the operator's.
func (t *Trees) Attach(ctx context.Context, agentID, name, by string) (ledger.Workspace, error) {
	p, err := t.locate(ctx, name)
	if err == nil {
		p.workspace, _, err = t.opts.Steps.Attach(ctx, agentID, p.workspace, by)
	}
	return p.workspace, typed(err)
}

// Detach takes a workspace from an agent, also one whose directory is gone.
func (t *Trees) Detach(ctx context.Context, agentID, name, by string) (id string, err error) {
	_, attached, err := t.attached(ctx, agentID)
	if err != nil {
		return "", err
	}
	id = name
	if w, ok, err := named(attached, name); err != nil {
		return "", err
	} else if ok {
		id = w.ID
	}
	if err := t.opts.Steps.Detach(ctx, agentID, id, by); err != nil {
		return id, err
	}
	trees, err := t.treesOf(ctx, agentID)
	if err != nil || slices.ContainsFunc(trees, func(t ledger.Tree) bool { return t.WorkspaceID == id }) {
		return id, err
	}
	// its container sees nothing of it any more
	return id, errors.Join(os.RemoveAll(t.private(agentID, "objects", filepath.Base(id))),
		os.RemoveAll(t.private(agentID, "anchors", filepath.Base(id))))
}

// named finds a workspace by its id, its anchor or its alias.
func named(all []ledger.Workspace, name string) (found ledger.Workspace, ok bool, err error) {
	for _, w := range all {
		if w.ID == name || w.Anchor == name {
			return w, true, nil
		}
	}
	for _, w := range all {
		if w.Alias != name {
			continue
		}
		if ok {
			return found, false, &state.Error{Code: scheduler.CodeInvalidWorkspace, Param: "workspace_id",
				Message: fmt.Sprintf("%q is the alias of several workspaces", name), Hint: "give the id of one"}
		}
		found, ok = w, true
	}
	return found, ok, nil
}

// Exit lets an agent work in its home again. One that does is refused.
func (t *Trees) Exit(ctx context.Context, agentID, by string) error {
	left, err := t.opts.Steps.ExitWorkspace(ctx, agentID, by)
	if err == nil && !left {
		err = &state.Error{Code: scheduler.CodeInvalidWorkspace, Param: "workspace_id",
			Message: "agent " + agentID + " works in its home, which it cannot exit",
			Hint:    "use a workspace: holon workspace use WORKSPACE --agent " + agentID}
	}
	return err
}

// idleWait is how long Use waits for the end of a turn before it says that the agent is busy.
const idleWait = time.Minute

// Use is Enter for the operator, from the agent's next turn on.
func (t *Trees) Use(ctx context.Context, agentID string, u view.WorkspaceUse, by string) error {
	s := view.Selection{Path: u.Path, WorkspaceID: u.WorkspaceID, Mode: ledger.TreeMode(u.Mode), By: by, Operator: true,
		Idle: u.Wait, Key: responses.NewID("key_")}
	patience := time.NewTimer(idleWait)
	defer patience.Stop()
	for {
		changed := t.opts.Store.Changed(agentID)
		_, err := t.Enter(ctx, agentID, s)
		if !s.Idle || !state.IsCode(err, scheduler.CodeAgentBusy) {
			return err
		}
		select {
		case <-changed:
		case <-patience.C:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Enter makes a workspace the one in which an agent works from its next call of a tool on, and the copy that it needs.
// Nothing is removed.
func (t *Trees) Enter(ctx context.Context, agentID string, s view.Selection) (view.Selected, error) {
	entered, err := t.enter(ctx, agentID, s)
	return entered, typed(err)
}

func (t *Trees) enter(ctx context.Context, agentID string, s view.Selection) (view.Selected, error) {
	s.Mode = cmp.Or(s.Mode, ledger.TreeDirect)
	if err := t.checkSelection(s); err != nil {
		return view.Selected{}, err
	}
	if s.WorkspaceID == ledger.HomeWorkspace || path.Clean(s.Path) == homeDir {
		if s.Idle {
			if err := t.idle(ctx, agentID); err != nil {
				return view.Selected{}, err
			}
		}
		_, err := t.opts.Steps.ExitWorkspace(ctx, agentID, s.By)
		return view.Selected{Entered: homeEntered(), WorkDir: homeDir}, err
	}
	p, tree, err := t.choose(ctx, agentID, s)
	if err == nil && s.Idle {
		err = t.idle(ctx, agentID)
	}
	if err == nil && !tree.Live() {
		tree, err = t.ensure(ctx, agentID, p, s)
	}
	if err != nil {
		return view.Selected{}, err
	}
	if err = t.checkCwd(tree, p.cwd); err == nil {
		err = t.haveAnchor(ctx, agentID, tree.Name)
	}
	if err != nil {
		return view.Selected{}, err
	}
	_, err = t.opts.Steps.Use(ctx, scheduler.Enter{AgentID: agentID, WorkspaceID: p.workspace.ID, Tree: tree.Name,
		Cwd: p.cwd, By: s.By, Idle: s.Idle})
	return t.selected(p, tree), err
}

// checkSelection refuses what says not where to work.
func (t *Trees) checkSelection(s view.Selection) error {
	param, message, hint := "", "", ""
	switch {
	case (s.Path == "") == (s.WorkspaceID == ""):
		param, message = "path", "exactly one of path and workspace_id has to be given"
	case s.Mode != ledger.TreeDirect && s.Mode != ledger.TreeIsolated:
		param, message, hint = "mode", fmt.Sprintf("%.40q is not a mode", s.Mode), "use direct or isolated"
	case s.Mode == ledger.TreeIsolated && !t.Isolates():
		param, message, hint = "mode", "this runtime makes no copies for tasks", "use direct"
	default:
		return nil
	}
	return &state.Error{Code: scheduler.CodeInvalidWorkspace, Param: param, Message: message, Hint: hint}
}

const homeDir = runner.WorkspacesPath + "/" + ledger.HomeWorkspace

func homeEntered() view.Entered {
	return view.Entered{WorkspaceID: ledger.HomeWorkspace, WorkspaceAnchor: ledger.HomeWorkspace, ExecutionRoot: homeDir,
		Cwd: homeDir, Mode: ledger.TreeDirect, ProjectionKind: view.ProjectionCanonical,
		SummaryText: "You work in your home again."}
}

// idle refuses while a turn of the agent runs.
func (t *Trees) idle(ctx context.Context, agentID string) error {
	return t.opts.Store.View(ctx, func(v ledger.View) error {
		_, open, err := v.OpenAttempt(agentID)
		if err == nil && open {
			err = &state.Error{Code: scheduler.CodeAgentBusy, Param: "agent_id", Message: "a turn of agent " + agentID + " runs"}
		}
		return err
	})
}

// choose finds the workspace that is meant, which is attached then, and the tree that was named; one without a name is
// still to be found.
func (t *Trees) choose(ctx context.Context, agentID string, s view.Selection) (p place, tree ledger.Tree, err error) {
	stored, attached, err := t.attached(ctx, agentID)
	if err != nil {
		return p, tree, err
	}
	name := s.WorkspaceID
	if below, rest, ok := inContainer(s.Path); ok && !s.Operator {
		name, p.cwd = below, rest
	}
	if name == "" {
		if p, err = t.find(ctx, attached, s.Path, s.Operator); err == nil {
			p.workspace, _, err = t.opts.Steps.Attach(ctx, agentID, p.workspace, s.By)
		}
		return p, tree, err
	}
	var ok bool
	if p.workspace, ok, err = named(attached, name); err != nil || ok {
		return p, tree, err
	}
	trees, err := t.treesOf(ctx, agentID)
	if i := slices.IndexFunc(trees, func(t ledger.Tree) bool { return t.Name == name && t.Live() }); i >= 0 {
		tree, p.source = trees[i], trees[i].Source
		p.workspace, ok, err = named(attached, tree.WorkspaceID)
	}
	if err == nil && !ok {
		err = notFound(stored.AgentID, name)
	}
	return p, tree, err
}

func notFound(agentID, name string) error {
	return &state.Error{Code: ledger.CodeNotFound, Param: "workspace_id",
		Message: fmt.Sprintf("agent %s has no workspace %.100q", agentID, name),
		Hint:    "holon workspace list --agent " + agentID + " shows them"}
}

// ensure finds the tree of a selection, and makes it where it is not there.
func (t *Trees) ensure(ctx context.Context, agentID string, p place, s view.Selection) (ledger.Tree, error) {
	want := ledger.Tree{AgentID: agentID, Name: p.workspace.Alias, WorkspaceID: p.workspace.ID, Mode: s.Mode,
		Source: p.source}
	switch {
	case s.Mode == ledger.TreeIsolated:
		want.Name += "-" + short(s.Key)
	case p.source != "":
		want.Name += "-" + alias(path.Base(p.source))
	}
	unlock, err := t.lock(ctx, agentID) // before it is reserved: who does not get the lock leaves nothing behind
	if err != nil {
		return want, err
	}
	defer unlock()
	tree, err := t.opts.Steps.ReserveTree(ctx, want)
	if err != nil || tree.Live() && t.there(tree) {
		return tree, err
	}
	if tree.Live() { // something took it away
		err = t.opts.Steps.EndTree(ctx, agentID, tree.Name, ledger.TreeFailed, missing, true)
		if err == nil {
			tree, err = t.opts.Steps.ReserveTree(ctx, want)
		}
		if err != nil {
			return tree, err
		}
	}
	made, err := t.make(ctx, p.workspace, tree)
	if err != nil {
		ctx = context.WithoutCancel(ctx) // a caller that is gone does not undo the record
		ended := t.opts.Steps.EndTree(ctx, agentID, tree.Name, ledger.TreeRemoved, "it could not be made", false)
		return tree, errors.Join(err, t.disclaim(ctx, tree), ended)
	}
	return made, nil
}

// short is a part of a name that follows from a key.
func short(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:3])
}

// checkCwd refuses a directory that is not in the tree, links resolved.
func (t *Trees) checkCwd(tree ledger.Tree, cwd string) error {
	root, err := roots.Open(t.treeDir(tree))
	if err != nil {
		return fmt.Errorf("open the tree %s: %w", tree.Name, err)
	}
	defer root.Close()
	if info, err := root.Stat(cmp.Or(cwd, ".")); err != nil || !info.IsDir() {
		return invalid("name a directory that the copy has; what git ignores is not copied",
			fmt.Sprintf("%.300q is not a directory of the copy %s", cwd, tree.Name))
	}
	return nil
}

// selected describes where an agent works: paths are those of its container, and the anchor is known by its alias.
func (t *Trees) selected(p place, tree ledger.Tree) view.Selected {
	root := path.Join(runner.WorkspacesPath, tree.Name)
	workDir := path.Join(root, p.cwd)
	if t.opts.Local { // agents see the host's paths
		root = t.treeDir(tree)
	}
	out := view.Selected{WorkDir: workDir, Entered: view.Entered{WorkspaceID: p.workspace.ID,
		WorkspaceAnchor: p.workspace.Alias, ExecutionRoot: root, Cwd: path.Join(root, p.cwd), Mode: tree.Mode,
		ProjectionKind: view.ProjectionCanonical}}
	out.SummaryText = fmt.Sprintf("You work in your copy of %s from your next call on. Your operator sees and takes what "+
		"you change there.", p.workspace.Alias)
	if tree.Mode == ledger.TreeIsolated || tree.Source != "" {
		out.ProjectionKind = view.ProjectionWorktree
	}
	if tree.Source != "" && tree.Mode == ledger.TreeDirect {
		out.SummaryText += fmt.Sprintf(" It is a copy of a working tree of that repository which your operator keeps; for a "+
			"tree of your own use workspace_id %s with mode isolated.", p.workspace.ID)
	}
	out.GuidanceName, out.Guidance = t.guidanceText(tree.AgentID, p.workspace.ID, maxShownGuidance)
	return out
}

// Turn says where the next turn of an agent works, and where it reads the guidance of its workspace: names beneath the
// directories of trees and anchors, "" for its home. A tree that is gone is left, and guidance that is gone is written
// again.
func (t *Trees) Turn(ctx context.Context, agentID string) (workDir, anchor string, err error) {
	stored, err := ledger.Read(ctx, t.opts.Store, func(v ledger.View) (ledger.AgentState, error) {
		return v.AgentState(agentID)
	})
	at := stored.Active
	if err != nil || at == nil {
		return "", "", err
	}
	tree := ledger.Tree{AgentID: agentID, Name: at.Tree}
	if t.there(tree) {
		err = t.haveAnchor(ctx, agentID, at.Tree)
	}
	if err != nil && !isGone(err) {
		return "", "", typed(err)
	}
	if err != nil || !t.there(tree) {
		return "", "", t.opts.Steps.EndTree(ctx, agentID, at.Tree, ledger.TreeFailed, missing, true)
	}
	cwd := at.Cwd
	if t.checkCwd(tree, cwd) != nil { // it was removed since
		cwd = ""
	}
	return path.Join(at.Tree, cwd), at.WorkspaceID, nil
}
