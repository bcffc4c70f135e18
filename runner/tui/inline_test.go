package tui

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/vt"

	"holon/runner/present"
	"holon/test/expect"
)

// watched is a terminal that says when it was written to.
type watched struct {
	*vt.SafeEmulator
	changed chan struct{}
}

func (w watched) Write(p []byte) (int, error) {
	_, err := w.SafeEmulator.Write(bytes.ReplaceAll(p, []byte("\n"), []byte("\r\n"))) // as a terminal's driver does
	select {
	case w.changed <- struct{}{}:
	default:
	}
	return len(p), err
}

// WriteString is Write: the terminal's own would not say so.
func (w watched) WriteString(s string) (int, error) { return w.Write([]byte(s)) }

// text is the scrollback and the screen.
func (w watched) text() string {
	var b strings.Builder
	for _, line := range w.Scrollback().Lines() {
		b.WriteString(strings.TrimRight(line.Render(), " ") + "\n")
	}
	return ansi.Strip(b.String() + w.Render())
}

// Without the alternate screen a history that is longer than the screen is printed whole, in order, each row once, and
// the composer stays below it; so is what comes after.
func TestInlineHistory(t *testing.T) {
	t.Parallel()
	const rows = 100
	ctx, cancel := context.WithCancel(t.Context())
	feed := newFeed(ctx)
	defer feed.close()
	defer cancel()
	m := newModel(func(Target) backend { return &fake{} }, Target{Agent: "main"}, feed,
		func(do func(context.Context) tea.Msg) tea.Cmd { return func() tea.Msg { return do(ctx) } })
	m.inline, m.color = true, false
	w := watched{vt.NewSafeEmulator(80, 24), make(chan struct{}, 1)}
	drained := make(chan struct{})
	go func() { defer close(drained); _, _ = io.Copy(io.Discard, w.SafeEmulator) }()
	program := tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(nil), tea.WithOutput(w), tea.WithWindowSize(80, 24),
		tea.WithEnvironment([]string{"TERM=xterm-256color", "NO_COLOR=1"}), tea.WithoutSignalHandler())
	ended := make(chan error, 1)
	go func() { _, err := program.Run(); ended <- err }()
	var want []string
	var history rowsEvent
	for i := range rows {
		want = append(want, fmt.Sprintf("❯ row %03d", i))
		history = append(history, present.Row{Key: fmt.Sprint(i), Level: present.Info, Category: present.CategoryMessage,
			Title: "operator", Body: fmt.Sprintf("row %03d", i)})
	}
	feed.events <- fed{1, history[:rows-1]}
	feed.events <- fed{1, statusEvent{Name: "main", State: "awake idle"}}
	wait := func(last string) {
		limit := time.After(30 * time.Second)
		for !strings.Contains(w.text(), last) {
			select {
			case <-w.changed:
			case <-limit:
				t.Fatalf("the terminal lacks %q:\n%s", last, w.text())
			}
		}
	}
	wait(want[rows-2])
	feed.events <- fed{1, history[rows-1:]}
	wait(want[rows-1])
	program.Quit()
	expect.NoError(t, <-ended)
	var got []string
	for line := range strings.Lines(w.text()) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "❯ row") {
			got = append(got, line)
		}
	}
	expect.Equal(t, "rows", strings.Join(got, "\n"), strings.Join(want, "\n"))
	if text := w.text(); strings.Count(text, "main · awake idle") > 1 {
		t.Errorf("the status line was left in the scrollback:\n%s", text)
	}
	if pipe, ok := w.InputPipe().(io.Closer); ok { // Close of the emulator races with its Read
		expect.NoError(t, pipe.Close())
	}
	<-drained
}
