package workspace

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holon/test/expect"
	"holon/test/gittest"
)

// The diff shows each kind of change that an agent can make to a tree.
func TestDiff(t *testing.T) {
	t.Parallel()
	base := map[string]string{
		"a.txt": "one\ntwo\nthree\nfour\nfive\nsix\n", "d/b.txt": "b1\nb2\nb3\nb4\n", "d/c.txt": "c\n",
		"run.sh": "#!/bin/sh\n",
		"link":   "-> a.txt", "bin": "\x00\x01\x02", "empty": "", ".gitignore": "*.log\nbuild/\n!keep.log\n",
		"d/.gitignore": "/only-here\n",
		"crlf.txt":     "x\r\ny\r\n", "sp ace\t\"q\".txt": "q\n",
	}
	repo := gittest.NewRepo(t, base)
	before := gittest.Fingerprint(t, repo)
	source := openSource(t, Options{Dir: repo})
	head := strings.TrimSpace(gittest.Run(t, repo, "git", "rev-parse", "HEAD"))
	sh := func(script string) func(*testing.T, string) {
		return func(t *testing.T, dir string) { gittest.Run(t, dir, "sh", "-ec", script) }
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
		{"same size and time", sh("touch -r a.txt /tmp/ref.$$; printf 'one\\ntwo\\nthree\\nfour\\nfive\\nsiX\\n' > " +
			"a.txt; touch -r /tmp/ref.$$ a.txt; rm /tmp/ref.$$"), []string{"M a.txt"}},
		{"rename", sh("mv a.txt z.txt"), []string{"R a.txt -> z.txt"}},
		{"rename and edit", sh("mv a.txt z.txt; echo seven >> z.txt"), []string{"R a.txt -> z.txt"}},
		{"swap", sh("mv d/b.txt t; mv d/c.txt d/b.txt; mv t d/c.txt"), []string{"M d/b.txt", "M d/c.txt"}},
		{"delete", sh("rm -r d bin"), []string{"D bin", "D d/.gitignore", "D d/b.txt", "D d/c.txt"}},
		{"delete all", sh("rm -rf * .gitignore"),
			[]string{"D .gitignore", "D a.txt", "D bin", "D crlf.txt", "D d/.gitignore", "D d/b.txt",
				"D d/c.txt", "D empty", "D link", "D run.sh", "D sp ace\t\"q\".txt"}},
		{"mode", sh("chmod +x a.txt; chmod -x run.sh"), []string{"M a.txt", "M run.sh"}},
		{"link target", sh("ln -sfn run.sh link"), []string{"M link"}},
		{"file to link", sh("rm a.txt; ln -s run.sh a.txt"), []string{"T a.txt"}},
		{"link to file", sh("rm link; echo x > link"), []string{"T link"}},
		{"file to directory", sh("rm a.txt; mkdir a.txt; echo x > a.txt/in"), []string{"D a.txt", "A a.txt/in"}},
		{"directory to file", sh("rm -r d; echo x > d"), []string{"A d", "D d/.gitignore", "D d/b.txt", "D d/c.txt"}},
		{"new files", sh("mkdir -p n/m; echo 1 > n/m/f; echo 2 > top; : > nil"), []string{"A n/m/f", "A nil", "A top"}},
		{"empty directory", sh("mkdir -p n/m"), nil},
		{"ignored", sh("echo 1 > x.log; echo 1 > keep.log; mkdir build; echo 1 > build/o; echo 1 > d/only-here; " +
			"echo 1 > only-here; mkdir -p e/build; echo 1 > e/build/y"),
			[]string{"A keep.log", "A only-here"}},
		{"own ignore file", sh("mkdir n; echo 'secret' > n/.gitignore; echo 1 > n/secret; echo 1 > n/open; echo " +
			"'*.tmp' >> .gitignore; echo 1 > x.tmp"),
			[]string{"M .gitignore", "A n/.gitignore", "A n/open"}},
		{"ignore everything", sh("echo '*' > .gitignore; echo 1 > new; echo 2 >> a.txt"),
			[]string{"M .gitignore", "M a.txt"}},
		{"pathspec magic in names", sh("echo 1 > ':(top)x'; echo 1 > ':!y'; mkdir ':'; echo 1 > ':/z'; echo 1 > '*'"),
			[]string{"A *", "A :!y", "A :(top)x", "A :/z"}},
		{"agent commit", sh("echo x >> a.txt; git add -A; git commit -qm x; echo y > new; git add new"),
			[]string{"M a.txt", "A new"}},
		{"branches and gc", sh("git checkout -qb other; echo x > new; git add -A; git commit -qm x; git checkout -q " +
			"main; git merge -q other; git gc -q --prune=now; git branch -D other"),
			[]string{"A new"}},
		{"amended away", sh("git rm -q d/c.txt; git commit -q --amend -m y; git update-ref -d refs/heads/main"),
			[]string{"D d/c.txt"}},
		{"no repository", sh("rm -rf .git; echo x > new"), []string{"A new"}},
		{"crlf", sh("printf 'z\\r\\n' >> crlf.txt; printf 'n\\r\\n' > new.txt; echo '* text=auto eol=crlf' > " +
			".gitattributes"),
			[]string{"A .gitattributes", "M crlf.txt", "A new.txt"}},
		{"odd names", func(t *testing.T, dir string) {
			for _, name := range []string{"new\nline", "tab\there", "\xff\xfe", "esc\x1b[31m", " lead", "trail ",
				`back\slash`, `"q"`, "ünï"} {
				expect.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o644))
			}
		}, []string{"A \x20lead", `A "q"`, `A back\slash`, "A esc\x1b[31m", "A new\nline", "A tab\there", "A trail ",
			"A ünï", "A \xff\xfe"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tree := acquireFrom(t, source)
			tc.do(t, tree.Dir())
			diff, patch := diffOf(t, tree)
			wantChanges(t, diff, tc.want...)
			if diff.Incomplete {
				t.Error("the diff is incomplete, want all of it")
			}
			expect.Equal(t, "base commit", diff.BaseCommit, head)
			roundTrip(t, repo, patch, diff)
			gittest.WantUntouched(t, before, gittest.Fingerprint(t, repo))
			recycled(t, tree)
		})
	}
}

// roundTrip applies the patch to the user's commit, in an index and a store of its own, and compares the tree with the
// result.
func roundTrip(t *testing.T, repo, patch string, diff *Diff) {
	t.Helper()
	if patch == "" {
		return
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "p")
	expect.NoError(t, os.WriteFile(file, []byte(patch), 0o600))
	got := gittest.Run(t, repo, "env", "GIT_INDEX_FILE="+filepath.Join(dir, "index"), "GIT_OBJECT_DIRECTORY="+dir,
		"GIT_ALTERNATE_OBJECT_DIRECTORIES="+filepath.Join(repo, ".git/objects"), "sh", "-ec",
		`git read-tree HEAD; git apply --cached --whitespace=nowarn "$0"; git write-tree`, file)
	if got = strings.TrimSpace(got); got != diff.ResultTree {
		t.Fatalf("the patch makes tree %s, the diff says %s\n%s", got, diff.ResultTree, patch)
	}
}

// recycled releases the tree and checks that it is the base again.
func recycled(t *testing.T, tree *Tree) {
	t.Helper()
	expect.NoError(t, tree.Release(t.Context()))
	again, err := tree.source.Acquire(t.Context())
	expect.NoError(t, err)
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
		if out := gittest.Run(t, tree.Dir(), "git", "status", "--porcelain", "--ignored"); out != "" {
			t.Fatalf("git status says:\n%s", out)
		}
		gittest.Run(t, tree.Dir(), "git", "fsck", "--connectivity-only")
	}
	diff, patch := diffOf(t, tree)
	if patch != "" || len(diff.Files) > 0 {
		t.Fatalf("a fresh tree differs from its base:\n%s", patch)
	}
	for i := range tree.record.entries {
		e := &tree.record.entries[i]
		st, err := os.Lstat(filepath.Join(tree.Dir(), e.Path))
		expect.NoError(t, err)
		if want := os.FileMode(e.Mode & 0o777); st.Mode().IsRegular() && st.Mode().Perm() != want {
			t.Fatalf("%s has mode %v, want %v", e.Path, st.Mode(), want)
		}
	}
}
