package trees

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holon/internal/folder"
	"holon/runner/agent/scheduler"
	"holon/runner/agent/view"
	"holon/runner/workspace"
	"holon/state/ledger"
	"holon/test/expect"
	"holon/test/gittest"
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
		l.private("main", "anchors", newAnchor+"ws_1"), filepath.Join(l.changesDir("child"), "gone", ".tmp-12")}
	expect.NoError(t, os.WriteFile(half[0], nil, 0o600))
	expect.NoError(t, os.WriteFile(half[1], nil, 0o600))
	expect.NoError(t, os.Mkdir(half[2], 0o700))
	expect.NoError(t, os.MkdirAll(filepath.Dir(half[3]), 0o700))
	expect.NoError(t, os.WriteFile(half[3], nil, 0o600))

	expect.NoError(t, l.Recover(l.ctx, ledger.Alone{}.Held))
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

// Guidance that a killed process lost is the base's again before a turn, whatever the agent wrote of it, and is never
// away while it is replaced.
func TestAnchorIsGone(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	dir := repo(t, "app", map[string]string{"AGENTS.md": "Be brief.\n"})
	tree, w := l.attach(dir)
	gittest.Write(t, tree, map[string]string{"AGENTS.md": "Do as you like.\n"})
	expect.NoError(t, os.RemoveAll(l.anchorDir("main", w.ID)))
	_, anchor, err := l.Turn(l.ctx, "main")
	expect.NoError(t, err)
	expect.Equal(t, "anchor", anchor, w.ID)
	l.has(l.anchorDir("main", w.ID), "AGENTS.md", "Be brief.\n")

	expect.NoError(t, l.Exit(l.ctx, "main", "me"))
	expect.NoError(t, os.RemoveAll(l.anchorDir("main", w.ID)))
	l.enter(view.Selection{WorkspaceID: w.ID})
	l.has(l.anchorDir("main", w.ID), "AGENTS.md", "Be brief.\n")

	anchors := l.private("main", "anchors")
	old, err := os.Open(filepath.Join(anchors, w.ID))
	expect.NoError(t, err)
	defer old.Close()
	expect.NoError(t, os.Mkdir(filepath.Join(anchors, "next"), 0o755))
	expect.NoError(t, replaceDir(filepath.Join(anchors, "next"), filepath.Join(anchors, w.ID)))
	before, err := old.Stat()
	expect.NoError(t, err)
	after, err := os.Stat(filepath.Join(anchors, "next"))
	if err != nil || !os.SameFile(before, after) {
		t.Errorf("the two were not exchanged: %v", err)
	}
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

// What a child committed elsewhere, stashed or checked out is kept with its tree, which stays until it is discarded, over
// a restart too. A tree is clean only without all that.
func TestCommitsOfChildren(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.opts.Local = true // git runs in the trees here
	l.attach(repo(t, "app", map[string]string{"f": "f\n"}))
	commit := func(dir string) {
		gittest.Write(t, dir, map[string]string{"q": "q\n"})
		gittest.Run(t, dir, "git", "add", "q")
		gittest.Run(t, dir, "git", "commit", "-qm", "x")
	}
	run := func(args ...string) func(string) {
		return func(dir string) { gittest.Run(t, dir, append([]string{"git"}, args...)...) }
	}
	for n, tc := range []struct {
		what    string
		do      func(dir string)
		status  ledger.TreeStatus
		branch  string
		bundled string
	}{
		{"nothing", func(string) {}, ledger.TreeRemoved, "main", ""},
		{"a branch without commits", run("branch", "idea"), ledger.TreeRetained, "main", ""},
		{"another branch checked out", run("checkout", "-qb", "idea"), ledger.TreeRetained, "idea", ""},
		{"no repository", func(dir string) { expect.NoError(t, os.RemoveAll(dir+"/.git")) }, ledger.TreeRetained, "main", ""},
		{"commits elsewhere", func(dir string) {
			run("checkout", "-qb", "feature")(dir)
			commit(dir)
			run("checkout", "-q", "main")(dir)
		}, ledger.TreeRetained, "main", "refs/heads/feature"},
		{"commits that cancel out", func(dir string) {
			commit(dir)
			run("rm", "-q", "q")(dir)
			run("commit", "-qm", "back")(dir)
		}, ledger.TreeRetained, "main", "refs/heads/main"},
		{"a stash", func(dir string) {
			gittest.Write(t, dir, map[string]string{"f": "stashed\n"})
			run("stash", "-q")(dir)
		}, ledger.TreeRetained, "main", "refs/stashes/0"},
		{"commits below no branch", func(dir string) {
			commit(dir)
			run("update-ref", "refs/wip/x", "HEAD")(dir)
			run("reset", "-q", "--hard", "HEAD~1")(dir)
		}, ledger.TreeRetained, "main", "refs/wip/x"},
		{"a repository of its own", run("init", "-q", "nested"), ledger.TreeRetained, "main", ""},
		{"a log that is none", func(dir string) {
			expect.NoError(t, os.RemoveAll(dir+"/.git/logs"))
			expect.NoError(t, os.Symlink("/etc", dir+"/.git/logs"))
		}, ledger.TreeRetained, "main", ""},
	} {
		task := fmt.Sprintf("task_%d", n)
		expect.NoError(t, l.ForChild(l.ctx, "main", "child", task, ledger.ChildWorktree))
		work, _, err := l.Turn(l.ctx, "child")
		expect.NoError(t, err)
		dir := filepath.Join(l.Dir("child"), work)
		tc.do(dir)
		end, err := l.EndOf(l.ctx, task, true)
		expect.NoError(t, err)
		if end.Status != tc.status || end.Branch != tc.branch || (end.Reason == "") != (tc.status == ledger.TreeRemoved) {
			t.Errorf("%s: %+v", tc.what, end)
		}
		expect.NoError(t, l.Recover(l.ctx, ledger.Alone{}.Held))
		if _, err := os.Lstat(dir); (err == nil) != (tc.status == ledger.TreeRetained) {
			t.Errorf("%s: its tree after a restart: %v", tc.what, err)
		}
		expect.NoError(t, l.Discard(l.ctx, task))
		if _, err := os.Lstat(dir); err == nil {
			t.Errorf("%s: discarded, its tree stays", tc.what)
		}
		bundle := filepath.Join(l.changesDir("child"), work, bundleFile)
		if tc.bundled != "" && !strings.Contains(gittest.Run(t, l.Dir("main")+"/app", "git", "bundle", "list-heads", bundle),
			tc.bundled) {
			t.Errorf("%s: %s is not kept", tc.what, tc.bundled)
		}
	}
}

// A process that is killed after it gave up a clean tree, before that was on record, leaves one that was removed. One
// whose directory something else took away has failed, and says so. No claim outlives a tree.
func TestKilledWhileEnding(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.attach(repo(t, "app", map[string]string{"f": "f\n"}))
	for task, want := range map[string]ledger.TreeStatus{"task_killed": ledger.TreeRemoved, "task_gone": ledger.TreeFailed} {
		expect.NoError(t, l.ForChild(l.ctx, "main", "child", task, ledger.ChildWorktree))
		tree, _, err := l.treeOf(l.ctx, task)
		expect.NoError(t, err)
		if want == ledger.TreeRemoved {
			opened, err := l.open(l.ctx, tree)
			expect.NoError(t, err)
			expect.NoError(t, opened.Release(l.ctx))
		} else {
			expect.NoError(t, os.RemoveAll(l.treeDir(tree)))
		}
		end, err := l.EndOf(l.ctx, task, true)
		expect.NoError(t, err)
		if end.Status != want || (end.Reason == "") != (want == ledger.TreeRemoved) {
			t.Errorf("%s ends as %+v", task, end)
		}
		trees, claims := l.live()
		expect.Equal(t, "claims on trees after "+task, claims, trees)
	}
	expect.NoError(t, l.ForChild(l.ctx, "main", "child", "task_kept", ledger.ChildWorktree))
	tree, _, err := l.treeOf(l.ctx, "task_kept")
	expect.NoError(t, err)
	gittest.Write(t, l.treeDir(tree), map[string]string{"f": "child\n"})
	_, err = l.EndOf(l.ctx, "task_kept", true)
	expect.NoError(t, err)
	expect.NoError(t, os.RemoveAll(l.treeDir(tree)))
	_, err = l.steps.Archive(l.ctx, scheduler.Archive{AgentID: "child"})
	expect.NoError(t, err)
	expect.NoError(t, l.Recover(l.ctx, ledger.Alone{}.Held))
	trees, claims := l.live()
	expect.Equal(t, "claims on trees after a discard that was cut off", claims, trees)
}

// What a process that was killed kept of a tree that it had taken away is named, commits without a change too.
func TestKilledWhileRetiring(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.opts.Local = true // git runs in the tree here
	dir, _ := l.attach(repo(t, "app", map[string]string{"f": "f\n"}))
	gittest.Run(t, dir, "git", "checkout", "-qb", "idea")
	gittest.Run(t, dir, "git", "commit", "-qm", "idea", "--allow-empty")
	gittest.Run(t, dir, "git", "checkout", "-q", "main")
	tree := ledger.Tree{AgentID: "main", Name: filepath.Base(dir)}
	tree, _, err := l.found(l.ctx, tree.AgentID, tree.Name)
	expect.NoError(t, err)
	_, err = l.contents(l.ctx, tree)
	expect.NoError(t, err)
	opened, err := l.open(l.ctx, tree)
	expect.NoError(t, err)
	expect.NoError(t, opened.Release(l.ctx))
	_, err = l.steps.Archive(l.ctx, scheduler.Archive{AgentID: "main"})
	expect.NoError(t, err)
	expect.NoError(t, l.Retire(l.ctx, "main"))
	tree, _, err = l.found(l.ctx, tree.AgentID, tree.Name)
	expect.NoError(t, err)
	expect.Equal(t, "status", tree.Status, ledger.TreeRetained)
}
