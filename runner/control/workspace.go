package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"holon/runner/agent/view"
	"holon/runner/control/wire"
	"holon/state"
	"holon/state/ledger"
)

// Workspaces are those of agents, and the copies in which agents work. A workspace is named by its id, its alias, the
// path of its anchor or a tree of it; "" is the active one, and where all are meant, all that are attached.
type Workspaces interface {
	Attach(ctx context.Context, agentID, path, by string) (ledger.Workspace, error)
	// Use takes effect with the next turn. With wait it waits for the end of a turn that runs.
	Use(ctx context.Context, agentID string, w view.WorkspaceUse, by string) error
	Exit(ctx context.Context, agentID, by string) error
	Detach(ctx context.Context, agentID, name, by string) (id string, err error)
	Diff(ctx context.Context, agentID, name string) ([]view.TreeDiff, error)
	Apply(ctx context.Context, agentID string, a view.WorkspaceApply, by string) ([]view.TreeApplied, error)
	Checkout(ctx context.Context, agentID string, c view.WorkspaceCheckout, by string) (view.TreeCheckout, error)
	Sync(ctx context.Context, agentID, name, by string) (view.TreeSync, error)
	// CheckPath refuses a path that no agent could have attached.
	CheckPath(ctx context.Context, path string) error
	// DiscardCopy removes an isolated copy; its change is kept as a patch.
	DiscardCopy(ctx context.Context, agentID, name string) (view.TreeDiscarded, error)
	// Unapplied returns what is in any copy of an agent and was not taken.
	Unapplied(ctx context.Context, agentID string) ([]view.TreeDiff, error)
}

// unapplied is Unapplied, which a removal loses: it is refused without force.
func (s *Server) unapplied(ctx context.Context, agentID string, force bool) ([]view.TreeDiff, error) {
	if s.opts.Workspaces == nil {
		return nil, nil
	}
	changes, err := s.opts.Workspaces.Unapplied(ctx, agentID)
	if err != nil || force || len(changes) == 0 {
		return changes, ofContainer(err)
	}
	var names []string
	for _, c := range changes {
		name := c.Tree
		for _, b := range c.Changes.Branches[:min(len(c.Changes.Branches), 10)] {
			name += " " + b.Name
		}
		names = append(names, name)
	}
	return changes, &state.Error{Code: ledger.CodeConflict, Param: "agent_id",
		Message: "agent " + agentID + " has changes or commits that were not taken, in " + strings.Join(names, ", "),
		Hint: "holon workspace apply --agent " + agentID +
			" takes changes; --force removes it and keeps patches, and commits as bundles"}
}

// ofWorkspaces makes the handler of a route that acts on the workspaces of agents.
func ofWorkspaces[Q any](s *Server, do func(r *http.Request, agentID string, body Q) (any, error)) handler {
	return takes(s, maxSmall, optional, func(w http.ResponseWriter, r *http.Request, body Q) (any, error) {
		if s.opts.Workspaces == nil {
			return nil, errNoWorkspaces()
		}
		s.mayTake(w, containerTime)
		id := s.agentID(r)
		if _, err := read(s, r, func(v view.Snapshot) (any, error) { return v.Workspaces(id, 1) }); err != nil {
			return nil, err
		}
		out, err := do(r, id, body)
		return out, ofContainer(err)
	})
}

// checkPath refuses a path that does not mean the same to the daemon as to its client.
func checkPath(param, path string) error {
	if path == "" || filepath.IsAbs(path) {
		return nil
	}
	return invalid(param, "the path is relative", "give an absolute path")
}

// checkWorkspace refuses what an agent that is made now could not have attached.
func (s *Server) checkWorkspace(ctx context.Context, path string) error {
	if path == "" {
		return nil
	}
	if s.opts.Workspaces == nil {
		return errNoWorkspaces()
	}
	err := checkPath("workspace", path)
	if err == nil {
		err = s.opts.Workspaces.CheckPath(ctx, path)
	}
	if e, ok := errors.AsType[*state.Error](err); ok && e.Param == "path" {
		named := *e
		named.Param = "workspace"
		return &named
	}
	return err
}

func errNoWorkspaces() error {
	return &state.Error{Code: wire.CodeUnsupported, Message: "this runtime has no workspaces"}
}

func (s *Server) postAttach(r *http.Request, id string, a wire.AttachWorkspace) (any, error) {
	if a.Path == "" {
		return nil, missing("path", "name a directory of the host")
	}
	if err := checkPath("path", a.Path); err != nil {
		return nil, err
	}
	attached, err := s.opts.Workspaces.Attach(r.Context(), id, a.Path, operator)
	if err != nil {
		return nil, err
	}
	w, err := read(s, r, func(v view.Snapshot) (view.WorkspaceRecord, error) { return v.Workspace(id, attached.ID) })
	return wire.WorkspaceAttached{OK: true, AgentID: id, Workspace: w}, err
}

func (s *Server) postUse(r *http.Request, id string, u view.WorkspaceUse) (any, error) {
	if err := checkPath("path", u.Path); err != nil {
		return nil, err
	}
	return s.entered(r, id, s.opts.Workspaces.Use(r.Context(), id, u, operator))
}

func (s *Server) postExit(r *http.Request, id string, _ struct{}) (any, error) {
	return s.entered(r, id, s.opts.Workspaces.Exit(r.Context(), id, operator))
}

func (s *Server) entered(r *http.Request, id string, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	now, err := read(s, r, func(v view.Snapshot) (view.WorkspaceEntry, error) { return v.Entered(id) })
	return wire.WorkspaceEntered{OK: true, AgentID: id, Active: now}, err
}

func (s *Server) postDetach(r *http.Request, id string, d wire.WorkspaceRef) (any, error) {
	if d.WorkspaceID == "" {
		return nil, missing("workspace_id", "holon workspace list --agent "+id+" shows them")
	}
	detached, err := s.opts.Workspaces.Detach(r.Context(), id, d.WorkspaceID, operator)
	return wire.WorkspaceDetached{OK: true, AgentID: id, WorkspaceID: detached}, err
}

func (s *Server) postDiff(r *http.Request, id string, d wire.DiffWorkspace) (any, error) {
	trees, err := s.opts.Workspaces.Diff(r.Context(), id, d.WorkspaceID)
	for i := range trees {
		if err == nil {
			trees[i].PatchText, err = patchText(&trees[i].Changes, d.PatchBytes)
		}
	}
	return trees, err
}

// patchText is the beginning of a patch, for clients that see none of the files of this host.
func patchText(of *state.Diff, limit int64) (string, error) {
	if limit <= 0 || of.PatchBytes == 0 {
		return "", nil
	}
	f, err := os.Open(of.Patch)
	if err != nil {
		return "", fmt.Errorf("read a patch: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, min(limit, wire.MaxPatch)))
	if err != nil {
		return "", fmt.Errorf("read a patch: %w", err)
	}
	return string(text), nil
}

func (s *Server) postApply(r *http.Request, id string, a view.WorkspaceApply) (any, error) {
	return s.opts.Workspaces.Apply(r.Context(), id, a, operator)
}

func (s *Server) postCheckout(r *http.Request, id string, c view.WorkspaceCheckout) (any, error) {
	if err := checkPath("path", c.Path); err != nil {
		return nil, err
	}
	return s.opts.Workspaces.Checkout(r.Context(), id, c, operator)
}

func (s *Server) postSync(r *http.Request, id string, w wire.WorkspaceRef) (any, error) {
	return s.opts.Workspaces.Sync(r.Context(), id, w.WorkspaceID, operator)
}

func (s *Server) postDiscard(r *http.Request, id string, d wire.WorkspaceRef) (any, error) {
	if d.WorkspaceID == "" {
		return nil, missing("workspace_id", "name a copy: holon workspace list --agent "+id+" shows them")
	}
	return s.opts.Workspaces.DiscardCopy(r.Context(), id, d.WorkspaceID)
}

func (s *Server) getRegistry(_ http.ResponseWriter, r *http.Request) (any, error) {
	return read(s, r, view.Snapshot.Registry)
}
