package tui

import (
	"context"
	"errors"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"holon/internal/visible"
	"holon/runner/review"
	"holon/state"
)

// Kinds of overlays that are not pages.
const (
	pageDiff    = "diff"
	pageApply   = "apply"
	pageConfirm = "confirm"
)

// overlay is something shown over the conversation: items to choose from, a text, a diff, or a question.
type overlay struct {
	kind, id, title string
	loading         bool // there is nothing to show yet
	reading, stale  bool // the page is read; what it shows has changed since that began
	rereading       bool // the page is about to be read again
	heads           []string
	items           []item
	text            string
	raw             bool
	lines           []string // of the text, or nil
	diff            []review.Line
	at              int            // chosen item or line, or first line of a text
	yes             func() tea.Cmd // what the question is about; nil: there is none
	before          string         // what was written before the question was asked, which answers nothing
}

func (m *model) top() *overlay {
	if len(m.overlays) == 0 {
		return nil
	}
	return m.overlays[len(m.overlays)-1]
}

func (m *model) push(o *overlay) {
	m.notice = ""
	m.overlays = append(m.overlays, o)
}

// openPage opens a page, which is read.
func (m *model) openPage(kind, id string) tea.Cmd {
	m.push(&overlay{kind: kind, id: id, title: kind, loading: true, reading: true})
	return m.read(kind, id)
}

func (m *model) read(kind, id string) tea.Cmd {
	return m.call(func(ctx context.Context, b backend) tea.Msg {
		p, err := b.page(ctx, kind, id)
		return pageMsg{kind, id, p, err}
	})
}

// reload reads the page on top anew, if something else than a diff or a text of here.
func (m *model) reload() tea.Cmd {
	o := m.top()
	if o == nil || o.yes != nil || o.kind == pageDiff || o.kind == pageApply || o.kind == "help" {
		return nil
	}
	if o.reading {
		o.stale = true
		return nil
	}
	o.reading = true
	return m.read(o.kind, o.id)
}

// showPage fills the overlay that waits for a page.
func (m *model) showPage(msg pageMsg) tea.Cmd {
	for i, o := range m.overlays {
		if o.kind != msg.kind || o.id != msg.id {
			continue
		}
		if msg.err != nil {
			m.overlays = append(m.overlays[:i:i], m.overlays[i+1:]...)
			m.say("", msg.err)
			return nil
		}
		first := o.loading
		o.reading = false
		o.loading, o.title, o.heads, o.items = false, msg.page.Title, msg.page.Heads, msg.page.Items
		o.text, o.raw = msg.page.Text, msg.page.Raw
		o.layout(m)
		for i, it := range o.items {
			if first && it.Mark {
				o.at = i
			}
		}
		if first && msg.page.Live {
			o.at = len(o.lines) // the end of what was printed
		}
		o.move(0, m)
		if o.stale {
			o.stale, o.reading = false, true
			return m.read(o.kind, o.id)
		}
		if msg.page.Live && !o.rereading {
			o.rereading = true
			return m.wait(rereadAfter, func(time.Time) tea.Msg { return rereadMsg{o} })
		}
		return nil
	}
	return nil
}

// rereadAfter is how old the output of a task that runs may be on screen.
const rereadAfter = 2 * time.Second

// showDiff fills the overlay that waits for a diff, or asks about applying it.
func (m *model) showDiff(msg diffMsg) tea.Cmd {
	o := m.top()
	if o == nil || !o.loading || o.kind != pageDiff && o.kind != pageApply {
		return nil
	}
	if msg.err != nil || len(msg.changes) == 0 {
		m.overlays = m.overlays[:len(m.overlays)-1]
		m.say("nothing was changed", msg.err)
		return nil
	}
	o.loading = false
	if o.kind == pageDiff {
		o.diff = diffLines(msg.changes)
		return nil
	}
	var executed, all []string
	for _, c := range msg.changes {
		executed, all = append(executed, c.Executed...), append(all, c.Files...)
	}
	if len(executed) == 0 {
		m.overlays = m.overlays[:len(m.overlays)-1]
		return m.applyNow(msg.changes, false)
	}
	m.overlays = m.overlays[:len(m.overlays)-1]
	m.ask("write files that programs execute?",
		"Programs execute these files without being asked to:\n\n"+strings.Join(executed, "\n")+
			"\n\nAll files of the change:\n\n"+strings.Join(all, "\n"), func() tea.Cmd { return m.applyNow(msg.changes, true) })
	return nil
}

// answer takes the answer to a question. Anything but y does nothing; but for n it stays written: the next message may
// be written ahead.
func (m *model) answer(o *overlay) tea.Cmd {
	m.overlays = m.overlays[:len(m.overlays)-1]
	answer, _ := strings.CutPrefix(m.composer.Value(), o.before)
	switch answer = strings.ToLower(answer); answer {
	case "y", "n", "no":
		m.setText(o.before)
	}
	if answer == "y" {
		return o.yes()
	}
	m.say("nothing was done", nil)
	return nil
}

// ask opens a question. It is answered by y and Enter, which no one types by chance: what was typed ahead does not
// count.
func (m *model) ask(title, text string, yes func() tea.Cmd) {
	o := &overlay{kind: pageConfirm, title: title, text: text, raw: true, yes: yes, before: m.composer.Value()}
	m.composer.MoveToEnd()
	o.layout(m)
	m.push(o)
}

// choose does the main thing with the chosen item.
func (m *model) choose(o *overlay) tea.Cmd {
	if o.diff != nil {
		if len(m.comments) > 0 {
			return m.sendComments("")
		}
		m.say("write a comment and press Enter; Enter then sends all comments", nil)
		return nil
	}
	if len(o.items) == 0 {
		return nil
	}
	it := o.items[o.at]
	switch o.kind {
	case pageAgents:
		if it.To == m.target {
			m.overlays = m.overlays[:len(m.overlays)-1]
			return nil
		}
		if m.stay() {
			m.overlays = nil
			return nil
		}
		return m.begin(it.To)
	case pageModel:
		m.overlays = m.overlays[:len(m.overlays)-1]
		return does("model", "set")(m, it.ID)
	case pageWorkspace:
		return does(pageWorkspace, "use")(m, it.ID)
	case pageRewind:
		m.overlays = m.overlays[:len(m.overlays)-1]
		m.ask("go back?", "The files and the conversation become what they were after:\n\n"+strings.Join(it.Cells, "  ")+
			"\n\n"+rewindKeeps, func() tea.Cmd { return m.rewindTo("to", it.ID) })
		return nil
	}
	return m.openPage(o.kind, it.ID)
}

// second does the other thing with the chosen item.
func (m *model) second(o *overlay) tea.Cmd {
	if o.diff != nil && len(m.comments) > 0 {
		m.comments = m.comments[:len(m.comments)-1]
	}
	if o.kind == pageTasks && o.id != "" {
		return does(pageTasks, "stop")(m, o.id)
	}
	if len(o.items) == 0 {
		return nil
	}
	switch id := o.items[o.at].ID; o.kind {
	case pageWork:
		return does(pageWork, "pick")(m, id)
	case pageTasks, pageChildren:
		return does(pageTasks, "stop")(m, id)
	case pageWorkspace:
		return does(pageWorkspace, "exit")(m, "")
	}
	return nil
}

// comment adds what is said of the chosen line.
func (m *model) comment(o *overlay, text string) {
	l := o.diff[min(o.at, len(o.diff)-1)]
	m.comments = append(m.comments, review.Comment{File: l.File, Line: l.Line, Code: l.Text, Text: text})
	m.say("commented; Enter on an empty line sends the comments", nil)
}

// layout breaks the text into lines of the screen.
func (o *overlay) layout(m *model) {
	if o.text == "" {
		o.lines = nil
		return
	}
	if o.raw {
		o.lines = strings.Split(ansi.Wrap(m.clean(o.text), m.width-1, ""), "\n")
	} else {
		o.lines = strings.Split(m.markdown(o.text, m.width-1), "\n")
	}
}

// move moves the choice, or the text.
func (o *overlay) move(step int, m *model) {
	last := len(o.items) - 1
	if o.diff != nil {
		last = len(o.diff) - 1
	} else if o.lines != nil {
		last = len(o.lines) - max(1, m.bodyHeight()-2)
	}
	o.at = max(0, min(o.at+step, last))
}

// remedied is an error of ours with its remedy, "" for another.
func remedied(err error) string {
	e, ok := errors.AsType[*state.Error](err)
	if !ok {
		return ""
	}
	return visible.WithRemedy(state.Named(e.Param, e.Error()), e.Hint)
}
