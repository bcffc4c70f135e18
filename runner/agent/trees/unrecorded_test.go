package trees

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"holon/runner/agent/scheduler"
	"holon/runner/agent/view"
	"holon/runner/workspace"
	"holon/state/ledger"
	"holon/test/expect"
)

// unrecorded records no tree that was made.
type unrecorded struct{ *scheduler.Scheduler }

func (unrecorded) TreeMade(context.Context, ledger.Tree) error {
	return errors.New("the ledger is closed")
}

// A tree that was made and is not recorded is given up again.
func TestUnrecorded(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	dir := repo(t, "app", map[string]string{"a": "a\n"})
	l.opts.Steps = unrecorded{l.steps}
	if _, err := l.Enter(l.ctx, "main", view.Selection{Path: dir, Operator: true}); err == nil {
		t.Error("it is entered")
	}
	claims, err := workspace.Claims(l.ctx, l.opts.Home.CacheDir())
	left, _ := os.ReadDir(l.Dir("main"))
	if err != nil || len(claims)+len(left) > 0 {
		t.Errorf("claims %v, directories %v, %v", claims, left, err)
	}
	l.opts.Steps = l.steps
	expect.Equal(t, "the tree", filepath.Base(l.enter(view.Selection{Path: dir, Operator: true})), "app")
}
