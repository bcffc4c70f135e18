package tui

import (
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
)

// scrollback is what is printed above the frame of a program without the alternate screen. The renderer moves the frame
// down by as many lines as it prints, and loses those that do not fit above it: no more are printed at once, one print
// after another, since commands have no order, and only over a frame that was drawn.
type scrollback struct {
	lines    []string // to print, in order
	printing bool
	leaving  bool
	shown    int // lines of the tallest frame that the terminal may show
	drawn    int // of the newest one
}

// redrawPause is longer than the renderer takes to show the newest frame.
const redrawPause = 50 * time.Millisecond

// printedMsg says that lines were printed, and that the newest frame is shown.
type printedMsg struct{}

// draws notes the height of a frame.
func (s *scrollback) draws(height int) {
	s.drawn, s.shown = height, max(s.shown, height)
}

// next takes the lines that fit above the frame.
func (s *scrollback) next(height int) (text string) {
	n := min(len(s.lines), height-s.shown)
	text, s.lines = strings.Join(s.lines[:n], "\n"), s.lines[n:]
	return text
}

// fits reports whether a line fits above the frame.
func (s *scrollback) fits(height int) bool { return s.shown < height }

// print prints what fits of the rows that will not change any more, and goes on when that is done.
func (m *model) print() tea.Cmd {
	s := &m.above
	if s.printing || len(s.lines) == 0 || m.top() != nil {
		return nil
	}
	s.printing = true
	shown := m.wait(redrawPause, func(time.Time) tea.Msg { return printedMsg{} })
	if !s.fits(m.height) {
		return shown
	}
	return tea.Sequence(tea.Println(s.next(m.height)), shown)
}

// printed goes on with what is left.
func (m *model) printed() tea.Cmd {
	m.above.printing, m.above.shown = false, m.above.drawn
	if m.above.leaving {
		return m.exit()
	}
	return m.print()
}

// exit ends the program, once the rest is printed. Asked again, it does not wait for that.
func (m *model) exit() tea.Cmd {
	s := &m.above
	if m.overlays = nil; len(s.lines) == 0 || s.leaving && s.printing {
		return tea.Quit
	}
	s.leaving = true
	return m.print()
}
