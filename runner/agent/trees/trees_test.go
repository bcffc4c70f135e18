package trees

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"holon/internal/folder"
	"holon/runner/agent/scheduler"
	"holon/runner/agent/view"
	"holon/runner/workspace/git"
	"holon/state"
	"holon/state/ledger"
	"holon/state/sqlite"
	"holon/test/expect"
	"holon/test/gittest"
)

// still holds nothing: the tests write the trees themselves.
type still struct{}

func (still) Still(ctx context.Context, _ string, fn func(context.Context, *folder.Owner) error) error {
	return fn(ctx, nil)
}

// lab has the agents main and child, and the trees of a home.
type lab struct {
	*testing.T
	ctx   context.Context
	steps *scheduler.Scheduler
	*Trees
}

func newLab(t *testing.T, roots ...string) *lab {
	t.Helper()
	home, err := state.MakeHome(filepath.Join(t.TempDir(), "home"), "")
	expect.NoError(t, err)
	store, err := sqlite.Open(t.Context(), sqlite.Options{Path: home.LedgerPath()})
	expect.NoError(t, err)
	t.Cleanup(func() { expect.NoError(t, store.Close()) })
	l := &lab{T: t, ctx: t.Context(), steps: scheduler.New(store, scheduler.Options{Owner: "test"})}
	l.Trees = New(Options{Home: home, Store: store, Steps: l.steps, Containers: still{}, Roots: roots,
		Borrowing: func() git.Borrowing { return git.Borrowing{StateHome: home.Dir()} },
		Log:       slog.New(slog.NewTextHandler(io.Discard, nil))})
	for _, id := range []string{"main", "child"} {
		_, err = l.steps.Create(t.Context(), scheduler.NewAgent{ID: id})
		expect.NoError(t, err)
		expect.NoError(t, os.MkdirAll(home.AgentPrivateDir(id), 0o700))
	}
	return l
}

// enter has the agent main work in an attached workspace, and returns the directory of its tree.
func (l *lab) enter(s view.Selection) string {
	l.Helper()
	now, err := l.Enter(l.ctx, "main", s)
	expect.NoError(l, err)
	return filepath.Join(l.Dir("main"), filepath.Base(now.ExecutionRoot))
}

// attach attaches a repository to the agent main and enters it.
func (l *lab) attach(dir string) (tree string, w ledger.Workspace) {
	l.Helper()
	w, err := l.Attach(l.ctx, "main", dir, "me")
	expect.NoError(l, err)
	return l.enter(view.Selection{WorkspaceID: w.ID, By: "me"}), w
}

// changed lists the changed files of all workspaces of main.
func (l *lab) changed() (names []string) {
	l.Helper()
	diffs, err := l.Diff(l.ctx, "main", "")
	expect.NoError(l, err)
	for _, d := range diffs {
		for _, f := range d.Changes.Files {
			names = append(names, d.WorkspaceAlias+"/"+f.Path)
		}
	}
	return names
}

func (l *lab) has(dir, name, want string) {
	l.Helper()
	data, err := os.ReadFile(filepath.Join(dir, name))
	if want == "" && !os.IsNotExist(err) || want != "" && string(data) != want {
		l.Errorf("%s is %q (%v), want %q", name, data, err, want)
	}
}

func repo(t *testing.T, name string, files map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	expect.NoError(t, os.Rename(gittest.NewRepo(t, files), dir))
	return dir
}

func refused(t *testing.T, what string, err error, code state.Code, param string) {
	t.Helper()
	if e, ok := errors.AsType[*state.Error](err); !ok || e.Code != code || e.Param != param {
		t.Errorf("%s: %v, want %s of %s", what, err, code, param)
	}
}

// The operator sees and takes what an agent changes, again and again, and brings in what he changes meanwhile. The
// guidance that counts is the operator's until the agent's edit of it is applied.
func TestWorkOnACopy(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	dir := repo(t, "app", map[string]string{"a.txt": "a\n", "AGENTS.md": "Be brief.\n",
		".agents/skills/x/SKILL.md": "x\n"})
	tree, w := l.attach(dir)
	gittest.Write(t, tree, map[string]string{"new": "n\n", "AGENTS.md": "Do as you like.\n"})
	l.has(dir, "new", "")
	l.has(l.anchorDir("main", w.ID), "AGENTS.md", "Be brief.\n")
	l.has(l.anchorDir("main", w.ID), ".agents/skills/x/SKILL.md", "x\n")

	if got := l.changed(); !slices.Equal(got, []string{"app/AGENTS.md", "app/new"}) {
		t.Fatalf("changed: %q", got)
	}
	_, err := l.Apply(l.ctx, "main", view.WorkspaceApply{}, "me")
	refused(t, "apply", err, "executed_files", "path") // AGENTS.md is read by programs
	done, err := l.Apply(l.ctx, "main", view.WorkspaceApply{WorkspaceID: "app", AllowExecuted: true}, "me")
	expect.NoError(t, err)
	expect.Equal(t, "written", fmt.Sprint(done[0].Written), "[AGENTS.md new]")
	l.has(dir, "new", "n\n")
	l.has(l.anchorDir("main", w.ID), "AGENTS.md", "Do as you like.\n")
	expect.Equal(t, "changed after it", len(l.changed()), 0)

	gittest.Write(t, tree, map[string]string{"new": "newer\n"})
	gittest.Run(t, dir, "git", "add", "-A")
	gittest.Run(t, dir, "git", "commit", "-qm", "taken")
	gittest.Write(t, dir, map[string]string{"mine": "m\n", "AGENTS.md": "Be brief again.\n"})
	gittest.Run(t, dir, "git", "add", "-A")
	gittest.Run(t, dir, "git", "commit", "-qm", "mine")
	synced, err := l.Sync(l.ctx, "main", "", "me")
	expect.NoError(t, err)
	expect.Equal(t, "base", synced.Base, strings.TrimSpace(gittest.Run(t, dir, "git", "rev-parse", "HEAD")))
	l.has(tree, "mine", "m\n")
	l.has(tree, "new", "newer\n")
	l.has(l.anchorDir("main", w.ID), "AGENTS.md", "Be brief again.\n")
	if got := l.changed(); !slices.Equal(got, []string{"app/new"}) {
		t.Errorf("changed after the sync: %q", got)
	}
	made, err := l.Checkout(l.ctx, "main", view.WorkspaceCheckout{}, "me")
	expect.NoError(t, err)
	again, err := l.Checkout(l.ctx, "main", view.WorkspaceCheckout{}, "me")
	expect.NoError(t, err)
	expect.Equal(t, "the same change again", again.Branch+again.Worktree, made.Branch+made.Worktree)
	l.has(made.Worktree, "new", "newer\n")
	gittest.Write(t, dir, map[string]string{"new": "other\n"})
	gittest.Run(t, dir, "git", "commit", "-qam", "conflict")
	_, err = l.Sync(l.ctx, "main", "app", "me")
	refused(t, "sync", err, CodeConflict, "path")
	l.has(tree, "new", "newer\n")
	expect.Equal(t, "guidance without a workspace", l.Guidance("main", "ws_none"), "")
}

// Several workspaces are one change. Where one does not merge, nothing of any is written, also where that comes late.
func TestApplyAll(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	one, two := repo(t, "one", map[string]string{"f": "1\n"}), t.TempDir() // a repository and a plain directory
	gittest.Write(t, two, map[string]string{"f": "2\n"})
	trees := make(map[string]string)
	for _, dir := range []string{one, two} {
		trees[dir], _ = l.attach(dir)
		gittest.Write(t, trees[dir], map[string]string{"f": "agent\n"})
	}
	conflict := func(int) { gittest.Write(t, two, map[string]string{"f": "mine\n"}) }
	conflict(0)
	_, err := l.Apply(l.ctx, "main", view.WorkspaceApply{}, "me")
	refused(t, "a conflict", err, "patch_conflict", "path")
	l.has(one, "f", "1\n")

	gittest.Write(t, two, map[string]string{"f": "2\n"})
	l.interrupt = func(landed int) {
		if landed == 1 {
			conflict(0)
		}
	}
	_, err = l.Apply(l.ctx, "main", view.WorkspaceApply{}, "me")
	refused(t, "a conflict that comes late", err, "patch_conflict", "path")
	if !strings.Contains(fmt.Sprint(err), two) {
		t.Errorf("it does not name the workspace at fault: %v", err)
	}
	l.has(one, "f", "1\n")
	l.interrupt = nil
	expect.Equal(t, "still to be applied", len(l.changed()), 2)
	gittest.Write(t, two, map[string]string{"f": "2\n"})
	_, err = l.Apply(l.ctx, "main", view.WorkspaceApply{}, "me")
	expect.NoError(t, err)
	l.has(one, "f", "agent\n")
	l.has(two, "f", "agent\n")
	expect.Equal(t, "changed after it", len(l.changed()), 0)
}

// Each wrong path has a typed answer, for the operator and for an agent, which learns nothing of what it may not use.
func TestRefusedPaths(t *testing.T) {
	t.Parallel()
	allowed := t.TempDir()
	l := newLab(t, allowed)
	app, plain, bare := repo(t, "app", map[string]string{"d/f": "f\n"}), t.TempDir(), filepath.Join(t.TempDir(), "b.git")
	gittest.Run(t, plain, "git", "init", "-q", "--bare", bare)
	gittest.Write(t, plain, map[string]string{"file": "x", "in/f": "f\n"})
	expect.NoError(t, os.Symlink("loop", filepath.Join(plain, "loop")))
	for name, want := range map[string]state.Code{
		"/": scheduler.CodeInvalidWorkspace, l.opts.Home.Dir(): scheduler.CodeInvalidWorkspace,
		filepath.Dir(l.opts.Home.Dir()): scheduler.CodeInvalidWorkspace, "relative": scheduler.CodeInvalidWorkspace,
		bare: "bare_repository", filepath.Join(plain, "gone"): "not_a_directory",
		filepath.Join(plain, "file"): "not_a_directory", filepath.Join(plain, "file/in"): "not_a_directory",
		filepath.Join(plain, "loop"): "not_a_directory", "/" + strings.Repeat("n", 300): "not_a_directory",
		strings.Repeat("/in", 2000): "not_a_directory", "/proc/self": scheduler.CodeInvalidWorkspace,
		"/dev": scheduler.CodeInvalidWorkspace, "/sys/kernel": scheduler.CodeInvalidWorkspace,
	} {
		refused(t, "check "+name, l.CheckPath(l.ctx, name), want, "path")
		_, err := l.Attach(l.ctx, "main", name, "me")
		refused(t, "attach "+name, err, want, "path")
	}
	l.attach(plain)
	_, err := l.Attach(l.ctx, "main", filepath.Join(plain, "in"), "me")
	refused(t, "attach within another", err, scheduler.CodeWorkspaceNested, "path")
	tree, w := l.attach(app)
	expect.NoError(t, os.Symlink("/etc", filepath.Join(tree, "out")))
	gittest.Write(t, app, map[string]string{"out/f": "f\n"})
	for what, tc := range map[string]struct {
		view.Selection
		code  state.Code
		param string
	}{
		"none":                {view.Selection{}, scheduler.CodeInvalidWorkspace, "path"},
		"both":                {view.Selection{Path: app, WorkspaceID: w.ID}, scheduler.CodeInvalidWorkspace, "path"},
		"unknown mode":        {view.Selection{Path: app, Mode: "x"}, scheduler.CodeInvalidWorkspace, "mode"},
		"unknown workspace":   {view.Selection{WorkspaceID: "ws_0"}, ledger.CodeNotFound, "workspace_id"},
		"not allowed":         {view.Selection{Path: bare}, CodeNotAllowed, "path"},
		"not there":           {view.Selection{Path: "/nothing/here"}, CodeNotAllowed, "path"},
		"allowed, not there":  {view.Selection{Path: allowed + "/x"}, "not_a_directory", "path"},
		"allowed, too long":   {view.Selection{Path: allowed + strings.Repeat("/in", 2000)}, "not_a_directory", "path"},
		"a link out of it":    {view.Selection{Path: app + "/out"}, scheduler.CodeInvalidWorkspace, "path"},
		"another agent's":     {view.Selection{Path: "/holon/workspaces/other"}, ledger.CodeNotFound, "workspace_id"},
		"a way out of a tree": {view.Selection{Path: "/holon/workspaces/app/../../../etc"}, CodeNotAllowed, "path"},
	} {
		_, err := l.Enter(l.ctx, "main", tc.Selection)
		refused(t, what, err, tc.code, tc.param)
	}
	expect.NoError(t, os.RemoveAll(plain))
	id, err := l.Detach(l.ctx, "main", filepath.Base(plain), "me") // stale, by its alias
	if err != nil || id != scheduler.WorkspaceID(plain) {
		t.Errorf("detached %s (%v)", id, err)
	}
	refused(t, "exit from home", errors.Join(l.Exit(l.ctx, "main", "me"), l.Exit(l.ctx, "main", "me")),
		scheduler.CodeInvalidWorkspace, "workspace_id")
}

// An agent may use what lies below an allowed root, a linked working tree of a repository that it has, and its own
// trees by the paths that it sees. A plain directory that it has is found from beneath.
func TestPathsOfAgents(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	l := newLab(t, root)
	app, lib := repo(t, "app", map[string]string{"d/f": "f\n"}), filepath.Join(root, "lib")
	gittest.Write(t, lib, map[string]string{"d/f": "f\n"})
	l.enter(view.Selection{Path: lib + "/d"})
	l.attach(app)
	linked := filepath.Join(t.TempDir(), "fix")
	gittest.Run(t, app, "git", "worktree", "add", "-q", linked)
	gittest.Write(t, linked, map[string]string{"g": "g\n"})
	gittest.Run(t, linked, "git", "add", "-A")
	gittest.Run(t, linked, "git", "commit", "-qm", "fix")
	now, err := l.Enter(l.ctx, "main", view.Selection{Path: linked})
	expect.NoError(t, err)
	expect.Equal(t, "the workspace of a linked tree", now.WorkspaceID, scheduler.WorkspaceID(app))
	if !strings.Contains(now.SummaryText, "isolated") || now.ProjectionKind != view.ProjectionWorktree {
		t.Errorf("a linked tree is %+v", now)
	}
	l.has(filepath.Join(l.Dir("main"), "app-fix"), "g", "g\n")
	first, err := l.Enter(l.ctx, "main", view.Selection{WorkspaceID: "app", Mode: ledger.TreeIsolated, Key: "1"})
	expect.NoError(t, err)
	second := l.enter(view.Selection{WorkspaceID: "app", Mode: ledger.TreeIsolated, Key: "2"})
	again := l.enter(view.Selection{WorkspaceID: "app", Mode: ledger.TreeIsolated, Key: "2"})
	expect.Equal(t, "the same call", again, second)
	back := l.enter(view.Selection{Path: first.ExecutionRoot + "/d"})
	expect.Equal(t, "its own path", filepath.Base(back), filepath.Base(first.ExecutionRoot))
	work, anchor, err := l.Turn(l.ctx, "main")
	expect.NoError(t, err)
	expect.Equal(t, "the next turn", work+" "+anchor, filepath.Base(back)+"/d "+first.WorkspaceID)
	home := l.enter(view.Selection{WorkspaceID: ledger.HomeWorkspace})
	expect.Equal(t, "home", filepath.Base(home), ledger.HomeWorkspace)
}

// The operator may wait for the end of a turn before an agent is to work elsewhere.
func TestUseWaits(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	_, w := l.attach(repo(t, "app", map[string]string{"f": "f\n"}))
	expect.NoError(t, l.Exit(l.ctx, "main", "me"))
	_, err := l.steps.Admit(l.ctx, ledger.Message{AgentID: "main", Kind: ledger.KindOperatorPrompt,
		Priority: ledger.Normal, Origin: ledger.Origin{Kind: ledger.OriginOperator}, AdmissionContext: ledger.ControlAuthenticated,
		Body: ledger.Body{Type: "text", Text: "x"}})
	expect.NoError(t, err)
	c, ok, err := l.steps.Claim(l.ctx, "main")
	if !ok || err != nil {
		t.Fatalf("claimed %v (%v)", ok, err)
	}
	_, err = l.Enter(l.ctx, "main", view.Selection{WorkspaceID: w.ID, Operator: true, Idle: true})
	refused(t, "while a turn runs", err, scheduler.CodeAgentBusy, "agent_id")
	done := make(chan error)
	go func() { done <- l.Use(l.ctx, "main", view.WorkspaceUse{WorkspaceID: "app", Wait: true}, "me") }()
	_, err = l.steps.Settle(l.ctx, c.Attempt.ID, scheduler.End{Turn: ledger.Turn{Kind: ledger.TurnCompleted}})
	expect.NoError(t, err)
	expect.NoError(t, <-done)
	work, _, err := l.Turn(l.ctx, "main")
	expect.NoError(t, err)
	expect.Equal(t, "the next turn", work, "app")
}

// Of an agent that is removed, trees without changes go, and of the others the patch stays. A tree that is gone is
// noticed, and its agent works in its home.
func TestEndOfTrees(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.attach(repo(t, "clean", map[string]string{"f": "f\n"}))
	changed, _ := l.attach(repo(t, "changed", map[string]string{"f": "f\n"}))
	gittest.Write(t, changed, map[string]string{"g": "g\n"})
	gone, _ := l.attach(repo(t, "gone", map[string]string{"f": "f\n"}))
	expect.NoError(t, os.RemoveAll(gone))
	expect.NoError(t, l.Recover(l.ctx, ledger.Alone{}.Held))
	stored, err := ledger.Read(l.ctx, l.opts.Store, func(v ledger.View) (ledger.AgentState, error) {
		return v.AgentState("main")
	})
	expect.NoError(t, err)
	expect.Equal(t, "where it works", stored.WorkspaceID(), ledger.HomeWorkspace)
	expect.NoError(t, l.Retire(l.ctx, "main"))
	expect.NoError(t, l.Retire(l.ctx, "main"))
	all, err := ledger.Read(l.ctx, l.opts.Store, ledger.View.AllTrees)
	expect.NoError(t, err)
	var lines []string
	for _, tree := range all {
		lines = append(lines, tree.Name+" "+string(tree.Status))
	}
	expect.Equal(t, "trees", fmt.Sprint(lines), "[changed retained gone failed]")
	patch, err := os.ReadFile(filepath.Join(l.changesDir("main"), "changed", patchFile))
	if err != nil || !strings.Contains(string(patch), "+g\n") {
		t.Errorf("the patch is %q (%v)", patch, err)
	}
	for _, dir := range []string{"workspaces/clean", "workspaces/changed", "objects", "anchors"} {
		if _, err := os.Lstat(l.private("main", filepath.FromSlash(dir))); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", dir, err)
		}
	}
}

// A child works on a tree that begins with its parent's present state. Clean ones go at the end; the change of another
// is merged into the parent's tree, or its conflicts are named.
func TestTreesOfChildren(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	refused(t, "no workspace", l.CheckChild(l.ctx, "main", ledger.ChildWorktree), scheduler.CodeInvalidWorkspace,
		"workspace_mode")
	tree, _ := l.attach(repo(t, "app", map[string]string{"f": "f\n"}))
	gittest.Write(t, tree, map[string]string{"parent": "p\n"})
	for range 2 {
		expect.NoError(t, l.ForChild(l.ctx, "main", "child", "task_1", ledger.ChildWorktree))
	}
	work, _, err := l.Turn(l.ctx, "child")
	expect.NoError(t, err)
	child := filepath.Join(l.Dir("child"), work)
	l.has(child, "parent", "p\n")
	gittest.Write(t, child, map[string]string{"f": "child\n"})
	end, err := l.EndOf(l.ctx, "task_1", true)
	expect.NoError(t, err)
	expect.Equal(t, "the end", fmt.Sprint(end.Status, end.ChangedFiles), "retained[f]")
	files, conflicts, err := l.Merge(l.ctx, "main", "task_1")
	expect.NoError(t, err)
	expect.Equal(t, "merged", fmt.Sprint(files, conflicts), "[f] []")
	l.has(tree, "f", "child\n")
	gittest.Write(t, tree, map[string]string{"f": "parent\n"})
	_, conflicts, err = l.Merge(l.ctx, "main", "task_1")
	expect.NoError(t, err)
	expect.Equal(t, "conflicts", fmt.Sprint(conflicts), "[f]")
	expect.NoError(t, l.Discard(l.ctx, "task_1"))
	expect.NoError(t, l.ForChild(l.ctx, "main", "child", "task_2", ledger.ChildInherits))
	inherited, _, _ := l.Turn(l.ctx, "child")
	gittest.Write(t, filepath.Join(l.Dir("child"), inherited), map[string]string{"of_it": "i\n"})
	again, err := l.Enter(l.ctx, "child", view.Selection{WorkspaceID: "app", By: "child"})
	expect.NoError(t, err)
	expect.Equal(t, "its own call", filepath.Base(again.ExecutionRoot), inherited)
	end, err = l.EndOf(l.ctx, "task_2", true)
	expect.NoError(t, err)
	expect.Equal(t, "the end of a copy", fmt.Sprint(end.Status, end.ChangedFiles), "retained[of_it]")
	files, _, err = l.Merge(l.ctx, "main", "task_2")
	expect.NoError(t, err)
	expect.Equal(t, "merged from a copy", fmt.Sprint(files), "[of_it]")
	expect.NoError(t, l.Discard(l.ctx, "task_2"))
	l.has(filepath.Join(l.Dir("child"), inherited), "of_it", "")
	expect.NoError(t, l.ForChild(l.ctx, "main", "child", "task_3", ledger.ChildWorktree))
	end, err = l.EndOf(l.ctx, "task_3", true)
	expect.NoError(t, err)
	expect.Equal(t, "a clean end", end.Status, ledger.TreeRemoved)
}
