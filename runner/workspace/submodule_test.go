package workspace

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holon/test/expect"
	"holon/test/gittest"
)

// addSubmodule adds a clone of a repository as a submodule and commits that.
func addSubmodule(t testing.TB, repo, from, path string) {
	t.Helper()
	gittest.Run(t, repo, "git", "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", from, path)
	gittest.Run(t, repo, "git", "commit", "-qm", "add "+path)
}

// withModules returns the diff that includes submodules, and its patch.
func withModules(t testing.TB, tree *Tree) (*Diff, string) {
	t.Helper()
	dir := t.TempDir()
	diff, err := tree.Diff(t.Context(), DiffOptions{Patch: filepath.Join(dir, "diff.patch"),
		Objects: filepath.Join(dir, "objects"), Bundle: filepath.Join(dir, "bundle"), Submodules: true})
	expect.NoError(t, err)
	patch, err := os.ReadFile(diff.Patch)
	expect.NoError(t, err)
	return diff, string(patch)
}

// nestedModules returns a repository with the submodule vendor/lib and that with inner, all checked out. The
// repository ignores what its submodule has, and the submodule ignores *.tmp.
func nestedModules(t testing.TB) string {
	t.Helper()
	inner := gittest.NewRepo(t, map[string]string{"deep.txt": "deep\n"})
	lib := gittest.NewRepo(t, map[string]string{"lib.txt": "lib\n", "gone": "g\n", ".gitignore": "*.tmp\n"})
	addSubmodule(t, lib, inner, "inner")
	repo := gittest.NewRepo(t, map[string]string{"a.txt": "a\n", ".gitignore": "*.log\n"})
	addSubmodule(t, repo, lib, "vendor/lib")
	gittest.Run(t, repo, "git", "-c", "protocol.file.allow=always", "submodule", "--quiet", "update", "--init",
		"--recursive")
	return repo
}

func TestSubmoduleDiff(t *testing.T) {
	t.Parallel()
	repo := nestedModules(t)
	before := gittest.Fingerprint(t, repo)
	tree := acquire(t, Options{Dir: repo})
	gittest.Write(t, tree.Dir(), map[string]string{"vendor/lib/lib.txt": "changed\n", "vendor/lib/new.log": "n\n",
		"vendor/lib/new.tmp": "ignored there\n", "vendor/lib/dir/x": "x\n", "vendor/lib/inner/deep.txt": "deeper\n",
		"top.log": "ignored here\n"})
	expect.NoError(t, os.Remove(filepath.Join(tree.Dir(), "vendor/lib/gone")))
	diff, patch := withModules(t, tree)
	wantChanges(t, diff, "A vendor/lib/dir/x", "D vendor/lib/gone", "M vendor/lib/inner/deep.txt",
		"M vendor/lib/lib.txt", "A vendor/lib/new.log")
	expect.Equal(t, "warnings", len(diff.Warnings), 0)
	expect.Equal(t, "incomplete", diff.Incomplete, false)
	expect.Equal(t, "the result", diff.ResultTree, diff.BaseTree)
	if strings.Contains(patch, "160000") {
		t.Errorf("the patch changes a submodule's commit:\n%s", patch)
	}
	expect.Equal(t, "submodules", len(diff.Submodules), 2)
	expect.Equal(t, "the first", diff.Submodules[0].Path, "vendor/lib")
	expect.Equal(t, "the second", diff.Submodules[1].Path, "vendor/lib/inner")
	expect.Equal(t, "its commit", diff.Submodules[1].BaseCommit,
		strings.TrimSpace(gittest.Run(t, repo, "git", "-C", "vendor/lib/inner", "rev-parse", "HEAD")))
	for i, want := range []string{"dir/x gone lib.txt new.log", "deep.txt"} { // each has a patch of its own
		s := diff.Submodules[i]
		own := filepath.Join(filepath.Dir(diff.Patch), s.Patch)
		listed := gittest.Run(t, filepath.Join(repo, s.Path), "git", "apply", "--check", "--numstat", own)
		var names []string
		for line := range strings.Lines(listed) {
			names = append(names, strings.Fields(line)[2])
		}
		expect.Equal(t, "the patch of "+s.Path, strings.Join(names, " "), want)
	}
	again, _ := withModules(t, tree)
	expect.Equal(t, "the second diff's changes", strings.Join(changes(again), "\n"), strings.Join(changes(diff), "\n"))

	without, _ := diffOf(t, tree) // as where the base of a tree moves
	wantChanges(t, without)
	wantWarning(t, without, warnSubmodule, "vendor/lib/lib.txt")
	recycled(t, tree)
	gittest.WantUntouched(t, before, gittest.Fingerprint(t, repo))
}

// Whatever an agent puts in the place of a submodule, the diff keeps the submodule, says so, and has the rest.
func TestHostileSubmodule(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]string{
		"a file":           "rm -r vendor/lib; echo f > vendor/lib",
		"a link":           "mv vendor/lib /tmp/elsewhere-$$; rm -r /tmp/elsewhere-$$; ln -s ../.. vendor/lib",
		"gone":             "rm -r vendor/lib",
		"a pipe":           "rm -r vendor/lib; mkfifo vendor/lib",
		"the upper gone":   "rm -r vendor",
		"the upper a link": "rm -r vendor; ln -s . vendor",
		"the upper a file": "rm -r vendor; echo f > vendor",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tree := acquire(t, Options{Dir: nestedModules(t)})
			gittest.Run(t, tree.Dir(), "sh", "-ec", do+"; echo more >> a.txt")
			diff, patch := withModules(t, tree)
			wantChanges(t, diff, "M a.txt")
			at := "vendor/lib"
			if strings.HasPrefix(name, "the upper a ") {
				at = "vendor"
			}
			wantWarning(t, diff, warnSubmodule, at)
			expect.Equal(t, "warnings", len(diff.Warnings), 1)
			expect.Equal(t, "incomplete", diff.Incomplete, true)
			if strings.Contains(patch, "160000") || len(diff.Submodules) > 0 {
				t.Errorf("submodules %+v, patch:\n%s", diff.Submodules, patch)
			}
			recycled(t, tree)
		})
	}
}

// A run that continues one with changes within submodules begins with these, and tells them from its own.
func TestContinueSubmodules(t *testing.T) {
	t.Parallel()
	repo := nestedModules(t)
	cache := filepath.Join(t.TempDir(), "cache")
	dir := t.TempDir()
	run := func(from *Continuation, files map[string]string) (Continuation, *Diff) {
		t.Helper()
		tree := acquire(t, Options{Dir: repo, CacheDir: cache, Continue: from})
		gittest.Write(t, tree.Dir(), files)
		out, err := os.MkdirTemp(dir, "")
		expect.NoError(t, err)
		to := Continuation{Run: "run_x", Patch: filepath.Join(out, "diff.patch"), Objects: filepath.Join(out, "objects")}
		diff, err := tree.Diff(t.Context(), DiffOptions{Patch: to.Patch, Objects: to.Objects, Submodules: true})
		expect.NoError(t, err)
		to.Submodules = diff.Submodules
		expect.NoError(t, tree.Release(t.Context()))
		return to, diff
	}
	first, _ := run(nil, map[string]string{"vendor/lib/inner/deep.txt": "deeper\n", "vendor/lib/lib.txt": "one\n"})
	second, diff := run(&first, map[string]string{"vendor/lib/lib.txt": "two\n", "a.txt": "b\n"})
	wantChanges(t, diff, "M a.txt", "M vendor/lib/inner/deep.txt", "M vendor/lib/lib.txt")
	for _, f := range diff.Files {
		expect.Equal(t, f.Path+" is of the earlier run", f.Earlier, f.Path == "vendor/lib/inner/deep.txt")
	}
	expect.Equal(t, "warnings", len(diff.Warnings), 0)
	tree := acquire(t, Options{Dir: repo, CacheDir: cache, Continue: &second})
	wantContent(t, tree.Dir(), map[string]string{"a.txt": "b\n", "vendor/lib/lib.txt": "two\n",
		"vendor/lib/inner/deep.txt": "deeper\n", "vendor/lib/gone": "g\n"})

	other := acquire(t, Options{Dir: repo, CacheDir: cache}) // begins with none of it
	wantContent(t, other.Dir(), map[string]string{"a.txt": "a\n", "vendor/lib/lib.txt": "lib\n"})
	wantPristine(t, other)
}

// In the tree a submodule is a repository, as in a checkout. What the agent commits there is named; it is not kept.
func TestSubmoduleRepository(t *testing.T) {
	t.Parallel()
	tree := acquire(t, Options{Dir: nestedModules(t)})
	wantPristine(t, tree)
	for _, path := range []string{"vendor/lib", "vendor/lib/inner"} {
		dir := filepath.Join(tree.Dir(), path)
		expect.Equal(t, "top of "+path, strings.TrimSpace(gittest.Run(t, dir, "git", "rev-parse", "--show-toplevel")), dir)
		expect.Equal(t, "status of "+path, gittest.Run(t, dir, "git", "status", "--porcelain", "--ignored"), "")
		gittest.Run(t, dir, "git", "fsck", "--connectivity-only")
	}
	gittest.Write(t, tree.Dir(), map[string]string{"vendor/lib/lib.txt": "committed\n"})
	gittest.Run(t, tree.Dir(), "git", "-C", "vendor/lib", "commit", "-qam", "in the submodule")
	gittest.Run(t, tree.Dir(), "git", "commit", "-qam", "the submodule's new commit")
	diff, patch := withModules(t, tree)
	wantChanges(t, diff, "M vendor/lib/lib.txt")
	wantWarning(t, diff, warnSubmoduleCommits, "vendor/lib")
	expect.Equal(t, "the result", diff.ResultTree, diff.BaseTree)
	if strings.Contains(patch, "160000") {
		t.Errorf("the patch changes a submodule's commit:\n%s", patch)
	}
	recycled(t, tree)
}

// The .git of a submodule is the agent's: whatever it becomes, no git of the host works there.
func TestHostileSubmoduleRepository(t *testing.T) {
	t.Parallel()
	outside := gittest.NewRepo(t, map[string]string{"secret": "s\n"})
	for name, do := range map[string]string{
		"a file to elsewhere": "rm -r .git; echo 'gitdir: " + outside + "/.git' > .git",
		"a link to elsewhere": "rm -r .git; ln -s '" + outside + "/.git' .git",
		"a pipe as HEAD":      "rm .git/HEAD; mkfifo .git/HEAD",
		"HEAD is a link":      "ln -sf /etc/passwd .git/HEAD",
		"gone":                "rm -r .git",
		"monitored": "git config core.fsmonitor 'touch " + outside + "/ran'; git config core.hooksPath h; mkdir h; " +
			"git config core.worktree '" + outside + "'",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tree := acquire(t, Options{Dir: nestedModules(t)})
			gittest.Run(t, filepath.Join(tree.Dir(), "vendor/lib"), "sh", "-ec", do+"; echo changed > lib.txt")
			before := gittest.Fingerprint(t, outside)
			diff, patch := withModules(t, tree)
			wantChanges(t, diff, "M vendor/lib/lib.txt")
			if strings.Contains(patch, "secret") {
				t.Error("the patch has what lies outside")
			}
			gittest.WantUntouched(t, before, gittest.Fingerprint(t, outside))
			recycled(t, tree)
		})
	}
}
