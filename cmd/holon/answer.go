package main

import (
	"fmt"
	"strings"

	"holon/internal/visible"
	"holon/responses"
)

// answer is a message of the model on its way to a terminal.
type answer struct {
	markdown
	pending string // the line that is being written
	shown   int    // rows of it that are on the screen
}

func (s Streams) newAnswer() *answer {
	return &answer{markdown: markdown{width: func() int { return s.Width() - 1 }, paint: s.paint}}
}

// write takes the next piece of the text and returns rows that will not change.
func (a *answer) write(s Streams, delta string) (rows []string) {
	a.pending += delta
	for {
		line, rest, ended := strings.Cut(a.pending, "\n")
		if !ended {
			break
		}
		rows = append(rows, a.whole(s, line)...)
		a.pending, a.shown = rest, 0
	}
	if len(a.pending) < s.Width() || !settled(a.pending) || fenceLine.MatchString(a.pending) || a.inTable(a.pending) {
		return rows
	}
	rows = append(rows, a.endTable()...)
	whole := a.line(s, a.pending)
	if last := len(whole) - 1; last > a.shown {
		rows = append(rows, whole[a.shown:last]...)
		a.shown = last
	}
	return rows
}

// end returns what is left.
func (a *answer) end(s Streams) (rows []string) {
	if strings.TrimSpace(a.pending) != "" {
		rows = a.whole(s, a.pending)
	}
	a.pending, a.shown = "", 0
	return append(rows, a.endTable()...)
}

// whole returns what is not shown yet of a line that has ended, behind the table that it ends.
func (a *answer) whole(s Streams, line string) []string {
	if a.inTable(line) {
		a.table = append(a.table, a.fit(s, line))
		return nil
	}
	rows := a.endTable()
	return append(rows, a.line(s, line)[a.shown:]...)
}

// fit makes a line of the model fit to be printed.
func (a *answer) fit(s Streams, line string) string {
	return s.shown(s.Secrets.Text(strings.TrimRight(line, " \r")))
}

// line makes a line of the model fit to be printed before it is styled.
func (a *answer) line(s Streams, line string) []string {
	rows := a.rows(a.fit(s, line))
	for len(rows) < a.shown { // a mark that was closed later made it shorter
		rows = append(rows, "")
	}
	return rows
}

// render is a whole text for a terminal.
func (s Streams) render(text string) string {
	a := s.newAnswer()
	rows := a.write(s, strings.TrimSpace(text))
	return strings.Join(append(rows, a.end(s)...), "\n")
}

// live reports whether the messages of the model are shown while they are written.
func (p *progress) live() bool {
	return p.streams.OutTTY && p.streams.ErrTTY && !p.streams.CI && !p.quiet && !p.json
}

// message shows a message of the model as its events arrive, and notes the one that was shown whole. The caller
// holds mu.
func (p *progress) message(ev responses.Event) {
	m, isMessage := ev.Item.(*responses.Message)
	switch {
	case isMessage && ev.Type == responses.EventItemAdded && p.live():
		p.writing = p.streams.newAnswer()
		p.doing = "writing"
	case ev.Type == responses.EventTextDelta && p.writing != nil:
		p.printRows(p.writing.write(p.streams, ev.Delta))
		if tail := strings.TrimSpace(p.writing.pending); tail != "" {
			p.doing = visible.OneLine(p.streams.Secrets.Text(tail), 500)
		}
	case isMessage && ev.Type == responses.EventItemDone && p.writing != nil:
		p.printRows(p.writing.end(p.streams))
		p.writing, p.doing = nil, ""
		p.told = m.Text()
	case isMessage && ev.Type == responses.EventItemDone && m.Phase == responses.PhaseCommentary:
		p.printLocked("  " + visible.OneLine(m.Text(), 500))
	}
	p.draw()
}

// commentary prints a message of the model that is not its answer and was not shown while it was written.
func (p *progress) commentary(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	text = strings.TrimSpace(text)
	switch {
	case p.quiet || text == "":
	case p.json || !p.streams.OutTTY || p.streams.CI:
		p.printLocked("  " + strings.ReplaceAll(p.streams.shown(text), "\n", "\n  "))
	default:
		p.printRows(strings.Split(p.streams.render(text), "\n"))
		p.draw()
	}
}

// printRows prints rows of a message above the status line. The caller holds mu.
func (p *progress) printRows(rows []string) {
	if len(rows) == 0 {
		return
	}
	p.erase()
	for _, row := range rows {
		fmt.Fprintln(p.streams.Out, row)
	}
}

// showAnswer prints the answer, unless it stands on the terminal already.
func (p *progress) showAnswer() error {
	text := strings.TrimSpace(p.answer())
	p.mu.Lock()
	told := strings.TrimSpace(p.told)
	p.mu.Unlock()
	if text == "" || text == told {
		return nil
	}
	return p.streams.printAnswer(text)
}

// printAnswer prints a text of the model: as Markdown on a terminal, as it is elsewhere.
func (s Streams) printAnswer(text string) error {
	shown := s.shown(text)
	if s.OutTTY && !s.CI {
		shown = s.render(text)
	}
	_, err := fmt.Fprintln(s.Out, shown)
	return err
}
