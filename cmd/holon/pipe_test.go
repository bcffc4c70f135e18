package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A command whose reader has left ends without a word, with the exit code of a program that SIGPIPE ends.
func TestClosedPipe(t *testing.T) {
	dir, command := localRuns(t, "rounds:\n  - calls: [{tool: ExecCommand, arguments: {cmd: \"echo x > a\"}}]\n"+
		"  - text: Done.\n")
	run := []string{"run", "--engine", "local", "--workspace", filepath.Join(dir, "work"), "--quiet", "--model",
		"scripted/" + filepath.Join(dir, "scenario.yaml"), "x"}
	if out, err := command(run...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, args := range [][]string{run, append(run, "--json"), {"ps", "-a"}, {"ps", "--json"}, {"logs", "last"},
		{"logs", "--json", "last"}, {"logs", "--events", "last"}, {"diff", "last"},
		{"diff", "--json", "last"}, {"config", "list"}, {"config", "schema"}, {"models", "--all"},
		{"providers", "list", "--json"}, {"version"}} {
		reader, writer, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		reader.Close()
		cmd := command(args...)
		var said bytes.Buffer
		cmd.Stdout, cmd.Stderr = writer, &said
		err = cmd.Run()
		writer.Close()
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok || exit.ExitCode() != exitReaderGone {
			t.Errorf("holon %s ends with %v, want exit status %d", strings.Join(args, " "), err, exitReaderGone)
		}
		if strings.Contains(said.String(), "holon: ") && !strings.Contains(said.String(), "confines nothing") {
			t.Errorf("holon %s says %q", strings.Join(args, " "), said.String())
		}
	}
}

// Output that cannot be written is the fault of where it goes, and no other file's.
func TestFullOutput(t *testing.T) {
	_, command := localRuns(t, "rounds:\n  - text: Done.\n")
	for _, args := range [][]string{{"config", "list"}, {"config", "schema"}, {"providers", "list"}, {"version"},
		{"config", "doctor"}, {"doctor", "--offline", "--engine", "local"}, {"doctor", "--json", "--offline"}} {
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			t.Skip(err)
		}
		cmd := command(args...)
		var said bytes.Buffer
		cmd.Stdout, cmd.Stderr = full, &said
		err = cmd.Run()
		full.Close()
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok || exit.ExitCode() != exitFailure ||
			said.String() != "holon: standard output: cannot be written: no space left on device; send it somewhere else\n" {
			t.Errorf("holon %s ends with %v and says %q", strings.Join(args, " "), err, said.String())
		}
	}
}
