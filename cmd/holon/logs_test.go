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
	"holon/test/expect"
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
	expect.NoError(t, err)
	run, err := files.New(home).Create(t.Context(), files.NewRun{ID: state.NewRunID(), Source: "/src",
		CreatedAt: time.Now()})
	expect.NoError(t, err)
	record := fmt.Sprintf(`{"schema": "holon.session/1", "id": "run_x", "engine": "fake", "dir": %q, "sockets": "/none",
		"turn_id": "turn_1", "manifest": {}}`, t.TempDir())
	expect.NoError(t, os.WriteFile(filepath.Join(run.Dir(), state.SessionFile), []byte(record), 0o600))
	expect.NoError(t, run.Close())
	var out bytes.Buffer
	l := &lifecycle{base: base{streams: notTerminals(&out, &out), home: home, args: []string{run.ID()}},
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
	expect.NoError(t, os.MkdirAll(call, 0o700))
	for name, text := range map[string]string{turns.ArgumentsFile: "argued", "stdout.log": "printed"} {
		expect.NoError(t, os.WriteFile(filepath.Join(call, name), []byte(text), 0o600))
	}
	turn, err := turnfiles.OpenCollected(dir)
	expect.NoError(t, err)
	defer turn.Close()
	var out bytes.Buffer
	l := &lifecycle{base: base{streams: notTerminals(&out, &out)}}
	if err := l.toolLogs(turn, turns.ToolsDir); err != nil || !strings.Contains(out.String(), "printed") ||
		strings.Contains(out.String(), "arg") {
		t.Errorf("the outputs are %q (%v)", out.String(), err)
	}
}
