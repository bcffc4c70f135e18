package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// What an agent can do to a tree, and what the diff says of it.
func TestDiff(t *testing.T) {
	isolate(t)
	base := map[string]string{
		"a.txt": "one\ntwo\nthree\nfour\nfive\nsix\n", "d/b.txt": "b1\nb2\nb3\nb4\n", "d/c.txt": "c\n", "run.sh": "#!/bin/sh\n",
		"link": "-> a.txt", "bin": "\x00\x01\x02", "empty": "", ".gitignore": "*.log\nbuild/\n!keep.log\n", "d/.gitignore": "/only-here\n",
		"crlf.txt": "x\r\ny\r\n", "sp ace\t\"q\".txt": "q\n",
	}
	sh := func(script string) func(*testing.T, string) {
		return func(t *testing.T, dir string) { run(t, dir, "sh", "-ec", script) }
	}
	for _, tc := range []struct {
		name string
		do   func(t *testing.T, dir string)
		want []string
	}{
		{"nothing", sh(":"), nil},
		{"touch", sh("touch a.txt && chmod 600 d/b.txt && touch -h link"), nil},
		{"modify", sh("echo x >> a.txt"), []string{"M a.txt"}},
		{"same size", sh("printf 'one\\ntwo\\nthree\\nfour\\nfive\\nsiX\\n' > a.txt"), []string{"M a.txt"}},
		{"same size and time", sh("touch -r a.txt /tmp/ref.$$; printf 'one\\ntwo\\nthree\\nfour\\nfive\\nsiX\\n' > a.txt; touch -r /tmp/ref.$$ a.txt; rm /tmp/ref.$$"), []string{"M a.txt"}},
		{"rename", sh("mv a.txt z.txt"), []string{"R a.txt -> z.txt"}},
		{"rename and edit", sh("mv a.txt z.txt; echo seven >> z.txt"), []string{"R a.txt -> z.txt"}},
		{"swap", sh("mv d/b.txt t; mv d/c.txt d/b.txt; mv t d/c.txt"), []string{"M d/b.txt", "M d/c.txt"}},
		{"delete", sh("rm -r d bin"), []string{"D bin", "D d/.gitignore", "D d/b.txt", "D d/c.txt"}},
		{"delete all", sh("rm -rf * .gitignore"), []string{"D .gitignore", "D a.txt", "D bin", "D crlf.txt", "D d/.gitignore", "D d/b.txt",
			"D d/c.txt", "D empty", "D link", "D run.sh", "D sp ace\t\"q\".txt"}},
		{"mode", sh("chmod +x a.txt; chmod -x run.sh"), []string{"M a.txt", "M run.sh"}},
		{"link target", sh("ln -sfn run.sh link"), []string{"M link"}},
		{"file to link", sh("rm a.txt; ln -s run.sh a.txt"), []string{"T a.txt"}},
		{"link to file", sh("rm link; echo x > link"), []string{"T link"}},
		{"file to directory", sh("rm a.txt; mkdir a.txt; echo x > a.txt/in"), []string{"D a.txt", "A a.txt/in"}},
		{"directory to file", sh("rm -r d; echo x > d"), []string{"A d", "D d/.gitignore", "D d/b.txt", "D d/c.txt"}},
		{"new files", sh("mkdir -p n/m; echo 1 > n/m/f; echo 2 > top; : > nil"), []string{"A n/m/f", "A nil", "A top"}},
		{"empty directory", sh("mkdir -p n/m"), nil},
		{"ignored", sh("echo 1 > x.log; echo 1 > keep.log; mkdir build; echo 1 > build/o; echo 1 > d/only-here; echo 1 > only-here; mkdir -p e/build; echo 1 > e/build/y"),
			[]string{"A keep.log", "A only-here"}},
		{"own ignore file", sh("mkdir n; echo 'secret' > n/.gitignore; echo 1 > n/secret; echo 1 > n/open; echo '*.tmp' >> .gitignore; echo 1 > x.tmp"),
			[]string{"M .gitignore", "A n/.gitignore", "A n/open"}},
		{"ignore everything", sh("echo '*' > .gitignore; echo 1 > new; echo 2 >> a.txt"), []string{"M .gitignore", "M a.txt"}},
		{"pathspec magic in names", sh("echo 1 > ':(top)x'; echo 1 > ':!y'; mkdir ':'; echo 1 > ':/z'; echo 1 > '*'"),
			[]string{"A *", "A :!y", "A :(top)x", "A :/z"}},
		{"agent commit", sh("echo x >> a.txt; git add -A; git commit -qm x; echo y > new; git add new"), []string{"M a.txt", "A new"}},
		{"branches and gc", sh("git checkout -qb other; echo x > new; git add -A; git commit -qm x; git checkout -q main; git merge -q other; git gc -q --prune=now; git branch -D other"),
			[]string{"A new"}},
		{"amended away", sh("git rm -q d/c.txt; git commit -q --amend -m y; git update-ref -d refs/heads/main"), []string{"D d/c.txt"}},
		{"no repository", sh("rm -rf .git; echo x > new"), []string{"A new"}},
		{"crlf", sh("printf 'z\\r\\n' >> crlf.txt; printf 'n\\r\\n' > new.txt; echo '* text=auto eol=crlf' > .gitattributes"),
			[]string{"A .gitattributes", "M crlf.txt", "A new.txt"}},
		{"odd names", func(t *testing.T, dir string) {
			for _, name := range []string{"new\nline", "tab\there", "\xff\xfe", "esc\x1b[31m", " lead", "trail ", `back\slash`, `"q"`, "ünï"} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		}, []string{"A \x20lead", `A "q"`, `A back\slash`, "A esc\x1b[31m", "A new\nline", "A tab\there", "A trail ", "A ünï", "A \xff\xfe"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			repo := newRepo(t, base)
			before := fingerprint(t, repo)
			tree := acquire(t, Options{Dir: repo})
			tc.do(t, tree.Dir())
			diff, patch := diffOf(t, tree)
			wantChanges(t, diff, tc.want...)
			if diff.Incomplete || diff.BaseCommit != strings.TrimSpace(run(t, repo, "git", "rev-parse", "HEAD")) {
				t.Errorf("diff = %+v", diff)
			}
			roundTrip(t, repo, patch, diff)
			wantUntouched(t, before, fingerprint(t, repo))
			recycled(t, tree)
		})
	}
}

// roundTrip applies the patch to a clone and compares the tree with the result.
func roundTrip(t *testing.T, repo, patch string, diff *Diff) {
	t.Helper()
	if patch == "" {
		return
	}
	clone := filepath.Join(t.TempDir(), "clone")
	run(t, "", "git", "clone", "-q", "--no-hardlinks", repo, clone)
	run(t, clone, "git", "config", "core.autocrlf", "false")
	file := filepath.Join(t.TempDir(), "p")
	if err := os.WriteFile(file, []byte(patch), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, clone, "git", "apply", "--index", "--whitespace=nowarn", file)
	if got := strings.TrimSpace(run(t, clone, "git", "write-tree")); got != diff.ResultTree {
		t.Fatalf("the patch makes tree %s, the diff says %s\n%s", got, diff.ResultTree, patch)
	}
}

// recycled releases the tree and checks that it is the base again.
func recycled(t *testing.T, tree *Tree) {
	t.Helper()
	if err := tree.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	again, err := tree.source.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer again.Release(t.Context())
	if again.Dir() != tree.Dir() {
		t.Fatalf("the second tree is %s, want %s again", again.Dir(), tree.Dir())
	}
	wantPristine(t, again)
	if left, err := os.ReadDir(again.slot.trash()); err != nil || len(left) > 0 {
		t.Fatalf("the trash holds %v, %v", left, err)
	}
}

// wantPristine compares a tree with what git checks out.
func wantPristine(t *testing.T, tree *Tree) {
	t.Helper()
	if tree.info.Kind == KindGit && !tree.info.IncludedDirty {
		if out := run(t, tree.Dir(), "git", "status", "--porcelain", "--ignored"); out != "" {
			t.Fatalf("git status says:\n%s", out)
		}
		run(t, tree.Dir(), "git", "fsck", "--connectivity-only")
	}
	diff, patch := diffOf(t, tree)
	if patch != "" || len(diff.Files) > 0 {
		t.Fatalf("a fresh tree differs from its base:\n%s", patch)
	}
	for i := range tree.record.entries {
		e := &tree.record.entries[i]
		st, err := os.Lstat(filepath.Join(tree.Dir(), e.path))
		if err != nil {
			t.Fatal(err)
		}
		if want := os.FileMode(e.mode & 0o777); st.Mode().IsRegular() && st.Mode().Perm() != want {
			t.Fatalf("%s has mode %v, want %v", e.path, st.Mode(), want)
		}
	}
}

// Hostile trees: nothing outside is read or written, nothing planted is run.
func TestHostileTree(t *testing.T) {
	isolate(t)
	outside := t.TempDir()
	write(t, outside, map[string]string{"secret": "secret\n", "d/b.txt": "outside\n"})
	marker := filepath.Join(t.TempDir(), "marker")
	plant := "echo run >> " + marker + "; cat"
	for _, tc := range []struct {
		name     string
		do       func(t *testing.T, dir string)
		want     []string
		warnings []string // "code path"
	}{
		{name: "git replaced by a link", do: func(t *testing.T, dir string) {
			run(t, dir, "rm", "-rf", ".git")
			write(t, dir, map[string]string{".git": "-> " + outside})
		}},
		{name: "git replaced by a FIFO", do: func(t *testing.T, dir string) {
			run(t, dir, "rm", "-rf", ".git")
			run(t, dir, "mkfifo", ".git")
		}},
		{name: "directory swapped for a link", do: func(t *testing.T, dir string) {
			run(t, dir, "rm", "-r", "d")
			write(t, dir, map[string]string{"d": "-> " + outside + "/d"})
		}, want: []string{"A d", "D d/b.txt"}, warnings: []string{WarnOutsideLink + " d"}},
		{name: "file swapped for a link", do: func(t *testing.T, dir string) {
			write(t, dir, map[string]string{"a.txt": "-> " + outside + "/secret"})
		}, want: []string{"T a.txt"}, warnings: []string{WarnOutsideLink + " a.txt"}},
		{name: "special files", do: func(t *testing.T, dir string) {
			run(t, dir, "sh", "-ec", "rm a.txt; mkfifo a.txt; mkfifo new; mkfifo x.log; mkdir n; mkfifo n/f; mknod dev c 1 3 || mkfifo dev")
			if err := unix.Mknod(filepath.Join(dir, "sock"), unix.S_IFSOCK|0o600, 0); err != nil {
				t.Fatal(err)
			}
		}, warnings: []string{WarnSpecialFile + " a.txt", WarnSpecialFile + " dev", WarnSpecialFile + " n/f", WarnSpecialFile + " new", WarnSpecialFile + " sock"}},
		{name: "filters, hooks and monitors", do: func(t *testing.T, dir string) {
			write(t, dir, map[string]string{
				".gitattributes":               "* filter=x diff=x merge=x\n",
				".git/hooks/post-index-change": "#!/bin/sh\n" + plant, ".git/hooks/pre-commit": "#!/bin/sh\n" + plant, ".git/hooks/reference-transaction": "#!/bin/sh\n" + plant,
				".git/config": "[core]\n\tfsmonitor = " + plant + "\n\tpager = " + plant + "\n\tsshCommand = " + plant + "\n\teditor = " + plant + "\n\tattributesFile = .gitattributes\n" +
					"[filter \"x\"]\n\tclean = " + plant + "\n\tsmudge = " + plant + "\n\tprocess = " + plant + "\n\trequired = true\n" +
					"[diff \"x\"]\n\ttextconv = " + plant + "\n\tcommand = " + plant + "\n[diff]\n\texternal = " + plant + "\n[credential]\n\thelper = \"!" + plant + "\"\n",
				".git/info/attributes": "* filter=x diff=x\n",
				".git/info/exclude":    "*\n",
				"a.txt":                "changed\n",
			})
		}, want: []string{"A .gitattributes", "M a.txt"}},
		{name: "disguises of .git", do: func(t *testing.T, dir string) {
			write(t, dir, map[string]string{".GIT/config": "x", "git~1": "x", ".git. /x": "x", ".g\u200cit/x": "x", ".git::$INDEX": "x",
				".gitx": "fine", "d/.Git": "x", `.git\x`: "x", ".GITMODULES": "-> a.txt"})
		}, want: []string{"A .gitx"}, warnings: []string{WarnUnsafeName + " .GIT", WarnUnsafeName + " git~1", WarnUnsafeName + " .g\u200cit",
			WarnUnsafeName + " d/.Git", WarnUnsafeName + ` .git\x`, WarnUnsafeName + " .GITMODULES"}},
		{name: "nested repositories", do: func(t *testing.T, dir string) {
			run(t, dir, "sh", "-ec", "mkdir n; cd n; git init -q; echo 1 > f; git add .; git -c user.name=x -c user.email=x commit -qm x; cd ..; git -C d init -q; mkdir m; echo gitdir: /etc > m/.git; echo 2 > m/f")
		}, want: []string{"A m/f", "A n/f"}, warnings: []string{WarnNestedRepository + " n", WarnNestedRepository + " m", WarnNestedRepository + " d"}},
		{name: "ignore file is a link", do: func(t *testing.T, dir string) {
			write(t, outside, map[string]string{"patterns": "*\n"})
			write(t, dir, map[string]string{".gitignore": "-> " + outside + "/patterns", "new": "x", "x.log": "x"})
		}, want: []string{"T .gitignore", "A new", "A x.log"}, warnings: []string{WarnOutsideLink + " .gitignore"}},
		{name: "too deep", do: func(t *testing.T, dir string) {
			deep(t, dir, "deep", 3000)
			write(t, dir, map[string]string{"new": "x"})
		}, want: []string{"A new"}},
		{name: "sparse", do: func(t *testing.T, dir string) {
			run(t, dir, "truncate", "-s", "10G", "big")
			run(t, dir, "truncate", "-s", "10G", "a.txt")
			write(t, dir, map[string]string{"new": "x"})
		}, want: []string{"A new"}, warnings: []string{WarnFileTooLarge + " big", WarnFileTooLarge + " a.txt"}},
		{name: "hard links", do: func(t *testing.T, dir string) {
			run(t, dir, "sh", "-ec", "ln a.txt hard; echo more >> hard")
		}, want: []string{"M a.txt", "A hard"}},
		{name: "permissions", do: func(t *testing.T, dir string) {
			run(t, dir, "sh", "-ec", "echo x > d/new; chmod 000 d/new a.txt; mkdir n; echo x > n/f; chmod 000 n d; chmod 4755 link.sh; chmod 1777 .")
		}, want: []string{"A d/new", "A n/f"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			repo := newRepo(t, map[string]string{"a.txt": "a\n", "d/b.txt": "b\n", "link.sh": "#!/bin/sh\n", ".gitignore": "*.log\n"})
			before, outsideBefore := fingerprint(t, repo), ""
			tree := acquire(t, Options{Dir: repo})
			tc.do(t, tree.Dir())
			outsideBefore = fingerprint(t, outside)
			diff, patch := diffOf(t, tree)
			wantChanges(t, diff, tc.want...)
			for _, w := range tc.warnings {
				code, path, _ := strings.Cut(w, " ")
				wantWarning(t, diff, code, path)
			}
			if strings.Contains(patch, "secret\n+") || strings.Contains(patch, "+outside") {
				t.Errorf("the patch shows content from outside:\n%s", patch)
			}
			roundTrip(t, repo, patch, diff)
			recycled(t, tree)
			if _, err := os.Lstat(marker); err == nil {
				t.Error("something planted in the tree was run")
			}
			wantUntouched(t, outsideBefore, fingerprint(t, outside))
			wantUntouched(t, before, fingerprint(t, repo))
		})
	}
}

// deep makes a chain of directories longer than any path may be.
func deep(t *testing.T, dir, name string, levels int) {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	for range levels {
		if err := unix.Mkdirat(fd, name, 0o755); err != nil {
			t.Fatal(err)
		}
		next, err := unix.Openat(fd, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		unix.Close(fd)
		if err != nil {
			t.Fatal(err)
		}
		fd = next
	}
	file, err := unix.Openat(fd, "bottom", unix.O_CREAT|unix.O_WRONLY, 0o644)
	unix.Close(fd)
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(file)
}

func TestDirty(t *testing.T) {
	isolate(t)
	repo := newRepo(t, map[string]string{"a.txt": "a\n", "gone": "x\n", "staged": "1\n", ".gitignore": "*.log\n"})
	write(t, repo, map[string]string{"a.txt": "dirty\n", "staged": "2\n", "new file": "untracked\n", "x.log": "ignored\n"})
	run(t, repo, "git", "add", "staged")
	os.Remove(filepath.Join(repo, "gone"))
	run(t, repo, "git", "init", "-q", "nested")
	write(t, repo, map[string]string{"nested/f": "x"})
	before := fingerprint(t, repo)

	t.Run("included", func(t *testing.T) {
		tree := acquire(t, Options{Dir: repo, IncludeDirty: true})
		if info := tree.Info(); !info.Dirty || !info.IncludedDirty || info.BaseCommit == "" || info.Branch != "main" ||
			len(info.Warnings) != 1 || info.Warnings[0].Path != "nested" {
			t.Fatalf("info = %+v", info)
		}
		want := "M  a.txt\nD  gone\nA  \"new file\"\nM  staged\n"
		if got := run(t, tree.Dir(), "git", "status", "--porcelain"); got != want {
			t.Fatalf("git status in the tree says\n%s want\n%s", got, want)
		}
		run(t, tree.Dir(), "git", "fsck")
		write(t, tree.Dir(), map[string]string{"new file": "untracked\nedited\n"})
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
	wantUntouched(t, before, fingerprint(t, repo))
}

func TestRepositoryForms(t *testing.T) {
	isolate(t)
	files := map[string]string{"a.txt": "a\n", "sub/b.txt": "b\n"}
	change := func(t *testing.T, options Options, top string, want ...string) *Tree {
		t.Helper()
		before := fingerprint(t, top)
		tree := acquire(t, options)
		write(t, tree.Dir(), map[string]string{"new.txt": "n\n"})
		run(t, tree.Dir(), "git", "add", "-A")
		run(t, tree.Dir(), "git", "commit", "-qm", "agent")
		diff, _ := diffOf(t, tree)
		wantChanges(t, diff, want...)
		if err := tree.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantUntouched(t, before, fingerprint(t, top))
		return tree
	}
	t.Run("sub-directory", func(t *testing.T) {
		repo := newRepo(t, files)
		tree := change(t, Options{Dir: filepath.Join(repo, "sub")}, repo, "A new.txt")
		if tree.Info().Prefix != "sub" || tree.WorkDir() != filepath.Join(tree.Dir(), "sub") {
			t.Fatalf("info = %+v", tree.Info())
		}
	})
	t.Run("linked worktree", func(t *testing.T) {
		repo := newRepo(t, files)
		linked := filepath.Join(filepath.Dir(repo), "linked")
		run(t, repo, "git", "worktree", "add", "-q", "-b", "side", linked)
		write(t, linked, map[string]string{"a.txt": "dirty\n"})
		tree := change(t, Options{Dir: linked, IncludeDirty: true}, filepath.Dir(repo), "A new.txt")
		if tree.Info().Branch != "side" {
			t.Fatalf("info = %+v", tree.Info())
		}
	})
	t.Run("unborn", func(t *testing.T) {
		repo := newRepo(t, nil)
		write(t, repo, map[string]string{"a.txt": "a\n"})
		change(t, Options{Dir: repo}, repo, "A new.txt")
		change(t, Options{Dir: repo, IncludeDirty: true}, repo, "A new.txt")
	})
	t.Run("detached", func(t *testing.T) {
		repo := newRepo(t, files)
		run(t, repo, "git", "checkout", "-q", "--detach")
		change(t, Options{Dir: repo}, repo, "A new.txt")
	})
	t.Run("sha256", func(t *testing.T) {
		repo := filepath.Join(t.TempDir(), "r")
		run(t, "", "git", "init", "-q", "-b", "main", "--object-format=sha256", repo)
		write(t, repo, files)
		run(t, repo, "git", "add", "-A")
		run(t, repo, "git", "commit", "-qm", "x")
		write(t, repo, map[string]string{"dirty": "d\n"})
		change(t, Options{Dir: repo, IncludeDirty: true}, repo, "A new.txt")
	})
	t.Run("shallow", func(t *testing.T) {
		repo := newRepo(t, files)
		write(t, repo, map[string]string{"a.txt": "second\n"})
		run(t, repo, "git", "commit", "-qam", "second")
		shallow := filepath.Join(t.TempDir(), "shallow")
		run(t, "", "git", "clone", "-q", "--depth=1", "file://"+repo, shallow)
		tree := change(t, Options{Dir: shallow}, shallow, "A new.txt")
		if !tree.Info().Shallow {
			t.Fatal("not recognised as shallow")
		}
	})
	t.Run("borrowing, in a container", func(t *testing.T) {
		repo := newRepo(t, files)
		borrower := filepath.Join(t.TempDir(), "borrower")
		run(t, "", "git", "clone", "-q", "--shared", repo, borrower)
		tree := acquire(t, Options{Dir: borrower, ContainerObjects: "/holon/objects"})
		want := []ObjectDir{{HostPath: filepath.Join(borrower, ".git/objects"), ContainerPath: "/holon/objects/0"},
			{HostPath: filepath.Join(repo, ".git/objects"), ContainerPath: filepath.Join(repo, ".git/objects"), transitive: true}}
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
		run(t, "", "git", "init", "-q", "-b", "main", repo)
		write(t, repo, files)
		change(t, Options{Dir: repo, IncludeDirty: true}, repo, "A new.txt")
	})
}

func TestOpenErrors(t *testing.T) {
	isolate(t)
	dir := t.TempDir()
	repo := newRepo(t, map[string]string{"a": "a"})
	write(t, dir, map[string]string{"file": "x", "broken/.git": "gitdir: /nowhere\n"})
	bare := filepath.Join(dir, "bare")
	run(t, dir, "git", "init", "-q", "--bare", bare)
	cache := filepath.Join(t.TempDir(), "cache")
	for _, tc := range []struct {
		name    string
		options Options
		code    string
	}{
		{"absent", Options{Dir: filepath.Join(dir, "absent"), CacheDir: cache}, CodeNotADirectory},
		{"file", Options{Dir: filepath.Join(dir, "file"), CacheDir: cache}, CodeNotADirectory},
		{"no name", Options{CacheDir: cache}, CodeInvalidOption},
		{"bare", Options{Dir: bare, CacheDir: cache}, CodeBareRepository},
		{"in .git", Options{Dir: filepath.Join(repo, ".git"), CacheDir: cache}, CodeBareRepository},
		{"broken", Options{Dir: filepath.Join(dir, "broken"), CacheDir: cache}, CodeBrokenRepository},
		{"relative cache", Options{Dir: repo, CacheDir: "cache"}, CodeInvalidOption},
		{"cache within", Options{Dir: repo, CacheDir: filepath.Join(repo, "x", "y")}, CodeInvalidOption},
		{"unclean container path", Options{Dir: repo, CacheDir: cache, ContainerObjects: "/holon/../x"}, CodeInvalidOption},
		{"too much", Options{Dir: dir, CacheDir: cache, Limits: Limits{Files: 2}}, CodeTooLarge},
		{"too large", Options{Dir: dir, CacheDir: cache, Limits: Limits{SnapshotBytes: 10}}, CodeTooLarge},
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
		damaged := newRepo(t, map[string]string{"a": "a"})
		head := strings.TrimSpace(run(t, damaged, "git", "rev-parse", "HEAD"))
		if err := os.Remove(filepath.Join(damaged, ".git/objects", head[:2], head[2:])); err != nil {
			t.Fatal(err)
		}
		_, err := Open(t.Context(), Options{Dir: damaged, CacheDir: cache})
		wantCode(t, err, CodeMissingObjects)
	})
	t.Run("other owner", func(t *testing.T) {
		if os.Getuid() != 0 {
			t.Skip("needs root to give a repository away")
		}
		foreign := newRepo(t, map[string]string{"a": "a"})
		run(t, foreign, "chown", "-R", "12345", ".")
		_, err := Open(t.Context(), Options{Dir: foreign, CacheDir: cache})
		wantCode(t, err, CodeUnsafeOwnership)
	})
	t.Run("no git", func(t *testing.T) {
		t.Setenv("PATH", dir)
		_, err := Open(t.Context(), Options{Dir: repo, CacheDir: cache})
		wantCode(t, err, CodeGitMissing)
	})
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := Open(ctx, Options{Dir: repo, CacheDir: cache})
		wantCode(t, err, CodeCancelled)
	})
}

func wantCode(t testing.TB, err error, code string) {
	t.Helper()
	failed, ok := errors.AsType[*Error](err)
	if !ok || failed.Code != code {
		t.Fatalf("error = %v (%T), want code %s", err, err, code)
	}
	if strings.ContainsRune(err.Error(), '\n') {
		t.Fatalf("the message has several lines: %q", err)
	}
}

func TestPlainDirectory(t *testing.T) {
	isolate(t)
	dir := filepath.Join(t.TempDir(), "plain")
	write(t, dir, map[string]string{"a.txt": "a\n", "d/b": "b\n", "s": "#!/bin/sh\n", "l": "-> a.txt", ".gitignore": "*.o\n", "x.o": "kept\n",
		"inner/.git/config": "x", "inner/f": "f\n"})
	run(t, dir, "mkfifo", "pipe")
	before := fingerprint(t, dir)
	source := openSource(t, Options{Dir: dir})
	if info := source.Info(); info.Kind != KindCopy || info.Path != dir || !info.IncludedDirty {
		t.Fatalf("info = %+v", info)
	}
	tree := acquireFrom(t, source)
	if info := tree.Info(); len(info.Warnings) != 2 {
		t.Fatalf("info = %+v", info)
	}
	write(t, tree.Dir(), map[string]string{"x.o": "changed\n", "y.o": "ignored\n", "new": "n\n"})
	run(t, tree.Dir(), "mv", "d/b", "c")
	diff, _ := diffOf(t, tree)
	wantChanges(t, diff, "R d/b -> c", "A new", "M x.o")
	recycled(t, tree)
	wantUntouched(t, before, fingerprint(t, dir))

	write(t, dir, map[string]string{"a.txt": "changed\n", "added": "x\n"})
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
	isolate(t)
	inner := newRepo(t, map[string]string{"deep.txt": "deep\n"})
	lib := newRepo(t, map[string]string{"lib.txt": "lib\n", "x/y.txt": "y\n"})
	run(t, lib, "git", "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", inner, "inner")
	run(t, lib, "git", "commit", "-qam", "inner")
	repo := newRepo(t, map[string]string{"a.txt": "a\n"})
	run(t, repo, "git", "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", lib, "lib")
	run(t, repo, "git", "-c", "protocol.file.allow=always", "submodule", "--quiet", "update", "--init", "--recursive")
	run(t, repo, "git", "commit", "-qam", "lib")
	before := fingerprint(t, repo)
	cache := filepath.Join(t.TempDir(), "cache")
	for range 2 { // the second time from the record
		tree := acquire(t, Options{Dir: repo, CacheDir: cache, IncludeDirty: true})
		info := tree.Info()
		if len(info.Submodules) != 2 || !info.Submodules[0].Populated || info.Submodules[1].Path != "lib/inner" || !info.Submodules[1].Populated {
			t.Fatalf("submodules = %+v", info.Submodules)
		}
		if got, _ := os.ReadFile(filepath.Join(tree.Dir(), "lib/inner/deep.txt")); string(got) != "deep\n" {
			t.Fatalf("the inner submodule holds %q", got)
		}
		wantPristine(t, tree)
		write(t, tree.Dir(), map[string]string{"a.txt": "changed\n", "lib/lib.txt": "changed\n", "lib/new": "n\n"})
		os.Remove(filepath.Join(tree.Dir(), "lib/x/y.txt"))
		diff, patch := diffOf(t, tree)
		wantChanges(t, diff, "M a.txt")
		for _, path := range []string{"lib/lib.txt", "lib/new", "lib/x/y.txt"} {
			wantWarning(t, diff, WarnSubmodule, path)
		}
		if !diff.Incomplete || strings.Contains(patch, "160000") {
			t.Fatalf("incomplete = %v, patch:\n%s", diff.Incomplete, patch)
		}
		run(t, tree.Dir(), "rm", "-r", "lib")
		write(t, tree.Dir(), map[string]string{"lib": "now a file"})
		diff, _ = diffOf(t, tree)
		wantChanges(t, diff, "M a.txt")
		recycled(t, tree)
	}
	wantUntouched(t, before, fingerprint(t, repo))

	write(t, repo, map[string]string{"lib/lib.txt": "dirty\n"})
	_, err := Open(t.Context(), Options{Dir: repo, CacheDir: cache, IncludeDirty: true})
	wantCode(t, err, CodeDirtySubmodule)
	acquire(t, Options{Dir: repo, CacheDir: cache}) // without the changes it works

	clone := filepath.Join(t.TempDir(), "clone")
	run(t, "", "git", "clone", "-q", repo, clone)
	tree := acquire(t, Options{Dir: clone, CacheDir: cache})
	if info := tree.Info(); len(info.Submodules) != 1 || info.Submodules[0].Populated {
		t.Fatalf("submodules = %+v", info.Submodules)
	}
	wantPristine(t, tree)
}

func TestLFSPointersStay(t *testing.T) {
	isolate(t)
	pointer := "version https://git-lfs.github.com/spec/v1\noid sha256:" + strings.Repeat("ab", 32) + "\nsize 12345\n"
	repo := newRepo(t, map[string]string{"big.bin": pointer, ".gitattributes": "*.bin filter=lfs diff=lfs merge=lfs -text\n"})
	tree := acquire(t, Options{Dir: repo, IncludeDirty: true})
	if got, _ := os.ReadFile(filepath.Join(tree.Dir(), "big.bin")); string(got) != pointer {
		t.Fatalf("big.bin = %q", got)
	}
	write(t, tree.Dir(), map[string]string{"other.bin": "real\x00content"})
	diff, patch := diffOf(t, tree)
	wantChanges(t, diff, "A other.bin")
	roundTrip(t, repo, patch, diff)
}

func TestTwoTreesAtOnce(t *testing.T) {
	isolate(t)
	repo := newRepo(t, map[string]string{"a.txt": "a\n"})
	cache := filepath.Join(t.TempDir(), "cache")
	first, second := acquire(t, Options{Dir: repo, CacheDir: cache, Keep: 1}), acquire(t, Options{Dir: repo, CacheDir: cache, Keep: 1})
	if first.Dir() == second.Dir() {
		t.Fatal("two runs share a tree")
	}
	write(t, first.Dir(), map[string]string{"one": "1"})
	write(t, second.Dir(), map[string]string{"two": "2"})
	for tree, want := range map[*Tree]string{first: "A one", second: "A two"} {
		diff, _ := diffOf(t, tree)
		wantChanges(t, diff, want)
		if err := tree.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := tree.Release(t.Context()); err != nil {
			t.Fatalf("second release: %v", err)
		}
		_, err := tree.Diff(t.Context(), DiffOptions{Patch: filepath.Join(t.TempDir(), "p")})
		wantCode(t, err, CodeReleased)
	}
	if _, err := os.Stat(first.Dir()); err != nil {
		t.Fatalf("the kept tree is gone: %v", err)
	}
	if _, err := os.Stat(second.Dir()); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("the tree beyond Keep is still there: %v", err)
	}
}

// A holder that dies leaves everything as it was at that moment; the next one
// starts from the base all the same.
func TestCrashBetweenAcquireAndRelease(t *testing.T) {
	isolate(t)
	repo := newRepo(t, map[string]string{"a.txt": "a\n", "d/b.txt": "b\n"})
	cache := filepath.Join(t.TempDir(), "cache")
	for _, harm := range []string{
		"echo x > a.txt; rm -r d; echo y > new", "rm -rf ../git ../result", "rm ../index", "echo garbage > ../index", ": > ../index",
		"rm ../git/holon-format; rm -r ../git/refs", "mkdir -p ../trash/1/2/3; mkfifo ../trash/1/2/p; chmod 0 ../trash/1", "rm -rf .git; mkdir -p .git/a/b",
		"mkdir -p ../result/objects",
	} {
		tree := acquire(t, Options{Dir: repo, CacheDir: cache})
		write(t, tree.Dir(), map[string]string{"a.txt": "changed\n"})
		diffOf(t, tree)
		run(t, tree.Dir(), "sh", "-ec", harm)
		if err := tree.slot.unlock(); err != nil { // what the kernel does for the dead
			t.Fatal(err)
		}
		tree.slot.lock = nil
		next := acquire(t, Options{Dir: repo, CacheDir: cache})
		if next.Dir() != tree.Dir() {
			t.Fatalf("%s: the slot was not reused", harm)
		}
		wantPristine(t, next)
		if err := next.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// A base that moves between runs: only what differs is written.
func TestBaseMoves(t *testing.T) {
	isolate(t)
	repo := newRepo(t, map[string]string{"a.txt": "1\n", "stays": "s\n", "d/x": "x\n"})
	cache := filepath.Join(t.TempDir(), "cache")
	tree := acquire(t, Options{Dir: repo, CacheDir: cache})
	kept, _ := os.Lstat(filepath.Join(tree.Dir(), "stays"))
	if err := tree.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, step := range []string{"echo 2 > a.txt", "rm -r d; echo f > d", "rm d; mkdir d; echo y > d/y", "chmod +x a.txt", "rm a.txt; ln -s stays a.txt"} {
		run(t, repo, "sh", "-ec", step+"; git add -A; git commit -qm x")
		tree := acquire(t, Options{Dir: repo, CacheDir: cache})
		wantPristine(t, tree)
		now, err := os.Lstat(filepath.Join(tree.Dir(), "stays"))
		if err != nil || !os.SameFile(kept, now) {
			t.Fatalf("an unchanged file was rewritten: %v", err)
		}
		if err := tree.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestPrune(t *testing.T) {
	isolate(t)
	cache := filepath.Join(t.TempDir(), "cache")
	gone, stays := newRepo(t, map[string]string{"a": "a"}), newRepo(t, map[string]string{"a": "a"})
	released, kept := acquire(t, Options{Dir: gone, CacheDir: cache}), acquire(t, Options{Dir: stays, CacheDir: cache})
	if err := os.RemoveAll(gone); err != nil {
		t.Fatal(err)
	}
	if list, err := Prune(t.Context(), cache); err != nil || len(list) != 0 {
		t.Fatalf("pruned %v, %v while in use", list, err)
	}
	if err := released.slot.unlock(); err != nil {
		t.Fatal(err)
	}
	released.slot.lock = nil
	list, err := Prune(t.Context(), cache)
	if err != nil || !slices.Equal(list, []string{gone}) {
		t.Fatalf("pruned %v, %v; want %s", list, err, gone)
	}
	if _, err := os.Stat(filepath.Dir(released.slot.dir)); !errors.Is(err, os.ErrNotExist) {
		t.Fatal("the trees of a vanished repository are still there")
	}
	if _, err := os.Stat(kept.Dir()); err != nil {
		t.Fatal(err)
	}
	if list, err := Prune(t.Context(), filepath.Join(cache, "absent")); err != nil || list != nil {
		t.Fatalf("pruned %v, %v", list, err)
	}
}

func TestManyFiles(t *testing.T) {
	isolate(t)
	repo := filepath.Join(t.TempDir(), "repo")
	makeRepo(t, repo, 5000)
	tree := acquire(t, Options{Dir: repo})
	wantPristine(t, tree)
	run(t, tree.Dir(), "sh", "-ec", "echo changed >> d0/e7/f7.go; rm d1/e99/f4999.go; mkdir node_modules; cd node_modules; for i in $(seq 500); do echo $i > $i; done")
	diff, _ := diffOf(t, tree)
	if len(diff.Files) != 502 {
		t.Fatalf("%d changes", len(diff.Files))
	}
	recycled(t, tree)
}

func TestLimits(t *testing.T) {
	isolate(t)
	repo := newRepo(t, map[string]string{"a.txt": "a\n", "d/x": "x\n"})
	tree := acquire(t, Options{Dir: repo, Limits: Limits{FileBytes: 100, DiffBytes: 150, Files: 50}})
	write(t, tree.Dir(), map[string]string{"a.txt": strings.Repeat("x", 101), "b": strings.Repeat("x", 90), "c": strings.Repeat("x", 90)})
	run(t, tree.Dir(), "rm", "-r", "d")
	write(t, tree.Dir(), map[string]string{"d": strings.Repeat("x", 200)})
	diff, _ := diffOf(t, tree)
	wantChanges(t, diff, "A b") // d/x stays, as what took its place is left out
	wantWarning(t, diff, WarnFileTooLarge, "a.txt")
	wantWarning(t, diff, WarnFileTooLarge, "d")
	wantWarning(t, diff, WarnDiffTooLarge, "c")
	if !diff.Incomplete {
		t.Fatal("the diff says it is complete")
	}
	for i := range 60 {
		write(t, tree.Dir(), map[string]string{fmt.Sprint("n/", i): "x"})
	}
	diff, _ = diffOf(t, tree)
	wantWarning(t, diff, WarnTooManyFiles, "")
	if !diff.Incomplete {
		t.Fatal("the diff says it is complete")
	}
}

func TestCancelledDiff(t *testing.T) {
	isolate(t)
	tree := acquire(t, Options{Dir: newRepo(t, map[string]string{"a.txt": "a\n"})})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	patch := filepath.Join(t.TempDir(), "p")
	_, err := tree.Diff(ctx, DiffOptions{Patch: patch})
	wantCode(t, err, CodeCancelled)
	if entries, _ := os.ReadDir(filepath.Dir(patch)); len(entries) > 0 {
		t.Fatalf("left %v", entries)
	}
	diffOf(t, tree)
}

// makeRepo makes n files of about 2 KiB, 50 in a folder, three deep.
func makeRepo(t testing.TB, dir string, n int) {
	t.Helper()
	run(t, "", "git", "init", "-q", "-b", "main", dir)
	var stream bytes.Buffer
	stream.WriteString("commit refs/heads/main\ncommitter P <p@localhost> 1700000000 +0000\ndata 4\ninit\n")
	for i := range n {
		content := strings.Repeat(fmt.Sprintf("line of file %d, %x\n", i, i*7919), 30+i%80)
		fmt.Fprintf(&stream, "M 100644 inline d%d/e%d/f%d.go\ndata %d\n%s\n", i/2500, i/50%50+i/2500*50, i, len(content), content)
	}
	cmd := exec.CommandContext(t.Context(), "git", "fast-import", "--quiet")
	cmd.Dir, cmd.Stdin = dir, &stream
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("fast-import: %v\n%s", err, out)
	}
	run(t, dir, "git", "reset", "-q", "--hard")
}
