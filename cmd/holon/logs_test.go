package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"holon/responses/turns"
	"holon/runner"
	"holon/runner/engine"
	"holon/runner/oneshot"
	"holon/runner/turnfiles"
	"holon/state"
	"holon/state/files"
)

// waiting is an engine whose container runs and was never given a turn.
type waiting struct {
	engine.Engine
	run string
}

func (w waiting) List(context.Context, map[string]string) ([]engine.Summary, error) {
	return []engine.Summary{{Labels: map[string]string{runner.LabelRun: w.run}, Status: engine.StatusRunning}}, nil
}

// Following a run whose holon was killed before the turn began ends, and says so.
func TestFollowWithoutTurn(t *testing.T) {
	home, err := state.MakeHome(filepath.Join(t.TempDir(), "home"), "")
	if err != nil {
		t.Fatal(err)
	}
	run, err := files.New(home).Create(t.Context(), files.NewRun{ID: state.NewRunID(), Source: "/src",
		CreatedAt: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	record := fmt.Sprintf(`{"schema": "holon.session/1", "id": "run_x", "engine": "fake", "dir": %q, "sockets": "/none",
		"turn_id": "turn_1", "manifest": {}}`, t.TempDir())
	if err := os.WriteFile(filepath.Join(run.Dir(), state.SessionFile), []byte(record), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run.Close(); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	l := &lifecycle{base: base{streams: Streams{Out: &out, Err: &out}, home: home, args: []string{run.ID()}},
		open: map[string]engine.Engine{"fake": waiting{run: run.ID()}}}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		begun := time.Now()
		err := runLogs(ctx, l, &logsOptions{follow: true})
		if !state.IsCode(err, oneshot.CodeNoTurn) || !strings.Contains(err.Error(), "killed before its turn began") {
			t.Errorf("the error is %v, want that its turn never began", err)
		}
		if waited := time.Since(begun); waited < enginePoll {
			t.Errorf("it ended after %s, want at least %s for a turn that is just beginning", waited, enginePoll)
		}
	})
}

// The arguments of a call that stand in the directory of its outputs are not shown as one.
func TestArgumentsAreNoOutput(t *testing.T) {
	dir := t.TempDir()
	call := filepath.Join(dir, turns.ToolsDir, "tool_1")
	if err := os.MkdirAll(call, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{turns.ArgumentsFile: "argued", "stdout.log": "printed"} {
		if err := os.WriteFile(filepath.Join(call, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	turn, err := turnfiles.OpenCollected(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer turn.Close()
	var out bytes.Buffer
	l := &lifecycle{base: base{streams: Streams{Out: &out, Err: &out}}}
	if err := l.toolLogs(turn, turns.ToolsDir); err != nil || !strings.Contains(out.String(), "printed") ||
		strings.Contains(out.String(), "arg") {
		t.Errorf("the outputs are %q (%v)", out.String(), err)
	}
}
