package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"

	"holon/runner/credentials"
	"holon/state"
)

// At a terminal a key is asked for, and the terminal does not show it.
func TestKeyIsNotShown(t *testing.T) {
	const key = "sk-sentinel-0123456789abcdef"
	binary := filepath.Join(t.TempDir(), "holon")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	home := filepath.Join(t.TempDir(), "home")
	cmd := exec.CommandContext(t.Context(), binary, "credentials", "set", "openai")
	cmd.Env = append(os.Environ(), "HOLON_HOME="+home)
	terminal, err := pty.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	if err := terminal.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	var shown bytes.Buffer
	buffer := make([]byte, 1024)
	asked := false
	for {
		n, err := terminal.Read(buffer)
		shown.Write(buffer[:n])
		if !asked && strings.Contains(shown.String(), "it is not shown") {
			asked = true
			if _, err := terminal.WriteString(key + "\n"); err != nil {
				t.Fatal(err)
			}
		}
		if err != nil { // the program is gone
			break
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, shown.String())
	}
	if !asked || strings.Contains(shown.String(), "sentinel") {
		t.Errorf("the terminal shows %q", shown.String())
	}
	h, err := state.FindHome(home, "")
	if err != nil {
		t.Fatal(err)
	}
	if stored, err := credentials.StoreIn(h).Get("openai"); err != nil || stored.Reveal() != key {
		t.Errorf("%q, %v", stored.Reveal(), err)
	}
}

// A hostile agent can do nothing to the terminal that shows its run: of what is
// written there only holon's own status line is a sequence.
func TestHostileTerminal(t *testing.T) {
	dir := t.TempDir()
	binary := filepath.Join(dir, "holon")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	const evil = `\e]0;owned\a\e[2J\e[31m\e]52;c;cm0gLXJm\a\u009b2J\u202e\u200b\r\b\x7f`
	scenario := "rounds:\n  - text: \"comment " + evil +
		" end\"\n    calls: [{tool: ExecCommand, arguments: {cmd: \"printf '\\\\033[2Jx\\\\377'; : " + evil +
		"; exit 3\"}}, {tool: \"no" + evil + "tool\", arguments: {}}]\n" +
		"  - text: \"answer " + evil + " end " + strings.Repeat("x", 5000) + "\"\n"
	path := filepath.Join(dir, "evil.yaml")
	if err := os.WriteFile(path, []byte(scenario), 0o600); err != nil {
		t.Fatal(err)
	}
	work := filepath.Join(dir, "work")
	if err := os.Mkdir(work, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), binary, "run", "--engine", "local", "--workspace", work, "--model",
		"scripted/"+path, "go \x1b[2Jon")
	cmd.Env = append(os.Environ(), "HOLON_HOME="+filepath.Join(dir, "home"), "HOLON_AGENTD="+buildAgentd(t),
		"TERM=xterm")
	terminal, err := pty.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	if err := terminal.SetReadDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	var shown bytes.Buffer
	_, _ = shown.ReadFrom(terminal) // a terminal whose program is gone reads as an error
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%q", err, shown.String())
	}
	text := shown.String()
	for _, want := range []string{"comment", "answer", "completed in", "exit 3"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not shown: %q", want, text)
		}
	}
	for _, own := range []string{"\r\x1b[K", "\x1b[2m", "\x1b[0m", "\r\n"} {
		text = strings.ReplaceAll(text, own, "")
	}
	if i := strings.IndexFunc(text, func(r rune) bool {
		return r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 || r == '\u202e' || r == '\u200b'
	}); i >= 0 {
		t.Errorf("the terminal gets %q", text[max(0, i-30):min(len(text), i+30)])
	}
	if strings.Contains(text, "]0;") || strings.Contains(text, "]52;") {
		t.Errorf("what a sequence holds is shown: %q", text)
	}
}

// At a terminal a person is asked about files that programs execute, and anything
// but yes writes nothing.
func TestExecutedIsAsked(t *testing.T) {
	dir := t.TempDir()
	binary, work := filepath.Join(dir, "holon"), filepath.Join(dir, "work")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	scenario := filepath.Join(dir, "envrc.yaml")
	if err := os.WriteFile(scenario, []byte("rounds:\n  - calls: [{tool: ExecCommand, arguments: {cmd: \"echo id > "+
		".envrc; echo x > other\"}}]\n  - text: Done.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(work, 0o700); err != nil {
		t.Fatal(err)
	}
	command := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), binary, args...)
		cmd.Env = append(os.Environ(), "HOLON_HOME="+filepath.Join(dir, "home"), "HOLON_AGENTD="+buildAgentd(t),
			"TERM=xterm")
		return cmd
	}
	if out, err := command("run", "--engine", "local", "--workspace", work, "--model", "scripted/"+scenario,
		"x").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, answer := range []struct {
		text    string
		written bool
	}{{"\n", false}, {"no\n", false}, {"maybe\n", false}, {"\x04", false}, {"y\n", true}} {
		cmd := command("apply", "last")
		terminal, err := pty.Start(cmd)
		if err != nil {
			t.Fatal(err)
		}
		if err := terminal.SetReadDeadline(time.Now().Add(2 * time.Minute)); err != nil {
			t.Fatal(err)
		}
		var shown bytes.Buffer
		buffer := make([]byte, 1024)
		for asked := false; ; {
			n, err := terminal.Read(buffer)
			shown.Write(buffer[:n])
			if !asked && strings.Contains(shown.String(), "write them? [y/N]") {
				asked = true
				if _, err := terminal.WriteString(answer.text); err != nil {
					t.Fatal(err)
				}
			}
			if err != nil { // the program is gone
				break
			}
		}
		terminal.Close()
		err = cmd.Wait()
		files, globErr := filepath.Glob(filepath.Join(work, "*"))
		if globErr != nil {
			t.Fatal(globErr)
		}
		if (err == nil) != answer.written || (len(files) > 0) != answer.written ||
			!strings.Contains(shown.String(), ".envrc: executed by") {
			t.Errorf("%q: %v, %q\n%s", answer.text, err, files, shown.String())
		}
	}
}
