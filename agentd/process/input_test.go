package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"holon/test/expect"
)

// start starts c and makes sure that it does not outlive the test.
func start(t *testing.T, s *Supervisor, c Command) *Process {
	t.Helper()
	p, err := s.Start(c)
	if err != nil {
		t.Fatalf("start %q: %v", c.Argv, err)
	}
	t.Cleanup(p.Kill)
	return p
}

// awaitOutput waits until standard output holds text, at most until the command
// has ended.
func awaitOutput(t *testing.T, p *Process, text string) {
	t.Helper()
	for {
		out, _ := p.Snapshot()
		if bytes.Contains(append(out.Head, out.Tail...), []byte(text)) {
			return
		}
		select {
		case <-p.Done():
			if out, _ := p.Snapshot(); !bytes.Contains(append(out.Head, out.Tail...), []byte(text)) {
				t.Fatalf("the command ended without %q: %q", text, out.Head)
			}
		case <-time.After(2 * time.Millisecond):
		}
	}
}

func write(t *testing.T, p *Process, text string) {
	t.Helper()
	if n, err := p.Write(t.Context(), []byte(text)); n != len(text) || err != nil {
		t.Fatalf("write %q: %d, %v", text, n, err)
	}
}

func TestInput(t *testing.T) {
	s := newTest(t)
	c := sh("while read line; do echo got $line; done; echo end; exit 3")
	c.Input = true
	p := start(t, s, c)
	write(t, p, "zero\n")
	awaitOutput(t, p, "got zero\n")
	write(t, p, "one\n")
	awaitOutput(t, p, "got one\n")
	write(t, p, "two\nthree\n")
	awaitOutput(t, p, "got three\n")
	expect.NoError(t, p.CloseInput())
	if _, err := p.Write(t.Context(), []byte("x")); !errors.Is(err, errInputClosed) {
		t.Errorf("write after the end: %v", err)
	}
	res := p.Result()
	if res.ExitCode != 3 || string(res.Stdout.Head) != "got zero\ngot one\ngot two\ngot three\nend\n" {
		t.Errorf("exit code %d, stdout %q", res.ExitCode, res.Stdout.Head)
	}
}

func TestInputRefused(t *testing.T) {
	s := newTest(t)
	p := start(t, s, sh("exec sleep 300"))
	if _, err := p.Write(t.Context(), []byte("x")); !errors.Is(err, errInputClosed) {
		t.Errorf("write to /dev/null: %v", err)
	}
	expect.ErrorIs(t, "close /dev/null", p.CloseInput(), errInputClosed)
	expect.ErrorIs(t, "resize a pipe", p.Resize(10, 10), errNoTerminal)

	c := sh("exec sleep 300")
	c.Input = true
	p = start(t, s, c)
	n, err := p.in.write(t.Context(), make([]byte, 1<<20), 50*time.Millisecond)
	switch {
	case !errors.Is(err, errNotReading):
		t.Errorf("write to a command that does not read: err = %v, want %v", err, errNotReading)
	case n == 0:
		t.Error("write to a command that does not read: n = 0, want another value")
	case n >= 1<<20:
		t.Errorf("write to a command that does not read: n = %d, want less than %d", n, 1<<20)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Write(ctx, []byte("x")); !errors.Is(err, context.Canceled) {
		t.Errorf("write with a cancelled context: %v", err)
	}
	p.Kill()
	if res := p.Result(); !res.Stopped || res.ExitCode != 137 {
		t.Errorf("killed: %+v", res)
	}
	if _, err := p.Write(t.Context(), []byte("x")); !errors.Is(err, errInputClosed) {
		t.Errorf("write to a command that has ended: %v", err)
	}

	c = sh("exec <&-; echo closed; exec sleep 300")
	c.Input = true
	p = start(t, s, c)
	awaitOutput(t, p, "closed")
	if _, err := p.Write(t.Context(), []byte("x")); !errors.Is(err, errInputClosed) {
		t.Errorf("write to a command that closed its input: %v", err)
	}
}

func terminal(script string) Command {
	c := sh(script)
	c.TTY = true
	return c
}

func TestTerminal(t *testing.T) {
	tests := map[string]struct {
		script, typed string
		code          int
		out           string
	}{
		"is one": {"test -t 0 && test -t 1 && test -t 2 && tty >/dev/null && echo yes </dev/tty >/dev/tty", "",
			0, "yes\r\n"},
		"size":          {"stty size", "", 0, "24 80\r\n"},
		"read":          {"read a; echo [$a]", "hello\n", 0, "hello\r\n[hello]\r\n"},
		"end of input":  {"cat; echo end", "line\n\x04", 0, "line\r\nline\r\nend\r\n"},
		"interrupt":     {"trap 'exit 9' INT; echo up; while :; do sleep 0.01; done", "\x03", 9, "up\r\n^C"},
		"both streams":  {"echo out; echo err >&2", "", 0, "out\r\nerr\r\n"},
		"last words":    {"printf 'no newline'; exit 4", "", 4, "no newline"},
		"large":         {"head -c 300000 /dev/zero | tr '\\0' x", "", 0, strings.Repeat("x", 300000)},
		"blocking":      {`head -c 1 >/dev/null; echo ok`, "z\n", 0, "z\r\nok\r\n"},
		"leaves a hold": {"(trap '' HUP; sleep 300) & echo bye", "", 0, "bye\r\n"},
	}
	s := newTest(t)
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := terminal(tt.script)
			c.KeepBytes = 1 << 20
			p := start(t, s, c)
			if name == "interrupt" {
				awaitOutput(t, p, "up")
			}
			if tt.typed != "" {
				write(t, p, tt.typed)
			}
			res := p.Result()
			expect.Equal(t, fmt.Sprintf("%+v: res.ExitCode", tt), res.ExitCode, tt.code)
			expect.Equal(t, fmt.Sprintf("%+v: string(res.Stdout.Head)", tt), string(res.Stdout.Head), tt.out)
			expect.Equal(t, fmt.Sprintf("%+v: res.Stdout.Cut", tt), res.Stdout.Cut, false)
			if res.Stderr.Total != 0 {
				t.Errorf("stderr %q", res.Stderr.Head)
			}
		})
	}
}

func TestTerminalResize(t *testing.T) {
	s := newTest(t)
	c := terminal("trap 'stty size; exit' WINCH; stty size; while :; do sleep 0.01; done")
	p := start(t, s, c)
	awaitOutput(t, p, "24 80\r\n")
	if err := p.Resize(0, 10); err == nil {
		t.Error("a terminal without rows")
	}
	expect.NoError(t, p.Resize(12, 34))
	if res := p.Result(); string(res.Stdout.Head) != "24 80\r\n12 34\r\n" {
		t.Errorf("output %q", res.Stdout.Head)
	}
	expect.ErrorIs(t, "resize after the end", p.Resize(1, 1), errInputClosed)
}

func TestTerminalCloseInput(t *testing.T) {
	s := newTest(t)
	p := start(t, s, terminal("cat; echo first; cat; echo second"))
	write(t, p, "a\n")
	awaitOutput(t, p, "a\r\na\r\n")
	for _, word := range []string{"first", "second"} {
		expect.NoError(t, p.CloseInput())
		awaitOutput(t, p, word)
	}
	if res := p.Result(); res.ExitCode != 0 {
		t.Errorf("%+v", res)
	}
}

// A terminal that no program reads from fills up and then reports it.
func TestTerminalFull(t *testing.T) {
	s := newTest(t)
	p := start(t, s, terminal("stty raw -echo; echo up; exec sleep 300"))
	awaitOutput(t, p, "up")
	n, err := p.in.write(t.Context(), make([]byte, 1<<20), 50*time.Millisecond)
	if !errors.Is(err, errNotReading) || n >= 1<<20 {
		t.Errorf("wrote %d, %v", n, err)
	}
	p.Stop(0)
	if res := p.Result(); !res.Stopped {
		t.Errorf("%+v", res)
	}
}

// An interactive shell ignores SIGTERM but not the end of its terminal.
func TestTerminalStop(t *testing.T) {
	s := newTest(t)
	c := Command{Argv: []string{"bash", "--norc", "-i"}, Dir: "/", Env: sh("").Env, TTY: true, Grace: time.Minute}
	p := start(t, s, c)
	write(t, p, "echo re''ady; sleep 300\n")
	awaitOutput(t, p, "ready\r\n")
	p.Stop(0)
	if res := p.Result(); !res.Stopped || res.Survivors != 0 {
		t.Errorf("%+v", res)
	}
}
