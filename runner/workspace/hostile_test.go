package workspace

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"holon/test/expect"
	"holon/test/gittest"

	"golang.org/x/sys/unix"
)

// Hostile trees: nothing outside is read or written, nothing planted is run.
func TestUserHostileTree(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	gittest.Write(t, outside, map[string]string{"secret": "secret\n", "d/b.txt": "outside\n"})
	marker := filepath.Join(t.TempDir(), "marker")
	repo := gittest.NewRepo(t, map[string]string{"a.txt": "a\n", "d/b.txt": "b\n", "link.sh": "#!/bin/sh\n",
		".gitignore": "*.log\n"})
	before := gittest.Fingerprint(t, repo)
	source := openSource(t, Options{Dir: repo})
	plant := "echo run >> " + marker + "; cat"
	for _, tc := range []struct {
		name     string
		do       func(t *testing.T, dir string)
		want     []string
		warnings []string // "code path"
		binary   int      // files of the patch
	}{
		{name: "git replaced by a link", do: func(t *testing.T, dir string) {
			gittest.Run(t, dir, "rm", "-rf", ".git")
			gittest.Write(t, dir, map[string]string{".git": "-> " + outside})
		}},
		{name: "git replaced by a FIFO", do: func(t *testing.T, dir string) {
			gittest.Run(t, dir, "rm", "-rf", ".git")
			gittest.Run(t, dir, "mkfifo", ".git")
		}},
		{name: "directory swapped for a link", do: func(t *testing.T, dir string) {
			gittest.Run(t, dir, "rm", "-r", "d")
			gittest.Write(t, dir, map[string]string{"d": "-> " + outside + "/d"})
		}, want: []string{"A d", "D d/b.txt"}, warnings: []string{warnOutsideLink + " d"}},
		{name: "file swapped for a link", do: func(t *testing.T, dir string) {
			gittest.Write(t, dir, map[string]string{"a.txt": "-> " + outside + "/secret"})
		}, want: []string{"T a.txt"}, warnings: []string{warnOutsideLink + " a.txt"}},
		{name: "special files", do: func(t *testing.T, dir string) {
			gittest.Run(t, dir, "sh", "-ec", "rm a.txt; mkfifo a.txt; mkfifo new; mkfifo x.log; mkdir n; "+
				"mkfifo n/f; mknod "+
				"dev c 1 3 || mkfifo dev")
			expect.NoError(t, unix.Mknod(filepath.Join(dir, "sock"), unix.S_IFSOCK|0o600, 0))
		}, warnings: []string{warnSpecialFile + " a.txt", warnSpecialFile + " dev", warnSpecialFile + " n/f",
			warnSpecialFile + " new", warnSpecialFile + " sock"}},
		{name: "cut-off patch", do: func(t *testing.T, dir string) {
			gittest.Write(t, dir, map[string]string{".holon-0123456789ab-1": "x",
				"d/.holon-0123456789ab-20": "-> b.txt",
				"n/.holon-abcdefabcdef-3":  "x", ".holon-abcdefabcdef-9.log": "",
				".holon-notes": "kept", ".holon-0123456789ab-": "kept", ".holon-0123456789AB-1": "kept",
				"n/.holon-0123456789ab-1/f": "kept"})
			gittest.Run(t, dir, "mv", "a.txt", "d/.holon-0123456789ab-3")
		}, want: []string{"A .holon-0123456789AB-1", "A .holon-0123456789ab-", "A .holon-notes", "D a.txt",
			"A n/.holon-0123456789ab-1/f"},
			warnings: []string{warnLeftover + " .holon-0123456789ab-1", warnLeftover + " d/.holon-0123456789ab-20",
				warnLeftover + " d/.holon-0123456789ab-3", warnLeftover + " n/.holon-abcdefabcdef-3"}},
		{name: "filters, hooks and monitors", do: func(t *testing.T, dir string) {
			gittest.Write(t, dir, map[string]string{
				".gitattributes":               "* filter=x diff=x merge=x\n",
				".git/hooks/post-index-change": "#!/bin/sh\n" + plant, ".git/hooks/pre-commit": "#!/bin/sh\n" + plant,
				".git/hooks/reference-transaction": "#!/bin/sh\n" + plant,
				".git/config": "[core]\n\tfsmonitor = " + plant + "\n\tpager = " + plant + "\n\tsshCommand = " + plant +
					"\n\teditor = " + plant + "\n\tattributesFile = .gitattributes\n" +
					"[filter \"x\"]\n\tclean = " + plant + "\n\tsmudge = " + plant + "\n\tprocess = " + plant +
					"\n\trequired = true\n" +
					"[diff \"x\"]\n\ttextconv = " + plant + "\n\tcommand = " + plant + "\n[diff]\n\texternal = " +
					plant + "\n[credential]\n\thelper = \"!" + plant + "\"\n",
				".git/info/attributes": "* filter=x diff=x\n",
				".git/info/exclude":    "*\n",
				"a.txt":                "changed\n",
			})
		}, want: []string{"A .gitattributes", "M a.txt"}},
		{name: "disguises of .git", do: func(t *testing.T, dir string) {
			gittest.Write(t, dir, map[string]string{".GIT/config": "x", "git~1": "x", ".git. /x": "x",
				".g\u200cit/x": "x",
				".git::$INDEX": "x",
				".gitx":        "fine", "d/.Git": "x", `.git\x`: "x", ".GITMODULES": "-> a.txt"})
		}, want: []string{"A .gitx"}, warnings: []string{warnUnsafeName + " .GIT", warnUnsafeName + " git~1",
			warnUnsafeName + " .g\u200cit",
			warnUnsafeName + " d/.Git", warnUnsafeName + ` .git\x`, warnUnsafeName + " .GITMODULES"}},
		{name: "nested repositories", do: func(t *testing.T, dir string) {
			gittest.Run(t, dir, "sh", "-ec", "mkdir n; cd n; git init -q; echo 1 > f; git add .; "+
				"git -c user.name=x -c "+
				"user.email=x commit -qm x; cd ..; git -C d init -q; mkdir m; echo gitdir: /etc > m/.git; echo 2 > m/f")
		}, want: []string{"A m/f", "A n/f"}, warnings: []string{warnNestedRepository + " n",
			warnNestedRepository + " m", warnNestedRepository + " d"}},
		{name: "ignore file is a link", do: func(t *testing.T, dir string) {
			gittest.Write(t, outside, map[string]string{"patterns": "*\n"})
			gittest.Write(t, dir, map[string]string{".gitignore": "-> " + outside + "/patterns", "new": "x",
				"x.log": "x"})
		}, want: []string{"T .gitignore", "A new", "A x.log"}, warnings: []string{warnOutsideLink + " .gitignore"}},
		{name: "too deep", do: func(t *testing.T, dir string) {
			deep(t, dir, "deep", 3000)
			gittest.Write(t, dir, map[string]string{"new": "x"})
		}, want: []string{"A new"}},
		{name: "sparse", do: func(t *testing.T, dir string) {
			gittest.Run(t, dir, "truncate", "-s", "10G", "big")
			gittest.Run(t, dir, "truncate", "-s", "10G", "a.txt")
			gittest.Write(t, dir, map[string]string{"new": "x"})
		}, want: []string{"A new"}, warnings: []string{warnFileTooLarge + " big", warnFileTooLarge + " a.txt"}},
		{name: "many lines", do: func(t *testing.T, dir string) {
			for _, name := range []string{"big", `odd [a*]"\ name`} {
				gittest.Write(t, dir, map[string]string{name: strings.Repeat("\n", maxLines+1)})
			}
			gittest.Write(t, dir, map[string]string{"odd a name": "text\n"})
		}, want: []string{"A big", `A odd [a*]"\ name`, "A odd a name"}, warnings: []string{warnManyLines + " big",
			warnManyLines + ` odd [a*]"\ name`}, binary: 2},
		{name: "hard links", do: func(t *testing.T, dir string) {
			gittest.Run(t, dir, "sh", "-ec", "ln a.txt hard; echo more >> hard")
		}, want: []string{"M a.txt", "A hard"}},
		{name: "permissions", do: func(t *testing.T, dir string) {
			gittest.Run(t, dir, "sh", "-ec", "echo x > d/new; chmod 000 d/new a.txt; mkdir n; echo x > n/f; "+
				"chmod 000 n d; "+
				"chmod 4755 link.sh; chmod 1777 .")
		}, want: []string{"A d/new", "A n/f"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tree := acquireFrom(t, source)
			tc.do(t, tree.Dir())
			outsideBefore := gittest.Fingerprint(t, outside)
			diff, patch := diffOf(t, tree)
			wantChanges(t, diff, tc.want...)
			expect.Equal(t, "files are compared as binary data", strings.Count(patch, "GIT binary patch"), tc.binary)
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
			gittest.WantUntouched(t, outsideBefore, gittest.Fingerprint(t, outside))
			gittest.WantUntouched(t, before, gittest.Fingerprint(t, repo))
		})
	}
}

// A tracked file is part of the diff, even if it has the name of a temporary file of a patch.
func TestTrackedLeftover(t *testing.T) {
	t.Parallel()
	const name = ".holon-0123456789ab-1"
	tree := acquire(t, Options{Dir: gittest.NewRepo(t, map[string]string{name: "a\n"})})
	diff, _ := diffOf(t, tree)
	wantChanges(t, diff)
	gittest.Write(t, tree.Dir(), map[string]string{name: "b\n"})
	diff, _ = diffOf(t, tree)
	wantChanges(t, diff, "M "+name)
}

// deep makes a chain of directories longer than any path may be.
func deep(t *testing.T, dir, name string, levels int) {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	expect.NoError(t, err)
	for range levels {
		expect.NoError(t, unix.Mkdirat(fd, name, 0o755))
		next, err := unix.Openat(fd, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		unix.Close(fd)
		expect.NoError(t, err)
		fd = next
	}
	file, err := unix.Openat(fd, "bottom", unix.O_CREAT|unix.O_WRONLY, 0o644)
	unix.Close(fd)
	expect.NoError(t, err)
	unix.Close(file)
}

func TestLimits(t *testing.T) {
	t.Parallel()
	repo := gittest.NewRepo(t, map[string]string{"a.txt": "a\n", "d/x": "x\n"})
	tree := acquire(t, Options{Dir: repo, Limits: Limits{FileBytes: 100, DiffBytes: 150, Files: 50}})
	gittest.Write(t, tree.Dir(), map[string]string{"a.txt": strings.Repeat("x", 101), "b": strings.Repeat("x", 90),
		"c": strings.Repeat("x", 90)})
	gittest.Run(t, tree.Dir(), "rm", "-r", "d")
	gittest.Write(t, tree.Dir(), map[string]string{"d": strings.Repeat("x", 200)})
	diff, _ := diffOf(t, tree)
	wantChanges(t, diff, "A b") // d/x stays, as what took its place is left out
	wantWarning(t, diff, warnFileTooLarge, "a.txt")
	wantWarning(t, diff, warnFileTooLarge, "d")
	wantWarning(t, diff, warnDiffTooLarge, "c")
	if !diff.Incomplete {
		t.Fatal("the diff says it is complete")
	}
	for i := range 60 {
		gittest.Write(t, tree.Dir(), map[string]string{fmt.Sprint("n/", i): "x"})
	}
	diff, _ = diffOf(t, tree)
	wantWarning(t, diff, warnTooManyFiles, "")
	if !diff.Incomplete {
		t.Fatal("the diff says it is complete")
	}
}

// Permissions that the agent took away, from the tree or within it, hide no change.
func TestUserClosedTree(t *testing.T) {
	t.Parallel()
	repo := gittest.NewRepo(t, map[string]string{"a": "a\n", "d/b": "b\n", "d/e/c": "c\n"})
	source := openSource(t, Options{Dir: repo})
	for _, mode := range []os.FileMode{0, 0o100, 0o200, 0o300, 0o400, 0o500, 0o600} {
		for _, closed := range []string{"d/e/c", "new", "d/e", "n", "d", "."} {
			tree := acquireFrom(t, source)
			gittest.Write(t, tree.Dir(), map[string]string{"d/e/c": "changed\n", "n/f": "new\n", "new": "new\n"})
			expect.NoError(t, os.Chmod(filepath.Join(tree.Dir(), closed), mode))
			diff, _ := diffOf(t, tree)
			wantChanges(t, diff, "M d/e/c", "A n/f", "A new")
			recycled(t, tree)
		}
	}
}

// Names without end: the lists that a manifest gets stay within bounds, and what fits is there.
func TestManyNames(t *testing.T) {
	t.Parallel()
	repo := gittest.NewRepo(t, map[string]string{"a": "a\n", "d/b": "b\n", "gone": "x\n"})
	const most = 512 << 10
	source := openSource(t, Options{Dir: repo, Limits: Limits{NameBytes: most}})
	for name, plant := range map[string]func(t *testing.T, dir string, i int){
		"control characters": func(t *testing.T, dir string, i int) {
			gittest.Write(t, dir, map[string]string{fmt.Sprint("d/", strings.Repeat("\x01", 240), i): ""})
		},
		"not UTF-8": func(t *testing.T, dir string, i int) {
			gittest.Write(t, dir, map[string]string{fmt.Sprint("n/", strings.Repeat("\xff", 240), i): ""})
		},
		"directories": func(t *testing.T, dir string, i int) {
			gittest.Write(t, dir, map[string]string{fmt.Sprintf("d/%s%d/f", strings.Repeat("\x04", 240), i): ""})
		},
		"disguises": func(t *testing.T, dir string, i int) {
			gittest.Write(t, dir, map[string]string{fmt.Sprint("d/.git:", strings.Repeat("\x02", 240), i): ""})
		},
		"pipes": func(t *testing.T, dir string, i int) {
			expect.NoError(t, unix.Mkfifo(filepath.Join(dir, fmt.Sprint(strings.Repeat("\x03", 240), i)), 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			tree := acquireFrom(t, source)
			for i := range 700 {
				plant(t, tree.Dir(), i)
			}
			gittest.Write(t, tree.Dir(), map[string]string{"a": "changed\n"})
			gittest.Run(t, tree.Dir(), "rm", "gone")
			diff, _ := diffOf(t, tree)
			text, err := json.Marshal(diff)
			if err != nil || len(text) > most+maxWarningBytes+10_000 {
				t.Errorf("the diff has %d bytes as JSON, %v", len(text), err)
			}
			if list := changes(diff); !slices.Contains(list, "M a") || !slices.Contains(list, "D gone") || !diff.Incomplete {
				t.Errorf("the changes are %q, incomplete: %v, want M a and D gone of an incomplete one", list, diff.Incomplete)
			}
			recycled(t, tree)
		})
	}
}

// A user's repository with more files than a manifest lists can be emptied.
func TestManyDeleted(t *testing.T) {
	t.Parallel()
	diff := &comparison{Diff: Diff{Files: make([]FileChange, 100_000)}}
	for i := range diff.Files {
		diff.Files[i] = FileChange{Path: fmt.Sprint(strings.Repeat("x", 100), i), Status: "deleted", OldMode: "100644"}
	}
	diff.shorten()
	text, err := json.MarshalIndent(diff, "      ", "  ")
	if err != nil || len(text) > maxListed+10_000 || len(diff.Files) < 50_000 || len(diff.Warnings) != 1 {
		t.Errorf("%d bytes with %d files and the warnings %+v (%v)", len(text), len(diff.Files), diff.Warnings, err)
	}
}

// Files that were almost renamed, each of which git would compare with all others: the search for renamed files ends,
// and the change is complete without it.
func TestManyAlmostRenamed(t *testing.T) {
	if testing.Short() {
		t.Skip("git works for seconds")
	}
	t.Parallel()
	const files, lines = 1000, 500 // as many files as git looks at, which it compares for many seconds
	w := newAgentWork(t, gittest.NewRepo(t, map[string]string{"a": "a\n"}))
	text := func(file, from int) string {
		var b strings.Builder
		for line := range lines {
			fmt.Fprintf(&b, "%x\n", (file<<20+line+from)*0x9e3779b1)
		}
		return b.String()
	}
	for i := range files {
		gittest.Write(t, w.dir, map[string]string{fmt.Sprintf("old/%d", i): text(i, 0)})
	}
	w.commitAll(t)
	tree := acquire(t, w.options)
	gittest.Run(t, tree.Dir(), "rm", "-r", "old")
	for i := range files {
		gittest.Write(t, tree.Dir(), map[string]string{fmt.Sprintf("new/n%d", i): text(i, lines*6/10)})
	}
	diff, patch := diffOf(t, tree)
	expect.Equal(t, "files", len(diff.Files), 2*files)
	expect.Equal(t, "parts of the patch", strings.Count(patch, "\ndiff --git "), 2*files-1)
	expect.Equal(t, "incomplete", diff.Incomplete, false)
	wantWarning(t, diff, warnSlowRenames, "")
}
