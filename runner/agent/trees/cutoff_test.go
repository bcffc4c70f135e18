package trees

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"holon/runner/agent/scheduler"
	"holon/runner/agent/view"
	"holon/runner/workspace"
	"holon/state/ledger"
	"holon/test/expect"
)

// cut fails a step, before it is taken or after, as a process that is killed there.
type cut struct {
	*scheduler.Scheduler
	left  *int
	after bool
}

var errCut = errors.New("cut off")

func (c cut) ReserveTree(ctx context.Context, t ledger.Tree) (ledger.Tree, error) {
	return cutOff(c, func() (ledger.Tree, error) { return c.Scheduler.ReserveTree(ctx, t) })
}

func (c cut) TreeMade(ctx context.Context, t ledger.Tree) error {
	_, err := cutOff(c, func() (any, error) { return nil, c.Scheduler.TreeMade(ctx, t) })
	return err
}

func (c cut) Use(ctx context.Context, e scheduler.Enter) (ledger.ActiveWorkspace, error) {
	return cutOff(c, func() (ledger.ActiveWorkspace, error) { return c.Scheduler.Use(ctx, e) })
}

func (c cut) EndTree(ctx context.Context, agentID, name string, s ledger.TreeStatus, why string, missing bool) error {
	_, err := cutOff(c, func() (any, error) { return nil, c.Scheduler.EndTree(ctx, agentID, name, s, why, missing) })
	return err
}

func cutOff[T any](c cut, step func() (T, error)) (out T, err error) {
	if *c.left--; *c.left < 0 && !c.after {
		return out, errCut
	}
	if out, err = step(); err == nil && *c.left < 0 {
		err = errCut
	}
	return out, err
}

// Wherever a process is killed while an agent enters a workspace, the next one has it enter, and no tree is without a
// record.
func TestEnterCutOff(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	dir := repo(t, "app", map[string]string{"f": "f\n"})
	for _, after := range []bool{false, true} {
		for n := 0; ; n++ {
			s := view.Selection{Path: dir, Operator: true, Mode: ledger.TreeIsolated, Key: fmt.Sprint(after, n)}
			killed := New(l.opts)
			left := n
			killed.opts.Steps = cut{l.steps, &left, after}
			_, err := killed.Enter(l.ctx, "main", s)
			if err != nil && !errors.Is(err, errCut) {
				t.Fatalf("cut off after %d steps: %v", n, err)
			}
			l.Trees = New(l.opts)
			expect.NoError(t, l.Recover(l.ctx, ledger.Alone{}.Held))
			tree := l.enter(s)
			trees, claims := l.live()
			expect.Equal(t, fmt.Sprintf("claims on trees after %d steps", n), claims, trees)
			if err == nil {
				break
			}
			expect.NoError(t, l.Exit(l.ctx, "main", "me"))
			_, err = l.DiscardCopy(l.ctx, "main", filepath.Base(tree))
			expect.NoError(t, err)
		}
	}
}

// live counts the trees that are there by the ledger and by what holds them.
func (l *lab) live() (trees, claims int) {
	l.Helper()
	all, err := ledger.Read(l.ctx, l.opts.Store, ledger.View.AllTrees)
	expect.NoError(l, err)
	for _, tree := range all {
		if tree.Live() {
			trees++
		}
	}
	held, err := workspace.Claims(l.ctx, l.opts.Home.CacheDir())
	expect.NoError(l, err)
	return trees, len(held)
}
