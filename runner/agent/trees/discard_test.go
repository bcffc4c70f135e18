package trees

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holon/runner/agent/scheduler"
	"holon/runner/agent/view"
	"holon/state"
	"holon/state/ledger"
	"holon/test/expect"
	"holon/test/gittest"
)

// An agent has a few isolated copies at a time. The operator discards one in which it does not work; what was changed
// there stays as a patch.
func TestDiscardCopy(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.opts.Local = true // git runs in the trees here
	dir := repo(t, "app", map[string]string{"f": "f\n"})
	direct, w := l.attach(dir)
	isolated := func(key string) (string, error) {
		now, err := l.Enter(l.ctx, "main", view.Selection{WorkspaceID: w.ID, Mode: ledger.TreeIsolated, Key: key})
		return filepath.Join(l.Dir("main"), filepath.Base(now.ExecutionRoot)), err
	}
	var copies []string
	var err error
	for n := 0; err == nil && n < 20; n++ {
		var dir string
		if dir, err = isolated(fmt.Sprint(n)); err == nil {
			copies = append(copies, dir)
		}
	}
	refused(t, "too many", err, scheduler.CodeWorkspaceLimit, "mode")
	expect.Equal(t, "copies", len(copies), 8)
	_, err = isolated("7") // it is there
	expect.NoError(t, err)
	gittest.Write(t, copies[0], map[string]string{"f": "agent\n"})
	discard := func(dir string) (view.TreeDiscarded, error) { return l.DiscardCopy(l.ctx, "main", filepath.Base(dir)) }
	for dir, code := range map[string]state.Code{copies[7]: scheduler.CodeWorkspaceActive, "none": ledger.CodeNotFound,
		direct: scheduler.CodeInvalidWorkspace} {
		_, err := discard(dir)
		refused(t, dir, err, code, "workspace_id")
	}
	l.has(copies[7], "f", "f\n")
	for i, changed := range []int{1, 0} {
		done, err := discard(copies[i])
		expect.NoError(t, err)
		expect.Equal(t, "changed", done.Changed, changed)
		patch, err := os.ReadFile(done.Patch)
		expect.Equal(t, "a patch is kept", err == nil && strings.Contains(string(patch), "+agent"), changed == 1)
		if _, err := os.Lstat(copies[i]); !os.IsNotExist(err) {
			t.Errorf("%s is there: %v", copies[i], err)
		}
	}
	gittest.Run(t, copies[2], "git", "checkout", "-qb", "feature")
	gittest.Run(t, copies[2], "git", "commit", "-qm", "elsewhere", "--allow-empty")
	gittest.Run(t, copies[2], "git", "checkout", "-q", "main")
	untaken, err := l.Unapplied(l.ctx, "main")
	expect.NoError(t, err)
	if len(untaken) != 1 || untaken[0].Tree != filepath.Base(copies[2]) || untaken[0].Changes.Branches[0].Name != "feature" {
		t.Errorf("not taken: %+v", untaken)
	}
	done, err := discard(copies[2])
	expect.NoError(t, err)
	expect.Equal(t, "changed", done.Changed, 0)
	gittest.Run(t, dir, "git", "bundle", "verify", "-q", done.Bundle)
	gittest.Run(t, copies[3], "git", "init", "-q", "nested")
	_, err = discard(copies[3])
	refused(t, "a repository in it", err, scheduler.CodeWorkspaceFailed, "workspace_id")
	_, err = discard(copies[0])
	refused(t, "again", err, ledger.CodeNotFound, "workspace_id")
	_, err = l.Enter(l.ctx, "main", view.Selection{WorkspaceID: filepath.Base(copies[1])})
	refused(t, "use", err, ledger.CodeNotFound, "workspace_id")
	_, err = isolated("9")
	expect.NoError(t, err)
	l.has(dir, "f", "f\n")
}
