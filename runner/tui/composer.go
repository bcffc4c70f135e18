package tui

import (
	"context"
	"reflect"
	"slices"
	"strings"

	"charm.land/bubbles/v2/key"
	"charm.land/bubbles/v2/textarea"
	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"holon/internal/visible"
	"holon/responses"
	"holon/state"
)

// newComposer makes the field in which messages are written.
func newComposer() textarea.Model {
	c := textarea.New()
	c.ShowLineNumbers, c.CharLimit, c.MaxHeight, c.MinHeight, c.DynamicHeight = false, 0, 8, 1, true
	c.MaxContentHeight = 100_000
	c.Placeholder = "Message, or / for commands"
	c.SetPromptFunc(2, func(info textarea.PromptInfo) string {
		if info.LineNumber == 0 {
			return "❯ "
		}
		return "  "
	})
	c.KeyMap.InsertNewline = key.NewBinding(key.WithKeys("alt+enter", "shift+enter", "ctrl+j"))
	c.SetVirtualCursor(false)
	styles := textarea.DefaultDarkStyles()
	plain := textarea.StyleState{Placeholder: lipgloss.NewStyle().Faint(true), Prompt: lipgloss.NewStyle().Bold(true)}
	styles.Focused, styles.Blurred = plain, plain
	c.SetStyles(styles)
	c.SetHeight(1)
	return c
}

// typed gives a message to the composer.
func (m *model) typed(msg tea.Msg) tea.Cmd {
	var cmd tea.Cmd
	m.composer, cmd = m.composer.Update(msg)
	return cmd
}

// setText replaces what is written.
func (m *model) setText(text string) {
	m.composer.SetValue(text)
	m.composer.MoveToEnd()
}

// paste adds what was pasted: a path of a file as the file, the rest as text without what controls a terminal.
func (m *model) paste(text string) tea.Cmd {
	text = visible.Text(strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n"))
	if path := pastedPath(text); path != "" {
		return m.do(func(context.Context) tea.Msg {
			file, err := attach(path)
			return attachedMsg{file: file, pasted: text, err: err}
		})
	}
	if strings.Count(text, "\n")+m.composer.LineCount() > maxLines || len(text)+m.composer.Length() > maxTyped {
		m.attached(attachedMsg{file: textFile("pasted text", text)})
		return nil
	}
	m.composer.InsertString(text)
	return nil
}

// What the composer holds: it would cut off more. A longer text is sent with the message, as a file is.
const (
	maxLines = 2_000
	maxTyped = 100_000 // characters
)

// attached takes a file, or the text that named none.
func (m *model) attached(msg attachedMsg) {
	if msg.err != nil {
		m.composer.InsertString(msg.pasted)
		return
	}
	m.files = append(m.files, msg.file)
}

// submit sends what is written, or does the command that it is.
func (m *model) submit() tea.Cmd {
	text := strings.TrimSpace(m.composer.Value())
	if text == "" && len(m.files) == 0 {
		return nil
	}
	if text != "" && (len(m.history) == 0 || m.history[len(m.history)-1] != text) {
		m.history = append(m.history, text)
	}
	m.recalled, m.draft = len(m.history), ""
	m.composer.Reset()
	m.notice, m.asked = "", ""
	if strings.HasPrefix(text, "/") && !strings.Contains(text, "\n") {
		if cmd, ok := m.command(text); ok {
			return cmd
		}
	}
	if o := m.top(); o != nil && o.diff != nil && text != "" {
		m.comment(o, text)
		return nil
	}
	p := prompt{Text: text, Files: m.files}
	if u := m.unsent; u.Key != "" && m.unsentAs == text && reflect.DeepEqual(u.Files, p.Files) {
		p = u // where it has arrived, it does not do so twice
	}
	m.files, m.scrolled, m.unsent = nil, 0, prompt{}
	return m.send(p)
}

// send sends a message, or has it wait for those before it.
func (m *model) send(p prompt) tea.Cmd {
	if len(m.queue) > 0 || m.held() {
		m.queue = append(m.queue, p)
		return nil
	}
	return m.sendNow(p)
}

// sendNow sends a message. To an agent that works it goes into the turn, unless one from here waits for the next turn:
// it would come before that one.
func (m *model) sendNow(p prompt) tea.Cmd {
	if p.Key == "" {
		p.Key, p.Urgent = responses.NewID(responses.PrefixMessage), m.interjects() && len(p.Files) == 0
	}
	m.sending, m.leaving = m.sending+1, false
	return m.call(func(ctx context.Context, b backend) tea.Msg {
		id, err := b.submit(ctx, p)
		return sentMsg{p, id, err}
	})
}

// interjects reports whether a message goes into the turn that runs.
func (m *model) interjects() bool { return m.status.Running && len(m.behind) == 0 }

// held reports whether a message waits: they are sent one after another, and a session has one turn at a time.
func (m *model) held() bool {
	if m.target.Agent == "" {
		return m.busy()
	}
	return m.sending > 0
}

// busy reports whether a turn runs, or is about to.
func (m *model) busy() bool {
	return m.status.Running || m.sending > 0 || m.target.Agent == "" && m.status.Begun < m.sentOff
}

// sent takes the answer to a message. One that was not taken is written again, so that nothing is lost.
func (m *model) sent(msg sentMsg) tea.Cmd {
	m.sending--
	if msg.err == nil {
		m.sentOff++
		if row := m.rows.find("message-" + msg.id); msg.id != "" && !msg.prompt.Urgent && (row == nil || row.Open) {
			m.behind[msg.id] = true
		}
		if len(m.queue) == 0 && m.leaving {
			return m.quit()
		}
		return m.sendQueued()
	}
	m.leaving = false
	if state.IsCode(msg.err, responses.CodePreviousInProgress) { // a turn of another client, which is seen soon
		m.queue = slices.Insert(m.queue, 0, msg.prompt)
		return nil
	}
	m.say("", msg.err)
	if m.composer.Value() == "" && len(m.files) == 0 && len(m.queue) == 0 {
		m.unsent = msg.prompt
	}
	m.restore(append([]prompt{msg.prompt}, m.queue...)...)
	m.queue = nil
	m.unsentAs = strings.TrimSpace(m.composer.Value())
	return nil
}

// restore writes messages that were not sent before what is written now.
func (m *model) restore(unsent ...prompt) {
	var texts []string
	var files []attachment
	for _, p := range append(unsent, prompt{Text: m.composer.Value(), Files: m.files}) {
		if files = append(files, p.Files...); p.Text != "" {
			texts = append(texts, p.Text)
		}
	}
	m.files = files
	m.setText(strings.Join(texts, "\n\n"))
}

// stay reports whether leaving the conversation would lose messages that wait for the end of a turn. They are in the
// composer then: only this program has them.
func (m *model) stay() bool {
	if len(m.queue) == 0 {
		return false
	}
	m.restore(m.queue...)
	m.queue = nil
	m.notice, m.failed = "not left: what waited for the turn is not sent: it is here again; "+
		"send it, or clear it with Ctrl+C", true
	return true
}

// quit leaves once nothing is lost by that. Asked again, it does not wait for what is being sent.
func (m *model) quit() tea.Cmd {
	if m.stay() {
		return nil
	}
	if m.sending > 0 && !m.leaving {
		m.leaving = true
		m.say("leaving once the message is sent; again leaves at once", nil)
		return nil
	}
	return m.exit()
}

// sendQueued sends the first message that waited.
func (m *model) sendQueued() tea.Cmd {
	if len(m.queue) == 0 || m.held() {
		return nil
	}
	p := m.queue[0]
	m.queue = m.queue[1:]
	return m.sendNow(p)
}

// recall writes an earlier message, by so many steps, and reports whether there is one.
func (m *model) recall(step int) bool {
	at := m.recalled + step
	if at < 0 || at > len(m.history) || m.recalled == at {
		return false
	}
	if m.recalled == len(m.history) {
		m.draft = m.composer.Value()
	}
	if m.recalled = at; at == len(m.history) {
		m.setText(m.draft)
	} else {
		m.setText(m.history[at])
	}
	return true
}
