package console

import (
	"strings"
	"testing"
)

// What a model writes becomes the HTML of its Markdown, and nothing that runs or is loaded.
func TestMarkdown(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"**a** `b`":              "<p><strong>a</strong> <code>b</code></p>",
		"<b onclick=x>a</b>":     "<p>&lt;b onclick=x&gt;a&lt;/b&gt;</p>",
		"<script>\nx\n</script>": "<p>&lt;script&gt;\nx\n&lt;/script&gt;</p>",
		"[a](javascript:x)":      `<p><a rel="noopener noreferrer nofollow" target="_blank" href="">a</a></p>`,
		"[a](/ui/logout)":        `<p><a rel="noopener noreferrer nofollow" target="_blank" href="">a</a></p>`,
		"![a](https://x.example/\"y)": `<p><a rel="noopener noreferrer nofollow" target="_blank" ` +
			`href="https://x.example/%22y">a</a></p>`,
		"```go\nfunc\n```":                 `<pre tabindex="0"><code><span class="t-keyword">func</span>` + "\n</code></pre>",
		"```<b>\n<b>\n```":                 "<pre tabindex=\"0\"><code>&lt;b&gt;\n</code></pre>",
		strings.Repeat("<", maxMarkdown+1): "<pre>" + strings.Repeat("&lt;", maxMarkdown+1) + "</pre>",
	} {
		if got := strings.TrimSpace(string(markdown(text))); got != want {
			t.Errorf("%.40q is\n%.300s\nwant\n%.300s", text, got, want)
		}
	}
}

// A patch is shown with the numbers of its lines, and what is no patch as notes.
func TestParsePatch(t *testing.T) {
	t.Parallel()
	list := parsePatch("diff --git a/x.go b/y.go\nsimilarity index 90%\nindex 1..2\n--- a/x.go\n+++ b/y.go\n" +
		"@@ -3,2 +4,2 @@ func\n a\n-<b>\n+--- c\n\\ No newline at end of file\ndiff --git a/z b/z\n+no hunk\n")
	var got strings.Builder
	for _, f := range list {
		got.WriteString(f.Name + ":")
		for _, l := range f.Lines {
			got.WriteString(" " + l.Kind + "[" + string(l.Text) + "]")
		}
		got.WriteString("\n")
	}
	want := "y.go: note[similarity index 90%] hunk[@@ -3,2 +4,2 @@ func] same[ a] del[-&lt;b&gt;] add[+--- c] " +
		"note[\\ No newline at end of file]\nz: note[+no hunk]\n"
	if got.String() != want {
		t.Errorf("got\n%swant\n%s", got.String(), want)
	}
	if add := list[0].Lines[4]; add.Number() != 5 || list[0].Lines[3].Number() != 4 {
		t.Errorf("the numbers are %+v", list[0].Lines)
	}
}

// Whatever a patch has, its lines are text.
func FuzzParsePatch(f *testing.F) {
	f.Add("diff --git a/x.js b/x.js\n@@ -1 +1 @@\n-<script>\n+\"</script>'\n")
	f.Fuzz(func(t *testing.T, patch string) {
		for _, file := range parsePatch(patch) {
			for _, l := range file.Lines {
				bare := strings.NewReplacer(`<span class="t-keyword">`, "", `<span class="t-string">`, "",
					`<span class="t-comment">`, "", `<span class="t-number">`, "", `<span class="t-name">`, "", "</span>", "").
					Replace(string(l.Text))
				if strings.ContainsAny(bare, "<>\"") {
					t.Errorf("%q is shown as %q", l.Plain, l.Text)
				}
			}
		}
	})
}
