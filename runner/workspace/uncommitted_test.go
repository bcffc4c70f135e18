package workspace

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holon/runner/workspace/git"
	"holon/test/expect"
	"holon/test/gittest"
)

// uncommittedModules returns nestedModules with changes in both submodules that are not committed, and what they have.
func uncommittedModules(t testing.TB) (repo string, have map[string]string) {
	t.Helper()
	repo = nestedModules(t)
	gittest.Write(t, repo, map[string]string{"vendor/lib/lib.txt": "mine\n", "vendor/lib/untracked": "u\n",
		"vendor/lib/ignored.tmp": "i\n", "vendor/lib/inner/deep.txt": "mine\n"})
	expect.NoError(t, os.Remove(filepath.Join(repo, "vendor/lib/gone")))
	return repo, map[string]string{"a.txt": "a\n", "vendor/lib/lib.txt": "mine\n", "vendor/lib/untracked": "u\n",
		"vendor/lib/ignored.tmp": "", "vendor/lib/gone": "", "vendor/lib/inner/deep.txt": "mine\n"}
}

// Uncommitted changes in submodules are part of the base, as those of the repository are.
func TestUncommittedSubmodules(t *testing.T) {
	t.Parallel()
	repo, have := uncommittedModules(t)
	before := gittest.Fingerprint(t, repo)
	options := Options{Dir: repo, CacheDir: filepath.Join(t.TempDir(), "cache"), Claim: "run_1", IncludeDirty: true}
	tree := acquire(t, options)
	wantContent(t, tree.Dir(), have)
	wantPristine(t, tree)
	status := gittest.Run(t, tree.Dir(), "git", "-C", "vendor/lib", "status", "--porcelain", "--ignore-submodules")
	expect.Equal(t, "what the agent's git shows", status, "D  gone\nM  lib.txt\nA  untracked\n")
	for _, s := range tree.Info().Submodules {
		expect.Equal(t, "the base tree of "+s.Path+" is known", s.BaseTree != "", true)
	}
	gittest.Write(t, tree.Dir(), map[string]string{"vendor/lib/lib.txt": "mine\nand the agent's\n"})
	diff, patch := withModules(t, tree)
	wantChanges(t, diff, "M vendor/lib/lib.txt")
	expect.Equal(t, "the patch starts from the user's files", strings.Contains(patch, "\n mine\n+and the agent's\n"), true)
	expect.Equal(t, "submodules", len(diff.Submodules), 1)

	gittest.WantUntouched(t, before, gittest.Fingerprint(t, repo))

	die(t, tree)
	gittest.Write(t, repo, map[string]string{"vendor/lib/lib.txt": "the user goes on\n"})
	resumed, err := Resume(t.Context(), options, tree.Held())
	expect.NoError(t, err)
	again, _ := withModules(t, resumed)
	wantChanges(t, again, "M vendor/lib/lib.txt")
	expect.NoError(t, resumed.Release(t.Context()))

	options.IncludeDirty = false
	wantContent(t, acquire(t, options).Dir(), map[string]string{"vendor/lib/lib.txt": "lib\n", "vendor/lib/gone": "g\n",
		"vendor/lib/untracked": "", "vendor/lib/inner/deep.txt": "deep\n"})
}

// What was applied within submodules is not committed there. The next run begins with it, and it is not its change.
func TestContinueAppliedSubmodules(t *testing.T) {
	t.Parallel()
	repo, out := nestedModules(t), t.TempDir()
	options := Options{Dir: repo, CacheDir: filepath.Join(t.TempDir(), "cache"), IncludeDirty: true}
	changed := map[string]string{"a.txt": "b\n", "vendor/lib/lib.txt": "one\n", "vendor/lib/inner/deep.txt": "deeper\n"}
	tree := acquire(t, options)
	gittest.Write(t, tree.Dir(), changed)
	from := Continuation{Run: "run_1", Patch: filepath.Join(out, "diff.patch"), Objects: filepath.Join(out, "objects")}
	diff, err := tree.Diff(t.Context(), DiffOptions{Patch: from.Patch, Objects: from.Objects, Submodules: true})
	expect.NoError(t, err)
	from.Submodules = diff.Submodules
	expect.NoError(t, tree.Release(t.Context()))

	gittest.Write(t, repo, changed) // applied
	options.Continue = &from
	next := acquire(t, options)
	wantContent(t, next.Dir(), changed)
	diff, _ = withModules(t, next)
	wantChanges(t, diff)
	expect.Equal(t, "submodules without a change", len(diff.Submodules), 0)
	gittest.Write(t, next.Dir(), map[string]string{"vendor/lib/lib.txt": "two\n"})
	diff, _ = withModules(t, next)
	wantChanges(t, diff, "M vendor/lib/lib.txt")
	expect.Equal(t, "submodules with one", len(diff.Submodules), 1)
	expect.NoError(t, next.Release(t.Context()))

	gittest.Write(t, repo, map[string]string{"vendor/lib/lib.txt": "another\n"})
	_, err = openSource(t, options).Acquire(t.Context())
	wantCode(t, err, CodeContinueConflict)
	failed, _ := errors.AsType[*git.Error](err)
	expect.Equal(t, "the hint names a branch, which lacks them", strings.Contains(failed.Hint, "checkout"), false)
}

// A base that is pinned has the uncommitted changes of submodules of that moment.
func TestPinnedSubmodules(t *testing.T) {
	t.Parallel()
	repo, have := uncommittedModules(t)
	source := openSource(t, Options{Dir: repo, IncludeDirty: true})
	expect.NoError(t, source.Pin(t.Context(), filepath.Join(t.TempDir(), "base")))
	gittest.Write(t, repo, map[string]string{"vendor/lib/lib.txt": "later\n"})
	tree := acquireFrom(t, source.With("run_1", nil))
	wantContent(t, tree.Dir(), have)
	wantContent(t, acquireFrom(t, tree.Again()).Dir(), have)
}

// A sync brings uncommitted changes of submodules along, and a fork of the tree has them.
func TestSyncUncommittedSubmodules(t *testing.T) {
	t.Parallel()
	w := newAgentWork(t, nestedModules(t))
	tree := acquire(t, w.options)
	gittest.Write(t, tree.Dir(), map[string]string{"vendor/lib/lib.txt": "the agent's\n"})
	gittest.Write(t, w.dir, map[string]string{"vendor/lib/lib.txt": "mine\n", "vendor/lib/untracked": "u\n",
		"vendor/lib/inner/deep.txt": "mine\n"})
	_, err := tree.Sync(t.Context())
	expect.NoError(t, err)
	have := map[string]string{"vendor/lib/lib.txt": "the agent's\n", "vendor/lib/untracked": "u\n",
		"vendor/lib/inner/deep.txt": "mine\n"}
	wantContent(t, tree.Dir(), have)
	diff, _ := diffOf(t, tree)
	wantChanges(t, diff)
	wantWarning(t, diff, warnSubmodule, "vendor/lib/lib.txt")
	expect.Equal(t, "warnings", len(diff.Warnings), 1)
	for range maxCopyPacks + 1 { // until the objects of the base are packed anew
		gittest.Write(t, tree.Dir(), map[string]string{"a.txt": gittest.Contents(t, tree.Dir())["a.txt"] + "more\n"})
		expect.NoError(t, tree.Advance(t.Context()))
	}
	options := w.options
	options.TreeDir, options.Claim = filepath.Join(filepath.Dir(w.options.TreeDir), "fork"), "agent_2"
	fork, err := tree.Fork(t.Context(), options)
	expect.NoError(t, err)
	have["vendor/lib/lib.txt"] = "mine\n" // what the agent changed there is not kept
	wantContent(t, fork.Dir(), have)
	expect.NoError(t, fork.Release(t.Context()))
}
