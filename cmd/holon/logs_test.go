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

	"holon/runner"
	"holon/runner/engine"
	"holon/runner/oneshot"
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
	record := fmt.Sprintf(`{"schema": "holon.session/1", "engine": "fake", "dir": %q, "sockets": "/none",
		"turn_id": "turn_1", "manifest": {}}`, t.TempDir())
	if err := os.WriteFile(filepath.Join(run.Dir(), state.SessionFile), []byte(record), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run.Close(); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	l := &lifecycle{streams: Streams{Out: &out, Err: &out}, home: home,
		open: map[string]engine.Engine{"fake": waiting{run: run.ID()}}}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		begun := time.Now()
		err := runLogs(ctx, l, []string{run.ID()}, &logsOptions{follow: true})
		if !state.IsCode(err, oneshot.CodeNoTurn) || !strings.Contains(err.Error(), "killed before its turn began") {
			t.Errorf("the error is %v, want that its turn never began", err)
		}
		if waited := time.Since(begun); waited < enginePoll {
			t.Errorf("it ended after %s, want at least %s for a turn that is just beginning", waited, enginePoll)
		}
	})
}
