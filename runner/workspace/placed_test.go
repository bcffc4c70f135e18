package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"holon/runner/workspace/git"
	"holon/test/expect"
	"holon/test/gittest"
)

// agentWork is a directory of the user's and where an agent has its trees of it.
type agentWork struct {
	dir     string
	options Options
}

func newAgentWork(t testing.TB, dir string) *agentWork {
	t.Helper()
	home := t.TempDir()
	expect.NoError(t, os.Mkdir(filepath.Join(home, "workspaces"), 0o755))
	return &agentWork{dir: dir, options: Options{Dir: dir, CacheDir: filepath.Join(home, "cache"), Claim: "agent_1",
		IncludeDirty: true, TreeDir: filepath.Join(home, "workspaces", "repo"),
		ObjectsDir: filepath.Join(home, "objects", "ws_1"), ContainerObjects: "/holon/objects/ws_1"}}
}

// eachKind runs a test with a repository and with a plain directory of the same files.
func eachKind(t *testing.T, files map[string]string, test func(t *testing.T, w *agentWork)) {
	for kind, make := range map[string]func(t *testing.T) string{
		KindGit: func(t *testing.T) string { return gittest.NewRepo(t, files) },
		KindCopy: func(t *testing.T) string {
			dir := t.TempDir()
			gittest.Write(t, dir, files)
			return dir
		},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			test(t, newAgentWork(t, make(t)))
		})
	}
}

// apply brings the change of a tree into the user's directory, as the caller does.
func (w *agentWork) apply(t *testing.T, tree *Tree) {
	t.Helper()
	_, patch := diffOf(t, tree)
	file := filepath.Join(t.TempDir(), "patch")
	expect.NoError(t, os.WriteFile(file, []byte(patch), 0o600))
	gittest.Run(t, w.dir, "git", "apply", file)
}

func wantContent(t *testing.T, dir string, want map[string]string) {
	t.Helper()
	for name, text := range want {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if text == "" && !os.IsNotExist(err) || text != "" && string(data) != text {
			t.Errorf("%s is %q (%v), want %q", name, data, err, text)
		}
	}
}

func wantConflict(t *testing.T, err error, paths ...string) {
	t.Helper()
	e, ok := err.(*git.Error) //nolint:errorlint // exported functions return it as it is
	if !ok || e.Code != CodeConflict || !slices.Equal(e.Paths, paths) || e.Hint == "" {
		t.Fatalf("a conflict in %q is %v", paths, err)
	}
}

const tenLines = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n"

// The life of an agent's tree: work, apply, advance, more work, commits of the user, sync, and another process.
func TestAgentTree(t *testing.T) {
	t.Parallel()
	eachKind(t, map[string]string{"a.txt": tenLines, "gone": "g\n", "d/b": "b\n"}, func(t *testing.T, w *agentWork) {
		tree := acquire(t, w.options)
		if tree.Dir() != w.options.TreeDir {
			t.Fatalf("the tree is at %s", tree.Dir())
		}
		held := tree.Held()
		gittest.Write(t, tree.Dir(), map[string]string{"a.txt": "one\n" + tenLines[2:], "new": "n\n"})
		expect.NoError(t, os.Remove(filepath.Join(tree.Dir(), "gone")))
		w.apply(t, tree)
		expect.NoError(t, tree.Advance(t.Context()))
		diff, _ := diffOf(t, tree)
		wantChanges(t, diff)
		gittest.Write(t, tree.Dir(), map[string]string{"new": "newer\n"})
		diff, _ = diffOf(t, tree)
		wantChanges(t, diff, "M new")

		gittest.Write(t, w.dir, map[string]string{"a.txt": "one\n" + strings.Replace(tenLines[2:], "10", "ten", 1),
			"theirs/x": "x\n"})
		synced, err := tree.Sync(t.Context())
		expect.NoError(t, err)
		if got := changes(&Diff{Files: synced.Files}); !slices.Equal(got, []string{"M a.txt", "A theirs/x"}) {
			t.Errorf("sync changed %q", got)
		}
		wantContent(t, tree.Dir(), map[string]string{"a.txt": "one\n" + strings.Replace(tenLines[2:], "10", "ten", 1),
			"theirs/x": "x\n", "new": "newer\n", "gone": "", "d/b": "b\n"})
		diff, _ = diffOf(t, tree)
		wantChanges(t, diff, "M new")

		die(t, tree)
		tree, err = Resume(t.Context(), Options{CacheDir: w.options.CacheDir}, held) // as of the beginning
		expect.NoError(t, err)
		diff, _ = diffOf(t, tree)
		wantChanges(t, diff, "M new")
		w.apply(t, tree)
		if tree.Info().Kind == KindGit {
			gittest.Run(t, w.dir, "git", "add", "-A")
			gittest.Run(t, w.dir, "git", "commit", "-qm", "all of it")
		}
		_, err = tree.Sync(t.Context())
		expect.NoError(t, err)
		diff, _ = diffOf(t, tree)
		wantChanges(t, diff)
		expect.NoError(t, tree.Release(t.Context()))
		if _, err := os.Lstat(w.options.TreeDir); !os.IsNotExist(err) {
			t.Errorf("the tree is left: %v", err)
		}
	})
}

// A conflict names the files and changes nothing.
func TestSyncConflict(t *testing.T) {
	t.Parallel()
	files := map[string]string{"a.txt": "a\n", "b.txt": "b\n", ".gitignore": "built\n"}
	eachKind(t, files, func(t *testing.T, w *agentWork) {
		tree := acquire(t, w.options)
		gittest.Write(t, tree.Dir(), map[string]string{"a.txt": "agent\n", "b.txt": "agent\n", "built": "cache\n"})
		for _, theirs := range []struct {
			files map[string]string
			at    string
		}{{map[string]string{"a.txt": "user\n"}, "a.txt"}, {map[string]string{"a.txt": "a\n", "built/x": "x\n"}, "built/x"}} {
			gittest.Write(t, w.dir, theirs.files)
			if tree.Info().Kind == KindGit {
				gittest.Run(t, w.dir, "git", "add", "-Af")
				gittest.Run(t, w.dir, "git", "commit", "-qm", "theirs")
			}
			_, err := tree.Sync(t.Context())
			wantConflict(t, err, theirs.at)
			wantContent(t, tree.Dir(), map[string]string{"a.txt": "agent\n", "b.txt": "agent\n", "built": "cache\n"})
			diff, _ := diffOf(t, tree)
			wantChanges(t, diff, "M a.txt", "M b.txt")
		}
	})
}

// A fork begins with what is not committed and shows only its own changes, which merge into the tree that it was made
// from.
func TestFork(t *testing.T) {
	t.Parallel()
	eachKind(t, map[string]string{"a.txt": tenLines, "b": "b\n"}, func(t *testing.T, w *agentWork) {
		parent := acquire(t, w.options)
		gittest.Write(t, parent.Dir(), map[string]string{"a.txt": "one\n" + tenLines[2:], "new": "n\n"})
		fork, err := parent.Fork(t.Context(), Options{TreeDir: w.options.TreeDir + "-fork", Claim: "child"})
		expect.NoError(t, err)
		t.Cleanup(func() { expect.NoError(t, fork.Release(context.Background())) })
		wantContent(t, fork.Dir(), map[string]string{"a.txt": "one\n" + tenLines[2:], "new": "n\n", "b": "b\n"})
		diff, _ := diffOf(t, fork)
		wantChanges(t, diff)
		gittest.Write(t, fork.Dir(), map[string]string{"a.txt": "one\n" + tenLines[2:] + "11\n", "new": "nn\n"})
		result := Continuation{Run: "child", Patch: filepath.Join(t.TempDir(), "p"),
			Objects: filepath.Join(t.TempDir(), "o")}
		diff, err = fork.Diff(t.Context(), DiffOptions{Patch: result.Patch, Objects: result.Objects})
		expect.NoError(t, err)
		wantChanges(t, diff, "M a.txt", "M new")
		gittest.Write(t, parent.Dir(), map[string]string{"a.txt": "ONE\n" + tenLines[2:]})
		merged, err := parent.Merge(t.Context(), result)
		expect.NoError(t, err)
		if len(merged.Files) != 2 {
			t.Errorf("merged %+v", merged)
		}
		wantContent(t, parent.Dir(), map[string]string{"a.txt": "ONE\n" + tenLines[2:] + "11\n", "new": "nn\n"})
		diff, _ = diffOf(t, parent)
		wantChanges(t, diff, "M a.txt", "A new")
	})
}

// A container may do anything with the directory that its tree stands in: the host never follows what is there then,
// and gets the slot back.
func TestPlacedTreeMoved(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	gittest.Write(t, outside, map[string]string{"secret": "s\n"})
	for name, replace := range map[string]func(dir string) error{
		"removed": os.RemoveAll,
		"renamed": func(dir string) error { return os.Rename(dir, dir+"-2") },
		"link": func(dir string) error {
			return errors.Join(os.Rename(dir, dir+"-2"), os.Symlink(outside, dir))
		},
		"file": func(dir string) error { return errors.Join(os.RemoveAll(dir), os.WriteFile(dir, nil, 0o644)) },
		"pipe": func(dir string) error { return errors.Join(os.RemoveAll(dir), syscall.Mkfifo(dir, 0o644)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newAgentWork(t, gittest.NewRepo(t, map[string]string{"a": "a\n"}))
			tree := acquire(t, w.options)
			expect.NoError(t, replace(tree.Dir()))
			_, err := tree.Diff(t.Context(), DiffOptions{Patch: filepath.Join(t.TempDir(), "p")})
			wantCode(t, err, CodeTreeGone)
			_, err = tree.Sync(t.Context())
			wantCode(t, err, CodeTreeGone)
			wantCode(t, tree.Advance(t.Context()), CodeTreeGone)
			expect.NoError(t, tree.Release(t.Context()))
			if _, err := os.Lstat(w.options.TreeDir); !os.IsNotExist(err) {
				t.Errorf("something is left: %v", err)
			}
			again := acquire(t, w.options)
			wantContent(t, again.Dir(), map[string]string{"a": "a\n"})
			wantContent(t, outside, map[string]string{"secret": "s\n"})
		})
	}
}

// The tree of a holder that was killed is taken back with its claim, and nothing else that came to its place.
func TestPlacedTreeGivenUp(t *testing.T) {
	t.Parallel()
	w := newAgentWork(t, gittest.NewRepo(t, map[string]string{"a": "a\n"}))
	source := openSource(t, w.options)
	for _, other := range []bool{false, true} {
		tree, err := source.Acquire(t.Context())
		expect.NoError(t, err)
		_, err = source.Acquire(t.Context())
		wantCode(t, err, git.CodeInvalidOption) // the place is taken
		if other {
			expect.NoError(t, os.Rename(tree.Dir(), tree.Dir()+"-moved"))
			gittest.Write(t, tree.Dir(), map[string]string{"mine": "m\n"})
		}
		claim := Claim{Slot: tree.Held().Slot, By: w.options.Claim}
		die(t, tree)
		expect.NoError(t, Disclaim(t.Context(), w.options.CacheDir, claim))
		if _, err := os.Lstat(w.options.TreeDir); other != (err == nil) {
			t.Errorf("another tree: %v, the place: %v", other, err)
		}
	}
}

// The objects of a base that moves again and again are packed anew, and none is lost.
func TestAdvanceOften(t *testing.T) {
	t.Parallel()
	eachKind(t, map[string]string{"a": "a\n", "b": "b\n"}, func(t *testing.T, w *agentWork) {
		tree := acquire(t, w.options)
		for i := range 2*maxCopyPacks + 5 {
			gittest.Write(t, tree.Dir(), map[string]string{"a": fmt.Sprintf("%d\n", i), fmt.Sprintf("new%d", i%7): "n\n"})
			expect.NoError(t, tree.Advance(t.Context()))
		}
		packs, err := filepath.Glob(filepath.Join(tree.base.Objects(), "pack", "*.pack"))
		if err != nil || len(packs) > maxCopyPacks+1 {
			t.Errorf("%d packs, %v", len(packs), err)
		}
		gittest.Write(t, w.dir, map[string]string{"b": "user\n"})
		_, err = tree.Sync(t.Context())
		expect.NoError(t, err)
		diff, _ := diffOf(t, tree)
		wantChanges(t, diff)
		wantContent(t, tree.Dir(), map[string]string{"a": "a\n", "b": "user\n", "new0": ""}) // not applied at all
	})
}

// What was applied and not committed stays in a tree that gets commits alone, as does what a fork began with, until the
// user commits it or something else in its place.
func TestSyncCommits(t *testing.T) {
	t.Parallel()
	w := newAgentWork(t, gittest.NewRepo(t, map[string]string{"a": tenLines, "b": "b\n", "c": "c\n"}))
	w.options.IncludeDirty = false
	tree := acquire(t, w.options)
	gittest.Write(t, tree.Dir(), map[string]string{"a": "one\n" + tenLines[2:], "new": "n\n"})
	fork, err := tree.Fork(t.Context(), Options{TreeDir: w.options.TreeDir + "-fork", Claim: "fork"})
	expect.NoError(t, err)
	t.Cleanup(func() { expect.NoError(t, fork.Release(context.Background())) })
	w.apply(t, tree)
	expect.NoError(t, tree.Advance(t.Context()))
	sync := func(tree *Tree, want map[string]string) {
		t.Helper()
		_, err := tree.Sync(t.Context())
		expect.NoError(t, err)
		wantContent(t, tree.Dir(), want)
		diff, _ := diffOf(t, tree)
		wantChanges(t, diff)
	}
	gittest.Write(t, w.dir, map[string]string{"b": "user\n"})
	gittest.Run(t, w.dir, "git", "commit", "-qm", "b", "b")
	want := map[string]string{"a": "one\n" + tenLines[2:], "new": "n\n", "b": "user\n"}
	sync(tree, want)
	sync(fork, want)
	want["a"] = "two\n" + tenLines[2:]
	gittest.Write(t, w.dir, map[string]string{"a": want["a"]})
	w.commitAll(t)
	sync(tree, want)
	sync(fork, want)
	if info := tree.Info(); info.IncludedDirty || info.BaseTree != strings.TrimSpace(gittest.Run(t, w.dir, "git",
		"rev-parse", "HEAD^{tree}")) {
		t.Errorf("the base is %+v", info)
	}
}
