package main

import (
	"strings"

	"holon/internal/pattern"

	"github.com/charmbracelet/x/ansi"
)

// Styles of a terminal (SGR).
const (
	styleBold  = "1"
	styleDim   = "2"
	styleRed   = "31"
	styleGreen = "32"
	styleCode  = "36"
)

// paint gives text a style, unless the person wants none (https://no-color.org). The text is fit to be printed already.
func (s Streams) paint(style, text string) string {
	if s.NoColor || text == "" {
		return text
	}
	return "\x1b[" + style + "m" + text + "\x1b[0m"
}

// cells is how many columns text takes.
func cells(text string) int { return ansi.StringWidth(text) }

// render is Markdown of a model for a terminal. Secrets and what would control the terminal are taken out before it is
// wrapped, since a secret with a space in it would not be found in two rows.
func (s Streams) render(text string) string {
	text = s.shown(s.Secrets.Text(text))
	return renderMarkdown(text, max(s.Width()-1, minWidth), !s.NoColor)
}

// answer is a message of the model on its way to a terminal: it is shown line by line where the lines are plain, else
// paragraph by paragraph.
type answer struct {
	pending string
	shown   bool // a part was
	gap     bool // an empty line followed it
}

// write takes the next piece of the text and returns rows that will not change.
func (a *answer) write(s Streams, delta string) (rows []string) {
	a.pending += delta
	for {
		at := wholePart(a.pending)
		if at < 0 {
			return rows
		}
		rows = append(rows, a.rows(s, a.pending[:at])...)
		a.pending = a.pending[at:]
	}
}

// end returns what is left.
func (a *answer) end(s Streams) []string {
	rows := a.rows(s, a.pending)
	a.pending = ""
	return rows
}

// rows are a part as rows of the terminal, with an empty one before it where the text has one.
func (a *answer) rows(s Streams, part string) (rows []string) {
	gap := a.gap || strings.HasPrefix(strings.TrimLeft(part, " \t\r"), "\n")
	if strings.TrimSpace(part) == "" {
		a.gap = gap
		return nil
	}
	if gap && a.shown {
		rows = []string{""}
	}
	a.shown, a.gap = true, strings.HasSuffix(strings.ReplaceAll(part, "\r", ""), "\n\n")
	return append(rows, strings.Split(s.render(strings.Trim(part, "\r\n")), "\n")...)
}

// wholePart returns where the first part of a text ends that later text does not change: a plain line, or what an empty
// line outside of code ends. It is -1 where none is whole.
func wholePart(text string) int {
	fence, begun, at := "", false, 0
	for line := range strings.Lines(text) {
		at += len(line)
		if !strings.HasSuffix(line, "\n") {
			return -1
		}
		bare := strings.TrimSpace(line)
		switch {
		case fence != "":
			if bare == fence {
				fence = ""
			}
		case strings.HasPrefix(bare, "```"), strings.HasPrefix(bare, "~~~"):
			fence, begun = bare[:3], true
		case !begun && plainLine().MatchString(line):
			return at
		case bare != "":
			begun = true
		case begun:
			return at
		}
	}
	return -1
}

// plainLine matches a line that begins no list, quotation, table or other block.
var plainLine = pattern.Lazy(`^\pL[^|]*\n$`)
