package tui

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"holon/internal/visible"
	"holon/runner/present"
	"holon/runner/present/terminal"
)

// Styles of a terminal (SGR): 16 colours on the terminal's own background.
const (
	bold    = "1"
	dim     = "2"
	inverse = "7"
	red     = "31"
	green   = "32"
	code    = "36"
	alarm   = "7;31"
)

func (m *model) paint(style, text string) string {
	if text == "" || !m.color && style != inverse && style != alarm {
		return text
	}
	if !m.color {
		style = inverse // the only way to see what is chosen
	}
	return "\x1b[" + style + "m" + text + "\x1b[0m"
}

const maxShown = 64 << 10 // bytes of one text on screen

// hide takes the secrets of this process out.
func (m *model) hide(text string) string {
	if m.secrets == nil {
		return text
	}
	return m.secrets(text)
}

// clean makes a text of others harmless, with spaces for tabs.
func (m *model) clean(text string) string {
	return strings.ReplaceAll(visible.Text(visible.Clip(m.hide(text), maxShown)), "\t", "    ")
}

// line is clean for one line.
func (m *model) line(text string) string { return visible.OneLine(m.hide(text), 2000) }

// oneLine is line with the spaces at the ends.
func (m *model) oneLine(text string) string {
	return strings.ReplaceAll(m.clean(visible.Clip(text, 2000)), "\n", " ")
}

// draw makes lines of a row, one at least.
func (m *model) draw(r present.Row) []string {
	width := max(10, m.width-1)
	switch {
	case r.Category == present.CategoryMessage && strings.HasPrefix(r.Title, "operator"):
		lines := prefixed("❯ ", "  ", wrap(m.clean(r.Body), width-2))
		for i := range lines {
			lines[i] = m.paint(bold, lines[i])
		}
		return append([]string{""}, lines...)
	case r.Markdown:
		text := m.written(r, width-2)
		return append([]string{""}, prefixed(m.paint(dot(r), "● "), "  ", text)...)
	case r.Call != nil && r.Category == present.CategoryTool: // another one is what came of a call
		return m.drawCall(r, width)
	}
	head := "· " + m.line(cmp.Or(r.Summary, r.Title))
	style := dim
	switch {
	case r.Failed:
		style = red
	case r.Visibility == "action_required":
		style = bold
	}
	lines := []string{}
	for _, l := range prefixed("", "  ", wrap(head, width-2)) {
		lines = append(lines, m.paint(style, l))
	}
	if body := strings.TrimSpace(m.clean(r.Body)); body != "" && !strings.Contains(head, m.line(r.Body)) {
		lines = append(lines, prefixed("  ", "  ", wrap(body, width-2))...)
	}
	return lines
}

// writing is what is drawn of a text that a model writes: the paragraphs that are whole are drawn once.
type writing struct {
	key   string
	at    int // where the paragraph begins that is written now
	lines []string
}

// written draws a text of a model.
func (m *model) written(r present.Row, width int) []string {
	if !r.Open {
		return strings.Split(m.markdown(r.Body, width), "\n")
	}
	at := paragraph(r.Body)
	if m.writing.key != r.Key || m.writing.at > at {
		m.writing = writing{key: r.Key}
	}
	if w := &m.writing; at > w.at {
		w.lines = append(append(w.lines, strings.Split(m.markdown(r.Body[w.at:at], width), "\n")...), "")
		w.at = at
	}
	return append(slices.Clone(m.writing.lines), strings.Split(m.markdown(r.Body[at:], width), "\n")...)
}

// paragraph is where the last paragraph of a text begins; one with a block of code has all of it.
func paragraph(text string) (at int) {
	fenced, pos := false, 0
	for line := range strings.Lines(text) {
		pos += len(line)
		if bare := strings.TrimSpace(line); strings.HasPrefix(bare, "```") || strings.HasPrefix(bare, "~~~") {
			fenced = !fenced
		} else if bare == "" && !fenced && strings.HasSuffix(line, "\n") {
			at = pos
		}
	}
	return at
}

func dot(r present.Row) string {
	switch {
	case r.Failed:
		return red
	case r.Category == present.CategoryBrief:
		return green
	}
	return dim
}

// drawCall draws a call of a tool: what it does, the lines of an edit, and the end of what was printed.
func (m *model) drawCall(r present.Row, width int) []string {
	c := r.Call
	end := ""
	switch {
	case r.Open:
		end = "  …"
	case c.ExitCode != nil && *c.ExitCode != 0:
		end = fmt.Sprintf("  exit %d", *c.ExitCode)
	}
	if c.DurationMS >= 1000 {
		end += "  " + (time.Duration(c.DurationMS) * time.Millisecond).Round(100*time.Millisecond).String()
	}
	style := code
	if r.Failed {
		style = red
	}
	head := strings.ReplaceAll(cmp.Or(c.Text, r.Summary, r.Title), "\n", " ")
	head = ansi.Truncate("• "+m.line(head), width-ansi.StringWidth(end), "…")
	lines := []string{m.paint(style, head) + m.paint(dim, end)}
	for _, l := range c.Diff {
		style := dim
		switch {
		case strings.HasPrefix(l, "+"):
			style = green
		case strings.HasPrefix(l, "-"):
			style = red
		}
		lines = append(lines, m.paint(style, ansi.Truncate("  "+m.oneLine(l), width, "…")))
	}
	for _, l := range c.Output {
		lines = append(lines, m.paint(dim, ansi.Truncate("  │ "+m.oneLine(l), width, "…")))
	}
	return lines
}

func wrap(text string, width int) []string {
	return strings.Split(ansi.Wrap(strings.TrimRight(text, "\n"), max(5, width), ""), "\n")
}

// prefixed sets first before the first line and rest before the others.
func prefixed(first, rest string, lines []string) []string {
	out := make([]string, len(lines))
	for i, l := range lines {
		if i > 0 {
			first = rest
		}
		out[i] = strings.TrimRight(first+l, " ")
	}
	return out
}

// markdown draws a text of a model for the terminal.
func (m *model) markdown(text string, width int) string {
	return terminal.Render(m.clean(text), max(5, width), m.dark, m.color)
}
