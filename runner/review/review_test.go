package review

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"holon/test/expect"
)

const patch = `diff --git a/a.go b/a.go
index 111..222 100644
--- a/a.go
+++ b/a.go
@@ -1,2 +1,3 @@ func main
 package a
-old
+new
+--- not a file
diff --git a/gone b/gone
deleted file mode 100644
--- a/gone
+++ /dev/null
@@ -1 +0,0 @@
-x
`

// Lines of a patch have their file and their number, whatever they say.
func TestLines(t *testing.T) {
	t.Parallel()
	var got []string
	for _, l := range Lines(patch) {
		got = append(got, string(l.Kind)+" "+l.File+" "+strings.Repeat("i", l.Line)+" "+l.Text)
	}
	expect.Equal(t, "lines", strings.Join(got, "\n"), strings.Join([]string{"f a.go  a.go", "@ a.go  @@ -1,2 +1,3 @@ func main",
		"  a.go i  package a", "- a.go  -old", "+ a.go ii +new", "+ a.go iii +--- not a file", "f gone  gone",
		"@ gone  @@ -1 +0,0 @@", "- gone  -x"}, "\n"))
}

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]Comment{
		"a.go:2: why?":                         {{"a.go", 2, "+new", "why?"}},
		"./a.go:2:7: why?\r\n":                 {{"a.go", 2, "+new", "why?"}},
		"gone: keep it":                        {{"gone", 0, "", "keep it"}},
		"All in all good.\n\na.go: rename\nit": {{"", 0, "", "All in all good."}, {"a.go", 0, "", "rename\nit"}},
		"a.go:1: one\nnote: not a file\n\na.go:2: two": {{"a.go", 1, " package a", "one\nnote: not a file"},
			{"a.go", 2, "+new", "two"}},
		`[{"file":"a.go","line":2,"code":"forged","text":"why?"}]`: {{"a.go", 2, "+new", "why?"}},
		"{\"file\":\"a.go\",\"text\":\"x\"}\n{\"text\":\"y\"}\n":   {{"a.go", 0, "", "x"}, {"", 0, "", "y"}},
	} {
		got, err := Parse(text, patch)
		expect.NoError(t, err)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
	for text, want := range map[string]string{
		"": "no comment", " \n\n": "no comment", "[]": "no comment",
		"b.go:1: x":            "comment 1 is on b.go, which the change does not have",
		"a.go:3: x\na.go:4: y": "comment 2 is on line 4 of a.go, which has 3", "gone:1: x": "line 1 of gone, which has 0",
		"a.go:1: x\na.go:2: ": "comment 2 has no text", `[{"line":3,"text":"x"}]`: "line 3 of no file",
		`[{"file":"a.go","line":-1,"text":"x"}]`: "line -1", `{"file":`: "not JSON", `[{"file":1}]`: "not JSON",
		strings.Repeat("a.go: x\n", maxComments+1): "more than 1000",
	} {
		if _, err := Parse(text, patch); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v, want %q", text, err, want)
		}
	}
}

// A patch shows the end of a file where it has fewer lines below a change than git shows of others.
func TestEnd(t *testing.T) {
	t.Parallel()
	for hunk, want := range map[string]bool{
		"@@ -1,4 +1,4 @@\n-a\n+b\n c\n d\n e\n":                                                false,
		"@@ -1,3 +1,3 @@\n-a\n+b\n c\n d\n":                                                    true,
		"@@ -1,4 +1,4 @@\n-a\n+b\n c\n d\n e\n\\ No newline at end of file\n":                  true,
		"@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n":                                  true,
		"@@ -0,0 +1,2 @@\n+a\n+b\n":                                                            true,
		"@@ -1,4 +1,5 @@\n+a\n b\n c\n d\n@@ -90,4 +91,4 @@\n-a\n+b\n c\n d\n e\n":             false,
		"@@ -1,4 +1,5 @@\n+a\n b\n c\n d\n@@ -50,3 +51,4 @@\n a\n b\n c\n+d\n":                 true,
		"@@ -1,2 +0,0 @@\n-a\n-b\ndiff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n": true,
	} {
		_, err := Parse("f:99: beyond", "--- a/f\n+++ b/f\n"+hunk)
		expect.Equal(t, hunk, err != nil, want)
	}
}

func TestMessage(t *testing.T) {
	t.Parallel()
	got := Message([]Comment{{"a.go", 2, "+new", "why?"}, {"gone", 0, "", "keep it"}, {"", 0, "", "good"}})
	expect.Equal(t, "message", got,
		"Comments on your change:\n\na.go:2\n> +new\n\nwhy?\n\ngone\nkeep it\n\nthe change\ngood\n")
}

func FuzzParse(f *testing.F) {
	f.Add("a.go:2: why?", patch)
	f.Add(`[{"file":"a.go","line":2,"text":"x"}]`, patch)
	f.Fuzz(func(t *testing.T, text, patch string) {
		for _, l := range Lines(patch) {
			if strings.Contains(l.Text, "\n") {
				t.Fatalf("%q", l.Text)
			}
		}
		comments, err := Parse(text, patch)
		for _, c := range comments {
			if err != nil || c.Text == "" || strings.Contains(c.Code, "\n") || c.Line > 0 && c.File == "" {
				t.Fatalf("%+v, %v", c, err)
			}
		}
	})
}
