package trees

import (
	"os"
	"path/filepath"
	"testing"

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
	half := []string{filepath.Join(claims[0].Slot, ".tmp-00ff"), l.private("main", "anchors", newAnchor+"ws_1")}
	expect.NoError(t, os.WriteFile(half[0], nil, 0o600))
	expect.NoError(t, os.Mkdir(half[1], 0o700))

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
