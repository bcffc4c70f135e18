package trees

import (
	"os"
	"path/filepath"
	"testing"

	"holon/internal/folder"
	"holon/runner/agent/view"
	"holon/runner/workspace"
	"holon/state/ledger"
	"holon/test/expect"
)

// At the start a tree that was not made is ended and nothing half-written stays; what a task kept does.
func TestRecoverLeftovers(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	dir := repo(t, "app", map[string]string{"a": "a\n"})
	_, w := l.attach(dir)
	kept := l.enter(view.Selection{WorkspaceID: w.ID, Mode: ledger.TreeIsolated, Key: "call"})
	expect.NoError(t, l.steps.EndTree(l.ctx, "main", filepath.Base(kept), ledger.TreeRetained, "", false))
	unmade, err := l.steps.ReserveTree(l.ctx, ledger.Tree{AgentID: "main", Name: "unmade", WorkspaceID: w.ID,
		Mode: ledger.TreeIsolated})
	expect.NoError(t, err)
	claims, err := workspace.Claims(l.ctx, l.opts.Home.CacheDir())
	expect.NoError(t, err)
	expect.Equal(t, "changed", len(l.changed()), 0) // which makes the directory of changes
	half := []string{filepath.Join(claims[0].Slot, ".tmp-00ff"), filepath.Join(l.changesDir("main"), "app", ".tmp-12"),
		l.private("main", "anchors", newAnchor+"ws_1")}
	expect.NoError(t, os.WriteFile(half[0], nil, 0o600))
	expect.NoError(t, os.WriteFile(half[1], nil, 0o600))
	expect.NoError(t, os.Mkdir(half[2], 0o700))

	expect.NoError(t, l.Recover(l.ctx))
	for _, path := range half {
		if _, err := os.Lstat(path); !os.IsNotExist(err) {
			t.Errorf("%s is there: %v", path, err)
		}
	}
	unmade, err = ledger.Read(l.ctx, l.opts.Store, func(v ledger.View) (ledger.Tree, error) {
		return v.Tree("main", unmade.Name)
	})
	expect.NoError(t, err)
	expect.Equal(t, "the tree that was not made", unmade.Status, ledger.TreeRemoved)
	l.has(kept, "a", "a\n")
}

// A tree that is made while a container starts, which gives its user the home, is that user's in the end.
func TestOwnerChanges(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root gives files to others")
	}
	l := newLab(t)
	_, w := l.attach(repo(t, "app", map[string]string{"a": "a\n"}))
	tree, err := l.steps.ReserveTree(l.ctx, ledger.Tree{AgentID: "main", Name: "late", WorkspaceID: w.ID,
		Mode: ledger.TreeIsolated})
	expect.NoError(t, err)
	tree, err = l.makeBy(l.ctx, w, tree, func(o workspace.Options) (*workspace.Tree, error) {
		expect.NoError(t, os.Chown(l.opts.Home.AgentDir("main"), 4242, 4242))
		source, err := workspace.Open(l.ctx, o)
		expect.NoError(t, err)
		return source.Acquire(l.ctx)
	})
	expect.NoError(t, err)
	expect.Equal(t, "the owner", *ownerOf(l.treeDir(tree)), folder.Owner{UID: 4242, GID: 4242})
}

// A tree that is ended while it is made is gone in the end.
func TestEndWhileMade(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	_, w := l.attach(repo(t, "app", map[string]string{"a": "a\n"}))
	tree, err := l.steps.ReserveTree(l.ctx, ledger.Tree{AgentID: "main", Name: "late", WorkspaceID: w.ID,
		Mode: ledger.TreeIsolated})
	expect.NoError(t, err)
	unlock, err := l.lock(l.ctx, "main")
	expect.NoError(t, err)
	ended := make(chan error)
	made, err := l.makeBy(l.ctx, w, tree, func(o workspace.Options) (*workspace.Tree, error) {
		go func() { _, err := l.end(l.ctx, tree, false); ended <- err }()
		source, err := workspace.Open(l.ctx, o)
		expect.NoError(t, err)
		return source.Acquire(l.ctx)
	})
	expect.NoError(t, err)
	unlock()
	expect.NoError(t, <-ended)
	if l.there(made) {
		t.Error("it is there")
	}
}
