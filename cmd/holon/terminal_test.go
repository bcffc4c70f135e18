package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"

	"holon/runner/credentials"
	"holon/state"
	"holon/test/expect"
	"holon/test/programs"
)

// atTerminal runs a command at a terminal of its own, writes the answer once the question is shown, and
// returns what the terminal showed and how the command ended.
func atTerminal(t *testing.T, cmd *exec.Cmd, question, answer string) (shown string, err error) {
	t.Helper()
	terminal, err := pty.Start(cmd)
	expect.NoError(t, err)
	defer terminal.Close()
	expect.NoError(t, terminal.SetReadDeadline(time.Now().Add(2*time.Minute)))
	buffer, asked := make([]byte, 4096), question == ""
	for {
		n, err := terminal.Read(buffer)
		shown += string(buffer[:n])
		if !asked && strings.Contains(shown, question) {
			asked = true
			if _, err := terminal.WriteString(answer); err != nil {
				t.Fatal(err)
			}
		}
		if err != nil { // a terminal whose program has ended reads as an error
			break
		}
	}
	if !asked {
		t.Errorf("the terminal does not show %q: %q", question, shown)
	}
	return shown, cmd.Wait()
}

// At a terminal a key is asked for, and the terminal does not show it.
func TestKeyIsNotShown(t *testing.T) {
	t.Parallel()
	const key = "sk-sentinel-0123456789abcdef"
	holon := programs.Must("holon")
	home := filepath.Join(t.TempDir(), "home")
	cmd := exec.CommandContext(t.Context(), holon, "credentials", "set", "openai")
	cmd.Env = append(os.Environ(), "HOLON_HOME="+home)
	shown, err := atTerminal(t, cmd, "it is not shown", key+"\n")
	if err != nil {
		t.Fatalf("%v\n%s", err, shown)
	}
	if strings.Contains(shown, "sentinel") {
		t.Errorf("the terminal shows the key: %q", shown)
	}
	h, err := state.FindHome(home, "")
	expect.NoError(t, err)
	if stored, err := credentials.StoreIn(h).Get("openai"); err != nil || stored.Reveal() != key {
		t.Errorf("the stored key is %q (%v), want %q", stored.Reveal(), err, key)
	}
}

// A hostile agent can do nothing to the terminal that shows its run: of what is
// written there only holon's own status line is a sequence.
func TestHostileTerminal(t *testing.T) {
	t.Parallel()
	const evil = `\e]0;owned\a\e[2J\e[31m\e]52;c;cm0gLXJm\a\u009b2J\u202e\u200b\r\b\x7f`
	scenario := "rounds:\n  - text: \"comment " + evil +
		" end\"\n    calls: [{tool: ExecCommand, arguments: {cmd: \"printf '\\\\033[2Jx\\\\377'; : " + evil +
		"; exit 3\"}}, {tool: \"no" + evil + "tool\", arguments: {}}]\n" +
		"  - text: \"answer " + evil + " end " + strings.Repeat("x", 5000) + "\"\n"
	_, command := localRuns(t, scenario)
	shown, err := atTerminal(t, command("run", "go \x1b[2Jon"), "", "")
	if err != nil {
		t.Fatalf("%v\n%q", err, shown)
	}
	for _, want := range []string{"comment", "answer", "completed in", "exit 3"} {
		if !strings.Contains(shown, want) {
			t.Errorf("the terminal shows %q, want %q in it", shown, want)
		}
	}
	for _, own := range []string{"\r\x1b[K", "\x1b[2m", "\x1b[0m", "\x1b[36m", "\r\n"} {
		shown = strings.ReplaceAll(shown, own, "")
	}
	if i := strings.IndexFunc(shown, func(r rune) bool {
		return r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 || r == '\u202e' || r == '\u200b'
	}); i >= 0 {
		t.Errorf("the terminal gets %q", shown[max(0, i-30):min(len(shown), i+30)])
	}
	for _, inside := range []string{"]0;", "]52;"} {
		if strings.Contains(shown, inside) {
			t.Errorf("the terminal shows what a sequence holds, %q: %q", inside, shown)
		}
	}
}

// At a terminal a person is asked about files that programs execute, and anything
// but yes writes nothing.
func TestExecutedIsAsked(t *testing.T) {
	t.Parallel()
	dir, command := localRuns(t, "rounds:\n  - calls: [{tool: ExecCommand, arguments: {cmd: \"echo id > .envrc; "+
		"echo x > other\"}}]\n  - text: Done.\n")
	succeed(t, command("run", "x"))
	for _, answer := range []struct {
		text    string
		written bool
	}{{"\n", false}, {"no\n", false}, {"maybe\n", false}, {"\x04", false}, {"y\n", true}} {
		shown, err := atTerminal(t, command("apply", "last"), "write them? [y/N]", answer.text)
		if (err == nil) != answer.written {
			t.Errorf("the answer %q: apply ends with %v, want success: %v\n%s", answer.text, err, answer.written, shown)
		}
		files, err := filepath.Glob(filepath.Join(dir, "work", "*"))
		expect.NoError(t, err)
		if (len(files) > 0) != answer.written {
			t.Errorf("the answer %q: the workspace has %q, want files: %v", answer.text, files, answer.written)
		}
		if !strings.Contains(shown, ".envrc: executed by") {
			t.Errorf("the answer %q: the terminal does not name .envrc: %q", answer.text, shown)
		}
	}
}

// At a terminal a prompt that is not given is written in the editor, which may have arguments; an empty one is none.
func TestPromptOfEditor(t *testing.T) {
	t.Parallel()
	dir, command := localRuns(t, "rounds:\n  - text: \"the task was: {{last_user}}\"\n")
	for _, c := range []struct{ variable, editor, want string }{
		{"EDITOR", `sh -c 'echo "as written" >"$1"' -`, "the task was: as written"},
		{"EDITOR", "true", "PROMPT: is missing"},
		{"EDITOR", "false", `EDITOR: "false": exit status 1`},
		{"VISUAL", "false", `VISUAL: "false": exit status 1`},
		{"EDITOR", "", "set EDITOR to write it there"},
	} {
		cmd := command("run")
		cmd.Env = append(cmd.Env, "VISUAL=", "EDITOR=", c.variable+"="+c.editor, "TMPDIR="+dir)
		if shown, _ := atTerminal(t, cmd, "", ""); !strings.Contains(shown, c.want) {
			t.Errorf("with the editor %q the terminal shows %q, want %q in it", c.editor, shown, c.want)
		}
	}
	if left, err := filepath.Glob(filepath.Join(dir, "holon-prompt-*")); err != nil || len(left) > 0 {
		t.Errorf("files of prompts are left: %q (%v)", left, err)
	}
}

// Lists of runs fit the terminal, with ids that are short and good enough, and a change is shown in
// colours by the pager.
func TestResultsAtTerminal(t *testing.T) {
	t.Parallel()
	_, command := localRuns(t, "rounds:\n  - calls: [{tool: ExecCommand, arguments: {cmd: \"echo x > file\"}}]\n"+
		"  - text: Done.\n")
	for range 3 {
		succeed(t, command("run", "--quiet", "--name", "a name that is rather long",
			"a task that says at length what is to be done, and how, and why, and when"))
	}
	shown, err := atTerminal(t, command("ps", "-a"), "", "")
	expect.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(shown), "\r\n")
	if len(lines) != 4 || !strings.HasPrefix(lines[0], "RUN ") {
		t.Fatalf("ps shows %q", shown)
	}
	for _, line := range lines {
		if n := cells(line); n > 80 {
			t.Errorf("a line of %d columns: %q", n, line)
		}
	}
	id, _, _ := strings.Cut(lines[1], " ")
	diff := command("diff", id)
	diff.Env = append(diff.Env, "HOLON_PAGER=sed s/^/pager:/")
	if shown, err = atTerminal(t, diff, "", ""); err != nil || !strings.Contains(shown, "pager:\x1b[32m+x\x1b[0m") {
		t.Errorf("diff %s shows %q, %v", id, shown, err)
	}
	early := command("diff", id)
	early.Env = append(early.Env, "HOLON_PAGER=true", "NO_COLOR=1")
	if shown, err = atTerminal(t, early, "", ""); err != nil || shown != "" {
		t.Errorf("with a pager that shows nothing: %q, %v", shown, err)
	}
	for _, term := range []string{"TERM=dumb", "TERM="} {
		plain := command("diff", id)
		plain.Env = append(plain.Env, "HOLON_PAGER=cat", term)
		if shown, err = atTerminal(t, plain, "", ""); err != nil || !strings.Contains(shown, "+x") ||
			strings.Contains(shown, "\x1b") {
			t.Errorf("with %s: %q, %v", term, shown, err)
		}
	}
	broken := command("diff", id)
	broken.Env = append(broken.Env, "HOLON_PAGER=exit 7;")
	want := `holon: HOLON_PAGER: "exit 7;": exit status 7; name a pager that works, or cat for none`
	if shown, err = atTerminal(t, broken, "", ""); err == nil || strings.Join(strings.Fields(shown), " ") != want {
		t.Errorf("with a pager that fails: %q, %v, want %q", shown, err, want)
	}
}

// A table is as wide as the terminal that it is shown on, also where stderr goes elsewhere.
func TestWidthOfStdout(t *testing.T) {
	t.Parallel()
	holon := programs.Must("holon")
	cmd := exec.CommandContext(t.Context(), holon, "config", "list")
	cmd.Env = append(os.Environ(), "HOLON_HOME="+filepath.Join(t.TempDir(), "home"))
	cmd.Stderr = new(strings.Builder)
	terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: 50})
	expect.NoError(t, err)
	defer terminal.Close()
	shown, _ := io.ReadAll(terminal) // a terminal whose program has ended reads as an error
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %s", err, cmd.Stderr)
	}
	for _, line := range strings.Split(string(shown), "\r\n") {
		if n := cells(line); n > 50 {
			t.Errorf("a line of %d columns, want 50 at most: %q", n, line)
		}
	}
}

// The columns of models stand on one line at 80 columns, also with a model whose name is long.
func TestModelsAtTerminal(t *testing.T) {
	t.Parallel()
	holon := programs.Must("holon")
	cmd := exec.CommandContext(t.Context(), holon, "models")
	cmd.Env = append(os.Environ(), "HOLON_HOME="+filepath.Join(t.TempDir(), "home"),
		"HOLON_MODEL=anthropic/claude-sonnet-4-5", "HOLON_MODEL_FALLBACKS=openai/gpt-5")
	shown, err := atTerminal(t, cmd, "", "")
	if err != nil {
		t.Fatalf("%v\n%s", err, shown)
	}
	if head, _, _ := strings.Cut(shown, "\r\n"); !strings.HasSuffix(head, "KEY") || cells(head) > 80 {
		t.Errorf("the head is %q, want all columns in 80", head)
	}
	if !strings.Contains(shown, "not needed\r\n") {
		t.Errorf("the keys that are not needed are cut:\n%s", shown)
	}
}

// At a terminal the answer of an agent is shown while it is written, and once.
func TestAgentAnswersAtTerminal(t *testing.T) {
	t.Parallel()
	dir, command := localRuns(t, `rounds:
  - cases:
      - {when: {user: {contains: slowly}}, chunks: ["First line.\n", "Second line.\n"], gap: 1m}
      - when: {user: {contains: two messages}}
        text: "I look first."
        calls: [{tool: ExecCommand, arguments: {cmd: "true"}}]
      - {text: "**All** of it.\n\nAnd more."}
  - {text: It is done.}
`)
	startDaemon(t, dir, command)
	for task, want := range map[string][]string{"two messages": {"I look first.", "It is done."},
		"all": {"All of it.", "And more."}} {
		for _, way := range [][]string{{"prompt", "--follow"}, {"run", "--agent", "main"}} {
			shown, err := atTerminal(t, command(append(way, task)...), "", "")
			if err != nil {
				t.Fatalf("%v: %v\n%s", way, err, shown)
			}
			plain := sequences.ReplaceAllString(shown, "")
			if strings.Contains(plain[strings.Index(plain, want[0])+1:], "turn started") {
				t.Errorf("%v %s: the turn starts after its answer:\n%s", way, task, plain)
			}
			for _, text := range want {
				if n := strings.Count(plain, text); n != 1 {
					t.Errorf("%v %s: the terminal shows %q %d times, want once:\n%s", way, task, text, n, plain)
				}
			}
		}
	}
	shown, err := atTerminal(t, command("prompt", "--follow", "slowly"), "First line.", "\x03")
	if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 130 || strings.Contains(shown, "Second") {
		t.Errorf("%v, want 130 while the answer is written:\n%s", err, shown)
	}
	succeed(t, command("agent", "abort")) // the daemon would wait for the turn
}

// sequences are those that holon writes to a terminal itself, status lines with their text.
var sequences = regexp.MustCompile("\x1b\\[2m[^\x1b]*  \\d+s( of [^\x1b]*)?\x1b\\[0m|\x1b\\[[0-9;]*[mK]")
