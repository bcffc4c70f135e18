package tui

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"holon/internal/visible"
	"holon/runner/review"
)

// View draws the model.
func (m *model) View() tea.View {
	var v tea.View
	v.AltScreen = !m.inline
	v.WindowTitle = "holon " + m.line(m.status.Name)
	above := append([]string{m.header()}, m.body()...)
	if m.inline { // the header stays with the composer, below what scrolls away
		above = append(m.body(), m.header())
	}
	above = append(above, m.pending()...)
	above = append(above, m.paint(dim, strings.Repeat("─", m.width)))
	v.Content = strings.Join(append(above, m.composer.View(), m.hint()), "\n")
	m.above.draws(strings.Count(v.Content, "\n") + 1)
	if c := m.composer.Cursor(); c != nil {
		c.Y += len(above)
		v.Cursor = c
	}
	return v
}

// bodyHeight is how many lines are left for the conversation.
func (m *model) bodyHeight() int {
	height := m.height - 3 - m.composer.Height() - len(m.pending())
	if m.inline { // lines are printed above
		height--
	}
	return max(1, height)
}

// inlineRows bounds what is drawn of a text that is written, without the alternate screen.
const inlineRows = 6

// body is the overlay on top, or the conversation.
func (m *model) body() []string {
	height := m.bodyHeight()
	var lines []string
	if o := m.top(); o != nil {
		lines = m.drawOverlay(o, height)
	} else {
		if m.inline && m.scrolled == 0 { // all of it comes into the scrollback; a resize leaves a copy of what is here
			height = min(height, inlineRows)
		}
		lines, _ = m.rows.window(height, m.scrolled)
		if len(lines) == 0 && len(m.rows.list) == 0 && !m.inline {
			lines = m.welcome(height)
		}
	}
	if m.inline {
		return lines
	}
	for len(lines) < height {
		lines = append(lines, "")
	}
	return lines
}

// welcome is what an empty conversation shows.
func (m *model) welcome(height int) []string {
	lines := []string{"", m.paint(bold, "  Write what is to be done, and press Enter."), ""}
	if m.target.Agent == "" && m.target.Workspace != "" {
		lines = append(lines, "  The session works on a private copy of "+m.line(m.target.Workspace)+".",
			"  /diff shows what it changed, /apply brings it into your files.")
	}
	lines = append(lines, "  /help lists the commands.")
	for i := range lines {
		lines[i] = ansi.Truncate(lines[i], m.width, "…")
	}
	return lines[:min(height, len(lines))]
}

// header is the line about the conversation.
func (m *model) header() string {
	s := m.status
	state := m.line(s.State)
	if s.Running {
		state = "● " + ansi.Truncate(cmp.Or(m.line(m.doing.Doing), state), max(12, m.width/4), "…")
		if d := m.now.Sub(s.Since); d >= time.Second && !s.Since.IsZero() {
			state += " " + d.Round(time.Second).String()
		}
	} else if m.sending > 0 {
		state = "sending"
	}
	if m.away {
		state = "the daemon is away"
	}
	if m.ended != nil {
		state = "ended"
	}
	parts := []string{cmp.Or(m.line(s.Name), "…"), state}
	add := func(text string) {
		if text != "" {
			parts = append(parts, text)
		}
	}
	if s.Isolation != "" {
		add("not_enforced")
	}
	add(shortPath(m.line(s.Model), max(28, m.width*2/5)))
	if s.Queued > 0 {
		add(fmt.Sprintf("%d queued", s.Queued))
	}
	if s.Tokens > 0 {
		add(s.Mark + count(s.Tokens) + " tokens")
	}
	if s.Cost != "" {
		add("cost " + m.line(s.Cost))
	}
	add(shortPath(m.line(s.Workspace), m.width/4))
	add(m.line(s.Work))
	text := ansi.Truncate(" "+strings.Join(parts, " · "), m.width, "…")
	text += strings.Repeat(" ", max(0, m.width-ansi.StringWidth(text)))
	if m.away || m.ended != nil {
		return m.paint(alarm, text)
	}
	return m.paint(inverse, text)
}

// shortPath is the end of a path that does not fit.
func shortPath(path string, width int) string {
	if over := ansi.StringWidth(path) - width; over > 0 {
		return ansi.TruncateLeft(path, over+1, "…")
	}
	return path
}

// count is a number with its thousands left out.
func count(n int64) string {
	if n < 10_000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%dk", n/1000)
}

// pending are lines between the body and the composer: what waits, what is attached, what was said about a command.
func (m *model) pending() (lines []string) {
	for i, p := range m.queue {
		if i == 2 && len(m.queue) > 3 {
			lines = append(lines, m.paint(dim, fmt.Sprintf("  … and %d more", len(m.queue)-i)))
			break
		}
		why := "  waits for the turn: "
		if m.target.Agent != "" {
			why = "  is sent after the one before: "
		}
		lines = append(lines, m.paint(dim, ansi.Truncate(why+m.line(p.Text), m.width, "…")))
	}
	var names []string
	for _, f := range m.files {
		names = append(names, fmt.Sprintf("[%s, %s]", visible.Name(f.Name), visible.Size(int64(f.Size))))
	}
	if len(names) > 0 {
		lines = append(lines, ansi.Truncate("  "+strings.Join(names, " "), m.width, "…"))
	}
	if n := len(m.comments); n > 0 {
		lines = append(lines, m.paint(code, fmt.Sprintf("  comments to send: %d", n)))
	}
	notice, style := m.notice, code
	if m.failed {
		style = red
	} else if notice == "" && m.status.Hint != "" {
		notice, style = m.status.Hint, code
	}
	if notice != "" {
		rows := strings.Split(ansi.Wrap(m.clean(notice), m.width-2, ""), "\n")
		if most := max(1, min(6, m.height/4)); len(rows) > most {
			rows = append(rows[:most-1], fmt.Sprintf("… %d more lines", len(rows)-most+1))
		}
		for _, row := range rows {
			lines = append(lines, m.paint(style, "  "+row))
		}
	}
	return lines
}

// hint is the last line: what can be done now.
func (m *model) hint() string {
	text := "Enter sends · Alt+Enter new line · /help"
	o := m.top()
	switch names := m.completions(); {
	case len(names) > 0:
		text = strings.Join(names, "  ")
		if len(names) > 1 {
			text = "Tab: " + text
		}
	case o != nil:
		text = hints[o.kind]
		if o.yes != nil {
			text = "y and Enter: yes · Enter or Esc: no"
		} else if o.items == nil && o.diff == nil {
			text = "PgUp PgDn scroll · Esc closes"
		}
		if o.kind == pageTasks && o.id != "" {
			text = "Ctrl+X stops it · " + text
		}
	case m.scrolled > 0:
		text = fmt.Sprintf("%d lines below · PgDn · Ctrl+End", m.scrolled)
	case m.status.Running:
		text = "Esc interrupts · Enter queues · /help"
		if m.target.Agent != "" && m.interjects() {
			text = "Esc interrupts · Enter interjects · /help"
		}
	}
	return m.paint(dim, ansi.Truncate(" "+text, m.width, "…"))
}

// hints say what keys do in an overlay.
var hints = map[string]string{
	pageAgents:    "Enter talks to it · Esc closes",
	pageWork:      "Enter shows it · Ctrl+X makes it the current one · Esc closes",
	pageTasks:     "Enter shows its output · Ctrl+X stops it · Esc closes",
	pageChildren:  "Enter shows it · Ctrl+X stops it · Esc closes",
	pageWorkspace: "Enter works there · Ctrl+X leaves it · /workspace attach PATH · Esc closes",
	pageEvents:    "Enter shows it whole · Esc closes",
	pageModel:     "Enter chooses it · Esc closes",
	pageRewind:    "Enter goes back there · Esc closes",
	pageDiff:      "text + Enter comments on the line · Enter sends · Ctrl+X takes one back · Esc closes",
}

// drawOverlay draws an overlay in so many lines.
func (m *model) drawOverlay(o *overlay, height int) []string {
	lines := []string{m.paint(bold, ansi.Truncate(" "+m.line(o.title), m.width, "…"))}
	room := max(1, height-1)
	switch {
	case o.loading:
		lines = append(lines, m.paint(dim, " …"))
	case o.diff != nil:
		from := max(0, min(o.at-room/2, len(o.diff)-room))
		for i := from; i < min(len(o.diff), from+room); i++ {
			lines = append(lines, m.drawDiffLine(o.diff[i], i == o.at))
		}
	case o.lines != nil:
		lines = append(lines, o.lines[min(o.at, len(o.lines)-1):min(len(o.lines), o.at+room)]...)
	case len(o.items) == 0:
		lines = append(lines, m.paint(dim, " none"))
	default:
		lines = append(lines, m.drawItems(o, room)...)
	}
	return lines[:min(len(lines), height)]
}

func (m *model) drawDiffLine(l review.Line, chosen bool) string {
	mark, comments := "  ", 0
	for _, c := range m.comments {
		if c.Code == l.Text && c.File == l.File && c.Line == l.Line {
			comments++
		}
	}
	if comments > 0 {
		mark = "# "
	}
	if chosen {
		mark = "> "
	}
	text := strings.ReplaceAll(visible.Code(visible.Clip(m.hide(l.Text), 2000)), "\t", "    ")
	text = ansi.Truncate(mark+strings.ReplaceAll(text, "\n", " "), m.width, "…")
	switch {
	case chosen:
		return m.paint(inverse, text)
	case l.Kind == '+':
		return m.paint(green, text)
	case l.Kind == '-':
		return m.paint(red, text)
	case l.Kind == '@':
		return m.paint(code, text)
	case l.Kind == 'f':
		return m.paint(bold, text)
	}
	return text
}

// drawItems draws a table of which the chosen row is on screen. The last column takes what room there is.
func (m *model) drawItems(o *overlay, room int) (lines []string) {
	widths := make([]int, len(o.heads))
	for i, head := range o.heads {
		widths[i] = ansi.StringWidth(head)
		for _, it := range o.items {
			if i < len(it.Cells) {
				widths[i] = max(widths[i], min(ansi.StringWidth(m.line(it.Cells[i])), max(8, m.width*2/5)))
			}
		}
	}
	row := func(mark string, cells []string) string {
		text := mark
		for i, cell := range cells {
			cell = m.line(cell)
			if i < len(cells)-1 {
				cell = ansi.Truncate(cell, widths[i], "…")
				cell += strings.Repeat(" ", max(0, widths[i]-ansi.StringWidth(cell))) + "  "
			}
			text += cell
		}
		return ansi.Truncate(strings.TrimRight(text, " "), m.width, "…")
	}
	if len(o.heads) > 0 && room > 1 {
		lines, room = append(lines, m.paint(dim, row("   ", o.heads))), room-1
	}
	from := max(0, min(o.at-room/2, len(o.items)-room))
	for i := from; i < min(len(o.items), from+room); i++ {
		mark := "   "
		if o.items[i].Mark {
			mark = " ● "
		}
		text := row(mark, o.items[i].Cells)
		if i == o.at {
			text = m.paint(inverse, text+strings.Repeat(" ", max(0, m.width-ansi.StringWidth(text))))
		}
		lines = append(lines, text)
	}
	return lines
}
