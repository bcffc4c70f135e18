package landing

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holon/runner/workspace"
	"holon/runner/workspace/git"
	"holon/test/expect"
	"holon/test/gittest"
)

// finished is the record of a run, as Checkout gets it.
func finished(t testing.TB, repo string, tree *workspace.Tree, change func(dir string)) CheckoutOptions {
	t.Helper()
	change(tree.WorkDir())
	runDir := t.TempDir()
	objects := filepath.Join(runDir, "objects")
	diff, err := tree.Diff(t.Context(),
		workspace.DiffOptions{Patch: filepath.Join(runDir, "diff.patch"), Objects: objects})
	expect.NoError(t, err)
	return CheckoutOptions{Run: "run_1", RunDir: runDir, Objects: objects, Info: tree.Info(), Diff: *diff, Dir: repo,
		Title: "fix it", At: time.Unix(1_700_000_000, 0), Default: filepath.Join(t.TempDir(), "worktrees")}
}

// changedOnce returns a function that makes the repository of the files anew, in the same place, and returns the record
// of one run there, which changed a.txt, with a directory of its own.
func changedOnce(t testing.TB, files map[string]string) func(t testing.TB) CheckoutOptions {
	t.Helper()
	repo := gittest.NewRepo(t, files)
	tree := acquire(t, workspace.Options{Dir: repo})
	once := finished(t, repo, tree, func(dir string) { gittest.Write(t, dir, map[string]string{"a.txt": "b\n"}) })
	return func(t testing.TB) CheckoutOptions {
		t.Helper()
		gittest.FillRepo(t, repo, files)
		o := once
		o.RunDir, o.Default = t.TempDir(), filepath.Join(t.TempDir(), "worktrees")
		o.Objects = filepath.Join(o.RunDir, "objects")
		expect.NoError(t, os.CopyFS(o.Objects, os.DirFS(once.Objects)))
		return o
	}
}

func checkedOut(t testing.TB, o CheckoutOptions) *CheckoutResult {
	t.Helper()
	result, err := Checkout(t.Context(), o)
	expect.NoError(t, err)
	return result
}

// wantRefusal fails unless err has the code, names the option at fault and a remedy.
func wantRefusal(t testing.TB, err error, code string) {
	t.Helper()
	e, ok := errors.AsType[*git.Error](err)
	if !ok || e.Code != code || e.Param == "" || e.Hint == "" {
		t.Fatalf("error %#v, want %s with its option and a remedy", err, code)
	}
}

// userFiles is the fingerprint of what Checkout must not touch.
func userFiles(t testing.TB, repo string) string {
	t.Helper()
	var kept []string
	for line := range strings.Lines(gittest.Fingerprint(t, repo)) {
		name := strings.Trim(strings.Fields(line)[0], `"`)
		for _, part := range []string{"/.git/objects", "/.git/refs", "/.git/logs", "/.git/worktrees",
			"/.git/packed-refs"} {
			if strings.HasPrefix(name, part) {
				line = ""
			}
		}
		if name != "/.git" && name != "" { // their times change with what is in them
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "") + gittest.Run(t, repo, "sh", "-c",
		"git for-each-ref | grep -v refs/heads/holon/ || true")
}

// In every kind of repository the result is a branch on the base with a real working tree, and none of the user's files
// change.
func TestCheckout(t *testing.T) {
	t.Parallel()
	files := map[string]string{"a.txt": "a\n", "d/b.txt": "b\n", "run.sh": "#!/bin/sh\n", "link": "-> a.txt"}
	for _, tc := range []struct {
		name    string
		repo    func(t *testing.T) string
		dir     string // within the repository
		commits int
	}{
		{name: "plain", repo: func(t *testing.T) string { return gittest.NewRepo(t, files) }, commits: 1},
		{name: "dirty", repo: func(t *testing.T) string {
			repo := gittest.NewRepo(t, files)
			gittest.Write(t, repo, map[string]string{"a.txt": "edited\n", "untracked": "u\n"})
			return repo
		}, commits: 2},
		{name: "unborn", repo: func(t *testing.T) string {
			repo := gittest.NewRepo(t, nil)
			gittest.Write(t, repo, files)
			return repo
		}, commits: 2},
		{name: "sub-directory", repo: func(t *testing.T) string {
			return gittest.NewRepo(t, files)
		}, dir: "d", commits: 1},
		{name: "linked working tree", repo: func(t *testing.T) string {
			linked := filepath.Join(t.TempDir(), "linked")
			gittest.Run(t, gittest.NewRepo(t, files), "git", "worktree", "add", "-q", "-b", "topic", linked)
			return linked
		}, commits: 1},
		{name: "sha256", repo: func(t *testing.T) string {
			repo := t.TempDir()
			gittest.Run(t, repo, "git", "init", "-q", "-b", "main", "--object-format=sha256")
			gittest.Write(t, repo, files)
			gittest.Run(t, repo, "sh", "-ec", "git add -A; git commit -qm base")
			return repo
		}, commits: 1},
		{name: "shallow", repo: func(t *testing.T) string {
			origin, repo := gittest.NewRepo(t, files), filepath.Join(t.TempDir(), "shallow")
			gittest.Run(t, origin, "sh", "-ec", "echo 2 > a.txt; git commit -qam 2; echo 3 > a.txt; git commit -qam 3")
			gittest.Run(t, origin, "git", "clone", "-q", "--depth=1", "file://"+origin, repo)
			return repo
		}, commits: 1},
		{name: "partial clone", repo: func(t *testing.T) string {
			origin, repo := gittest.NewRepo(t, files), filepath.Join(t.TempDir(), "partial")
			gittest.Run(t, origin, "sh", "-ec",
				"git config uploadpack.allowFilter true; echo 2 > a.txt; git commit -qam 2")
			gittest.Run(t, origin, "git", "clone", "-q", "--filter=blob:none", "file://"+origin, repo)
			return repo
		}, commits: 1},
		{name: "detached", repo: func(t *testing.T) string {
			repo := gittest.NewRepo(t, files)
			gittest.Run(t, repo, "git", "checkout", "-q", "--detach")
			return repo
		}, commits: 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			repo := tc.repo(t)
			tree := acquire(t, workspace.Options{Dir: filepath.Join(repo, tc.dir), IncludeDirty: true})
			o := finished(t, filepath.Join(repo, tc.dir), tree, func(dir string) {
				gittest.Run(t, tree.Dir(), "sh", "-ec",
					"echo more >> a.txt; rm d/b.txt; mkdir -p n; echo new > n/new; "+
						"chmod +x a.txt; rm run.sh; ln -s a.txt run.sh")
				gittest.Write(t, dir, map[string]string{"here": "x"})
			})
			before := userFiles(t, repo)
			result := checkedOut(t, o)
			gittest.WantUntouched(t, before, userFiles(t, repo))
			expect.Equal(t, "result.Existing", result.Existing, false)
			expect.Equal(t, "result.Branch", result.Branch, "holon/run_1")
			expect.Equal(t, "result.Commits", result.Commits, tc.commits)
			expect.Equal(t, "result.Path", result.Path, filepath.Join(o.Default, "run_1"))
			if got := gittest.Run(t, repo, "git", "rev-parse", "holon/run_1^{tree}"); got != o.Diff.ResultTree+"\n" {
				t.Errorf("the branch has the tree %s, the result is %s", got, o.Diff.ResultTree)
			}
			base := gittest.Run(t, repo, "sh", "-c",
				"git rev-parse --verify -q holon/run_1~"+string(rune('0'+tc.commits))+
					" || true")
			if strings.TrimSpace(base) != o.Info.BaseCommit {
				t.Errorf("the branch stands on %q, not on %q", base, o.Info.BaseCommit)
			}
			const want = "refs/heads/holon/run_1\nmore\nnew\na.txt\n"
			if got := gittest.Run(t, result.Path, "sh", "-ec",
				"git status --porcelain; git symbolic-ref HEAD; tail -n1 a.txt; cat n/new; readlink run.sh; test -x "+
					"a.txt; test ! -e d/b.txt; git fsck --strict 2>&1 | grep -v -e dangling -e ^notice || true",
			); got != want {
				t.Errorf("the working tree has\n%s\nwant\n%s", got, want)
			}
			if list := gittest.Run(t, repo, "git", "worktree", "list", "--porcelain"); !strings.Contains(list,
				"locked holon: result of run_1\n") {
				t.Errorf("not locked:\n%s", list)
			}
			if again := checkedOut(t, o); !again.Existing || again.Path != result.Path || again.Commit != result.Commit {
				t.Errorf("the second time: %+v, want the existing %+v", again, result)
			}
			left, _ := filepath.Glob(filepath.Join(o.RunDir, ".checkout-*")) // the pattern is right
			if len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// Checking out again succeeds after any interruption, and after files were removed by hand.
func TestCheckoutAgain(t *testing.T) {
	t.Parallel()
	repo := gittest.NewRepo(t, map[string]string{"a.txt": "a\n"})
	tree := acquire(t, workspace.Options{Dir: repo})
	o := finished(t, repo, tree, func(dir string) { gittest.Write(t, dir, map[string]string{"a.txt": "b\n"}) })
	first := checkedOut(t, o)
	for _, tc := range []struct {
		name, do string
	}{
		{"the directory is gone", "rm -rf " + first.Path},
		{"the working tree is gone", "git worktree remove -f -f " + first.Path},
		{"cut off while filling", "cd " + first.Path +
			"; i=$(git rev-parse --git-path index); rm $i a.txt; touch $i.lock"},
		{"cut off before the branch", "git worktree remove -f -f " + first.Path +
			"; git update-ref -d refs/heads/holon/run_1"},
		{"all is gone", "git worktree remove -f -f " + first.Path + "; git branch -D holon/run_1"},
		{"the registration is gone", "git worktree remove -f -f " + first.Path + "; rm " + registrationPath(o.RunDir)},
		{"the branch went on", "cd " + first.Path +
			"; echo c > a.txt; git commit -qam c; cd -; git worktree remove -f -f " + first.Path},
	} {
		t.Run(tc.name, func(t *testing.T) {
			gittest.Run(t, repo, "sh", "-ec", tc.do)
			again := checkedOut(t, o)
			expect.Equal(t, "again.Existing", again.Existing, false)
			expect.Equal(t, "again.Branch", again.Branch, "holon/run_1")
			expect.Equal(t, "again.Commit", again.Commit, first.Commit)
			expect.Equal(t, "again.Path", again.Path, first.Path)
			gittest.Run(t, again.Path, "git", "merge-base", "--is-ancestor", first.Commit, "HEAD")
			gittest.Run(t, again.Path, "sh", "-ec", "test -z \"$(git status --porcelain)\"")
		})
	}
}

func TestCheckoutRefuses(t *testing.T) {
	t.Parallel()
	plain := t.TempDir()
	gittest.Write(t, plain, map[string]string{"a.txt": "a\n"})
	finished := changedOnce(t, map[string]string{"a.txt": "a\n"})
	for _, tc := range []struct {
		name, code string
		change     func(t *testing.T, o *CheckoutOptions)
	}{
		{"plain directory", CodeNotARepository, func(t *testing.T, o *CheckoutOptions) { o.Dir = plain }},
		{"branch exists", CodeBranchExists, func(t *testing.T, o *CheckoutOptions) { o.Branch = "main" }},
		{"branch below another", CodeBranchExists, func(t *testing.T, o *CheckoutOptions) { o.Branch = "main/x" }},
		{"branch above another", CodeBranchExists, func(t *testing.T, o *CheckoutOptions) {
			gittest.Run(t, o.Dir, "git", "branch", "up/down")
			o.Branch = "up"
		}},
		{"path exists", CodePathExists, func(t *testing.T, o *CheckoutOptions) { o.Path = plain }},
		{"path is a file", CodePathExists, func(t *testing.T, o *CheckoutOptions) {
			o.Path = filepath.Join(plain, "a.txt")
		}},
		{"branch name", git.CodeInvalidOption, func(t *testing.T, o *CheckoutOptions) { o.Branch = "-f" }},
		{"another repository", git.CodeMissingObjects, func(t *testing.T, o *CheckoutOptions) {
			o.Dir = gittest.NewRepo(t, map[string]string{"x": "x"})
		}},
		{"objects are gone", git.CodeMissingObjects, func(t *testing.T, o *CheckoutOptions) { o.Objects = plain }},
		{"no change", CodeNothingChanged, func(t *testing.T, o *CheckoutOptions) {
			o.Diff.ResultTree = o.Diff.BaseTree
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := finished(t)
			tc.change(t, &o)
			before := gittest.Fingerprint(t, o.Dir)
			_, err := Checkout(t.Context(), o)
			wantRefusal(t, err, tc.code)
			gittest.WantUntouched(t, before, gittest.Fingerprint(t, o.Dir))
			if known, err := readRegistration(o.RunDir); known != nil || err != nil {
				t.Errorf("registered: %+v, %v", known, err)
			}
		})
	}
}

// A branch of the run's name gives way to its id when the name is taken.
func TestCheckoutBranchName(t *testing.T) {
	t.Parallel()
	repo := gittest.NewRepo(t, map[string]string{"a.txt": "a\n"})
	tree := acquire(t, workspace.Options{Dir: repo})
	o := finished(t, repo, tree, func(dir string) { gittest.Write(t, dir, map[string]string{"a.txt": "b\n"}) })
	gittest.Run(t, repo, "git", "branch", "holon/Fix-the-login")
	o.Name = " Fix the login!"
	if got := checkedOut(t, o); got.Branch != "holon/run_1" {
		t.Error(got.Branch)
	}
}

// Filters of the user's own don't run, and a warning says what that means.
func TestCheckoutRunsNoFilter(t *testing.T) {
	t.Parallel()
	repo := gittest.NewRepo(t, map[string]string{"a.bin": "stored\n", "a.txt": "a\n",
		".gitattributes": "*.bin filter=lfs\n"})
	marker := filepath.Join(t.TempDir(), "ran")
	gittest.Run(t, repo, "git", "config", "filter.lfs.smudge", "tee "+marker+" | tr a-z A-Z")
	gittest.Run(t, repo, "git", "config", "filter.lfs.clean", "tr A-Z a-z")
	gittest.Run(t, repo, "git", "config", "filter.lfs.required", "true")
	tree := acquire(t, workspace.Options{Dir: repo})
	o := finished(t, repo, tree, func(dir string) { gittest.Write(t, dir, map[string]string{"b.bin": "b\n"}) })
	result := checkedOut(t, o)
	if got := gittest.Run(t, result.Path, "cat", "a.bin", "b.bin"); got != "stored\nb\n" || git.Exists(marker) {
		t.Errorf("%q, the filter ran: %v", got, git.Exists(marker))
	}
	if w := result.Warnings; len(w) == 0 || w[0].Code != WarnUnfiltered || !strings.HasPrefix(w[0].Message, "2 files") {
		t.Errorf("the warnings are %+v, want %s of 2 files first", w, WarnUnfiltered)
	}
	gittest.Run(t, result.Path, "sh", "-ec",
		"test -z \"$(git status --porcelain)\"; git read-tree --empty; git reset --hard -q")
	expect.Equal(t, "by the advice", gittest.Run(t, result.Path, "cat", "a.bin", "b.bin"), "STORED\nB\n")
}

func TestBranchName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"": "holon/run_1", "Fix the login!": "holon/Fix-the-login", "../../x": "holon/x", "-f": "holon/f",
		"é": "holon/run_1", "a\nb\x1b[2J": "holon/a-b-2J",
		strings.Repeat("ab-", 40): "holon/" + strings.TrimRight(strings.Repeat("ab-", 20), "-"),
		"x.lock":                  "holon/x-lock", "@{-1}": "holon/1",
	} {
		if got := branchName(name, "run_1"); got != want || git.CheckBranch(got) != nil {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}
