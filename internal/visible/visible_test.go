package visible_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"holon/internal/visible"
	"holon/test/expect"
)

func TestText(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"plain":             {"a\tb\nc", "a\tb\nc"},
		"colour":            {"\x1b[1;31mred\x1b[0m", "red"},
		"clear the screen":  {"a\x1b[2J\x1b[Hb", "ab"},
		"title":             {"a\x1b]0;root@host\x07b", "ab"},
		"link":              {"\x1b]8;;http://example.org\x1b\\text\x1b]8;;\x1b\\", "text"},
		"endless string":    {"a\x1b]0;all the rest", "a0;all the rest"},
		"C1 as UTF-8":       {"a\u009b31mred\u009d0;t\u009cb", "aredb"},
		"C1 as bytes":       {"a\x9b31mb", "a\uFFFD31mb"},
		"clipboard":         {"\x1b]52;c;cm0gLXJm\x07x", "x"},
		"carriage return":   {"safe\rfake", "safefake"},
		"backspace":         {"ab\b\bcd\x7f", "abcd"},
		"bidi":              {"a\u202eb\u2066c\u200fd", "abcd"},
		"zero width":        {"pass\u200bword\ufeff", "password"},
		"tags":              {"a\U000e0041b", "ab"},
		"line separator":    {"a\u2028b", "ab"},
		"joiners":           {"\u0646\u200c\u0645 👩\u200d💻", "\u0646\u200c\u0645 👩\u200d💻"},
		"half a sequence":   {"a\x1b", "a"},
		"escape in the end": {"\x1b\x1b[31mx", "x"},
		"put together":      {"\x1b\x1b[0m[31mx", "[31mx"},
	} {
		expect.Equal(t, name, visible.Text(c.in), c.want)
	}
}

// What is reviewed hides nothing: what could not be seen is written out, the rest stays as it is.
func TestCode(t *testing.T) {
	for in, want := range map[string]string{
		"+\tif a == \"\\x\" { é 界\n":      "+\tif a == \"\\x\" { é 界\n",
		"\x1b[31mRED\x1b]0;x\a":           `\033[31mRED\033]0;x\a`,
		"a\u202eb\r":                      `a\342\200\256b\r`,
		"a\xffb":                          `a\377b`,
		"pass\u200bword\u009b2J\u2028end": `pass\342\200\213word\302\2332J\342\200\250end`,
	} {
		expect.Equal(t, in, visible.Code(in), want)
	}
}

// Whatever comes in, nothing comes out that a terminal acts on, and what is
// printable already stays.
func FuzzText(f *testing.F) {
	f.Add("a\x1b[31mb\x1b]0;x\x07\u009b2J\u202e\xff", 10)
	f.Fuzz(func(t *testing.T, s string, limit int) {
		got := visible.Text(s)
		if again := visible.Text(got); again != got {
			t.Fatalf("%q becomes %q", got, again)
		}
		line := visible.OneLine(s, max(0, limit%1000))
		for _, text := range []string{got, line} {
			if !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool {
				return r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e ||
					r >= 0x2066 && r <= 0x2069
			}) {
				t.Fatalf("%q", text)
			}
		}
		if strings.ContainsAny(line, "\n\t") || len(line) > max(0, limit%1000)+len("…") {
			t.Fatalf("%q", line)
		}
	})
}

// What can't be seen of a file's name is written out, so that it is not taken for another.
func TestName(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "a.go": "a.go", "with space": "with space", "日本語": "日本語", "a\tb": `"a\tb"`, "x\u202egpj": `"x\342\200\256gpj"`,
		"bad\xff": `"bad\377"`, "bad\xff日": `"bad\377日"`, "bad\uFFFD": `"bad\357\277\275"`, `a"b`: `"a\"b"`, `a\b`: `"a\\b"`,
		" a": `" a"`, "\x1b[31m": `"\033[31m"`, "\x7f1": `"\1771"`,
	} {
		if got := visible.Name(in); got != want {
			t.Errorf("Name(%q) = %s, want %s", in, got, want)
		}
	}
}

// A remedy follows a message, whose full stop it takes the place of.
func TestWithRemedy(t *testing.T) {
	for _, c := range [][3]string{{"it failed", "", "it failed"}, {"It failed.", "", "It failed."},
		{"It failed.", "see", "It failed; see"}, {"it failed", "see", "it failed; see"}, {"wait...", "see", "wait...; see"}} {
		if got := visible.WithRemedy(c[0], c[1]); got != c[2] {
			t.Errorf("WithRemedy(%q, %q) = %q, want %q", c[0], c[1], got, c[2])
		}
	}
}
