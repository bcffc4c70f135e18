package acp

import (
	"fmt"
	"strings"
	"testing"

	"holon/test/expect"
)

func TestEditsOf(t *testing.T) {
	for name, tt := range map[string]struct{ patch, want string }{
		"git": {"diff --git a/x b/x\nindex 1..2 100644\n--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@ func\n a\n-b\n+c\n d\n" +
			"@@ -9 +9 @@\n-e\n\\ No newline at end of file\n+f\n", `x "a\nb\nd\n" "a\nc\nd\n"|x "e\n" "f\n"`},
		"lines that look like heads": {"--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n--- a/y\n-@@ -1 +1 @@\n+++ b/y\n+diff --git\n",
			`x "-- a/y\n@@ -1 +1 @@\n" "++ b/y\ndiff --git\n"`},
		"two files": {"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n" +
			"diff --git a/y b/y\n--- /dev/null\n+++ b/y\n@@ -0,0 +1 @@\n+c\n", `x "a\n" "b\n"|+y "" "c\n"`},
		"deleted": {"--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n", `x "a\n" ""`},
		"quoted":  {"--- \"a/\\303\\244 \\\"\"\n+++ \"b/\\303\\244 \\\"\"\n@@ -1 +1 @@\n-a\n+b\n", `ä " "a\n" "b\n"`},
		"binary":  {"diff --git a/x b/x\nGIT binary patch\nliteral 3\nKabc\n\nliteral 0\n", ""},
		"envelope": {"*** Begin Patch\n*** Update File: x\n*** Move to: y\n@@ f\n a\n-b\n+c\n@@\n+d\n" +
			"*** Add File: z\n+e\n+f\n*** Delete File: w\n*** End Patch\n", `y "a\nb\n" "a\nc\n"|y "" "d\n"|+z "" "e\nf\n"`},
		"nonsense":   {"nonsense\n+a\n-b\n", ""},
		"hostile":    {"@@ -9999999999999999999,1 +1,-5 @@\n+++ \"\n--- \n@@ - + @@\n+a\n", ""},
		"no newline": {"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b", `x "a\n" "b\n"`},
	} {
		var got []string
		for _, e := range editsOf(tt.patch) {
			if e.added {
				e.path = "+" + e.path
			}
			got = append(got, fmt.Sprintf("%s %q %q", e.path, e.old, e.new))
		}
		expect.Equal(t, name, strings.Join(got, "|"), tt.want)
	}
}

func FuzzEditsOf(f *testing.F) {
	f.Add("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n")
	f.Fuzz(func(t *testing.T, patch string) {
		for _, e := range editsOf(patch) {
			if e.path == "" || e.old+e.new == "" {
				t.Errorf("an empty edit: %+v", e)
			}
		}
	})
}

func TestHostPath(t *testing.T) {
	s := &session{cwd: "/home/me/src/app", top: "/home/me/src"}
	for path, want := range map[string]string{"a/b": "/home/me/src/app/a/b",
		"/holon/workspaces/session/c": "/home/me/src/c",
		"../c":                        "", "/etc/passwd": "", "/holon/workspaces/session/../../x": "", "": ""} {
		got, ok := s.hostPath(s.cwd, path)
		if !ok {
			got = ""
		}
		expect.Equal(t, path, got, want)
	}
	for uri, want := range map[string]string{"file:///home/me/src/app/a%20b.go": "a b.go",
		"file:///etc/passwd":   "file:///etc/passwd",
		"https://example.org/": "https://example.org/", "file://%zz": "file://%zz"} {
		expect.Equal(t, uri, s.seen(uri), want)
	}
}

func TestFenced(t *testing.T) {
	expect.Equal(t, "a fence", fenced("a\n```\nb\n"), "````\na\n```\nb\n````")
	expect.Equal(t, "a cut", cut("aä", 2), "a…")
}
