package workspace

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"holon/runner/workspace/git"
	"holon/test/expect"
	"holon/test/gittest"
)

func TestDirty(t *testing.T) {
	t.Parallel()
	repo := gittest.NewRepo(t, map[string]string{"a.txt": "a\n",
		"gone": "x\n", "staged": "1\n", ".gitignore": "*.log\n"})
	gittest.Write(t, repo, map[string]string{"a.txt": "dirty\n", "staged": "2\n", "new file": "untracked\n",
		"x.log": "ignored\n"})
	gittest.Run(t, repo, "git", "add", "staged")
	os.Remove(filepath.Join(repo, "gone"))
	gittest.Run(t, repo, "git", "init", "-q", "nested")
	gittest.Write(t, repo, map[string]string{"nested/f": "x"})
	before := gittest.Fingerprint(t, repo)

	t.Run("included", func(t *testing.T) {
		tree := acquire(t, Options{Dir: repo, IncludeDirty: true})
		if info := tree.Info(); !info.Dirty || !info.IncludedDirty || info.BaseCommit == "" || info.Branch != "main" ||
			len(info.Warnings) != 1 || info.Warnings[0].Path != "nested" {
			t.Fatalf("the source is %+v, want main with its changes and a warning of nested", info)
		}
		want := "M  a.txt\nD  gone\nA  \"new file\"\nM  staged\n"
		if got := gittest.Run(t, tree.Dir(), "git", "status", "--porcelain"); got != want {
			t.Fatalf("git status in the tree says\n%s want\n%s", got, want)
		}
		gittest.Run(t, tree.Dir(), "git", "fsck")
		gittest.Write(t, tree.Dir(), map[string]string{"new file": "untracked\nedited\n"})
		diff, patch := diffOf(t, tree)
		wantChanges(t, diff, "M new file")
		if !strings.Contains(patch, "+edited") || strings.Contains(patch, "+untracked") {
			t.Fatal(patch)
		}
		recycled(t, tree)
	})
	t.Run("left out", func(t *testing.T) {
		tree := acquire(t, Options{Dir: repo})
		if info := tree.Info(); !info.Dirty || info.IncludedDirty {
			t.Fatalf("info = %+v", info)
		}
		wantPristine(t, tree)
	})
	gittest.WantUntouched(t, before, gittest.Fingerprint(t, repo))
}

func TestRepositoryForms(t *testing.T) {
	t.Parallel()
	files := map[string]string{"a.txt": "a\n", "sub/b.txt": "b\n"}
	change := func(t *testing.T, options Options, top string, want ...string) *Tree {
		t.Helper()
		before := gittest.Fingerprint(t, top)
		tree := acquire(t, options)
		gittest.Write(t, tree.Dir(), map[string]string{"new.txt": "n\n"})
		gittest.Run(t, tree.Dir(), "git", "add", "-A")
		gittest.Run(t, tree.Dir(), "git", "commit", "-qm", "agent")
		diff, _ := diffOf(t, tree)
		wantChanges(t, diff, want...)
		expect.NoError(t, tree.Release(t.Context()))
		gittest.WantUntouched(t, before, gittest.Fingerprint(t, top))
		return tree
	}
	t.Run("sub-directory", func(t *testing.T) {
		repo := gittest.NewRepo(t, files)
		tree := change(t, Options{Dir: filepath.Join(repo, "sub")}, repo, "A new.txt")
		if tree.Info().Prefix != "sub" || tree.WorkDir() != filepath.Join(tree.Dir(), "sub") {
			t.Fatalf("info = %+v", tree.Info())
		}
	})
	t.Run("linked worktree", func(t *testing.T) {
		repo := gittest.NewRepo(t, files)
		linked := filepath.Join(filepath.Dir(repo), "linked")
		gittest.Run(t, repo, "git", "worktree", "add", "-q", "-b", "side", linked)
		gittest.Write(t, linked, map[string]string{"a.txt": "dirty\n"})
		tree := change(t, Options{Dir: linked, IncludeDirty: true}, filepath.Dir(repo), "A new.txt")
		if tree.Info().Branch != "side" {
			t.Fatalf("info = %+v", tree.Info())
		}
	})
	t.Run("unborn", func(t *testing.T) {
		repo := gittest.NewRepo(t, nil)
		gittest.Write(t, repo, map[string]string{"a.txt": "a\n"})
		change(t, Options{Dir: repo}, repo, "A new.txt")
		change(t, Options{Dir: repo, IncludeDirty: true}, repo, "A new.txt")
	})
	t.Run("shallow", func(t *testing.T) {
		repo := gittest.NewRepo(t, files)
		gittest.Write(t, repo, map[string]string{"a.txt": "second\n"})
		gittest.Run(t, repo, "git", "commit", "-qam", "second")
		shallow := filepath.Join(t.TempDir(), "shallow")
		gittest.Run(t, "", "git", "clone", "-q", "--depth=1", "file://"+repo, shallow)
		tree := change(t, Options{Dir: shallow}, shallow, "A new.txt")
		if !tree.Info().Shallow {
			t.Fatal("not recognised as shallow")
		}
	})
	t.Run("borrowing, in a container", func(t *testing.T) {
		repo := gittest.NewRepo(t, files)
		borrower := filepath.Join(t.TempDir(), "borrower")
		gittest.Run(t, "", "git", "clone", "-q", "--shared", repo, borrower)
		tree := acquire(t, Options{Dir: borrower, ContainerObjects: "/holon/objects",
			Borrowing: git.Borrowing{Allow: []string{repo}}})
		want := []objectDir{{HostPath: filepath.Join(borrower, ".git/objects"), ContainerPath: "/holon/objects/0"},
			{HostPath: filepath.Join(repo, ".git/objects"), ContainerPath: filepath.Join(repo, ".git/objects"),
				transitive: true}}
		if !slices.Equal(tree.ObjectDirs(), want) {
			t.Fatalf("object directories = %+v, want %+v", tree.ObjectDirs(), want)
		}
		alternates, _ := os.ReadFile(filepath.Join(tree.Dir(), ".git/objects/info/alternates"))
		if string(alternates) != "/holon/objects/0\n" {
			t.Fatalf("alternates = %q", alternates)
		}
		diff, _ := diffOf(t, tree)
		wantChanges(t, diff)
	})
	t.Run("odd path", func(t *testing.T) {
		repo := filepath.Join(t.TempDir(), "a:b \"c\" ü")
		gittest.Run(t, "", "git", "init", "-q", "-b", "main", repo)
		gittest.Write(t, repo, files)
		change(t, Options{Dir: repo, IncludeDirty: true}, repo, "A new.txt")
	})
}

func TestOpenErrors(t *testing.T) {
	dir := t.TempDir()
	repo := gittest.NewRepo(t, map[string]string{"a": "a"})
	gittest.Write(t, dir, map[string]string{"file": "x", "more/a": "xxxxxxxxxx", "more/b": "x"})
	cache := filepath.Join(t.TempDir(), "cache")
	for _, tc := range []struct {
		name    string
		options Options
		code    string
	}{
		{"absent", Options{Dir: filepath.Join(dir, "absent"), CacheDir: cache}, git.CodeNotADirectory},
		{"file", Options{Dir: filepath.Join(dir, "file"), CacheDir: cache}, git.CodeNotADirectory},
		{"no name", Options{CacheDir: cache}, git.CodeInvalidOption},
		{"relative cache", Options{Dir: repo, CacheDir: "cache"}, git.CodeInvalidOption},
		{"cache within", Options{Dir: repo, CacheDir: filepath.Join(repo, "x", "y")}, git.CodeInvalidOption},
		{"unclean container path", Options{Dir: repo, CacheDir: cache, ContainerObjects: "/holon/../x"},
			git.CodeInvalidOption},
		{"too much", Options{Dir: dir, CacheDir: cache, Limits: Limits{Files: 2}}, git.CodeTooLarge},
		{"too large", Options{Dir: dir, CacheDir: cache, Limits: Limits{SnapshotBytes: 10}}, git.CodeTooLarge},
	} {
		t.Run(tc.name, func(t *testing.T) {
			source, err := Open(t.Context(), tc.options)
			if err == nil {
				_, err = source.Acquire(t.Context())
			}
			wantCode(t, err, tc.code)
		})
	}
	t.Run("HEAD is missing", func(t *testing.T) {
		damaged := gittest.NewRepo(t, map[string]string{"a": "a"})
		head := strings.TrimSpace(gittest.Run(t, damaged, "git", "rev-parse", "HEAD"))
		expect.NoError(t, os.Remove(filepath.Join(damaged, ".git/objects", head[:2], head[2:])))
		_, err := Open(t.Context(), Options{Dir: damaged, CacheDir: cache})
		wantCode(t, err, git.CodeMissingObjects)
	})
	t.Run("no git", func(t *testing.T) {
		t.Setenv("PATH", dir)
		_, err := Open(t.Context(), Options{Dir: repo, CacheDir: cache})
		wantCode(t, err, git.CodeGitMissing)
	})
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := Open(ctx, Options{Dir: repo, CacheDir: cache})
		wantCode(t, err, git.CodeCancelled)
	})
}

func wantCode(t testing.TB, err error, code string) {
	t.Helper()
	failed, ok := errors.AsType[*git.Error](err)
	if !ok || failed.Code != code {
		t.Fatalf("error = %v (%T), want code %s", err, err, code)
	}
	if strings.ContainsRune(err.Error(), '\n') {
		t.Fatalf("the message has several lines: %q", err)
	}
}

func TestUserPlainDirectory(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "plain")
	gittest.Write(t, dir, map[string]string{"a.txt": "a\n", "d/b": "b\n", "s": "#!/bin/sh\n", "l": "-> a.txt",
		".gitignore": "*.o\n", "x.o": "kept\n",
		"inner/.git/config": "x", "inner/f": "f\n"})
	gittest.Run(t, dir, "mkfifo", "pipe")
	before := gittest.Fingerprint(t, dir)
	source := openSource(t, Options{Dir: dir})
	if info := source.Info(); info.Kind != KindCopy || info.Path != dir || !info.IncludedDirty {
		t.Fatalf("the source is %+v, want a copy of %s as it is", info, dir)
	}
	tree := acquireFrom(t, source)
	if info := tree.Info(); len(info.Warnings) != 2 {
		t.Fatalf("info = %+v", info)
	}
	gittest.Write(t, tree.Dir(), map[string]string{"x.o": "changed\n", "y.o": "ignored\n", "new": "n\n"})
	gittest.Run(t, tree.Dir(), "mv", "d/b", "c")
	diff, _ := diffOf(t, tree)
	wantChanges(t, diff, "R d/b -> c", "A new", "M x.o")
	recycled(t, tree)
	gittest.WantUntouched(t, before, gittest.Fingerprint(t, dir))

	gittest.Write(t, dir, map[string]string{"a.txt": "changed\n", "added": "x\n"})
	os.Remove(filepath.Join(dir, "l"))
	tree = acquireFrom(t, source)
	for name, want := range map[string]string{"a.txt": "changed\n", "added": "x\n", "d/b": "b\n"} {
		if got, err := os.ReadFile(filepath.Join(tree.Dir(), name)); err != nil || string(got) != want {
			t.Fatalf("%s = %q, %v; want %q", name, got, err, want)
		}
	}
	if _, err := os.Lstat(filepath.Join(tree.Dir(), "l")); err == nil {
		t.Fatal("a deleted file is in the copy")
	}
	wantPristine(t, tree)
}

func TestSubmodule(t *testing.T) {
	t.Parallel()
	inner := gittest.NewRepo(t, map[string]string{"deep.txt": "deep\n"})
	lib := gittest.NewRepo(t, map[string]string{"lib.txt": "lib\n", "x/y.txt": "y\n"})
	gittest.Run(t, lib, "git", "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", inner, "inner")
	gittest.Run(t, lib, "git", "commit", "-qam", "inner")
	repo := gittest.NewRepo(t, map[string]string{"a.txt": "a\n"})
	gittest.Run(t, repo, "git", "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", lib, "lib")
	gittest.Run(t, repo, "git", "-c", "protocol.file.allow=always",
		"submodule", "--quiet", "update", "--init", "--recursive")
	gittest.Run(t, repo, "git", "commit", "-qam", "lib")
	before := gittest.Fingerprint(t, repo)
	cache := filepath.Join(t.TempDir(), "cache")
	for range 2 { // the second time from the record
		tree := acquire(t, Options{Dir: repo, CacheDir: cache, IncludeDirty: true})
		info := tree.Info()
		if s := info.Submodules; len(s) != 2 || !s[0].Populated || s[1].Path != "lib/inner" || !s[1].Populated {
			t.Fatalf("the submodules are %+v, want two with files, the second at lib/inner", s)
		}
		if got, _ := os.ReadFile(filepath.Join(tree.Dir(), "lib/inner/deep.txt")); string(got) != "deep\n" {
			t.Fatalf("the inner submodule holds %q", got)
		}
		wantPristine(t, tree)
		gittest.Write(t, tree.Dir(), map[string]string{"a.txt": "changed\n",
			"lib/lib.txt": "changed\n", "lib/new": "n\n"})
		os.Remove(filepath.Join(tree.Dir(), "lib/x/y.txt"))
		diff, patch := diffOf(t, tree)
		wantChanges(t, diff, "M a.txt")
		for _, path := range []string{"lib/lib.txt", "lib/new", "lib/x/y.txt"} {
			wantWarning(t, diff, warnSubmodule, path)
		}
		if !diff.Incomplete || strings.Contains(patch, "160000") {
			t.Fatalf("incomplete = %v, patch:\n%s", diff.Incomplete, patch)
		}
		gittest.Run(t, tree.Dir(), "rm", "-r", "lib")
		gittest.Write(t, tree.Dir(), map[string]string{"lib": "now a file"})
		diff, _ = diffOf(t, tree)
		wantChanges(t, diff, "M a.txt")
		recycled(t, tree)
	}
	gittest.WantUntouched(t, before, gittest.Fingerprint(t, repo))

	clone := filepath.Join(t.TempDir(), "clone")
	gittest.Run(t, "", "git", "clone", "-q", repo, clone)
	tree := acquire(t, Options{Dir: clone, CacheDir: cache})
	if info := tree.Info(); len(info.Submodules) != 1 || info.Submodules[0].Populated {
		t.Fatalf("submodules = %+v", info.Submodules)
	}
	wantPristine(t, tree)
}

func TestLFSPointersStay(t *testing.T) {
	t.Parallel()
	pointer := "version https://git-lfs.github.com/spec/v1\noid sha256:" + strings.Repeat("ab", 32) + "\nsize 12345\n"
	repo := gittest.NewRepo(t, map[string]string{"big.bin": pointer,
		".gitattributes": "*.bin filter=lfs diff=lfs merge=lfs -text\n"})
	tree := acquire(t, Options{Dir: repo, IncludeDirty: true})
	if got, _ := os.ReadFile(filepath.Join(tree.Dir(), "big.bin")); string(got) != pointer {
		t.Fatalf("big.bin = %q", got)
	}
	gittest.Write(t, tree.Dir(), map[string]string{"other.bin": "real\x00content"})
	diff, patch := diffOf(t, tree)
	wantChanges(t, diff, "A other.bin")
	roundTrip(t, repo, patch, diff)
	expect.Equal(t, "warnings of new files", len(diff.Warnings), 0)

	gittest.Write(t, tree.Dir(), map[string]string{"big.bin": strings.Repeat("new\x00content", 1000),
		"moved.bin": strings.Replace(pointer, "ab", "cd", 1)})
	diff, patch = diffOf(t, tree)
	wantChanges(t, diff, "M big.bin", "A moved.bin", "A other.bin")
	roundTrip(t, repo, patch, diff) // which has the content whole
	expect.Equal(t, "warnings", len(diff.Warnings), 1)
	wantWarning(t, diff, warnLFS, "big.bin")
}
