package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"holon/responses"
	"holon/responses/turns"
	"holon/runner/agent/record"
	"holon/state"
	"holon/test/expect"
)

// renderers draw what there is to see of each kind of output. How it looks at terminals of several widths, with styles,
// and in a pipe is a golden file each in testdata/render. There "␛" stands for the escape that begins a style.
var renderers = map[string]func(Streams) error{
	"markdown": func(s Streams) error { return s.printAnswer(prose) },
	"styles":   drawStyles,
	"table":    drawTables,
	"words":    drawWords,
	"progress": drawProgress,
	"records":  drawRecords,
}

func TestRender(t *testing.T) {
	for name, draw := range renderers {
		t.Run(name, func(t *testing.T) {
			var got strings.Builder
			for _, width := range []int{100, 40, 25, 14, 0} {
				var out strings.Builder
				s := notTerminals(&out, &out)
				s.OutTTY, s.ErrTTY, s.NoColor = width > 0, width > 0, width != 100
				s.Width = func() int { return width }
				s.ErrWidth = s.Width
				synctest.Test(t, func(t *testing.T) { // so that no time passes while it is drawn
					expect.NoError(t, draw(s))
				})
				where := "in a pipe"
				if width > 0 {
					where = fmt.Sprintf("at a terminal of %d columns", width)
				}
				shown := strings.NewReplacer("\x1b", "␛", "\r", "␍").Replace(out.String())
				fmt.Fprintf(&got, "== %s\n%s", where, shown)
			}
			golden(t, filepath.Join("testdata", "render", name+".golden"), got.String())
		})
	}
}

func write(s Streams, text string) error {
	_, err := io.WriteString(s.Out, text)
	return err
}

// golden compares a text with that of a file, or writes the file with -update.
func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		expect.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	expect.NoError(t, err)
	if got != string(want) {
		t.Errorf("got\n%s\nwant, as in %s (-update writes it)\n%s", got, path, want)
	}
}

const prose = "# Title\n\nSome *words* that are **more than** one row of `it`.\n\n- an item that is wrapped below " +
	"itself\n  2. nested\n> quoted words of somebody else\n```go\nfunc main() { return and never wrap this }\n```\n---\n" +
	"日本語日本語 日本語\n" +
	"a_very_long_word_that_is_wider_than_the_terminal x\n2 * 3 * 4 and ` alone\n| a | b | c | d | e | f | g | h |\n" +
	"see **[the [guide](https://h.test/a_(b))**, ![a picture](p.png \"title\"), [[1]](x) and <https://h.test>\n" +
	"| Name | What it does |\n|---|:-:|\n| `a` | is **very** long and wrapped |\n|b\\|c|[d](e)|\nbehind it\n" +
	"| x |\n| - |\n| \x1b[31my\x1b[0m |"

// Markdown looks the same however it arrives.
func TestMarkdownInPieces(t *testing.T) {
	s := notTerminals(nil, nil)
	s.OutTTY, s.NoColor, s.Width = true, true, func() int { return 25 }
	shown := func(size int) string {
		var a answer
		var rows []string
		for piece := range slices.Chunk([]byte(prose), size) {
			rows = append(rows, a.write(s, string(piece))...)
		}
		return strings.Join(append(rows, a.end(s)...), "\n")
	}
	want := shown(len(prose))
	for _, size := range []int{1, 2, 3, 7, 30} {
		if got := shown(size); got != want {
			t.Errorf("in pieces of %d bytes:\n%s\nwant\n%s", size, got, want)
		}
	}
}

// What links and tables have of a style, each word has, so that no cell gives its style to another.
func drawStyles(s Streams) (err error) {
	for _, text := range []string{"**[a](b)**", "[`a`](b)", "[![a](b)](c) [](d) [d](d)", "[a](",
		"[ ] to do, and list[0](x)", "|a b|c|\n|-|-|\n| `d` |e|", "```\n| a |\n|---|\n[a](b)\n```"} {
		err = errors.Join(err, s.printAnswer(text), write(s, "\n"))
	}
	return err
}

// A wide column is wrapped or cut, and what has no room stands on a line below.
func drawTables(s Streams) (err error) {
	plain := newTable(s, "KEY", "VALUE", "SOURCE")
	plain.row("image", "if it has a key", "default")
	plain.row("long", "", "x\ty\n\x1b[31mz")
	plain.row("wide", strings.Repeat("日", 160), "default")
	cut := newTable(s, "NAME", "WHERE*", "WHAT*")
	cut.row("a", "https://example.org", "something to do")
	bare := true
	s.NoHead = &bare
	headless := newTable(s, "NAME", "VALUE")
	headless.row("a", "b")
	for _, table := range []*table{plain, cut, headless} {
		err = errors.Join(err, table.end(), write(s, "\n"))
	}
	return err
}

const long = "something, and something, and something more than fits on one row, is wrong"

// What is long is wrapped at words. A fact and a remedy are shown whole.
func drawWords(s Streams) error {
	s.sayFailure(state.Failure{Param: "--model", Message: long, Hint: "choose " + long})
	return errors.Join(
		s.print("blocked: ", "  ", long),
		facts(s, "outcome", long, "results", strings.Repeat("/x", 20)),
		printRow(s, "a", long),
		write(s, reflow("a\nb\n\nc\n  d\n  e\nf "+strings.Repeat("seven77 ", 11)+"\n  "+strings.Repeat("seven77 ", 11)+
			"\n"+strings.Repeat("x", 90))),
		printJSON(s, map[string]string{"a": "<x>"}))
}

// The details of a call stand on a terminal only, where the status line keeps the time at every width. A call and how
// it ended share a row there.
func drawProgress(s Streams) error {
	p := newProgress(s, false)
	p.Phase("turn")
	p.Fact(turns.RuntimeEvent{Type: turns.ToolStarted, ToolCallID: "1", Payload: fmt.Appendf(nil,
		`{"tool_name":"ApplyPatch","safe_args":"{\"patch\":\"*** Add File: a\\n%s\"}"}`,
		strings.Repeat(`+a line that is wider than the terminal is\\n`, 9))})
	p.Fact(turns.RuntimeEvent{Type: turns.ToolResult, ToolCallID: "1", Payload: []byte(`{"duration_ms":100}`)})
	p.Fact(turns.RuntimeEvent{Type: turns.ToolStarted, ToolCallID: "2",
		Payload: []byte(`{"tool_name":"ExecCommand","safe_args":"{\"cmd\":\"make\"}"}`)})
	p.Fact(turns.RuntimeEvent{Type: turns.ToolResult, ToolCallID: "2", Payload: []byte(`{"duration_ms":100,` +
		`"exit_code":2,"canonical":{"result":{"stdout_preview":"1\n2\n3\n4\n","stderr_preview":null}}}`)})
	p.Fact(turns.RuntimeEvent{Type: turns.ToolStarted, Payload: []byte(`{"tool_name":"ExecCommand","safe_args":` +
		`"{\"cmd\":\"` + strings.Repeat("日 very long ", 20) + `\"}"}`)})
	p.Event(responses.Event{Type: responses.EventItemDone, Item: &responses.Message{ID: "m",
		Phase: responses.PhaseCommentary, Content: []responses.Part{{Type: responses.PartOutputText, Text: long}}}})
	p.end()
	ended := "  (2.8s)  failed: " + strings.Repeat("it was cancelled ", 5)
	return write(s, s.callLine("$ "+strings.Repeat("echo ", 60)+"end", ended)+"\n"+s.callLine("$ true", "  (0.1s)")+"\n")
}

// What an agent says is Markdown on a terminal, below a line of its own, and as it is elsewhere.
func drawRecords(s Streams) error {
	entry := record.TranscriptEntry{Kind: record.EntryRound, Data: []byte(`{"text":"- **b** [a](u)"}`)}
	return (&remote{base: base{streams: s}}).showEntry(entry)
}
