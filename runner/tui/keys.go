package tui

import (
	"context"

	tea "charm.land/bubbletea/v2"
)

// key takes a key: for the overlay on top, or else the conversation. Letters always go to the composer.
func (m *model) key(k tea.KeyPressMsg) tea.Cmd {
	o := m.top()
	name := k.String()
	if name != "esc" && name != "ctrl+c" {
		m.asked = ""
	}
	switch name {
	case "esc":
		return m.escape()
	case "ctrl+c":
		return m.leave()
	case "ctrl+d":
		if m.composer.Value() == "" {
			return m.quit()
		}
	case "enter":
		return m.enter(o)
	case "tab":
		return m.complete()
	case "backspace":
		if n := len(m.files); n > 0 && m.composer.Value() == "" {
			m.files = m.files[:n-1]
			return nil
		}
	case "ctrl+x":
		if o != nil {
			return m.second(o)
		}
	case "ctrl+l":
		return tea.ClearScreen
	}
	if m.move(o, name) {
		return nil
	}
	return m.typed(k)
}

// enter answers or chooses in the overlay on top, or sends.
func (m *model) enter(o *overlay) tea.Cmd {
	switch {
	case o != nil && o.yes != nil:
		return m.answer(o)
	case o != nil && m.composer.Value() == "" && len(m.files) == 0:
		return m.choose(o)
	}
	return m.submit()
}

// farLines is how far Ctrl+Home goes up: all that is passed has to be drawn.
const farLines = 2000

// move moves in the overlay on top, the history or the conversation, and reports whether the key did.
func (m *model) move(o *overlay, key string) bool {
	page := max(1, m.bodyHeight()-2)
	step, ok := map[string]int{"pgup": -page, "pgdown": page, "ctrl+up": -1, "ctrl+down": 1, "shift+up": -1,
		"shift+down": 1, "ctrl+home": -farLines, "ctrl+end": maxRows * farLines}[key]
	switch {
	case o != nil && ok:
		o.move(step, m)
	case ok:
		m.scrolled = max(0, m.scrolled-step)
		_, m.scrolled = m.rows.window(m.bodyHeight(), m.scrolled)
	case o != nil && key == "up" && m.composer.LineCount() <= 1:
		o.move(-1, m)
	case o != nil && key == "down" && m.composer.LineCount() <= 1:
		o.move(1, m)
	case key == "up" && m.composer.Line() == 0:
		return m.recall(-1)
	case key == "down" && m.composer.Line() == m.composer.LineCount()-1:
		return m.recall(1)
	default:
		return false
	}
	return true
}

// escape closes the overlay on top; without one it asks whether the turn is to be interrupted, and then does it.
func (m *model) escape() tea.Cmd {
	switch {
	case len(m.overlays) > 0:
		if m.top().yes != nil {
			m.say("nothing was done", nil)
		}
		m.overlays = m.overlays[:len(m.overlays)-1]
		return nil
	case !m.status.Running:
		m.asked, m.notice = "", ""
		return nil
	case m.asked != "interrupt":
		m.asked, m.failed = "interrupt", false
		m.notice = "Esc again interrupts the turn"
		return nil
	}
	m.asked, m.notice = "", "interrupting"
	return m.interrupt()
}

func (m *model) interrupt() tea.Cmd {
	return m.act(func(ctx context.Context, b backend) (string, error) { return "interrupted", b.interrupt(ctx) })
}

// leave clears the composer; an empty one is asked about once before the program ends.
func (m *model) leave() tea.Cmd {
	switch {
	case m.composer.Value() != "" || len(m.files) > 0:
		m.composer.Reset()
		m.files, m.asked = nil, ""
	case m.asked == "quit":
		return m.quit()
	default:
		m.asked, m.failed = "quit", false
		m.notice = "Ctrl+C again leaves; turns go on"
	}
	return nil
}

// act is a command that does something, and says what.
func (m *model) act(do func(context.Context, backend) (string, error)) tea.Cmd {
	return m.call(func(ctx context.Context, b backend) tea.Msg {
		text, err := do(ctx, b)
		return doneMsg{text: text, err: err}
	})
}
