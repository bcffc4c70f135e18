package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holon/test/expect"
)

// endsWith runs a command whose output goes to a file, and returns its exit code and what it says.
func endsWith(cmd *exec.Cmd, out *os.File) (code int, printed string) {
	var errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = out, &errs
	_ = cmd.Run() // the exit code says how it ended
	out.Close()
	return cmd.ProcessState.ExitCode(), errs.String()
}

// A command whose reader has left ends without a word, with the exit code of a program that SIGPIPE ends.
func TestClosedPipe(t *testing.T) {
	t.Parallel()
	_, command := localRuns(t, "rounds:\n  - calls: [{tool: ExecCommand, arguments: {cmd: \"echo x > a\"}}]\n"+
		"  - text: Done.\n")
	run := []string{"run", "--quiet", "x"}
	succeed(t, command(run...))
	for _, args := range [][]string{run, append(run, "--json"), {"ps", "-a"}, {"ps", "--json"}, {"logs", "last"},
		{"logs", "--json", "last"}, {"logs", "--events", "last"}, {"diff", "last"},
		{"diff", "--json", "last"}, {"config", "list"}, {"config", "schema"}, {"models", "--all"},
		{"providers", "list", "--json"}, {"version"}} {
		reader, writer, err := os.Pipe()
		expect.NoError(t, err)
		reader.Close()
		code, printed := endsWith(command(args...), writer)
		if code != exitReaderGone ||
			strings.Contains(printed, "holon: ") && !strings.Contains(printed, "confines nothing") {
			t.Errorf("holon %s ends with %d, want %d, and prints %q", strings.Join(args, " "), code, exitReaderGone, printed)
		}
	}
}

// A command that follows ends when its reader has left, although there is nothing more to be written.
func TestClosedPipeEndsFollowing(t *testing.T) {
	t.Parallel()
	dir, command := localRuns(t, "rounds:\n  - text: I begin.\n    calls: [{tool: ExecCommand, arguments: {cmd: "+
		"\"until [ -e $GATE ]; do sleep 0.05; done\"}}]\n  - text: Done.\n")
	gate := filepath.Join(dir, "gate")
	run := command("run", "--quiet", "--env", "GATE="+gate, "x")
	expect.NoError(t, run.Start())
	for begun := false; !begun; time.Sleep(50 * time.Millisecond) {
		printed, _ := command("logs", "last").Output() // there is nothing at first
		begun = strings.Contains(string(printed), "I begin.")
	}
	for _, args := range [][]string{{"logs", "-f", "last"}, {"attach", "last"}} {
		cmd := command(args...)
		out, err := cmd.StdoutPipe()
		expect.NoError(t, err)
		var printed bytes.Buffer
		cmd.Stderr = &printed
		expect.NoError(t, cmd.Start())
		if args[0] == "logs" {
			if _, err := out.Read(make([]byte, 10)); err != nil {
				t.Fatal(err)
			}
		}
		out.Close()
		late := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
		exit, ok := errors.AsType[*exec.ExitError](cmd.Wait())
		late.Stop()
		if !ok || exit.ExitCode() != exitReaderGone || strings.Contains(printed.String(), "holon: ") {
			t.Errorf("holon %s ends with %v and prints %q", strings.Join(args, " "), exit, printed.String())
		}
		if _, err := os.Stat(gate); err == nil {
			t.Errorf("holon %s ended with the run", strings.Join(args, " "))
		}
	}
	leaveByInterrupt(t, command("attach", "last"))
	expect.NoError(t, os.WriteFile(gate, nil, 0o600))
	if err := run.Wait(); err != nil {
		t.Errorf("the run ends with %v", err)
	}
}

// leaveByInterrupt interrupts a command that watches a run, which says that the run goes on.
func leaveByInterrupt(t *testing.T, attach *exec.Cmd) {
	t.Helper()
	out, err := attach.StderrPipe()
	expect.NoError(t, err)
	expect.NoError(t, attach.Start())
	printed := make([]byte, 1)
	if _, err := out.Read(printed); err != nil {
		t.Fatal(err)
	}
	expect.NoError(t, attach.Process.Signal(os.Interrupt))
	rest, _ := io.ReadAll(out) // it ends with the process
	exit, ok := errors.AsType[*exec.ExitError](attach.Wait())
	if !ok || exit.ExitCode() != 130 || !strings.Contains(string(rest), "the run goes on: holon attach run_") {
		t.Errorf("attach ends with %v and prints %q", exit, rest)
	}
}

// Output that cannot be written is the fault of where it goes, and no other file's. A run says all the same how it ended
// and what to do next.
func TestFullOutput(t *testing.T) {
	t.Parallel()
	_, command := localRuns(t, "rounds:\n  - calls: [{tool: ExecCommand, arguments: {cmd: \"echo x > a\"}}]\n"+
		"  - text: Done.\n")
	for _, args := range [][]string{{"config", "list"}, {"config", "schema"}, {"providers", "list"}, {"version"},
		{"config", "doctor"}, {"doctor", "--offline", "--engine", "local"}, {"doctor", "--json", "--offline"},
		{"run", "--output-format", "text", "x"}, {"run", "--output-format", "json", "x"},
		{"run", "--output-format", "stream-json", "x"}} {
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			t.Skip(err)
		}
		code, printed := endsWith(command(args...), full)
		want := []string{"holon: standard output: cannot be written: no space left on device; send it somewhere else\n"}
		if args[0] == "run" {
			want = append(want, "completed in ", "results  ", "diff     ", "apply    ")
		} else if printed != want[0] {
			t.Errorf("holon %s says %q", strings.Join(args, " "), printed)
		}
		if code != exitFailure {
			t.Errorf("holon %s ends with %d", strings.Join(args, " "), code)
		}
		for _, text := range want {
			if !strings.Contains(printed, text) {
				t.Errorf("holon %s lacks %q: %s", strings.Join(args, " "), text, printed)
			}
		}
	}
}
