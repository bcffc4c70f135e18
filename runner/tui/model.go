package tui

import (
	"context"
	"fmt"
	"slices"
	"time"

	"charm.land/bubbles/v2/textarea"
	tea "charm.land/bubbletea/v2"

	"holon/internal/visible"
	"holon/runner/control/wire"
	"holon/runner/present"
	"holon/runner/review"
	"holon/state"
)

// model is the state of the program. Its methods do no I/O.
type model struct {
	open func(Target) backend
	feed *feed
	do   func(func(context.Context) tea.Msg) tea.Cmd // makes a command of what is to be done
	next tea.Cmd                                     // waits for events
	wait func(time.Duration, func(time.Time) tea.Msg) tea.Cmd

	conversation int // number of the one that is shown
	target       Target
	backend      backend
	status       status
	doing        present.Status // what the turn does
	away         bool           // the daemon does not answer
	ended        error          // of the conversation; nil: it goes on
	rows         *rows
	writing      writing
	scrolled     int // lines below the screen
	mode         present.Mode

	composer textarea.Model
	files    []attachment
	queue    []prompt        // that wait for the end of the turn, or for those before them
	behind   map[string]bool // messages from here that wait in the agent's queue, by id
	sending  int
	unsent   prompt // that came back; it may have arrived
	unsentAs string // its text in the composer
	leaving  bool   // once what is sent has arrived
	sentOff  int    // messages that the session took
	history  []string
	recalled int // position in history; len(history): none
	draft    string
	comments []review.Comment

	overlays []*overlay
	notice   string
	failed   bool   // the notice tells of a failure
	absent   bool   // which is that the daemon does not answer
	asked    string // what the next key of the same kind confirms: "interrupt", "quit"
	now      time.Time
	ticking  bool

	width, height int
	inline        bool
	above         scrollback
	color, dark   bool
	secrets       func(string) string // takes them out of a text; nil: there are none
}

func newModel(open func(Target) backend, t Target, f *feed, do func(func(context.Context) tea.Msg) tea.Cmd) *model {
	m := &model{open: open, feed: f, do: do, next: f.next, wait: tea.Tick, target: t,
		mode: present.Info, color: true, dark: true, width: 80, height: 24}
	m.composer, m.above.shown = newComposer(), m.height
	m.begin(t)
	return m
}

// begin shows another conversation.
func (m *model) begin(t Target) tea.Cmd {
	m.conversation++
	m.target, m.backend, m.status, m.scrolled, m.ended, m.away = t, m.open(t), status{Target: t}, 0, nil, false
	m.rows, m.overlays, m.queue, m.comments = newRows(m.draw, m.shown), nil, nil, nil
	m.behind = map[string]bool{}
	m.sending, m.sentOff, m.doing = 0, 0, present.Status{}
	return m.feed.follow(m.conversation, m.backend)
}

func (m *model) Init() tea.Cmd {
	return tea.Batch(m.feed.follow(m.conversation, m.backend), m.next, tea.RequestBackgroundColor, m.composer.Focus())
}

// call is a command that asks the backend, whose answer counts while its conversation is shown.
func (m *model) call(ask func(context.Context, backend) tea.Msg) tea.Cmd {
	b, conversation := m.backend, m.conversation
	return m.do(func(ctx context.Context) tea.Msg { return answerMsg{conversation, ask(ctx, b)} })
}

// Messages that commands bring back.
type (
	answerMsg struct {
		conversation int
		msg          tea.Msg
	}
	sentMsg struct {
		prompt prompt
		id     string // of the agent's message; "": a session has none
		err    error
	}
	doneMsg struct {
		text   string
		reopen Target // the conversation has changed; the zero Target: it has not
		err    error
	}
	pageMsg struct {
		kind, id string
		page     page
		err      error
	}
	diffMsg struct {
		changes []change
		err     error
	}
	attachedMsg struct {
		file   attachment
		pasted string // what was pasted
		err    error  // it is no file that can be sent
	}
	rereadMsg struct{ overlay *overlay } // what a page shows goes on
	tickMsg   time.Time
)

// Update takes a message into the model. It is one switch over the kinds of messages, each of which has a method.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case answerMsg:
		if msg.conversation == m.conversation {
			return m.Update(msg.msg)
		}
		m.late(msg.msg)
	case tea.WindowSizeMsg:
		m.resize(msg.Width, msg.Height)
	case tea.BackgroundColorMsg:
		m.background(msg.IsDark())
	case fedMsg:
		return m, tea.Batch(m.take(msg), m.next)
	case tea.KeyPressMsg:
		return m, m.key(msg)
	case tea.PasteMsg:
		return m, m.paste(msg.Content)
	case attachedMsg:
		m.attached(msg)
	case sentMsg:
		return m, m.sent(msg)
	case doneMsg:
		if m.say(msg.text, msg.err); msg.reopen != (Target{}) {
			m.stay()
			return m, m.begin(msg.reopen)
		}
		return m, m.reload()
	case pageMsg:
		return m, m.showPage(msg)
	case diffMsg:
		return m, m.showDiff(msg)
	case printedMsg:
		return m, m.printed()
	case rereadMsg:
		msg.overlay.rereading = false
		if m.top() == msg.overlay {
			return m, m.reload()
		}
	case tickMsg:
		m.now = time.Time(msg)
		if m.ticking = m.status.Running; m.ticking {
			return m, m.tick()
		}
	}
	return m, nil
}

// late takes an answer to the conversation that was open before: what could not be sent goes back into the composer.
func (m *model) late(msg tea.Msg) {
	if sent, ok := msg.(sentMsg); ok && sent.err != nil {
		m.say("", fmt.Errorf("not sent to the conversation before: %w", sent.err))
		m.restore(sent.prompt)
	}
}

// background draws everything again for a terminal that is dark or light.
func (m *model) background(dark bool) {
	if dark != m.dark {
		m.dark, m.writing = dark, writing{}
		m.rows.redraw()
	}
}

// tick is the clock of a turn that runs.
func (m *model) tick() tea.Cmd {
	return m.wait(time.Second, func(t time.Time) tea.Msg { return tickMsg(t) })
}

// take takes what the backend told.
func (m *model) take(events []fed) tea.Cmd {
	var cmds []tea.Cmd
	stale := false
	for _, e := range events {
		if e.conversation != m.conversation {
			continue
		}
		switch e := e.event.(type) {
		case rowsEvent:
			stale = m.put(e) || stale
		case resetEvent:
			clear(m.behind)
			m.rows.put(present.Row{Key: fmt.Sprint("reset ", m.rows.first+len(m.rows.list)), Level: present.Info,
				Category: present.CategoryRuntime, Title: "events are missing here"}, false)
		case changedEvent:
			m.rows, m.scrolled = newRows(m.draw, m.shown), 0
			m.say("another client changed the conversation; this is what it is now", nil)
		case doingEvent:
			m.doing = present.Status(e)
		case awayEvent:
			m.away = true
		case endedEvent:
			m.ended = e.err
			m.say("", e.err)
		case statusEvent:
			cmds = append(cmds, m.stands(status(e)))
		}
	}
	if stale {
		cmds = append(cmds, m.reload())
	}
	if m.inline && len(m.overlays) == 0 {
		m.above.lines = append(m.above.lines, m.rows.settled(!m.status.Running)...)
		cmds = append(cmds, m.print())
	}
	return tea.Batch(cmds...)
}

// put shows rows, and reports whether the overlay on top is about what one of them tells.
func (m *model) put(rows rowsEvent) (stale bool) {
	for _, row := range rows {
		if grown := m.rows.put(row, m.scrolled > 0); m.scrolled > 0 {
			m.scrolled = max(0, m.scrolled+grown)
		}
		if row.Category == present.CategoryMessage && !row.Open {
			delete(m.behind, row.MessageID)
		}
		stale = stale || m.concerned(row)
	}
	return stale
}

// stands takes how the conversation stands.
func (m *model) stands(s status) tea.Cmd {
	if m.status, m.away = s, false; m.failed && m.absent { // it answers
		m.say("", nil)
	}
	if s.Target != (Target{}) {
		m.target = s.Target
	}
	var cmds []tea.Cmd
	if s.Running && !m.ticking {
		m.ticking, m.now = true, s.Since
		cmds = append(cmds, m.tick())
	}
	if !m.busy() {
		if m.asked == "interrupt" {
			m.asked, m.notice = "", ""
		}
		cmds = append(cmds, m.sendQueued())
	}
	return tea.Batch(cmds...)
}

// say shows what a command did, or why not.
func (m *model) say(text string, err error) {
	m.notice, m.failed = text, err != nil
	m.absent = state.IsCode(err, wire.CodeUnreachable) || state.IsCode(err, wire.CodeDisconnected)
	if err != nil {
		m.notice = visible.OneLine(explain(err), 600)
	}
}

// resize fits everything to the terminal.
func (m *model) resize(width, height int) {
	m.height = max(height, 4)
	m.above.shown = m.height // until the renderer has drawn anew
	if width = max(width, 20); width != m.width {
		m.width, m.writing = width, writing{}
		m.rows.redraw()
		for _, o := range m.overlays {
			o.layout(m)
		}
	}
	m.composer.SetWidth(m.width)
	m.composer.MaxHeight = max(1, min(8, m.height/3))
	m.composer.SetHeight(m.composer.Height())
}

// shown reports whether the display mode shows a row.
func (m *model) shown(r present.Row) bool { return r.Level <= m.mode }

// concerned reports whether the overlay on top shows what a row tells of.
func (m *model) concerned(r present.Row) bool {
	if m.top() == nil {
		return false
	}
	kind := m.top().kind
	return kind == pageEvents && r.Seq > 0 || slices.Contains(map[string][]string{
		present.CategoryWork:      {pageWork},
		present.CategoryTask:      {pageTasks, pageChildren},
		present.CategoryWorkspace: {pageWorkspace},
	}[r.Category], kind)
}
