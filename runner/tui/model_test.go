package tui

import (
	"errors"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"holon/responses"
	"holon/runner/control/wire"
	"holon/runner/present"
	"holon/state"
	"holon/test/expect"
)

func running(t Target) statusEvent {
	return statusEvent{Target: t, Name: "main", State: "awake running", Running: true,
		Since: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Begun: 1}
}

// What keys do, by what was asked of the backend and what is on screen.
func TestKeys(t *testing.T) {
	t.Parallel()
	agent, session := Target{Agent: "main"}, Target{Workspace: "/src/app"}
	for name, c := range map[string]struct {
		target Target
		do     func(l *lab)
		did    string // joined with ;
		shows  string
	}{
		"send":          {agent, func(l *lab) { l.keys("hello", "enter") }, `submit "hello" 0 files, urgent false`, ""},
		"nothing":       {agent, func(l *lab) { l.keys("  ", "enter", "enter") }, "", ""},
		"a second line": {agent, func(l *lab) { l.keys("a", "alt+enter", "b", "enter") }, `submit "a\nb" 0 files, urgent false`, ""},
		"interject": {agent, func(l *lab) { l.event(running(agent)); l.keys("stop that", "enter") },
			`submit "stop that" 0 files, urgent true`, "Enter interjects"},
		"queue": {session, func(l *lab) { l.event(running(session)); l.keys("next", "enter") }, "", "waits for the turn: next"},
		"queue is sent": {session, func(l *lab) {
			l.event(running(session))
			l.keys("next", "enter")
			l.event(statusEvent{Name: "main", Begun: 1})
		}, `submit "next" 0 files, urgent false`, ""},
		"queue waits for what was sent": {session, func(l *lab) { l.keys("one", "enter", "two", "enter") },
			`submit "one" 0 files, urgent false`, "waits for the turn: two"},
		"a message that fails comes back": {agent, func(l *lab) {
			l.fake.fail = errors.New("no such agent")
			l.keys("hello", "enter")
		}, `submit "hello" 0 files, urgent false`, "❯ hello"},
		"esc asks":   {agent, func(l *lab) { l.event(running(agent)); l.keys("esc") }, "", "Esc again interrupts the turn"},
		"esc twice":  {agent, func(l *lab) { l.event(running(agent)); l.keys("esc", "esc") }, "interrupt", ""},
		"esc, idle":  {agent, func(l *lab) { l.keys("esc", "esc", "esc") }, "", ""},
		"esc closes": {agent, func(l *lab) { l.event(running(agent)); l.keys("/help", "enter", "esc") }, "", "Enter interjects"},
		"another key takes the question back": {agent, func(l *lab) { l.event(running(agent)); l.keys("esc", "x", "esc") },
			"", "Esc again"},
		"history": {agent, func(l *lab) { l.keys("one", "enter", "two", "enter", "draft", "up", "up", "down", "down") },
			`submit "one" 0 files, urgent false;submit "two" 0 files, urgent false`, "❯ draft"},
		"history up":      {agent, func(l *lab) { l.keys("one", "enter", "up") }, `submit "one" 0 files, urgent false`, "❯ one"},
		"complete":        {agent, func(l *lab) { l.keys("/tr", "tab") }, "", "❯ /transcript"},
		"unknown command": {agent, func(l *lab) { l.keys("/frob", "enter") }, "", "there is no command /frob"},
		"a path is text":  {agent, func(l *lab) { l.keys("/etc/hosts", "enter") }, `submit "/etc/hosts" 0 files, urgent false`, ""},
		"display":         {agent, func(l *lab) { l.keys("/display 5", "enter") }, "", "display: debug"},
		"wrong display":   {agent, func(l *lab) { l.keys("/display x", "enter") }, "", "is not a display mode"},
		"model":           {agent, func(l *lab) { l.keys("/model openai/gpt-5", "enter") }, "act model set openai/gpt-5", "done"},
		"start":           {agent, func(l *lab) { l.keys("/start", "enter") }, "act agent start ", ""},
		"attach":          {agent, func(l *lab) { l.keys("/workspace attach /a b", "enter") }, "act workspace attach /a b", ""},
		"rewind":          {session, func(l *lab) { l.keys("/rewind 2", "enter", "y", "enter") }, "act rewind back 2", ""},
		"rewind, asked":   {session, func(l *lab) { l.keys("/rewind 2", "enter", "enter") }, "", "nothing was done"},
		"rewind one":      {session, func(l *lab) { l.keys("/rewind 1", "enter") }, "", "before the last turn."},
		"rewind nonsense": {session, func(l *lab) { l.keys("/rewind x", "enter") }, "", "/rewind takes how many"},
		"rewind, running": {session, func(l *lab) { l.event(running(session)); l.keys("/rewind 1", "enter") }, "", "a turn runs"},
		"a long model": {agent, func(l *lab) {
			l.send(tea.WindowSizeMsg{Width: 120, Height: 40})
			l.event(statusEvent{Name: "main", State: "ready", Model: "provider/a-model-with-a-name-that-is-long"})
		}, "", "provider/a-model-with-a-name-that-is-long"},
		"ctrl+c clears": {agent, func(l *lab) { l.keys("text", "ctrl+c", "x") }, "", "❯ x"},
		"away":          {agent, func(l *lab) { l.event(awayEvent{}) }, "", "the daemon is away"},
		"back": {agent, func(l *lab) { l.event(awayEvent{}, statusEvent{Name: "main", State: "awake idle"}) }, "",
			"awake idle"},
		"back after a failure": {agent, func(l *lab) {
			l.fake.fail = &state.Error{Code: wire.CodeUnreachable, Message: "no daemon answers"}
			l.keys("/start", "enter")
			before := l.screen()
			l.event(statusEvent{Name: "main", State: "awake idle"})
			if after := l.screen(); !strings.Contains(before, "no daemon answers") || strings.Contains(after, "no daemon") {
				l.t.Errorf("the screen is\n%s\nand then\n%s", before, after)
			}
		}, "act agent start ", "awake idle"},
		"ended":  {agent, func(l *lab) { l.event(endedEvent{errors.New("the agent was removed")}) }, "", "the agent was removed"},
		"resume": {agent, func(l *lab) { l.event(statusEvent{Name: "main", State: "stopped", Hint: "holon agent start main"}) }, "", "holon agent start main"},
		"a turn of another client": {session, func(l *lab) {
			l.fake.fail = &state.Error{Code: responses.CodePreviousInProgress}
			l.keys("next", "enter")
		}, `submit "next" 0 files, urgent false`, "waits for the turn: next"},
		"a closed session": {session, func(l *lab) {
			l.fake.fail = &responses.Error{Code: "session_closed", Message: "it is closed", Hint: "leave previous_response_id out"}
			l.keys("next", "enter")
		}, `submit "next" 0 files, urgent false`, "it is closed; /agents lists others"},
		"changed": {session, func(l *lab) { l.event(message1("1", "undone"), changedEvent{}, message1("2", "now")) }, "",
			"❯ now"},
		"other conversation": {agent, func(l *lab) {
			l.send(fedMsg{{conversation: 99, event: awayEvent{}}})
		}, "", "Write what is to be done"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, c.target, 80, 24)
			c.do(l)
			expect.Equal(t, "what was done", strings.Join(l.did, ";"), c.did)
			if screen := l.screen(); !strings.Contains(screen, c.shows) {
				t.Errorf("the screen lacks %q:\n%s", c.shows, screen)
			}
		})
	}
}

func TestLeave(t *testing.T) {
	t.Parallel()
	for name, keys := range map[string][]string{"ctrl+c": {"ctrl+c", "ctrl+c"}, "ctrl+d": {"ctrl+d"}, "/quit": {"/quit", "enter"}} {
		l := newLab(t, Target{Agent: "main"}, 80, 24)
		if l.keys(keys[:len(keys)-1]...); l.quit {
			t.Errorf("%s: it left early", name)
		}
		if l.keys(keys[len(keys)-1]); !l.quit || len(l.did) > 0 {
			t.Errorf("%s: left %v, did %q", name, l.quit, l.did)
		}
	}
}

// Files that programs execute are written only after a yes.
func TestApply(t *testing.T) {
	t.Parallel()
	plain := change{Title: "app", Tree: "abc", Files: []string{"modified a.go  +1 −0"}}
	risky := plain
	risky.Executed = []string{".envrc: executed by shells"}
	for name, c := range map[string]struct {
		changes []change
		keys    []string
		did     string
	}{
		"nothing": {nil, nil, "diff"},
		"plain":   {[]change{plain}, nil, "diff;apply false [abc]"},
		"asked":   {[]change{plain, risky}, nil, "diff"},
		"yes":     {[]change{risky}, []string{"y", "enter"}, "diff;apply true [abc]"},
		"no":      {[]change{risky}, []string{"n", "enter"}, "diff"},
		"y":       {[]change{risky}, []string{"y"}, "diff"},
		"many y":  {[]change{risky}, []string{"yyyy", "enter"}, "diff"},
		"enter":   {[]change{risky}, []string{"enter"}, "diff"},
		"esc":     {[]change{risky}, []string{"esc"}, "diff"},
		"scroll":  {[]change{risky}, []string{"pgdown", "y", "enter"}, "diff;apply true [abc]"},
	} {
		l := newLab(t, Target{Workspace: "/src/app"}, 80, 24)
		l.changes = c.changes
		l.keys(append([]string{"/apply", "enter"}, c.keys...)...)
		expect.Equal(t, name+": did", strings.Join(l.did, ";"), c.did)
	}
}

// What was typed before the question was there does not answer it, and stays.
func TestTypedAhead(t *testing.T) {
	t.Parallel()
	l := newLab(t, Target{Workspace: "/src/app"}, 80, 24)
	l.changes = []change{{Files: []string{".envrc"}, Executed: []string{".envrc: executed by shells"}}}
	l.keys("/apply")
	_, reading := l.model.Update(tea.KeyPressMsg{Code: tea.KeyEnter})
	l.keys("y")
	l.do(reading)
	l.keys("enter")
	expect.Equal(t, "did", strings.Join(l.did, ";"), "diff")
	if screen := l.screen(); !strings.Contains(screen, "nothing was done") || !strings.Contains(screen, "❯ y") {
		t.Errorf("the screen is\n%s", screen)
	}
	l.keys("ctrl+c", "/apply", "enter", "yes and then more", "enter")
	expect.Equal(t, "did", strings.Join(l.did, ";"), "diff;diff")
	expect.Equal(t, "composer", l.model.composer.Value(), "yes and then more")
	l.keys("ctrl+c", "/apply", "enter", "n", "enter")
	expect.Equal(t, "composer after a no", l.model.composer.Value(), "")
}

const patch = `diff --git a/a.go b/a.go
index 111..222 100644
--- a/a.go
+++ b/a.go
@@ -1,2 +1,3 @@ func main
 package a
-old
+new
+--- not a file
diff --git a/gone b/gone
deleted file mode 100644
--- a/gone
+++ /dev/null
@@ -1 +0,0 @@
-x
`

// Comments on lines become the next message.
func TestComments(t *testing.T) {
	t.Parallel()
	l := newLab(t, Target{Agent: "main"}, 80, 24)
	l.changes = []change{{Title: "app", Patch: patch}}
	l.keys("/diff", "enter", "down", "down", "down", "down", "down", "why?", "enter", "down", "also", "enter", "ctrl+x", "enter")
	want := `submit "Comments on your change:\n\na.go:2\n> +new\n\nwhy?\n" 0 files, urgent false`
	expect.Equal(t, "did", strings.Join(l.did[1:], ";"), want)
}

// Whatever a model or a name says, nothing but our own styles reaches the terminal.
func TestHostileText(t *testing.T) {
	t.Parallel()
	const evil = "a\x1b]0;owned\x07\x1b[2J\u009b2J\u202e\u200b\r\b\x7f\x1b]52;c;cm0=\x07\tz"
	l := newLab(t, Target{Agent: "main"}, 80, 24)
	l.model.composer.Placeholder = ""
	l.event(statusEvent{Name: evil, State: evil, Model: evil, Workspace: evil, Work: evil, Hint: evil, Isolation: evil},
		message1("1", evil), answerRow("2", "# "+evil+"\n\n```\n"+evil+"\n```\n["+evil+"](http://"+evil+")", false),
		rowsEvent{{Key: "3", Level: present.Info, Category: present.CategoryTool, Title: evil, Summary: evil,
			Call: &present.Call{Text: evil, Diff: []string{"+" + evil}, Output: []string{evil}}}},
		rowsEvent{{Key: "4", Level: present.Info, Category: present.CategoryWaiting, Title: evil, Summary: evil, Body: evil}})
	check := func(what string) {
		t.Helper()
		view := l.model.View()
		text := view.Content + view.WindowTitle
		text = strings.ReplaceAll(text, `\033]`, "") // a diff shows what is in the file
		if m := ownStyles.ReplaceAllString(text, ""); strings.ContainsAny(m, "\x1b\x07\r\b\x7f\t\u009b\u202e\u200b") ||
			strings.Contains(m, "]0;") || strings.Contains(m, "]52;") {
			t.Errorf("%s: the terminal gets %q", what, m)
		}
	}
	check("the conversation")
	l.pages = map[string]page{"work": {Title: evil, Heads: []string{"A", "B"}, Items: []item{{ID: "w", Cells: []string{evil, evil}}}},
		"work w": {Title: evil, Text: evil}, "prompt": {Title: evil, Text: evil, Raw: true}}
	l.keys("/work", "enter")
	check("a list")
	l.keys("enter")
	check("a text")
	l.keys("esc", "esc", "/prompt", "enter")
	check("raw text")
	l.changes = []change{{Title: evil, Patch: "--- a/" + evil + "\n+++ b/" + evil + "\n@@ -1 +1 @@\n-" + evil + "\n+" + evil,
		Files: []string{evil}, Executed: []string{evil}, Note: evil}}
	l.keys("esc", "/diff", "enter")
	check("a diff")
	expect.Contains(t, "the diff", l.screen(), `+a\033]0;owned\a\033[2J\302\2332J\342\200\256`)
	l.keys("esc", "/apply", "enter")
	check("a question")
	l.fake.fail = errors.New(evil)
	l.keys("esc", "/start", "enter")
	check("an error")
}

// The screen stays where it was scrolled to while rows come.
func TestScroll(t *testing.T) {
	t.Parallel()
	l := newLab(t, Target{Agent: "main"}, 80, 15)
	for i := range 100 {
		l.event(message1(string(rune('a'+i%26))+strings.Repeat("x", i), "message "+strings.Repeat("m", i%7)))
	}
	l.keys("pgup", "pgup")
	body := func() string { return strings.Join(l.model.body(), "\n") }
	before := body()
	l.event(message1("new", "a new one"), answerRow("new answer", "text", true), answerRow("new answer", "text\n\nmore", false))
	expect.Equal(t, "the screen", body(), before)
	l.keys("pgdown", "pgdown", "pgdown", "pgdown")
	if !strings.Contains(body(), "a new one") {
		t.Errorf("the end is not shown:\n%s", body())
	}
	l.keys(strings.Repeat("", 0))
	for range 100 {
		l.keys("pgup")
	}
	if l.model.scrolled > 300 {
		t.Errorf("scrolled by %d lines of about 200", l.model.scrolled)
	}
}

// The oldest rows go; a row that changes stays where it is.
func TestRowsAreBounded(t *testing.T) {
	t.Parallel()
	r := newRows(func(r present.Row) []string { return []string{r.Key} }, func(present.Row) bool { return true })
	for i := range 3 * maxRows {
		r.put(present.Row{Key: time.Duration(i).String()}, false)
	}
	if n := len(r.list); n > maxRows+maxRows/10 || len(r.index) != n {
		t.Errorf("%d rows and %d keys are kept", n, len(r.index))
	}
	r.put(present.Row{Key: r.list[5].Key, Title: "changed"}, false)
	if r.list[5].Title != "changed" {
		t.Error("the row did not change in its place")
	}
}

// In the scrollback a row is printed once, in order, and after it is final.
func TestSettled(t *testing.T) {
	t.Parallel()
	r := newRows(func(r present.Row) []string { return []string{r.Key + r.Body} }, func(r present.Row) bool { return r.Level == 0 })
	var got []string
	for _, row := range []present.Row{{Key: "1"}, {Key: "2", Open: true}, {Key: "3"}, {Key: "2", Body: "done"}, {Key: "4", Level: 9}, {Key: "1", Body: "late"}} {
		r.put(row, false)
		got = append(got, strings.Join(r.settled(false), ","))
	}
	expect.Equal(t, "printed", strings.Join(got, "|"), "1|||2done,3||")
	r.put(present.Row{Key: "5", Open: true}, false)
	expect.Equal(t, "at the end", strings.Join(r.settled(true), ","), "5")
	lines, _ := r.window(10, 0)
	expect.Equal(t, "lines that are left", len(lines), 0)
}

// A text that is written is drawn as it will be, and its whole paragraphs once.
func TestWriting(t *testing.T) {
	t.Parallel()
	l := newLab(t, Target{Agent: "main"}, 60, 40)
	text := "one\n\ntwo two\n\n```\ncode\n\nmore code\n```\n\nthree " + strings.Repeat("word ", 30)
	for i := range len(text) + 1 {
		l.event(answerRow("a", text[:i], true))
		_ = l.screen()
	}
	open := l.screen()
	l.event(answerRow("a", text, false))
	expect.Equal(t, "the screen", l.screen(), open)
	for text, want := range map[string]int{"": 0, "a": 0, "a\n\nb": 3, "```\na\n\nb": 0, "```\na\n```\n\nb": 11, "a\n\n": 3} {
		if got := paragraph(text); got != want {
			t.Errorf("the last paragraph of %q begins at %d, want %d", text, got, want)
		}
	}
}

// Without the alternate screen the view has what is not in the scrollback yet, and the composer.
func TestInline(t *testing.T) {
	t.Parallel()
	l := newLab(t, Target{Agent: "main"}, 60, 20)
	l.model.inline = true
	l.event(running(Target{Agent: "main"}), message1("1", "asked"), answerRow("2", "one", true))
	view := l.model.View()
	if screen := l.screen(); view.AltScreen || strings.Contains(screen, "asked") || !strings.Contains(screen, "● one\n main") {
		t.Errorf("the view is, with the alternate screen %v:\n%s", view.AltScreen, screen)
	}
	l.event(answerRow("2", strings.Repeat("word\n\n", 40), true))
	if n := strings.Count(l.screen(), "word"); n > inlineRows {
		t.Errorf("%d rows are drawn that a resize would leave in the scrollback twice", n)
	}
	l.event(answerRow("2", "one", false))
	if screen := l.screen(); strings.Contains(screen, "one") {
		t.Errorf("the view still has what was printed:\n%s", screen)
	}
}

// A page that changes while it is read is read again, once.
func TestStalePage(t *testing.T) {
	t.Parallel()
	l := newLab(t, Target{Agent: "main"}, 80, 24)
	l.keys("/work")
	_, reading := l.model.Update(tea.KeyPressMsg{Code: tea.KeyEnter})
	for range 3 {
		l.event(rowsEvent{{Key: "w", Category: present.CategoryWork}})
	}
	expect.Equal(t, "before the answer", strings.Join(l.did, ";"), "")
	l.do(reading)
	expect.Equal(t, "after it", strings.Join(l.did, ";"), "page work ;page work ")
	l.event(rowsEvent{{Key: "w", Category: present.CategoryWork}}, rowsEvent{{Key: "t", Category: present.CategoryTool}})
	expect.Equal(t, "after another change", len(l.did), 3)
}
