package tui

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"go.uber.org/goleak"

	"holon/runner/present"
	"holon/test/expect"
)

// ownStyles are the sequences that the program writes itself.
var ownStyles = regexp.MustCompile("\x1b\\[[0-9;]*m")

var update = flag.Bool("update", false, "write the golden files")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a backend whose answers a test sets.
type fake struct {
	target  Target
	pages   map[string]page
	changes []change
	did     []string // what was asked of it
	fail    error
	key     string // of the newest message
}

func (f *fake) note(format string, args ...any) error {
	f.did = append(f.did, fmt.Sprintf(format, args...))
	return f.fail
}

func (f *fake) follow(ctx context.Context, _ func(event)) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

func (f *fake) submit(_ context.Context, p prompt) (string, error) {
	f.key = p.Key
	return "msg_" + p.Text, f.note("submit %q %d files, urgent %v", p.Text, len(p.Files), p.Urgent)
}

func (f *fake) interrupt(context.Context) error { return f.note("interrupt") }

func (f *fake) page(_ context.Context, kind, id string) (page, error) {
	return f.pages[strings.TrimSpace(kind+" "+id)], f.note("page %s %s", kind, id)
}

func (f *fake) act(_ context.Context, kind, verb, id string) (string, error) {
	return "done", f.note("act %s %s %s", kind, verb, id)
}

func (f *fake) diff(context.Context) ([]change, error) { return f.changes, f.note("diff") }

func (f *fake) apply(_ context.Context, read []change, allow bool) (string, error) {
	return "written a.go", f.note("apply %v %v", allow, resultTrees(read))
}

// lab is a program without a terminal: commands are carried out one by one, as they come.
type lab struct {
	t testing.TB
	*model
	*fake
	quit bool
}

func newLab(t testing.TB, target Target, width, height int) *lab {
	ctx, cancel := context.WithCancel(context.Background())
	feed := newFeed(ctx)
	t.Cleanup(func() { cancel(); feed.close() })
	l := &lab{t: t, fake: &fake{pages: map[string]page{}}}
	l.model = newModel(func(to Target) backend { l.fake.target = to; return l.fake }, target, feed,
		func(do func(context.Context) tea.Msg) tea.Cmd { return func() tea.Msg { return do(ctx) } })
	l.model.next = nil // tests give events themselves, and the time
	l.model.wait = func(time.Duration, func(time.Time) tea.Msg) tea.Cmd { return nil }
	l.model.composer.Focus()
	l.send(tea.WindowSizeMsg{Width: width, Height: height})
	return l
}

// send gives a message to the model, and what its commands bring back.
func (l *lab) send(msg tea.Msg) {
	_, cmd := l.model.Update(msg)
	l.do(cmd)
}

func (l *lab) do(cmd tea.Cmd) {
	if cmd == nil {
		return
	}
	switch msg := cmd().(type) {
	case tea.BatchMsg:
		for _, c := range msg {
			l.do(c)
		}
	case tea.QuitMsg:
		l.quit = true
	case answerMsg, attachedMsg:
		l.send(msg)
	}
}

func (l *lab) keys(keys ...string) {
	for _, k := range keys {
		switch k {
		case "enter":
			l.send(tea.KeyPressMsg{Code: tea.KeyEnter})
		case "alt+enter":
			l.send(tea.KeyPressMsg{Code: tea.KeyEnter, Mod: tea.ModAlt})
		case "esc":
			l.send(tea.KeyPressMsg{Code: tea.KeyEscape})
		case "up":
			l.send(tea.KeyPressMsg{Code: tea.KeyUp})
		case "down":
			l.send(tea.KeyPressMsg{Code: tea.KeyDown})
		case "pgup":
			l.send(tea.KeyPressMsg{Code: tea.KeyPgUp})
		case "pgdown":
			l.send(tea.KeyPressMsg{Code: tea.KeyPgDown})
		case "tab":
			l.send(tea.KeyPressMsg{Code: tea.KeyTab})
		case "backspace":
			l.send(tea.KeyPressMsg{Code: tea.KeyBackspace})
		case "ctrl+c", "ctrl+d", "ctrl+x":
			l.send(tea.KeyPressMsg{Code: rune(k[5]), Mod: tea.ModCtrl})
		default:
			for _, r := range k {
				l.send(tea.KeyPressMsg{Code: r, Text: string(r)})
			}
		}
	}
}

func (l *lab) event(events ...event) {
	for _, e := range events {
		l.send(fedMsg{{l.model.conversation, e}})
	}
}

// screen is the text on screen.
func (l *lab) screen() string {
	var b strings.Builder
	for line := range strings.Lines(ansi.Strip(l.model.View().Content)) {
		b.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	return b.String()
}

// golden compares a screen with a file.
func (l *lab) golden(name string) {
	l.t.Helper()
	got := l.screen()
	for i, line := range strings.Split(strings.TrimRight(got, "\n"), "\n") {
		if n := ansi.StringWidth(line); n > l.model.width || i >= l.model.height {
			l.t.Errorf("%s: line %d has %d columns: %q", name, i+1, n, line)
		}
	}
	path := filepath.Join("testdata", fmt.Sprintf("%s-%dx%d.txt", name, l.model.width, l.model.height))
	if *update {
		expect.NoError(l.t, os.MkdirAll("testdata", 0o755))
		expect.NoError(l.t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	expect.NoError(l.t, err)
	if got != string(want) {
		l.t.Errorf("the screen %s is\n%s\nwant\n%s", path, got, want)
	}
}

func message1(key, text string) rowsEvent {
	return rowsEvent{{Key: key, Level: present.Info, Category: present.CategoryMessage, Title: "operator", Body: text}}
}

func answerRow(key, text string, open bool) rowsEvent {
	return rowsEvent{{Key: key, Level: present.Info, Category: present.CategoryBrief, Title: "answer", Body: text,
		Markdown: true, Open: open}}
}
