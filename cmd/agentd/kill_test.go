package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"holon/responses"
	"holon/responses/client"
	"holon/responses/conform"
	"holon/responses/stream"
	"holon/responses/turns"
)

// startServer starts this binary as `agentd serve` in dir and waits until it answers.
func startServer(t *testing.T, dir string) (*exec.Cmd, *client.Client) {
	t.Helper()
	return startServerUnder(t, dir)
}

// startServerUnder starts it by a program that runs what follows its arguments.
func startServerUnder(t *testing.T, dir string, wrapper ...string) (*exec.Cmd, *client.Client) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "s")
	args := append(wrapper, self, "serve", "--socket", socket, "--input-dir", filepath.Join(dir, "in"), "--output-dir", filepath.Join(dir, "out"),
		"--state-dir", filepath.Join(dir, "state"), "--workspace-dir", dir, "--skills-dir", filepath.Join(dir, "skills"))
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "AGENTD_TEST_EXEC=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var log bytes.Buffer
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = errors.Join(cmd.Process.Kill(), cmd.Wait())
		}
		if t.Failed() {
			t.Logf("agentd said:\n%s", log.String())
		}
	})
	if err := awaitReady(socket); err != nil {
		t.Fatal(err)
	}
	c := client.Unix(socket)
	t.Cleanup(c.Close)
	return cmd, c
}

// A server that is killed in the middle of a command settles the turn when it
// starts again: the client's half stream gets a legal end, the command is shown
// as interrupted and not run again, and the conversation can go on.
func TestKilledInTheMiddleOfATurn(t *testing.T) {
	dir, err := os.MkdirTemp("", "agentd")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	// The command outlives its killed parent here, where no container ends it,
	// until the directory goes.
	scenario := `
turns:
  - rounds:
      - text: I'll begin.
        calls: [{tool: ExecCommand, arguments: {cmd: 'echo ran >> runs; while [ -e runs ]; do sleep 0.02; done'}}]
      - text: Never said.
  - rounds: [{text: I go on.}]
`
	if err := os.WriteFile(filepath.Join(dir, "x.yaml"), []byte(scenario), 0o600); err != nil {
		t.Fatal(err)
	}
	server, c := startServer(t, dir)
	var seen []byte
	said, streamed := make(chan struct{}), make(chan error, 1)
	go func() {
		var last error
		for line, err := range c.StreamRaw(t.Context(), json.RawMessage(`{"model":"scripted/x","input":"go","holon":{"turn_id":"turn_a","session_id":"sess_a"}}`)) {
			if last = err; err == nil {
				seen = append(append(seen, line...), '\n')
				if responses.EventType(line) == responses.EventItemDone {
					close(said)
				}
			}
		}
		streamed <- last
	}()
	await(t, "the command runs", func() bool { _, err := os.Stat(filepath.Join(dir, "runs")); return err == nil })
	select {
	case <-said:
	case <-time.After(30 * time.Second):
		t.Fatal("the client heard nothing")
	}
	if err := server.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = server.Wait() // it says that it was killed
	if err := <-streamed; err == nil {
		t.Error("the stream of a killed server has an end")
	}

	server, c = startServer(t, dir)
	rec, err := c.Turn(t.Context(), "turn_a")
	if err != nil || rec.Status != responses.StatusFailed || rec.Error.Code != responses.CodeInterrupted {
		t.Fatalf("the record is %+v, %v", rec, err)
	}
	events, err := os.ReadFile(filepath.Join(dir, "out", "turns", "turn_a", turns.EventsFile))
	if err != nil || !bytes.HasPrefix(events, seen) || len(seen) == 0 {
		t.Errorf("the client saw\n%s\nand the file has\n%s (%v)", seen, events, err)
	}
	if err := conform.CheckStream(bytes.NewReader(events), stream.NDJSON); err != nil {
		t.Error(err)
	}
	resp, err := c.Create(t.Context(), json.RawMessage(fmt.Sprintf(`{"model":"scripted/x","input":"go on","previous_response_id":%q}`, rec.ResponseID)))
	if err != nil || resp.OutputText() != "I go on." {
		t.Errorf("%+v, %v", resp, err)
	}
	if runs, err := os.ReadFile(filepath.Join(dir, "runs")); string(runs) != "ran\n" {
		t.Errorf("the command left %q (%v)", runs, err)
	}
	trajectory, err := os.ReadFile(filepath.Join(dir, "state", "responses", rec.ResponseID+".ndjson"))
	if err != nil || bytes.Count(trajectory, []byte(`"started"`)) != 1 || !bytes.Contains(trajectory, []byte(`"response"`)) {
		t.Errorf("the trajectory is\n%s (%v)", trajectory, err)
	}
	if err := errors.Join(server.Process.Signal(syscall.SIGTERM), server.Wait()); err != nil {
		t.Errorf("the end: %v", err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "s")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket: %v", err)
	}
}

// A response in the background has no client that would hear of the kill. It is
// settled all the same, and its stream can be replayed to a legal end.
func TestKilledWithATurnInTheBackground(t *testing.T) {
	dir, err := os.MkdirTemp("", "agentd")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	scenario := `rounds: [{calls: [{tool: ExecCommand, arguments: {cmd: 'touch runs; while [ -e runs ]; do sleep 0.02; done'}}]}]`
	if err := os.WriteFile(filepath.Join(dir, "x.yaml"), []byte(scenario), 0o600); err != nil {
		t.Fatal(err)
	}
	server, c := startServer(t, dir)
	begun, err := c.Background(t.Context(), json.RawMessage(`{"model":"scripted/x","input":"go"}`))
	if err != nil || begun.Status.Terminal() {
		t.Fatalf("%+v, %v", begun, err)
	}
	await(t, "the command runs", func() bool { _, err := os.Stat(filepath.Join(dir, "runs")); return err == nil })
	if err := server.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = server.Wait() // it says that it was killed

	server, c = startServer(t, dir)
	got, err := c.GetResponse(t.Context(), begun.ID)
	if err != nil || got.Status != responses.StatusFailed || got.Error == nil || got.Error.Code != responses.CodeInterrupted {
		t.Fatalf("%+v, %v", got, err)
	}
	var last string
	for ev, err := range c.Replay(t.Context(), begun.ID, client.FromStart) {
		if err != nil {
			t.Fatal(err)
		}
		last = ev.Type
	}
	if last != responses.EventFailed {
		t.Errorf("the stream ends with %s", last)
	}
	if err := errors.Join(server.Process.Signal(syscall.SIGTERM), server.Wait()); err != nil {
		t.Errorf("the end: %v", err)
	}
}

// await waits for a condition that another process will bring about.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within 30s: %s", what)
		}
	}
}
