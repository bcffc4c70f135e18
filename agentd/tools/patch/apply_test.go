package patch

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"holon/agentd/tools"
)

// files maps a path to content; "->x" is a symbolic link to x, and a key that
// ends in ! is executable; one that ends in / is an empty directory.
type files map[string]string

func (f files) make(t testing.TB, top string) {
	t.Helper()
	for name, data := range f {
		if dir, ok := strings.CutSuffix(name, "/"); ok {
			if err := os.MkdirAll(filepath.Join(top, dir), 0o755); err != nil {
				t.Fatal(err)
			}
			continue
		}
		path, mode := filepath.Join(top, strings.TrimSuffix(name, "!")), fs.FileMode(0o644)
		if strings.HasSuffix(name, "!") {
			mode = 0o755
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if target, ok := strings.CutPrefix(data, "->"); ok {
			err = os.Symlink(target, path)
		} else {
			err = os.WriteFile(path, []byte(data), mode)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// read returns everything below dir, empty directories as "dir/".
func read(t testing.TB, dir string) files {
	t.Helper()
	got := files{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		switch {
		case d.IsDir():
			if list, err := os.ReadDir(path); err == nil && len(list) == 0 && path != dir {
				got[name+"/"] = ""
			}
		case d.Type()&fs.ModeSymlink != 0:
			target, _ := os.Readlink(path)
			got[name] = "->" + target
		case d.Type().IsRegular():
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if fi, _ := d.Info(); fi.Mode()&0o100 != 0 {
				name += "!"
			}
			got[name] = string(data)
		default:
			got[name] = "special"
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

const abc = "a\nb\nc\nd\ne\nf\n"

type applyCase struct {
	name   string
	before files
	patch  string
	after  files    // of what differs; "" deletes
	diags  []string // kinds
	kind   string   // of the error; then nothing may change
}

func (c applyCase) run(t *testing.T) {
	dir := t.TempDir()
	c.before.make(t, dir)
	want := read(t, dir)
	res, bad := apply(context.Background(), dir, c.patch)
	if c.kind != "" {
		if bad == nil || bad.Kind != c.kind {
			t.Fatalf("error %+v, want %s", bad, c.kind)
		}
		if bad.RecoveryHint == "" {
			t.Error("the error has no hint")
		}
	} else if bad != nil {
		t.Fatalf("%s: %s\n%v", bad.Kind, bad.Message, bad.Details)
	}
	for name, data := range c.after {
		if data == "" {
			delete(want, name)
		} else {
			want[name] = strings.TrimSuffix(data, "<empty>")
		}
	}
	if diff := cmp.Diff(want, read(t, dir)); diff != "" {
		t.Error(diff)
	}
	var kinds []string
	for _, d := range res.Diagnostics {
		kinds = append(kinds, d.Kind)
	}
	if diff := cmp.Diff(c.diags, kinds); diff != "" {
		t.Errorf("diagnostics:\n%s", diff)
	}
}

func runAll(t *testing.T, cases []applyCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, c.run)
	}
}

func TestUnified(t *testing.T) {
	one := files{"f": abc}
	head := "--- a/f\n+++ b/f\n"
	runAll(t, []applyCase{
		{name: "exact", before: one, patch: head + "@@ -2,3 +2,3 @@\n b\n-c\n+C\n d\n",
			after: files{"f": "a\nb\nC\nd\ne\nf\n"}},
		{name: "no newline at the end of the patch", before: one, patch: head + "@@ -2,3 +2,3 @@\n b\n-c\n+C\n d",
			after: files{"f": "a\nb\nC\nd\ne\nf\n"}},
		{name: "two hunks", before: one, patch: head + "@@ -1,2 +1,2 @@\n-a\n+A\n b\n@@ -5,2 +5,3 @@\n e\n-f\n+F\n+G\n",
			after: files{"f": "A\nb\nc\nd\ne\nF\nG\n"}},
		{name: "hunks out of order", before: one,
			patch: head + "@@ -5,2 +5,2 @@\n e\n-f\n+F\n@@ -1,2 +1,2 @@\n-a\n+A\n b\n",
			after: files{"f": "A\nb\nc\nd\ne\nF\n"}},
		{name: "insertion only", before: one, patch: head + "@@ -2,0 +3,1 @@\n+new\n",
			after: files{"f": "a\nb\nnew\nc\nd\ne\nf\n"}},
		{name: "insertion at the top", before: one, patch: head + "@@ -0,0 +1 @@\n+new\n",
			after: files{"f": "new\n" + abc}},
		{name: "into an empty file", before: files{"f": ""}, patch: head + "@@ -0,0 +1 @@\n+new\n",
			after: files{"f": "new\n"}},
		{name: "everything goes but the file", before: files{"f": "a\n"}, patch: head + "@@ -1 +0,0 @@\n-a\n",
			after: files{"f": "<empty>"}},
		{name: "time stamps", before: one, patch: "--- a/f\t2026-01-01 00:00:00\n+++ b/f\t2026-01-01 00:00:01\n@@ " +
			"-1 +1 @@\n-a\n+A\n", after: files{"f": "A\nb\nc\nd\ne\nf\n"}},
		{name: "no prefixes", before: one, patch: "--- f\n+++ f\n@@ -1 +1 @@\n-a\n+A\n",
			after: files{"f": "A\nb\nc\nd\ne\nf\n"}},
		{name: "prefix on one side", before: one, patch: "--- a/f\n+++ f\n@@ -1 +1 @@\n-a\n+A\n",
			after: files{"f": "A\nb\nc\nd\ne\nf\n"}},
		{name: "mnemonic prefixes", before: one, patch: "diff --git i/f w/f\n--- i/f\n+++ w/f\n@@ -1 +1 @@\n-a\n+A\n",
			after: files{"f": "A\nb\nc\nd\ne\nf\n"}},
		{name: "a directory a", before: files{"a/f": abc}, patch: "--- a/f\n+++ a/f\n@@ -1 +1 @@\n-a\n+A\n",
			after: files{"a/f": "A\nb\nc\nd\ne\nf\n"}},
		{name: "a directory c", before: files{"c/f": abc}, patch: "--- c/f\n+++ c/f\n@@ -1 +1 @@\n-a\n+A\n",
			after: files{"c/f": "A\nb\nc\nd\ne\nf\n"}},
		{name: "only the new name", before: one, patch: "+++ b/f\n@@ -1 +1 @@\n-a\n+A\n",
			after: files{"f": "A\nb\nc\nd\ne\nf\n"}},
		{name: "only the old name", before: one, patch: "--- a/f\n@@ -1 +1 @@\n-a\n+A\n",
			after: files{"f": "A\nb\nc\nd\ne\nf\n"}},
		{name: "spaces in the name", before: files{"my file": abc},
			patch: "diff --git a/my file b/my file\n--- a/my file\t\n+++ b/my file\t\n@@ -1 +1 @@\n-a\n+A\n",
			after: files{"my file": "A\nb\nc\nd\ne\nf\n"}},
		{name: "quoted name", before: files{"fä": abc},
			patch: "--- \"a/f\\303\\244\"\n+++ \"b/f\\303\\244\"\n@@ -1 +1 @@\n-a\n+A\n",
			after: files{"fä": "A\nb\nc\nd\ne\nf\n"}},
		{name: "mail", before: one, patch: "From 123 Mon Sep 17 00:00:00 2001\nSubject: [PATCH] x\n\nWhy.\n---\n f " +
			"| 2 +-\n\ndiff --git a/f b/f\nindex 1..2 100644\n" + head + "@@ -1,2 +1,2 @@\n-a\n+A\n b\n-- \n2.39.2\n\n",
			after: files{"f": "A\nb\nc\nd\ne\nf\n"}},
		{name: "removed line that looks like a header", before: files{"f": "x\n-- a\ny\n"},
			patch: head + "@@ -1,3 +1,3 @@\n x\n--- a\n+++ b\n y\n", after: files{"f": "x\n++ b\ny\n"}},
		{name: "one file twice", before: one,
			patch: head + "@@ -1 +1 @@\n-a\n+A\n" + head + "@@ -1,2 +1,2 @@\n A\n-b\n+B\n",
			after: files{"f": "A\nB\nc\nd\ne\nf\n"}},
		{name: "absolute path inside is refused elsewhere", before: one,
			patch: "--- /etc/passwd\n+++ /etc/passwd\n@@ -1 +1 @@\n-a\n+A\n", kind: tools.KindRootViolation},
		{name: "keeps the executable bit", before: files{"f!": abc}, patch: head + "@@ -1 +1 @@\n-a\n+A\n",
			after: files{"f!": "A\nb\nc\nd\ne\nf\n"}},
		{name: "several files", before: files{"f": abc, "g": "x\n"},
			patch: head + "@@ -1 +1 @@\n-a\n+A\n--- a/g\n+++ b/g\n@@ -1 +1 @@\n-x\n+y\n",
			after: files{"f": "A\nb\nc\nd\ne\nf\n", "g": "y\n"}},
	})
}

func TestGitExtensions(t *testing.T) {
	runAll(t, []applyCase{
		{name: "create", patch: "diff --git a/d/new b/d/new\nnew file mode 100644\nindex 0..1\n--- /dev/null\n+++ " +
			"b/d/new\n@@ -0,0 +1,2 @@\n+x\n+y\n", after: files{"d/new": "x\ny\n"}},
		{name: "create empty", patch: "diff --git a/new b/new\nnew file mode 100644\nindex 0..1\n",
			after: files{"new": "<empty>"}},
		{name: "create executable", patch: "diff --git a/new b/new\nnew file mode 100755\n--- /dev/null\n+++ " +
			"b/new\n@@ -0,0 +1 @@\n+x\n", after: files{"new!": "x\n"}},
		{name: "create without newline at end",
			patch: "--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+x\n\\ No newline at end of file\n",
			after: files{"new": "x"}},
		{name: "create with an unprefixed blank line", patch: "--- /dev/null\n+++ b/new\n@@ -0,0 +1,3 @@\n+x\n\n+y\n\n",
			after: files{"new": "x\n\ny\n"}, diags: []string{"wrong_counts"}},
		{name: "create what exists", before: files{"f": "y\n"}, patch: "--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+x\n",
			kind: kindExists},
		{name: "create with context", patch: "--- /dev/null\n+++ b/new\n@@ -0,0 +1,2 @@\n+x\n y\n", kind: kindSyntax},
		{name: "create by a modification of nothing", patch: "--- a/new\n+++ b/new\n@@ -0,0 +1 @@\n+x\n",
			after: files{"new": "x\n"}, diags: []string{"created"}},
		{name: "delete", before: files{"d/e/f": "x\n", "d/g": "y\n"},
			patch: "diff --git a/d/e/f b/d/e/f\ndeleted file mode 100644\n--- a/d/e/f\n+++ /dev/null\n@@ -1 " +
				"+0,0 @@\n-x\n", after: files{"d/e/f": ""}},
		{name: "delete without hunks", before: files{"f": "x\n\x00"},
			patch: "diff --git a/f b/f\ndeleted file mode 100644\n", after: files{"f": ""}},
		{name: "delete only part", before: files{"f": "x\ny\n"}, patch: "--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n",
			kind: kindMismatch},
		{name: "delete what is missing", patch: "--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n", kind: kindMissing},
		{name: "rename", before: files{"f!": "x\n"},
			patch: "diff --git a/f b/d/g\nsimilarity index 100%\nrename from f\nrename to d/g\n",
			after: files{"f!": "", "d/g!": "x\n"}},
		{name: "rename a binary file", before: files{"f": "\x00\xff"},
			patch: "diff --git a/f b/g\nrename from f\nrename to g\n", after: files{"f": "", "g": "\x00\xff"}},
		{name: "rename and change", before: files{"f": abc},
			patch: "diff --git a/f b/g\nsimilarity index 90%\nrename from f\nrename to g\n--- a/f\n+++ b/g\n@@ -1 " +
				"+1 @@\n-a\n+A\n", after: files{"f": "", "g": "A\nb\nc\nd\ne\nf\n"}},
		{name: "rename by names alone", before: files{"f": abc}, patch: "--- a/f\n+++ b/g\n@@ -1 +1 @@\n-a\n+A\n",
			after: files{"f": "", "g": "A\nb\nc\nd\ne\nf\n"}},
		{name: "rename onto a file", before: files{"f": "x\n", "g": "y\n"},
			patch: "diff --git a/f b/g\nrename from f\nrename to g\n", kind: kindExists},
		{name: "rename onto a deleted file", before: files{"f": "x\n", "g": "y\n"},
			patch: "diff --git a/g b/g\ndeleted file mode 100644\ndiff --git a/f b/g\nrename from f\nrename to g\n",
			after: files{"f": "", "g": "x\n"}},
		{name: "swap by three renames", before: files{"f": "x\n", "g": "y\n"},
			patch: "diff --git a/f b/t\nrename from f\nrename to t\ndiff --git a/g b/f\nrename from g\nrename to " +
				"f\ndiff --git a/t b/g\nrename from t\nrename to g\n", after: files{"f": "y\n", "g": "x\n"}},
		{name: "copy", before: files{"f": "x\n"},
			patch: "diff --git a/f b/g\ncopy from f\ncopy to g\n--- a/f\n+++ b/g\n@@ -1 +1,2 @@\n x\n+y\n",
			after: files{"g": "x\ny\n"}},
		{name: "mode only", before: files{"f": "x\n"}, patch: "diff --git a/f b/f\nold mode 100644\nnew mode 100755\n",
			after: files{"f": "", "f!": "x\n"}},
		{name: "mode back", before: files{"f!": "x\n"}, patch: "diff --git a/f b/f\nold mode 100755\nnew mode 100644\n",
			after: files{"f!": "", "f": "x\n"}},
		{name: "a file becomes a directory", before: files{"f": "x\n"},
			patch: "--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n--- /dev/null\n+++ b/f/g\n@@ -0,0 +1 @@\n+y\n",
			after: files{"f": "", "f/g": "y\n"}},
		{name: "binary", before: files{"f": "x"},
			patch: "diff --git a/f b/f\nindex 1..2\nGIT binary patch\nliteral 3\nKcmZQzU|?Wi\n", kind: kindBinary},
		{name: "binary note", before: files{"f": "x"}, patch: "diff --git a/f b/f\nBinary files a/f and b/f differ\n",
			kind: kindBinary},
		{name: "binary target", before: files{"f": "a\x00b\n"}, patch: "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n",
			kind: kindBinary},
		{name: "symbolic link", patch: "diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 " +
			"+1 @@\n+/etc/passwd\n\\ No newline at end of file\n", kind: kindUnsafePath},
		{name: "submodule", patch: "diff --git a/l b/l\nnew file mode 160000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 " +
			"@@\n+Subproject commit 1\n", kind: kindUnsafePath},
	})
}

func TestTolerance(t *testing.T) {
	head := "--- a/f\n+++ b/f\n"
	one := files{"f": abc}
	changed := files{"f": "a\nb\nC\nd\ne\nf\n"}
	crlf := files{"f": "a\r\nb\r\nc\r\nd\r\n"}
	code := files{"f": "func a() {\n\tx := 1\n\treturn x\n}\n\nfunc b() {\n\ty := 1\n\treturn y\n}\n"}
	twice := files{"f": "class A\n  def run\n    x\n  end\nclass B\n  def run\n    x\n  end\n"}
	runAll(t, []applyCase{
		{name: "wrong line numbers", before: one, patch: head + "@@ -40,3 +40,3 @@\n b\n-c\n+C\n d\n", after: changed,
			diags: []string{"wrong_line_number"}},
		{name: "wrong counts", before: one, patch: head + "@@ -2,9 +2,7 @@\n b\n-c\n+C\n d\n", after: changed,
			diags: []string{"wrong_counts"}},
		{name: "counts too small", before: one, patch: head + "@@ -2,1 +2,1 @@\n b\n-c\n+C\n d\n", after: changed,
			diags: []string{"wrong_counts"}},
		{name: "wrong counts in two files", before: files{"f": abc, "g": "x\ny\n"},
			patch: head + "@@ -2,5 +2,5 @@\n b\n-c\n+C\n d\n--- a/g\n+++ b/g\n@@ -1,4 +1,4 @@\n-x\n+X\n y\n",
			after: files{"f": changed["f"], "g": "X\ny\n"}, diags: []string{"wrong_counts", "wrong_counts"}},
		{name: "bare @@", before: one, patch: head + "@@\n b\n-c\n+C\n d\n", after: changed},
		{name: "@@ with dots", before: one, patch: head + "@@ ... @@\n b\n-c\n+C\n d\n", after: changed},
		{name: "half a header", before: one, patch: head + "@@ -2 @@\n b\n-c\n+C\n d\n", after: changed},
		{name: "no @@ at all", before: one, patch: head + " b\n-c\n+C\n d\n", after: changed},
		{name: "code fence", before: one, patch: "```diff\n" + head + "@@ -2,3 +2,3 @@\n b\n-c\n+C\n d\n```\n",
			after: changed, diags: []string{"code_fence"}},
		{name: "prose around", before: one,
			patch: "Here is the fix:\n\n" + head + "@@ -2,3 +2,3 @@\n b\n-c\n+C\n d\nThat should do it.\n",
			after: changed},
		{name: "trailing blank lines", before: one, patch: head + "@@\n b\n-c\n+C\n d\n\n\n", after: changed},
		{name: "trailing space in the patch", before: one, patch: head + "@@ -2,3 +2,3 @@\n b  \n-c \n+C\n d\n",
			after: changed, diags: []string{"trailing_space"}},
		{name: "trailing space in the file", before: files{"f": "a\nb \t\nc\nd\n"},
			patch: head + "@@ -2,3 +2,3 @@\n b\n-c\n+C\n d\n", after: files{"f": "a\nb \t\nC\nd\n"},
			diags: []string{"trailing_space"}},
		{name: "CRLF file, LF patch", before: crlf, patch: head + "@@ -2,2 +2,3 @@\n b\n-c\n+C\n+D\n",
			after: files{"f": "a\r\nb\r\nC\r\nD\r\nd\r\n"}, diags: []string{"line_endings"}},
		{name: "CRLF file, CRLF patch", before: crlf,
			patch: strings.ReplaceAll(head+"@@ -2,2 +2,2 @@\n b\n-c\n+C\n", "\n", "\r\n"),
			after: files{"f": "a\r\nb\r\nC\r\nd\r\n"}, diags: []string{"line_endings"}},
		{name: "CRLF file, git's own patch", before: crlf, patch: head + "@@ -2,2 +2,2 @@\n b\r\n-c\r\n+C\r\n",
			after: files{"f": "a\r\nb\r\nC\r\nd\r\n"}},
		{name: "LF file, CRLF patch", before: one,
			patch: strings.ReplaceAll(head+"@@ -2,3 +2,3 @@\n b\n-c\n+C\n d\n", "\n", "\r\n"), after: changed},
		{name: "endings changed on purpose", before: files{"f": "a\nb\n"},
			patch: head + "@@ -1,2 +1,2 @@\n-a\n+a\r\n b\n", after: files{"f": "a\r\nb\n"}},
		{name: "insertion into a CRLF file", before: crlf, patch: head + "@@ -1,0 +2 @@\n+new\n",
			after: files{"f": "a\r\nnew\r\nb\r\nc\r\nd\r\n"}, diags: []string{"line_endings"}},
		{name: "no newline at the end of the file", before: files{"f": "a\nb"},
			patch: head + "@@ -1,2 +1,2 @@\n-a\n+A\n b\n", after: files{"f": "A\nb"}},
		{name: "the last line without newline changes", before: files{"f": "a\nb"},
			patch: head + "@@ -1,2 +1,2 @@\n a\n-b\n+B\n", after: files{"f": "a\nB\n"}},
		{name: "and stays without", before: files{"f": "a\nb"},
			patch: head + "@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+B\n\\ No newline at end of file\n",
			after: files{"f": "a\nB"}},
		{name: "newline at the end is added", before: files{"f": "a\nb"},
			patch: head + "@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+b\n", after: files{"f": "a\nb\n"}},
		{name: "newline at the end is removed", before: files{"f": "a\nb\n"},
			patch: head + "@@ -1,2 +1,2 @@\n a\n-b\n+b\n\\ No newline at end of file\n", after: files{"f": "a\nb"}},
		{name: "line after the last without newline", before: files{"f": "a\nb"},
			patch: head + "@@ -2 +2,2 @@\n b\n+c\n", after: files{"f": "a\nb\nc\n"}},
		{name: "context without leading space", before: code,
			patch: head + "@@ -1,4 +1,4 @@\nfunc a() {\n\tx := 1\n-\treturn x\n+\treturn 2\n}\n",
			after: files{"f": strings.Replace(code["f"], "return x", "return 2", 1)},
			diags: []string{"wrong_counts", "context_prefix"}},
		{name: "indented context without leading space", before: files{"f": "if x:\n    a\n    b\n    c\n"},
			patch: head + "@@\n    a\n-    b\n+    B\n    c\n", after: files{"f": "if x:\n    a\n    B\n    c\n"},
			diags: []string{"context_prefix"}},
		{name: "blank context without its space", before: code,
			patch: head + "@@ -3,5 +3,5 @@\n \treturn x\n }\n\n-func b() {\n+func c() {\n \ty := 1\n",
			after: files{"f": strings.Replace(code["f"], "func b", "func c", 1)}},
		{name: "the line number decides", before: twice, patch: head + "@@ -7 +7 @@\n-    x\n+    y\n",
			after: files{"f": "class A\n  def run\n    x\n  end\nclass B\n  def run\n    y\n  end\n"}},
		{name: "the section decides", before: twice,
			patch: head + "@@ -90,2 +90,2 @@ class B\n   def run\n-    x\n+    y\n",
			after: files{"f": "class A\n  def run\n    x\n  end\nclass B\n  def run\n    y\n  end\n"},
			diags: []string{"wrong_line_number"}},
		{name: "the order decides", before: twice,
			patch: head + "@@ -50 +50 @@\n-class B\n+class C\n@@ -60 +60 @@\n-    x\n+    y\n",
			after: files{"f": "class A\n  def run\n    x\n  end\nclass C\n  def run\n    y\n  end\n"},
			diags: []string{"wrong_line_number", "wrong_line_number"}},
		{name: "ambiguous", before: twice, patch: head + "@@ -50 +50 @@\n-    x\n+    y\n", kind: kindAmbiguous},
		{name: "ambiguous at a looser level", before: files{"f": "x \nx\t\n"}, patch: head + "@@\n-x\n+y\n",
			kind: kindAmbiguous},
		{name: "exact beats loose", before: files{"f": "x \nx\n"}, patch: head + "@@\n-x\n+y\n",
			after: files{"f": "x \ny\n"}},
		{name: "insertion without a place", before: one, patch: head + "@@\n+new\n", kind: kindMismatch},
		{name: "does not match", before: one, patch: head + "@@ -2,3 +2,3 @@\n b\n-X\n+C\n d\n", kind: kindMismatch},
		{name: "already applied", before: changed, patch: head + "@@ -2,3 +2,3 @@\n b\n-c\n+C\n d\n",
			kind: kindApplied},
		{name: "hunks overlap", before: one,
			patch: head + "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n@@ -2,3 +2,3 @@\n b\n-c\n+C\n d\n", kind: kindMismatch},
		{name: "nothing but context", before: one, patch: head + "@@ -1,2 +1,2 @@\n a\n b\n", kind: kindNoChange},
		{name: "empty file, hunk with context", before: files{"f": ""}, patch: head + "@@ -1 +1 @@\n-a\n+b\n",
			kind: kindMismatch},
		{name: "second file fails, first stays", before: files{"f": abc, "g": "x\n"},
			patch: head + "@@ -1 +1 @@\n-a\n+A\n--- a/g\n+++ b/g\n@@ -1 +1 @@\n-nope\n+y\n", kind: kindMismatch},
		{name: "no file", patch: "just words\n", kind: kindEmpty},
		{name: "empty", patch: "", kind: kindEmpty},
		{name: "fence only", patch: "```\n```", kind: kindEmpty},
		{name: "hunk before file", patch: "@@ -1 +1 @@\n-a\n+b\n", kind: kindSyntax},
		{name: "file without hunk", before: one, patch: head, kind: kindSyntax},
		{name: "two nothings", patch: "--- /dev/null\n+++ /dev/null\n@@ -1 +1 @@\n-a\n+b\n", kind: kindSyntax},
		{name: "NUL", before: one, patch: head + "@@ -1 +1 @@\n-a\n+\x00\n", kind: kindSyntax},
		{name: "missing file", patch: head + "@@ -1 +1 @@\n-a\n+A\n", kind: kindMissing},
		{name: "patch too large", patch: head + strings.Repeat("x", maxPatchBytes), kind: kindTooLarge},
	})
}

func TestEnvelope(t *testing.T) {
	begin, end := "*** Begin Patch\n", "*** End Patch\n"
	one := files{"f": abc}
	twice := files{"f": "class A\n  def run\n    x\n  end\nclass B\n  def run\n    x\n  end\n"}
	runAll(t, []applyCase{
		{name: "update", before: one, patch: begin + "*** Update File: f\n@@\n b\n-c\n+C\n d\n" + end,
			after: files{"f": "a\nb\nC\nd\ne\nf\n"}},
		{name: "without begin and end", before: one, patch: "*** Update File: f\n@@\n b\n-c\n+C\n d\n",
			after: files{"f": "a\nb\nC\nd\ne\nf\n"}},
		{name: "without @@", before: one, patch: begin + "*** Update File: f\n b\n-c\n+C\n d\n" + end,
			after: files{"f": "a\nb\nC\nd\ne\nf\n"}},
		{name: "prefixed path", before: one, patch: begin + "*** Update File: a/f\n@@\n-c\n+C\n" + end,
			after: files{"f": "a\nb\nC\nd\ne\nf\n"}},
		{name: "heredoc around", before: one,
			patch: "apply_patch <<'EOF'\n" + begin + "*** Update File: f\n@@\n-c\n+C\n" + end + "EOF\n",
			after: files{"f": "a\nb\nC\nd\ne\nf\n"}},
		{name: "add", patch: begin + "*** Add File: d/new\n+x\n+\n+y\n" + end, after: files{"d/new": "x\n\ny\n"}},
		{name: "add empty", patch: begin + "*** Add File: new\n" + end, after: files{"new": "<empty>"}},
		{name: "add without plus", patch: begin + "*** Add File: new\nx\n\ny\n" + end, after: files{"new": "x\n\ny\n"},
			diags: []string{"missing_prefix"}},
		{name: "add with some plus", patch: begin + "*** Add File: new\n+x\ny\n" + end, kind: kindSyntax},
		{name: "add existing", before: one, patch: begin + "*** Add File: f\n+x\n" + end, kind: kindExists},
		{name: "delete then add", before: files{"f!": "x\n"},
			patch: begin + "*** Delete File: f\n*** Add File: f\n+y\n" + end, after: files{"f!": "y\n"}},
		{name: "delete", before: one, patch: begin + "*** Delete File: f\n" + end, after: files{"f": ""}},
		{name: "move", before: one, patch: begin + "*** Update File: f\n*** Move to: d/g\n@@\n-c\n+C\n" + end,
			after: files{"f": "", "d/g": "a\nb\nC\nd\ne\nf\n"}},
		{name: "move alone", before: one, patch: begin + "*** Update File: f\n*** Move to: g\n" + end,
			after: files{"f": "", "g": abc}},
		{name: "stray move", before: one, patch: begin + "*** Move to: g\n" + end, kind: kindSyntax},
		{name: "anchor", before: twice, patch: begin + "*** Update File: f\n@@ class B\n   def run\n-    x\n+    y\n" +
			end, after: files{"f": "class A\n  def run\n    x\n  end\nclass B\n  def run\n    y\n  end\n"}},
		{name: "first of two by anchor", before: twice,
			patch: begin + "*** Update File: f\n@@ class A\n-    x\n+    y\n" + end,
			after: files{"f": "class A\n  def run\n    y\n  end\nclass B\n  def run\n    x\n  end\n"}},
		{name: "stacked anchors", before: twice,
			patch: begin + "*** Update File: f\n@@ class B\n@@ def run\n-    x\n+    y\n" + end,
			after: files{"f": "class A\n  def run\n    x\n  end\nclass B\n  def run\n    y\n  end\n"}},
		{name: "insertion at an anchor", before: twice,
			patch: begin + "*** Update File: f\n@@ class B\n+  # new\n" + end,
			after: files{"f": "class A\n  def run\n    x\n  end\nclass B\n  # new\n  def run\n    x\n  end\n"}},
		{name: "ambiguous anchor", before: twice,
			patch: begin + "*** Update File: f\n@@ def run\n-    x\n+    y\n" + end, kind: kindAmbiguous},
		{name: "end of file", before: files{"f": "x\ny\nx\n"},
			patch: begin + "*** Update File: f\n@@\n-x\n+z\n*** End of File\n" + end, after: files{"f": "x\ny\nz\n"}},
		{name: "append at the end", before: one, patch: begin + "*** Update File: f\n@@\n+g\n*** End of File\n" + end,
			after: files{"f": abc + "g\n"}},
		{name: "several", before: files{"f": abc, "g": "x\n", "h": "y\n"},
			patch: begin + "*** Add File: n\n+1\n\n*** Update File: f\n@@\n-a\n+A\n\n*** Delete File: g\n\n*** " +
				"Update File: h\n@@\n-y\n+Y\n" + end,
			after: files{"n": "1\n", "f": "A\nb\nc\nd\ne\nf\n", "g": "", "h": "Y\n"}},
		{name: "numbers as in a diff", before: one,
			patch: begin + "*** Update File: f\n--- a/f\n+++ b/f\n@@ -3,1 +3,1 @@\n-c\n+C\n" + end,
			after: files{"f": "a\nb\nC\nd\ne\nf\n"}},
		{name: "nothing inside", patch: begin + end, kind: kindEmpty},
		{name: "update without hunk", before: one, patch: begin + "*** Update File: f\n" + end, kind: kindSyntax},
	})
}
