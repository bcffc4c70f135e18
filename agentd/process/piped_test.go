package process

import (
	"bufio"
	"io"
	"strings"
	"testing"

	"holon/test/expect"
)

// A piped command is talked to: what it prints arrives as it is printed, all of
// it, and its end is the end of the stream.
func TestPipedOutput(t *testing.T) {
	s := newTest(t)
	p := start(t, s, Command{Argv: []string{"/bin/sh", "-c", "while read line; do echo \"got $line\"; done; head -c " +
		"300000 /dev/zero"}, Dir: t.TempDir(), Env: []string{"PATH=/bin:/usr/bin"}, Piped: true, Input: true})
	r := bufio.NewReader(p.Output())
	for _, word := range []string{"one", "two"} {
		write(t, p, word+"\n")
		line, err := r.ReadString('\n')
		if err != nil || strings.TrimSpace(line) != "got "+word {
			t.Fatalf("read %q, %v", line, err)
		}
	}
	expect.NoError(t, p.CloseInput())
	rest, err := io.ReadAll(r)
	if err != nil || len(rest) != 300000 {
		t.Errorf("read %d bytes, %v", len(rest), err)
	}
	if res := p.Result(); res.ExitCode != 0 {
		t.Errorf("ended with %d", res.ExitCode)
	}
}

// Without a reader the command blocks, and still ends when it is told to.
func TestPipedOutputThatNobodyReads(t *testing.T) {
	s := newTest(t)
	p := start(t, s, Command{Argv: []string{"/bin/sh", "-c", "exec yes"}, Dir: t.TempDir(),
		Env: []string{"PATH=/bin:/usr/bin"}, Piped: true})
	p.Kill()
	if res := p.Result(); !res.Stopped {
		t.Errorf("result %+v", res)
	}
	if _, err := io.ReadAll(p.Output()); err == nil {
		t.Error("a stream that was given up can be read to its end")
	}
}

// Close lets a reader go at once, and the command hears of it.
func TestPipedOutputClosed(t *testing.T) {
	s := newTest(t)
	p := start(t, s, Command{Argv: []string{"/bin/sh", "-c", "sleep 0.1; exec yes"}, Dir: t.TempDir(),
		Env: []string{"PATH=/bin:/usr/bin"}, Piped: true})
	read := make(chan error, 1)
	go func() {
		_, err := p.Output().Read(make([]byte, 10))
		read <- err
	}()
	_ = p.Output().Close()
	<-read
	p.Result() // SIGPIPE ended it
}
