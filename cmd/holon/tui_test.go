package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/vt"
	"github.com/creack/pty"

	"holon/responses"
	"holon/runner/control/client"
	"holon/runner/control/wire"
	"holon/runner/daemon"
	"holon/test/expect"
)

// screen is a terminal with a program, as a person sees it.
type screen struct {
	t        *testing.T
	cmd      *exec.Cmd
	terminal *os.File
	shown    *vt.SafeEmulator
	changed  chan struct{}
	readers  sync.WaitGroup

	mu  sync.Mutex
	raw bytes.Buffer // all that the program wrote
}

// onScreen runs a program at a terminal of 80 columns and 24 lines.
func onScreen(t *testing.T, cmd *exec.Cmd) *screen {
	t.Helper()
	cmd.Env = append(cmd.Env, "TERM=xterm-256color", "NO_COLOR=", "ZELLIJ=")
	terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: 80})
	expect.NoError(t, err)
	s := &screen{t: t, cmd: cmd, terminal: terminal, shown: vt.NewSafeEmulator(80, 24), changed: make(chan struct{}, 1)}
	s.readers.Go(func() {
		defer close(s.changed)
		buffer := make([]byte, 4096)
		for {
			n, err := terminal.Read(buffer)
			s.mu.Lock()
			s.raw.Write(buffer[:n])
			s.mu.Unlock()
			_, _ = s.shown.Write(buffer[:n])
			if err != nil { // the program has ended
				return
			}
			select {
			case s.changed <- struct{}{}:
			default:
			}
		}
	})
	s.readers.Go(func() { _, _ = io.Copy(terminal, s.shown) }) // answers of the terminal
	t.Cleanup(func() {
		terminal.Close()
		s.shown.Close()
		s.readers.Wait()
	})
	return s
}

func (s *screen) text() string { return ansi.Strip(s.shown.Render()) }

// wait waits until the screen shows all of the texts.
func (s *screen) wait(texts ...string) {
	s.t.Helper()
	limit := time.After(time.Minute)
	for {
		missing := ""
		for _, text := range texts {
			if !strings.Contains(s.text(), text) {
				missing = text
			}
		}
		if missing == "" {
			return
		}
		select {
		case _, open := <-s.changed:
			if open {
				continue
			}
		case <-limit:
		}
		if !strings.Contains(s.text(), missing) {
			s.t.Fatalf("the screen lacks %q:\n%s", missing, s.text())
		}
	}
}

func (s *screen) keys(text string) {
	s.t.Helper()
	_, err := s.terminal.WriteString(text)
	expect.NoError(s.t, err)
}

// end waits until the program has ended.
func (s *screen) end() error {
	s.t.Helper()
	limit := time.After(time.Minute)
	for {
		select {
		case _, open := <-s.changed:
			if !open {
				return s.cmd.Wait()
			}
		case <-limit:
			s.t.Fatalf("the program does not end:\n%s", s.text())
		}
	}
}

const tuiScenario = `rounds:
  - cases:
      - {when: {user: {contains: slowly}}, chunks: ["First line.\n", "Second line.\n"], gap: 10m}
      - when: {user: {contains: change}}
        text: "I look \e]0;owned\a\e[2Jfirst."
        calls: [{tool: ExecCommand, arguments: {cmd: "echo world >> a.txt; echo id > .envrc"}}]
      - {when: {user: {contains: again}}, text: "Once more."}
      - {text: "All of it."}
  - {text: It is changed.}
`

// At a terminal a person talks to an agent, interrupts it, and finds the conversation again after the daemon was
// replaced. Leaving ends nothing.
func TestTalkToAgent(t *testing.T) {
	t.Parallel()
	dir, command := localRuns(t, tuiScenario)
	startDaemon(t, dir, command)
	s := onScreen(t, command("tui"))
	s.wait("main · awake idle", "not_enforced")
	s.keys("work slowly\r")
	s.wait("❯ work slowly", "First line.", "● writing", "Enter interjects")
	s.keys("\x1b")
	s.wait("Esc again interrupts")
	s.keys("\x1b")
	s.wait("main · awake idle")
	s.keys("hello there\r")
	s.wait("All of it.")
	s.keys("/events\r")
	s.wait("EVENT", "TYPE", "turn_terminal")
	s.keys("\x1b")
	s.wait("Alt+Enter new line")
	s.keys("/events 1\r")
	s.wait("event 1", "\n  \"event_seq\": 1,")
	s.keys("\x1b")
	s.wait("Alt+Enter new line")
	s.keys("/events 999999\r")
	s.wait("the record has no event 999999")
	succeed(t, command("daemon", "restart"))
	s.keys("again\r")
	s.wait("Once more.")
	s.keys("\x03")
	s.wait("Ctrl+C again leaves")
	s.keys("\x03")
	if err := s.end(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	succeed(t, command("daemon", "status"))
}

// In a repository without a daemon, holon alone offers to start one and opens a session on a private copy.
func TestWorkInRepository(t *testing.T) {
	t.Parallel()
	dir, command := localRuns(t, tuiScenario)
	work := filepath.Join(dir, "work")
	expect.NoError(t, os.WriteFile(filepath.Join(work, "a.txt"), []byte("hello\n"), 0o600))
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"-c", "user.name=x", "-c", "user.email=x@example.org",
		"commit", "-qm", "first"}} {
		succeed(t, exec.CommandContext(t.Context(), "git", append([]string{"-C", work}, args...)...))
	}
	t.Cleanup(func() { stopDaemon(t, filepath.Join(dir, "home")) })
	s := onScreen(t, command())
	s.wait("start it? [y/N]")
	s.keys("y\n")
	s.wait("new session", "private copy of")
	s.keys("/display verbose\r")
	s.wait("display: verbose")
	s.keys("change it\r")
	s.wait("❯ change it", "I look first.", "It is changed.", "· ready ·")
	s.keys("/diff\r")
	s.wait("+world", ".envrc")
	s.keys("\x1b")
	s.wait("Alt+Enter new line")
	s.keys("/apply\r")
	s.wait("write files that programs execute?", ".envrc: executed by")
	trees, err := filepath.Glob(filepath.Join(dir, "home", "sessions", "*", "tree"))
	expect.NoError(t, err)
	unseen := filepath.Join(trees[0], ".gitlab-ci.yml")
	expect.NoError(t, os.WriteFile(unseen, []byte("x"), 0o600))
	s.keys("y\r")
	s.wait("not the ones that were shown")
	expect.NoError(t, os.Remove(unseen))
	s.keys("/apply\r")
	s.wait("write files that programs execute?")
	s.keys("y\r")
	s.wait("written ")
	got, err := os.ReadFile(filepath.Join(work, "a.txt"))
	expect.NoError(t, err)
	expect.Equal(t, "a.txt", string(got), "hello\nworld\n")
	s.keys("more\r")
	s.wait("All of it.", "turn completed: 0 tool calls", "· ready ·")
	s.keys("/rewind 2\r")
	s.wait("go back?")
	s.keys("y\r")
	s.wait("the conversation and the files are what they were")
	s.keys("Once more again\r")
	s.wait("Once more.", "· ready ·")
	if strings.Contains(s.text(), "It is changed.") {
		t.Errorf("what was gone back from is on screen:\n%s", s.text())
	}
	s.keys("/rewind\r")
	s.wait("left", "change it", "Once more again")
	s.keys("\x1b")
	s.wait("Alt+Enter new line")
	s.keys("/diff\r")
	s.wait("a.txt", "-world")
	s.keys("/quit\r")
	if err := s.end(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if text := s.raw.String(); strings.Contains(text, "owned") {
		t.Errorf("the terminal gets a title of the model")
	}
}

// A session is what all its clients make of it: their turns appear, the next message continues them, and where another
// one goes back, the conversation is what it was.
func TestSessionOfTwoClients(t *testing.T) {
	t.Parallel()
	dir, command := localRuns(t, `rounds: [{cases: [
  {when: {user: {contains: slowly}}, chunks: ["A beginning.\n", "More.\n"], gap: 10m}, {text: "Done."}]}]`)
	work := filepath.Join(dir, "work")
	succeed(t, exec.CommandContext(t.Context(), "git", "-C", work, "init", "-q"))
	t.Cleanup(func() { stopDaemon(t, filepath.Join(dir, "home")) })
	succeed(t, command("daemon", "start", "--workspace-root", work))
	c := client.Unix(daemon.SocketPath(filepath.Join(dir, "home")))
	t.Cleanup(c.Close)
	s := onScreen(t, command("tui"))
	ask := func(text string) {
		s.keys(text + "\r")
		s.wait("❯ "+text, "Message, or", "· ready ·")
	}
	s.wait("new session")
	ask("number one")
	ask("number two")
	list, err := c.Sessions(t.Context())
	expect.NoError(t, err)
	session := list.Data[0].ID
	first := list.Data[0].ResponseIDs[0]
	previous := func() (previous string) {
		turns, err := c.SessionTurns(t.Context(), session)
		expect.NoError(t, err)
		return turns.Data[len(turns.Data)-1].PreviousResponseID
	}
	q := responses.NewRequest(list.Data[0].Model, responses.UserMessage("from elsewhere"))
	q.Holon.SessionID = session
	other, err := c.Responses().Background(t.Context(), q)
	expect.NoError(t, err)
	s.wait("❯ from elsewhere", "· ready ·")
	ask("number three")
	expect.Equal(t, "what number three continues", previous(), other.ID)
	_, err = c.RewindSession(t.Context(), session, wire.RewindSession{ResponseID: first})
	expect.NoError(t, err)
	s.wait("another client changed the conversation", "❯ number one")
	if text := s.text(); strings.Contains(text, "elsewhere") || strings.Contains(text, "number two") {
		t.Errorf("what was gone back from is on screen:\n%s", text)
	}
	ask("number four")
	expect.Equal(t, "what number four continues", previous(), first)
	s.keys("now slowly\r")
	s.wait("A beginning.", "Esc interrupts")
	s.keys("\x1b")
	s.wait("Esc again")
	s.keys("\x1b")
	s.wait("· ready ·")
	at, err := c.Session(t.Context(), session)
	expect.NoError(t, err)
	ask("number five")
	expect.Equal(t, "what number five continues", previous(), at.ResponseIDs[len(at.ResponseIDs)-1])
	s.keys("/transcript\r")
	s.wait("── operator", "number four", "── answer")
	if text := s.text(); strings.Contains(text, "another client") {
		t.Errorf("a message of this client changed the conversation:\n%s", text)
	}
	s.keys("\x1b")
	s.wait("Alt+Enter new line")
	s.keys("/quit\r")
	expect.NoError(t, s.end())
}

// Without the alternate screen the conversation stays in the scrollback.
func TestScrollbackKeepsConversation(t *testing.T) {
	t.Parallel()
	dir, command := localRuns(t, tuiScenario)
	startDaemon(t, dir, command)
	s := onScreen(t, command("tui", "--no-alt-screen", "--agent", "main"))
	s.wait("main · awake idle")
	s.keys("hello\r")
	s.wait("All of it.", "main · awake idle")
	if s.shown.IsAltScreen() {
		t.Error("the alternate screen is used")
	}
	s.keys("\x04")
	expect.NoError(t, s.end())
	s.wait("❯ hello", "All of it.")
}

// Where it cannot work, it says how things are and what to do, and fails.
func TestTUIWithoutDaemon(t *testing.T) {
	t.Parallel()
	_, command := localRuns(t, tuiScenario)
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"tui"}, 1, "start it with: holon daemon start"},
		{[]string{"tui", "--connect", "http://127.0.0.1:1"}, 4, "start one there with holon serve --listen"},
		{[]string{"tui", "--display", "x"}, 2, "is not a display mode"},
		{[]string{"tui", "--alt-screen", "x"}, 2, "use auto, always or never"},
		{[]string{"tui", "--token", "x"}, 2, "--connect"},
		{[]string{"tui", "--agent", "a b"}, 2, "is not the id of an agent"},
	} {
		shown, err := atTerminal(t, command(c.args...), "", "")
		if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != c.code ||
			!strings.Contains(strings.Join(strings.Fields(shown), " "), c.want) {
			t.Errorf("%v ends with %v, want %d and %q:\n%s", c.args, err, c.code, c.want, shown)
		}
	}
	if out, err := command("tui").CombinedOutput(); err == nil || !strings.Contains(string(out), "needs a terminal") {
		t.Errorf("without a terminal: %v, %s", err, out)
	}
}
