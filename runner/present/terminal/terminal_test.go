package terminal_test

import (
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"

	"holon/runner/present/terminal"
	"holon/test/expect"
)

const prose = "# Title\n\nSome *words* that are **more than** one row of `it`, see [a link](https://h.test/a).\n\n- an item " +
	"that is wrapped below itself\n- [x] done\n\n> quoted words\n\n```go\nfunc main() {}\n```\n\n| Name | What |\n|---|---|\n" +
	"| a | very long and wrapped |\n\n日本語日本語 日本語 averyverylongwordthatdoesnotfit\n"

// Rows are no wider than the terminal, whose styles are those of 16 colours, or none.
func TestRender(t *testing.T) {
	t.Parallel()
	for _, width := range []int{100, 40, 25, 14} {
		for _, color := range []bool{true, false} {
			got := terminal.Render(prose, width, true, color)
			for row := range strings.Lines(got) {
				if w := ansi.StringWidth(strings.TrimRight(row, "\n")); w > width {
					t.Errorf("width %d: %q takes %d columns", width, row, w)
				}
			}
			if strings.Contains(got, "\x1b") != color || strings.Contains(got, "38;") {
				t.Errorf("width %d, color %v: %q", width, color, got)
			}
			for _, want := range []string{"Title", "•", "│ ", "func", "https://"} {
				if width >= 25 && !strings.Contains(ansi.Strip(got), want) {
					t.Errorf("width %d: %q is not in\n%s", width, want, got)
				}
			}
			if strings.HasPrefix(got, "\n") || strings.HasSuffix(got, "\n") {
				t.Errorf("width %d: empty rows at an end: %q", width, got)
			}
		}
	}
}

// The address of a link is shown as it is written.
func TestAddress(t *testing.T) {
	t.Parallel()
	expect.Equal(t, "terminal.Render", terminal.Render("see [a](docs/b.md)", 40, true, false), "see a (docs/b.md)")
}

// What an entity stands for is shown, unless it would control the terminal.
func TestEntities(t *testing.T) {
	t.Parallel()
	const want = "T & U <T> [31m© a"
	if got := terminal.Render("T &amp; U &lt;T&gt; &#27;[31m&copy; `a`", 40, true, false); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// What looks like HTML is text: it may be the name of a file, or a type.
func TestTags(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"nul: <script>alert(1)</script><img src=x>", "d/<img src=x onerror=alert(7)>.txt",
		"<your-token> and Vec<String> <T,", "<!-- not seen -->", "<?php x", "<div>\nblock\n</div>", "1 < 2 <b>"} {
		expect.Equal(t, text+": is drawn as", terminal.Render(text, 80, true, false), text)
	}
	for text, want := range map[string]string{"<https://h.test/a>": "https://h.test/a", "`Vec<T>`": "Vec<T>",
		"```\n<b>x</b>\n```": "  <b>x</b>",
		"- an item that is wrapped below itself, as far in as it began, at eighty columns of a row\n  1. nested": "• an item that is wrapped below itself, as far in as it began, at eighty columns\n  of a row\n  1. nested"} {
		expect.Equal(t, text+": is drawn as", terminal.Render(text, 80, true, false), want)
	}
}

var hostile = []string{"[a](x&#27;[31m)", "&#27;[31m", "<x&#27;[2J>", "![&#x1b;c](&#x9b;31m)", "<https://a&#27;[m>",
	"\x1b]0;owned\a\x1b[2J\u009b2J\u202e\r\b", "[a](<https://h\x1b]8;;x>)", "[x](https://h.test/%1b]0;a%07)",
	strings.Repeat(">", 20_000) + "x", strings.Repeat("- ", 5_000) + "x", strings.Repeat("[", 10_000),
	strings.Repeat("**", 5_000) + "x"}

// A hostile text neither controls the terminal nor takes time out of proportion.
func TestHostile(t *testing.T) {
	t.Parallel()
	for _, text := range hostile {
		check(t, text)
	}
}

func FuzzRender(f *testing.F) {
	for _, text := range hostile[:8] {
		f.Add(text)
	}
	f.Fuzz(check)
}

func check(t *testing.T, text string) {
	if got := terminal.Render(text, 40, false, false); strings.ContainsAny(got, "\x1b\u009b\a\b\r\u202e") {
		t.Errorf("%.40q is drawn as %.80q", text, got)
	}
	got := terminal.Render(text, 40, false, true)
	for i, after := range strings.Split(got, "\x1b") {
		if end := strings.IndexFunc(after, func(r rune) bool { return !strings.ContainsRune("[0123456789;:", r) }); i > 0 &&
			(end < 1 || after[end] != 'm') {
			t.Errorf("%.40q is drawn with the sequence %.40q", text, after)
		}
	}
}
