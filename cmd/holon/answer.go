package main

import (
	"fmt"
	"strings"

	"holon/internal/visible"
	"holon/responses"
)

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
		p.writing = &answer{}
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
