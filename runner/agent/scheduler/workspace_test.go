package scheduler_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"holon/runner/agent/record"
	"holon/runner/agent/scheduler"
	"holon/state/ledger"
	"holon/test/expect"
)

func directory(anchor string) ledger.Workspace {
	return ledger.Workspace{Alias: "x", Kind: ledger.WorkspaceGit, Anchor: anchor, RepoName: "x"}
}

const workspaceOps = "ws-attach ws-attach ws-tree ws-tree ws-use ws-use ws-use ws-exit ws-detach ws-end broken "

// workspace is what happens to the workspaces of an agent.
func (w *world) workspace(o op) error {
	d := directory(fmt.Sprint("/src/", o.N%3))
	id, name := scheduler.WorkspaceID(d.Anchor), fmt.Sprint("x", o.N%3)
	switch o.Do {
	case "ws-attach":
		_, _, err := w.m.Attach(w.ctx, o.Agent, d, "me")
		return err
	case "ws-tree":
		t, err := w.m.ReserveTree(w.ctx, ledger.Tree{AgentID: o.Agent, Name: name, WorkspaceID: id,
			Mode: ledger.TreeIsolated})
		if err == nil && o.N%4 > 0 {
			t.Held = []byte("{}")
			err = w.m.TreeMade(w.ctx, t)
		}
		return err
	case "ws-use":
		_, err := w.m.Use(w.ctx, scheduler.Enter{AgentID: o.Agent, WorkspaceID: id, Tree: name, Idle: o.N%2 == 0})
		return err
	case "ws-exit":
		_, err := w.m.ExitWorkspace(w.ctx, o.Agent, "me")
		return err
	case "ws-detach":
		return w.m.Detach(w.ctx, o.Agent, id, "me")
	}
	return w.m.EndTree(w.ctx, o.Agent, name, ledger.TreeRemoved, "it is clean", o.N%2 == 0)
}

// checkWorkspaces: an agent works in its home, or in a live tree of a workspace that it has attached once.
func (w *world) checkWorkspaces(v ledger.View, l ledger.AgentState) error {
	seen := make(map[string]bool)
	for _, a := range l.Workspaces {
		if seen[a.WorkspaceID] {
			w.t.Fatalf("%s has %s twice", l.AgentID, a.WorkspaceID)
		}
		seen[a.WorkspaceID] = true
	}
	if l.Active == nil {
		return nil
	}
	t, err := v.Tree(l.AgentID, l.Active.Tree)
	if err == nil && (!t.Live() || t.WorkspaceID != l.Active.WorkspaceID || !seen[t.WorkspaceID]) {
		w.t.Fatalf("%s works in %+v, of which it has %+v", l.AgentID, l.Active, t)
	}
	return err
}

// tree reserves and makes a direct tree of an attached workspace.
func (w *world) tree(workspace string) ledger.Tree {
	t, err := w.m.ReserveTree(w.ctx, ledger.Tree{AgentID: "alpha", Name: "x", WorkspaceID: workspace,
		Mode: ledger.TreeDirect})
	w.must(err)
	t.Held = []byte(`{}`)
	w.must(w.m.TreeMade(w.ctx, t))
	return t
}

// An agent works in its home, or in a tree of a workspace that it has attached. Every step that is taken again changes
// nothing, and what is refused names the field.
func TestWorkspaces(t *testing.T) {
	w := open(t)
	first, made, err := w.m.Attach(w.ctx, "alpha", directory("/src/x"), "me")
	w.must(err)
	expect.Equal(t, "attached first", made, true)
	again, made, err := w.m.Attach(w.ctx, "alpha", directory("/src/x"), "me")
	w.must(err)
	expect.Equal(t, "attached again", made, false)
	expect.Equal(t, "the workspace", again.ID, first.ID)
	other, _, err := w.m.Attach(w.ctx, "alpha", directory("/src/xx"), "me")
	w.must(err)
	for _, path := range []string{"/src/x/y", "/src"} {
		w.invalid("attach", scheduler.CodeWorkspaceNested, "path")(w.m.Attach(w.ctx, "alpha", directory(path), "me"))
	}
	w.ok(w.m.Attach(w.ctx, "beta", directory("/src"), "me")) // another agent has none of them

	one, two := w.tree(first.ID), w.tree(other.ID)
	expect.Equal(t, "the tree of the first", w.tree(first.ID).Name, one.Name)
	expect.Equal(t, "names", one.Name+" "+two.Name, "x x-2")
	enter := scheduler.Enter{AgentID: "alpha", WorkspaceID: first.ID, Tree: one.Name, Cwd: "a/b", By: "me"}
	for field, bad := range map[string]scheduler.Enter{
		"cwd":          {AgentID: "alpha", WorkspaceID: first.ID, Tree: one.Name, Cwd: "../x"},
		"tree":         {AgentID: "alpha", WorkspaceID: first.ID, Tree: two.Name},
		"workspace_id": {AgentID: "alpha", WorkspaceID: "ws_none", Tree: one.Name},
	} {
		code := scheduler.CodeInvalidWorkspace
		if field != "cwd" {
			code = ledger.CodeNotFound
		}
		w.invalid("use", code, field)(w.m.Use(w.ctx, bad))
	}
	w.ok(w.m.Use(w.ctx, enter))
	before := w.state().EventSeq
	w.ok(w.m.Use(w.ctx, enter))
	expect.Equal(t, "events of the same again", w.state().EventSeq, before)
	expect.Equal(t, "a work item's workspace", w.item("it").WorkspaceID, first.ID)
	c := w.working()
	expect.Equal(t, "the workspace of the attempt", c.Attempt.WorkspaceID, first.ID)
	w.ok(w.m.Use(w.ctx, scheduler.Enter{AgentID: "alpha", WorkspaceID: other.ID, Tree: two.Name, By: "me"}))
	s := w.completes(c)
	expect.Equal(t, "the workspace of the turn", s.Turn.WorkspaceID, other.ID)
	expect.Equal(t, "where it came from", w.state().Active.From, one.Name)

	w.invalid("detach", scheduler.CodeWorkspaceActive, "workspace_id")(nil, w.m.Detach(w.ctx, "alpha", other.ID, "me"))
	w.invalid("detach", scheduler.CodeInvalidWorkspace, "workspace_id")(nil,
		w.m.Detach(w.ctx, "alpha", ledger.HomeWorkspace, "me"))
	w.must(w.m.Detach(w.ctx, "alpha", first.ID, "me"))
	w.must(w.m.Detach(w.ctx, "alpha", first.ID, "me"))
	w.must(w.m.EndTree(w.ctx, "alpha", two.Name, ledger.TreeFailed, "it is gone", true))
	expect.Equal(t, "where it works", w.state().WorkspaceID(), ledger.HomeWorkspace)
	left, err := w.m.ExitWorkspace(w.ctx, "alpha", "me")
	expect.NoError(t, err)
	expect.Equal(t, "left", left, false)
	types, all := w.events(0)
	worked := map[string]string{record.TurnSubmitted: first.ID, record.TurnStarted: first.ID,
		record.TurnTerminal: other.ID}
	for i, e := range all {
		if want, ok := worked[types[i]]; ok && e.Workspace != want {
			t.Errorf("%s is of the workspace %q, want %q", types[i], e.Workspace, want)
		}
	}
	types = slices.DeleteFunc(types, func(typ string) bool {
		return !strings.HasPrefix(typ, "work") && typ != record.WorktreeMissing ||
			strings.HasPrefix(typ, "work_") || typ == record.MemoryUpdated
	})
	want := []string{record.WorkspaceAttached, record.WorkspaceAttached, record.WorktreeCreated, record.WorktreeCreated,
		record.WorkspaceUsed, record.WorktreeEntered, record.WorktreeExited, record.WorkspaceUsed, record.WorktreeEntered,
		record.WorkspaceDetached, record.WorktreeMissing, record.WorktreeExited, record.WorkspaceExited}
	if !slices.Equal(types, want) {
		t.Errorf("the log has\n%q, want\n%q", types, want)
	}
	for _, e := range all {
		if label := record.Of(e); strings.HasPrefix(e.Class, "holon.work") && strings.Contains(e.Class, "space.") &&
			label.Category != "workspace" {
			t.Errorf("%s is of the category %s", e.Class, label.Category)
		}
	}
	w.check()
}

// Each step of workspaces is taken whole or not at all, wherever the store fails.
func TestWorkspaceStepsAreWhole(t *testing.T) {
	w := open(t)
	one, _, err := w.m.Attach(w.ctx, "alpha", directory("/src/x"), "me")
	w.must(err)
	two, _, err := w.m.Attach(w.ctx, "alpha", directory("/src/y"), "me")
	w.must(err)
	from, to := w.tree(one.ID), w.tree(two.ID)
	for name, step := range map[string]func() error{
		"use": func() error {
			if _, err := w.m.Use(w.ctx, scheduler.Enter{AgentID: "alpha", WorkspaceID: one.ID, Tree: from.Name}); err != nil {
				return err
			}
			_, err := w.m.Use(w.ctx, scheduler.Enter{AgentID: "alpha", WorkspaceID: two.ID, Tree: to.Name})
			return err
		},
		"exit": func() error { _, err := w.m.ExitWorkspace(w.ctx, "alpha", "me"); return err },
	} {
		for calls := 0; ; calls++ {
			w.store.armed, w.store.survives, w.store.where, w.store.calls = true, true, withinStep, calls
			err := step()
			w.check()
			if err == nil {
				break
			}
			if !errors.Is(err, errCrash) {
				t.Fatalf("%s after %d calls: %v", name, calls, err)
			}
		}
		w.store.armed = false
	}
}
