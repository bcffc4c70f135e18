package tui

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"

	"holon/responses"
	"holon/runner/control/client"
	"holon/runner/control/wire"
	"holon/runner/present"
	"holon/test/expect"
)

// A message whose answer is lost is sent again with the same key, which makes it once.
func TestLostAnswer(t *testing.T) {
	t.Parallel()
	file := textFile("a.txt", "hi")
	for name, c := range map[string]struct {
		target Target
		files  []attachment
	}{
		"agent":            {target: Target{Agent: "main"}},
		"agent, with file": {target: Target{Agent: "main"}, files: []attachment{file}},
		"session":          {target: Target{Session: "ses_1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var keys []string
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				expect.Equal(t, "method", r.Method, http.MethodPost)
				if keys = append(keys, r.Header.Get(wire.HeaderIdempotencyKey)); len(keys) == 1 {
					panic(http.ErrAbortHandler)
				}
				w.WriteHeader(http.StatusConflict)
				fmt.Fprintf(w, `{"error":{"code":%q,"message":"m"}}`, responses.CodeIdempotencyConflict)
			}))
			defer server.Close()
			at, err := client.New(server.URL, "")
			expect.NoError(t, err)
			defer at.Close()
			var b backend = &agent{client: at, id: "main"}
			if c.target.Agent == "" {
				b = newSession(at, c.target)
			}
			if _, err := b.submit(t.Context(), prompt{Text: "hello", Files: c.files, Key: "k"}); err == nil {
				t.Error("a message that was refused was sent")
			}
			expect.Equal(t, "keys", fmt.Sprint(keys), "[k k]")
		})
	}
}

// Messages that are typed faster than they are answered arrive one after another, in the order in which they were typed.
// One that waits in the agent's queue is not overtaken by the next one, which would go into the turn that runs.
func TestTypedOrder(t *testing.T) {
	t.Parallel()
	l := newLab(t, Target{Agent: "main"}, 80, 24)
	l.keys("one")
	_, first := l.model.Update(tea.KeyPressMsg{Code: tea.KeyEnter})
	l.keys("two", "enter", "three", "enter")
	expect.Equal(t, "before the first one is answered", strings.Join(l.did, ";"), "")
	l.do(first)
	want := []string{`submit "one" 0 files, urgent false`, `submit "two" 0 files, urgent false`,
		`submit "three" 0 files, urgent false`}
	expect.Equal(t, "after it", strings.Join(l.did, ";"), strings.Join(want, ";"))
	started := func(id string) rowsEvent {
		return rowsEvent{{Key: "message-" + id, MessageID: id, Category: present.CategoryMessage}}
	}
	l.event(running(Target{Agent: "main"}), started("msg_one"))
	l.keys("four", "enter")
	l.event(started("msg_two"), started("msg_three"), started("msg_four"))
	l.keys("five", "enter")
	expect.Equal(t, "while it runs", strings.Join(l.did[3:], ";"),
		`submit "four" 0 files, urgent false;submit "five" 0 files, urgent true`)
}

// A message that fails takes those behind it back with it, in their order.
func TestTypedBehindFailure(t *testing.T) {
	t.Parallel()
	l := newLab(t, Target{Agent: "main"}, 80, 24)
	l.keys("one")
	_, first := l.model.Update(tea.KeyPressMsg{Code: tea.KeyEnter})
	l.keys("two", "enter")
	l.fake.fail = errors.New("no such agent")
	l.do(first)
	expect.Equal(t, "composer", l.model.composer.Value(), "one\n\ntwo")
	expect.Equal(t, "did", strings.Join(l.did, ";"), `submit "one" 0 files, urgent false`)
}

// A message is sent with one key until it is answered; another one has its own.
func TestMessageKey(t *testing.T) {
	t.Parallel()
	l := newLab(t, Target{Agent: "main"}, 80, 24)
	var keys []string
	send := func(text string, fail error) {
		l.fake.fail = fail
		l.keys(text, "enter")
		keys = append(keys, l.fake.key)
	}
	lost := errors.New("went away")
	send("hello", lost)
	send("", lost)
	send("", nil)
	send("hello", nil)
	send("one", lost)
	send(" more", nil)
	if keys[0] == "" || keys[0] != keys[1] || keys[1] != keys[2] {
		t.Errorf("one message has the keys %q", keys[:3])
	}
	if keys[3] == keys[2] || keys[5] == keys[4] {
		t.Errorf("two messages have one key: %q", keys)
	}
	expect.Equal(t, "the last one", l.did[len(l.did)-1], `submit "one more" 0 files, urgent false`)
}

// What waits for the end of a turn is not lost by leaving: it is written again, with what was written meanwhile.
func TestLeaveWithQueue(t *testing.T) {
	t.Parallel()
	for name, keys := range map[string][]string{"ctrl+c": {"ctrl+c", "ctrl+c"}, "ctrl+d": {"ctrl+d"},
		"/quit": {"/quit", "enter"}, "/agents": {"/agents", "enter", "enter"}} {
		l := newLab(t, Target{Workspace: "/src/app"}, 80, 24)
		l.pages = map[string]page{"agents": {Items: []item{{ID: "main", To: Target{Agent: "main"}}}}}
		l.event(running(Target{Workspace: "/src/app"}))
		l.keys("one", "enter", "two", "enter")
		l.keys(keys...)
		if l.quit || l.model.target.Agent != "" || l.model.composer.Value() != "one\n\ntwo" ||
			!strings.Contains(l.screen(), "is not sent: it is here again") {
			t.Errorf("%s: left %v for %q, the screen is\n%s", name, l.quit, l.model.target.Agent, l.screen())
		}
		l.keys("ctrl+c")
		if l.keys(keys...); !l.quit && l.model.target.Agent == "" {
			t.Errorf("%s: it does not leave", name)
		}
	}
}

// A message that is being sent arrives before the program ends, or is written again.
func TestLeaveWhileSending(t *testing.T) {
	t.Parallel()
	for _, fail := range []error{nil, errors.New("away")} {
		l := newLab(t, Target{Agent: "main"}, 80, 24)
		l.fake.fail = fail
		l.keys("hello")
		_, sending := l.model.Update(tea.KeyPressMsg{Code: tea.KeyEnter})
		if l.keys("ctrl+d"); l.quit {
			t.Error("it left before the message arrived")
		}
		if l.do(sending); l.quit != (fail == nil) || (l.model.composer.Value() == "hello") != (fail != nil) {
			t.Errorf("failed with %v: left %v, composer %q", fail, l.quit, l.model.composer.Value())
		}
	}
}

// A pasted path of a file is sent as a part; other text stays text, without what controls a terminal.
func TestPaste(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		expect.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	image, note := write("a shot.png", "\x89PNG\r\n\x1a\n0000"), write("note.txt", "hi")
	binary := write("x.bin", "\x00\x01\x02\xff")
	for name, c := range map[string]struct{ pasted, kind, text string }{
		"image":          {image, "input_image", ""},
		"escaped spaces": {strings.ReplaceAll(image, " ", `\ `) + "\n", "input_image", ""},
		"quoted":         {"'" + image + "'", "input_image", ""},
		"url":            {"file://" + strings.ReplaceAll(image, " ", "%20"), "input_image", ""},
		"text file":      {note, "input_text", ""},
		"file":           {binary, "input_file", ""},
		"no file":        {dir + "/none", "", dir + "/none"},
		"directory":      {dir, "", dir},
		"two lines":      {note + "\n" + note, "", note + "\n" + note},
		"text":           {"see a/b\r\nc", "", "see a/b\nc"},
		"escapes":        {"a\x1b[31mb\x1b]0;t\x07c", "", "abc"},
		"many lines":     {strings.Repeat("line\n", 20_000) + "end", "input_text", ""},
		"long lines":     {strings.Repeat(strings.Repeat("x", 2000)+"\n", 1000), "input_text", ""},
	} {
		l := newLab(t, Target{Agent: "main"}, 200, 24)
		l.send(tea.PasteMsg{Content: c.pasted})
		kind := ""
		if len(l.model.files) > 0 {
			kind = l.model.files[0].Part.Type
		}
		if kind != c.kind || l.model.composer.Value() != c.text {
			t.Errorf("%s: part %q, text %q, want %q, %q", name, kind, l.model.composer.Value(), c.kind, c.text)
		}
		if len(c.pasted) > 10_000 && !strings.Contains(l.model.files[0].Part.Text, c.pasted) {
			t.Errorf("%s: a part of the text is missing", name)
		}
		if l.keys("backspace"); c.kind != "" && len(l.model.files) > 0 {
			t.Errorf("%s: backspace leaves the file", name)
		}
	}
}
