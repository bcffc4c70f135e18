package patch

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A patch changes nothing but files of the tree, and
// those too when it fails.
func FuzzApply(f *testing.F) {
	for _, s := range seeds {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		outer := t.TempDir()
		dir := filepath.Join(outer, "tree")
		files{
			"secret": "a\n", "tree/f": abc, "tree/d/g": "a\r\nb\r\n", "tree/.git/config": "a\n",
			"tree/out": "->..", "tree/link": "->f", "tree/git": "->.git",
		}.make(t, outer)
		before := read(t, outer)
		res, bad := apply(t.Context(), dir, text)
		after := read(t, outer)
		if bad != nil {
			if diff := cmp.Diff(before, after); diff != "" {
				t.Fatalf("failed with %v, but:\n%s", bad, diff)
			}
			return
		}
		switch {
		case cmp.Equal(before, after):
			t.Fatal("cmp.Equal(before, after) = true, want false")
		case len(res.ChangedFiles) == 0:
			t.Fatal("len(res.ChangedFiles) = 0, want another length")
		case len(res.ChangedFiles) != res.ChangedFileCount:
			t.Fatalf("len(res.ChangedFiles) = %d (%+v), want %d", len(res.ChangedFiles), res.ChangedFiles,
				res.ChangedFileCount)
		}
		for name := range after {
			if strings.Contains(name, ".holon-") {
				t.Fatalf("left %s", name)
			}
		}
		for _, name := range []string{"secret", "tree/.git/config", "tree/out", "tree/link", "tree/git"} {
			if before[name] != after[name] {
				t.Fatalf("%s was changed", name)
			}
		}
		entries, err := os.ReadDir(outer)
		if err != nil || len(entries) != 2 {
			t.Fatalf("outside: %v, %v", entries, err)
		}
		if _, err := os.Lstat(filepath.Join(dir, ".git", "config")); err != nil {
			t.Fatal(err)
		}
		if list, err := fs.ReadDir(os.DirFS(dir), ".git"); err != nil || len(list) != 1 {
			t.Fatalf(".git: %v, %v", list, err)
		}
	})
}

var seeds = []string{
	"--- a/f\n+++ b/f\n@@ -2,3 +2,3 @@\n b\n-c\n+C\n d\n",
	"--- a/d/g\n+++ b/d/g\n@@\n-a\n+A\n",
	"--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+x\n\\ No newline at end of file\n",
	"diff --git a/f b/x/y\nsimilarity index 90%\nrename from f\nrename to x/y\n",
	"diff --git a/f b/f\nold mode 100644\nnew mode 100755\n",
	"diff --git \"a/f\" \"b/f\\303\"\ndeleted file mode 100644\n",
	"*** Begin Patch\n*** Update File: f\n*** Move to: h\n@@ a\n-b\n+B\n*** End of File\n*** Add File: n\n+1\n*** " +
		"Delete File: d/g\n*** End Patch\n",
	"```diff\n--- f\n+++ f\n a\n-b\n+B\n```\n",
	"--- a/f\r\n+++ b/f\r\n@@ -1 +1 @@\r\n-a\r\n+A\r\n",
	"--- a/../secret\n+++ b/../secret\n@@ -1 +1 @@\n-a\n+A\n",
	"--- a/out/secret\n+++ b/out/secret\n@@ -1 +1 @@\n-a\n+A\n",
	"--- a/link\n+++ b/link\n@@ -1 +1 @@\n-a\n+A\n",
	"--- a/git/config\n+++ b/git/config\n@@ -1 +1 @@\n-a\n+A\n",
	"--- a/.git/config\n+++ b/.git/config\n@@ -1 +1 @@\n-a\n+A\n",
	"--- a/f\n+++ /dev/null\n@@ -1,6 +0,0 @@\n-a\n-b\n-c\n-d\n-e\n-f\n--- /dev/null\n+++ b/f/g\n@@ -0,0 +1 @@\n+y\n",
	"GIT binary patch\nliteral 0\n", "-- \n1.2\n", "@@ -1 +1 @@", "--- \"a", "diff --git ", "+++ ",
}
