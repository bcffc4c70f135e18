package console

import (
	"strings"
	"testing"
)

// Comments, texts, numbers and words of a language have a class, line by line, and stay the text that they are.
func TestColoured(t *testing.T) {
	t.Parallel()
	short := strings.NewReplacer(`<span class="t-`, "{", `">`, " ", "</span>", "}")
	for _, c := range []struct{ file, code, want string }{
		{"a/b.go", "func f() { /* a\nb */ }", "{keyword func} {name f}() { {comment /* a}\n{comment b */} }"},
		{"b.go", "c == 'x' && s == `a\nb` // d", "c == {string &#39;x&#39;} &amp;&amp; s == {string `a}\n{string b`} {comment // d}"},
		{"b.rs", "fn f<'a>(x: &'a str)", "{keyword fn} f&lt;&#39;a&gt;(x: &amp;&#39;a str)"},
		{"B.PY", "x1 = 0x1F # it's", "x1 = {number 0x1F} {comment # it&#39;s}"},
		{"b.py", "\"\"\"a\nb\"\"\"; f(1.5e3)", "{string &#34;&#34;&#34;a}\n{string b&#34;&#34;&#34;}; {name f}({number 1.5e3})"},
		{"Dockerfile", "# a \"b", "{comment # a &#34;b}"},
		{"typescript", "'a\\'b' + 'open", "{string &#39;a\\&#39;b&#39;} + &#39;open"},
		{"x.sql", "SELECT a -- b", "{keyword SELECT} a {comment -- b}"},
		{"x.html", "<!-- a --><b>", "{comment &lt;!-- a --&gt;}&lt;b&gt;"},
		{"x.unknown", "func \"a\"", "func &#34;a&#34;"},
		{"x.go", strings.Repeat("a", maxColoured) + "if", strings.Repeat("a", maxColoured) + "if"},
	} {
		if got := short.Replace(string(coloured(languageOf(c.file), c.code))); got != c.want {
			t.Errorf("%s: %.200q is\n%.300s\nwant\n%.300s", c.file, c.code, got, c.want)
		}
	}
}
