package landing

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"holon/runner/workspace"
	"holon/runner/workspace/git"
	"holon/test/expect"
	"holon/test/gittest"
)

// superproject returns a repository with the submodule lib, and inner in that.
func superproject(t *testing.T) string {
	t.Helper()
	add := func(repo, from, path string) {
		gittest.Run(t, repo, "git", "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", from, path)
		gittest.Run(t, repo, "git", "commit", "-qm", path)
	}
	inner := gittest.NewRepo(t, map[string]string{"deep.txt": "1\n2\n3\n4\n5\n6\n7\n8\n9\n"})
	lib := gittest.NewRepo(t, map[string]string{"lib.txt": "1\n2\n3\n4\n5\n6\n7\n8\n9\n", "gone": "g\n"})
	add(lib, inner, "inner")
	repo := gittest.NewRepo(t, map[string]string{"a.txt": "1\n2\n3\n4\n5\n6\n7\n8\n9\n"})
	add(repo, lib, "lib")
	gittest.Run(t, repo, "git", "-c", "protocol.file.allow=always", "submodule", "--quiet", "update", "--init",
		"--recursive")
	return repo
}

// changeOf runs a script in a tree of repo, and returns how its change is applied there.
func changeOf(t *testing.T, repo, script string) (workspace.Diff, ApplyOptions) {
	t.Helper()
	tree := acquire(t, workspace.Options{Dir: repo})
	gittest.Run(t, tree.Dir(), "sh", "-ec", script)
	out := t.TempDir()
	diff, err := tree.Diff(t.Context(), workspace.DiffOptions{Patch: filepath.Join(out, "diff.patch"),
		Objects: filepath.Join(out, "objects"), Submodules: true})
	expect.NoError(t, err)
	expect.NoError(t, tree.Release(t.Context()))
	return *diff, ApplyOptions{Dir: repo, Patch: diff.Patch, Objects: filepath.Join(out, "objects"),
		Submodules: diff.Submodules, Warnings: diff.Warnings}
}

const editAll = "for f in a.txt lib/lib.txt lib/inner/deep.txt; do sed -i s/^1/one/ $f; done; " +
	"rm lib/gone; echo n > lib/n"

// A change of a repository and of submodules in it is one: all of it merges, or none is applied. The user's submodules
// keep their commits, and nothing is staged.
func TestApplySubmodules(t *testing.T) {
	t.Parallel()
	repo := superproject(t)
	_, options := changeOf(t, repo, editAll)
	options.Merge = "make a branch"
	user := filepath.Join(repo, "lib/inner/deep.txt")
	gittest.Write(t, repo, map[string]string{"lib/inner/deep.txt": "uno\n2\n3\n4\n5\n6\n7\n8\n9\n"})
	before := gittest.Fingerprint(t, repo)
	_, err := Apply(t.Context(), options)
	wantCode(t, err, CodePatchConflict)
	failed, _ := errors.AsType[*git.Error](err)
	expect.Equal(t, "conflicts", strings.Join(failed.Paths, " "), "lib/inner/deep.txt")
	expect.Equal(t, "the hint names a branch", strings.Contains(failed.Hint, options.Merge), false)
	gittest.WantUntouched(t, before, gittest.Fingerprint(t, repo))

	gittest.Write(t, repo, map[string]string{"lib/inner/deep.txt": "1\n2\n3\n4\n5\n6\n7\n8\nnine\n"})
	done, err := Apply(t.Context(), options)
	expect.NoError(t, err)
	expect.Equal(t, "written", strings.Join(done.Written, " "), "a.txt lib/inner/deep.txt lib/lib.txt lib/n")
	expect.Equal(t, "deleted", strings.Join(done.Deleted, " "), "lib/gone")
	got, err := os.ReadFile(user)
	expect.NoError(t, err)
	expect.Equal(t, "the merged file", string(got), "one\n2\n3\n4\n5\n6\n7\n8\nnine\n")
	expect.Equal(t, "status", gittest.Run(t, repo, "git", "status", "--porcelain"), " M a.txt\n M lib\n")
	expect.Equal(t, "status of the submodule", gittest.Run(t, repo, "git", "-C", "lib", "status", "--porcelain"),
		" D gone\n M inner\n M lib.txt\n?? n\n")

	done, err = Apply(t.Context(), options) // it is there already
	expect.NoError(t, err)
	expect.Equal(t, "written again", len(done.Written)+len(done.Deleted), 0)
}

// A process that is killed between a file of the repository and one of a submodule leaves nothing half applied.
func TestUndoSubmodules(t *testing.T) {
	t.Parallel()
	repo := superproject(t)
	_, options := changeOf(t, repo, editAll)
	before := gittest.Contents(t, repo)
	options.RunDir, options.Hold = t.TempDir(), true
	_, err := Apply(t.Context(), options)
	expect.NoError(t, err)
	expect.NoError(t, Undo(t.Context(), options.RunDir))
	if diff := cmp.Diff(before, gittest.Contents(t, repo)); diff != "" {
		t.Errorf("the files are not as before:\n%s", diff)
	}
}

// A patch goes only into a submodule that is the repository's own and checked out at that place.
func TestApplyHostileSubmodules(t *testing.T) {
	t.Parallel()
	outside := gittest.NewRepo(t, map[string]string{"lib.txt": "1\n2\n3\n4\n5\n6\n7\n8\n9\n"})
	for name, do := range map[string]string{
		"not checked out":                  "git submodule --quiet deinit -f lib",
		"a link to another":                "mv lib ../moved-$$; ln -s '" + outside + "' lib",
		"a link within":                    "mv lib moved; ln -s moved lib",
		"its .git names another":           "echo 'gitdir: " + outside + "/.git' > lib/.git",
		"its .git is a link":               "rm lib/.git; ln -s '" + outside + "/.git' lib/.git",
		"a file":                           "rm -rf lib; echo f > lib",
		"the repository is another, empty": "rm -rf lib .git; git init -q",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			repo := superproject(t)
			_, options := changeOf(t, repo, editAll)
			gittest.Run(t, repo, "sh", "-ec", do)
			before, other := gittest.Contents(t, repo), gittest.Fingerprint(t, outside)
			_, err := Apply(t.Context(), options)
			wantCode(t, err, CodePatchConflict)
			gittest.WantUntouched(t, other, gittest.Fingerprint(t, outside))
			expect.Equal(t, "files", len(gittest.Contents(t, repo)), len(before))
			expect.Equal(t, "a.txt", gittest.Contents(t, repo)["a.txt"], before["a.txt"])
		})
	}
	for _, path := range []string{"../x", "/etc", "lib/../..", ".git/modules/lib", "lib/.GIT", ""} {
		repo := superproject(t)
		_, options := changeOf(t, repo, editAll)
		options.Submodules[0].Path = path
		_, err := Apply(t.Context(), options)
		wantCode(t, err, CodePatchConflict)
	}
}

// A branch keeps submodules at their commits, and says what it does not have.
func TestCheckoutSubmodules(t *testing.T) {
	t.Parallel()
	repo := superproject(t)
	for _, tc := range []struct{ script, code string }{
		{editAll, ""}, {"echo more >> lib/lib.txt", CodeNothingChanged}} {
		diff, options := changeOf(t, repo, tc.script)
		runs := t.TempDir()
		made, err := Checkout(t.Context(), CheckoutOptions{Run: "run-1", RunDir: runs, Objects: options.Objects,
			Info: workspace.Info{BaseCommit: diff.BaseCommit, ObjectFormat: "sha1", IncludedDirty: true}, Diff: diff,
			Dir: repo, Default: filepath.Join(runs, "trees"),
			At: time.Unix(1e9, 0)})
		if tc.code != "" {
			wantCode(t, err, tc.code)
			continue
		}
		expect.NoError(t, err)
		expect.Equal(t, "changed on the branch", gittest.Run(t, repo, "git", "diff", "--name-only", "HEAD", made.Branch),
			"a.txt\n")
		expect.Equal(t, "commits, none of which is of changes in submodules at the start", made.Commits, 1)
		left := 0
		for _, w := range made.Warnings {
			if w.Code == WarnSubmoduleLeft {
				left++
			}
		}
		expect.Equal(t, "submodules that are named", left, 2)
	}
}
