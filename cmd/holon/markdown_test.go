package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"holon/internal/redact"
	"holon/responses/turns"
)

// atWidth is a terminal of a width, without styles.
func atWidth(width int) Streams {
	return Streams{Secrets: &redact.Set{}, OutTTY: true, ErrTTY: true, NoColor: true, Width: func() int { return width }}
}

const prose = "# Title\n\nSome *words* that are **more than** one row of `it`.\n\n- an item that is wrapped below " +
	"itself\n  2. nested\n> quoted words of somebody else\n```go\nfunc main() { return and never wrap this }\n```\n---\n" +
	"日本語日本語 日本語\n" +
	"a_very_long_word_that_is_wider_than_the_terminal x\n2 * 3 * 4 and ` alone\n| a | b | c | d | e | f | g | h |\n" +
	"see **[the [guide](https://h.test/a_(b))**, ![a picture](p.png \"title\"), [[1]](x) and <https://h.test>\n" +
	"| Name | What it does |\n|---|:-:|\n| `a` | is **very** long and wrapped |\n|b\\|c|[d](e)|\nbehind it\n" +
	"| x |\n| - |\n| \x1b[31my\x1b[0m |"

// Markdown is wrapped at words, and looks the same however it arrives.
func TestMarkdown(t *testing.T) {
	s := atWidth(25)
	want := strings.Join([]string{"Title", "", "Some words that are more", "than one row of it.", "",
		"• an item that is", "  wrapped below itself", "  2. nested", "│ quoted words of",
		"│ somebody else", "  func main() { return and never wrap this }", strings.Repeat("─", 24),
		"日本語日本語 日本語", "a_very_long_word_that_is_wider_than_the_terminal", "x",
		"2 * 3 * 4 and ` alone", "| a | b | c | d | e | f", "| g | h |",
		"see [the guide", "(https://h.test/a_(b)),", "a picture (p.png), [1]", "(x) and https://h.test",
		"Name  What it does", "a     is very long and", "      wrapped", "b|c   d (e)", "behind it", "x", "y"}, "\n")
	if got := s.render(prose); got != want {
		t.Errorf("render(prose) =\n%s\nwant\n%s", got, want)
	}
	for _, size := range []int{1, 2, 3, 7, 30} {
		a, rows := s.newAnswer(), []string(nil)
		for piece := range slices.Chunk([]byte(prose), size) {
			rows = append(rows, a.write(s, string(piece))...)
		}
		rows = append(rows, a.end(s)...)
		if got := strings.Join(rows, "\n"); got != want {
			t.Errorf("in pieces of %d bytes:\n%s\nwant\n%s", size, got, want)
		}
	}
}

// What links and tables have of a style, each word has, so that no cell gives its style to another.
func TestMarkdownStyles(t *testing.T) {
	s := atWidth(80)
	s.NoColor = false
	for in, want := range map[string]string{
		"**[a](b)**":                     "\x1b[1ma\x1b[0m \x1b[1m(b)\x1b[0m",
		"[`a`](b)":                       "\x1b[36ma\x1b[0m (b)",
		"[![a](b)](c) [](d) [d](d)":      "a (b) (c) d d",
		"[a](":                           "[a](",
		"[ ] to do, and list[0](x)":      "[ ] to do, and list0 (x)",
		"|a b|c|\n|-|-|\n| `d` |e|":      "\x1b[1ma\x1b[0m \x1b[1mb\x1b[0m  \x1b[1mc\x1b[0m\n\x1b[36md\x1b[0m    e",
		"```\n| a |\n|---|\n[a](b)\n```": "  \x1b[36m| a |\x1b[0m\n  \x1b[36m|---|\x1b[0m\n  \x1b[36m[a](b)\x1b[0m",
	} {
		if got := s.render(in); got != want {
			t.Errorf("render(%q) = %q, want %q", in, got, want)
		}
	}
}

// The status line keeps the time at every width.
func TestStatusLine(t *testing.T) {
	for _, width := range []int{10, 14, 21, 40, 80} {
		var out bytes.Buffer
		s := atWidth(width)
		s.Err = &out
		p := newProgress(s, false)
		p.Phase("turn")
		p.Fact(turns.RuntimeEvent{Type: turns.ToolStarted, Payload: []byte(`{"tool_name":"ExecCommand","safe_args":` +
			`"{\"cmd\":\"` + strings.Repeat("日 very long ", 20) + `\"}"}`)})
		p.end()
		lines := strings.Split(strings.TrimSuffix(out.String(), "\r\x1b[K"), "\r\x1b[K")
		last := lines[len(lines)-1]
		if cells(last) >= width || !strings.HasSuffix(last, "…  0s") {
			t.Errorf("%d columns: the status line is %q of %d", width, last, cells(last))
		}
	}
}

// The details of a call stand on a terminal only, and within its width.
func TestCallDetails(t *testing.T) {
	started := `{"tool_name":"ApplyPatch","safe_args":"{\"patch\":\"*** Add File: a\\n%s\"}"}`
	for _, tty := range []bool{true, false} {
		var out bytes.Buffer
		s := atWidth(40)
		s.Err, s.ErrTTY = &out, tty
		p := newProgress(s, false)
		p.Fact(turns.RuntimeEvent{Type: turns.ToolStarted, ToolCallID: "1",
			Payload: fmt.Appendf(nil, started, strings.Repeat(`+a line that is wider than the terminal is\\n`, 9))})
		p.Fact(turns.RuntimeEvent{Type: turns.ToolResult, ToolCallID: "1", Payload: []byte(`{"duration_ms":100}`)})
		p.Fact(turns.RuntimeEvent{Type: turns.ToolStarted, ToolCallID: "2",
			Payload: []byte(`{"tool_name":"ExecCommand","safe_args":"{\"cmd\":\"make\"}"}`)})
		p.Fact(turns.RuntimeEvent{Type: turns.ToolResult, ToolCallID: "2", Payload: []byte(`{"duration_ms":100,` +
			`"exit_code":2,"canonical":{"result":{"stdout_preview":"1\n2\n3\n4\n","stderr_preview":null}}}`)})
		p.end()
		want := "  edit a +9 −0  (0.1s)\n" + strings.Repeat("      +a line that is wider than the t…\n", 6) +
			"      … 3 more lines\n  $ make  (0.1s)  exit 2\n      2\n      3\n      4\n"
		if !tty {
			want = "  edit a +9 −0  (0.1s)\n  $ make  (0.1s)  exit 2\n"
		}
		if got := out.String(); got != want {
			t.Errorf("terminal %v:\n%s\nwant\n%s", tty, got, want)
		}
	}
}
