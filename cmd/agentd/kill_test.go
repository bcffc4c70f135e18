package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"holon/internal/procfs"
	"holon/responses"
	"holon/responses/stream"
	"holon/responses/tasks"
	"holon/responses/turns"
	"holon/test/agentclient"
	"holon/test/conform"
	"holon/test/expect"
	"holon/test/programs"
)

// request is a request for a turn of the scenario x.yaml.
func request(prompt string) *responses.Request {
	return responses.NewRequest("scripted/x", responses.UserMessage(prompt))
}

// playing makes a directory, whose path is short enough for a socket, with the scenario x.yaml.
func playing(t *testing.T, scenario string) (dir string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "agentd")
	expect.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	expect.NoError(t, os.WriteFile(filepath.Join(dir, "x.yaml"), []byte(scenario), 0o600))
	return dir
}

// kill kills a server and waits for its end.
func kill(t *testing.T, server *exec.Cmd) {
	t.Helper()
	expect.NoError(t, server.Process.Kill())
	_ = server.Wait() // it says that it was killed
}

// terminate ends a server in good order.
func terminate(t *testing.T, server *exec.Cmd) {
	t.Helper()
	if err := errors.Join(server.Process.Signal(syscall.SIGTERM), server.Wait()); err != nil {
		t.Errorf("the end: %v", err)
	}
}

// startServer starts `agentd serve` in dir, by a program that runs what follows its arguments if there is one, and
// waits until it answers.
func startServer(t *testing.T, dir string, wrapper ...string) (*exec.Cmd, *agentclient.Client) {
	t.Helper()
	socket := filepath.Join(dir, "s")
	args := append(wrapper, programs.Must("agentd"), "serve", "--socket", socket, "--input-dir", filepath.Join(dir, "in"), "--output-dir",
		filepath.Join(dir, "out"),
		"--state-dir", filepath.Join(dir, "state"), "--workspace-dir", dir, "--skills-dir",
		filepath.Join(dir, "skills"))
	cmd := exec.Command(args[0], args[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var log bytes.Buffer
	cmd.Stderr = &log
	expect.NoError(t, cmd.Start())
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = errors.Join(cmd.Process.Kill(), cmd.Wait())
		}
		if t.Failed() {
			t.Logf("the log of agentd:\n%s", log.String())
		}
	})
	expect.NoError(t, awaitReady(socket))
	c := agentclient.Unix(socket)
	t.Cleanup(c.Close)
	return cmd, c
}

// A server that is killed in the middle of a command settles the turn when it
// starts again: the client's half stream gets a legal end, the command is shown
// as interrupted and not run again, and the conversation can go on.
func TestKilledInTheMiddleOfATurn(t *testing.T) {
	t.Parallel()
	// The command outlives its killed parent here, where no container ends it,
	// until the directory goes.
	dir := playing(t, `
turns:
  - rounds:
      - text: I'll begin.
        calls: [{tool: ExecCommand, arguments: {cmd: 'echo ran >> runs; while [ -e runs ]; do sleep 0.02; done'}}]
      - text: Never said.
  - rounds: [{text: I go on.}]
`)
	server, c := startServer(t, dir)
	var seen []byte
	done, streamed := make(chan struct{}), make(chan error, 1)
	req := request("go")
	req.Holon = responses.Holon{TurnID: "turn_a", SessionID: "sess_a"}
	go func() {
		var last error
		for line, err := range c.StreamRaw(t.Context(), req) {
			if last = err; err == nil {
				seen = append(append(seen, line...), '\n')
				if responses.EventType(line) == responses.EventItemDone {
					close(done)
				}
			}
		}
		streamed <- last
	}()
	await(t, "the command runs", func() bool { // its file is there before it holds anything
		runs, err := os.ReadFile(filepath.Join(dir, "runs"))
		return err == nil && len(runs) > 0
	})
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Fatal("the client got nothing")
	}
	kill(t, server)
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
	expect.NoError(t, conform.CheckStream(events, stream.NDJSON))
	next := request("go on")
	next.PreviousResponseID = rec.ResponseID
	resp, err := c.Create(t.Context(), next)
	if err != nil || resp.OutputText() != "I go on." {
		t.Errorf("%+v, %v", resp, err)
	}
	if runs, err := os.ReadFile(filepath.Join(dir, "runs")); string(runs) != "ran\n" {
		t.Errorf("the command left %q (%v)", runs, err)
	}
	trajectory, err := os.ReadFile(filepath.Join(dir, "state", "responses", rec.ResponseID+".ndjson"))
	if err != nil || bytes.Count(trajectory, []byte(`"started"`)) != 1 ||
		!bytes.Contains(trajectory, []byte(`"response"`)) {
		t.Errorf("the trajectory is\n%s (%v)", trajectory, err)
	}
	terminate(t, server)
	if _, err := os.Lstat(filepath.Join(dir, "s")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket: %v", err)
	}
}

// A server that is killed with messages of the user on their way leaves in the
// record, before anybody repairs it, which of them the model was told; the
// conversation holds those and no others.
func TestKilledWithInput(t *testing.T) {
	t.Parallel()
	dir := playing(t, `
turns:
  - rounds:
      - calls: [{tool: ExecCommand, arguments: {cmd: 'echo > one; until [ -e go ]; do sleep 0.02; done'}}]
      - calls: [{tool: ExecCommand, arguments: {cmd: 'echo > two; while [ -e two ]; do sleep 0.02; done'}}]
      - text: Never said.
  - rounds: [{text: I go on.}]
`)
	exists := func(name string) func() bool {
		return func() bool { _, err := os.Stat(filepath.Join(dir, name)); return err == nil }
	}
	server, c := startServer(t, dir)
	req := request("go")
	req.Holon.TurnID = "turn_a"
	if _, err := c.Background(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	await(t, "the first command runs", exists("one"))
	if in, err := c.Input(t.Context(), "turn_a", "in_1", "told"); err != nil || in.Inserted {
		t.Fatalf("%+v, %v", in, err)
	}
	expect.NoError(t, os.WriteFile(filepath.Join(dir, "go"), nil, 0o600))
	await(t, "the second command runs", exists("two"))
	if in, err := c.Input(t.Context(), "turn_a", "in_2", "waiting"); err != nil || in.Inserted {
		t.Fatalf("%+v, %v", in, err)
	}
	kill(t, server)
	inserted := func(rec *turns.Record, err error) {
		t.Helper()
		if err != nil || len(rec.Inputs) != 2 || rec.Inputs[0].Round != 2 || rec.Inputs[1].Inserted {
			t.Errorf("%+v, %v, want two inputs, the first of round 2", rec, err)
		}
	}
	data, err := os.ReadFile(filepath.Join(dir, "out", "turns", "turn_a", turns.RecordFile))
	expect.NoError(t, err)
	inserted(turns.DecodeRecord(data))

	_, c = startServer(t, dir)
	rec, err := c.Turn(t.Context(), "turn_a")
	inserted(rec, err)
	if _, err := c.Input(t.Context(), "turn_a", "in_2", "waiting"); err == nil ||
		responses.AsError(err).Code != responses.CodeTurnEnded {
		t.Errorf("a message that was not inserted: %v", err)
	}
	if in, err := c.Input(t.Context(), "turn_a", "in_1", "told"); err != nil || !in.Inserted {
		t.Errorf("a message that was inserted: %+v, %v", in, err)
	}
	next := request("go on")
	next.PreviousResponseID = rec.ResponseID
	resp, err := c.Create(t.Context(), next)
	if err != nil || resp.OutputText() != "I go on." {
		t.Errorf("%+v, %v", resp, err)
	}
	trajectory, err := os.ReadFile(filepath.Join(dir, "state", "responses", rec.ResponseID+".ndjson"))
	if err != nil || bytes.Count(trajectory, []byte(responses.PrefixInterjected)) != 1 {
		t.Errorf("the trajectory is\n%s (%v)", trajectory, err)
	}
}

// A response in the background has no client that would hear of the kill. It is
// settled all the same, and its stream can be replayed to a legal end.
func TestKilledWithATurnInTheBackground(t *testing.T) {
	t.Parallel()
	dir := playing(t, `rounds: [{calls: [{tool: ExecCommand, arguments: {cmd: 'touch runs; while [ -e runs ]; `+
		`do sleep 0.02; done'}}]}]`)
	server, c := startServer(t, dir)
	begun, err := c.Background(t.Context(), request("go"))
	if err != nil || begun.Status.Terminal() {
		t.Fatalf("%+v, %v", begun, err)
	}
	await(t, "the command runs", func() bool { _, err := os.Stat(filepath.Join(dir, "runs")); return err == nil })
	kill(t, server)

	server, c = startServer(t, dir)
	got, err := c.GetResponse(t.Context(), begun.ID)
	if err != nil || got.Status != responses.StatusFailed || got.Error == nil ||
		got.Error.Code != responses.CodeInterrupted {
		t.Fatalf("%+v, %v, want one that failed, interrupted", got, err)
	}
	var last string
	for ev, err := range c.Replay(t.Context(), begun.ID, agentclient.FromStart) {
		expect.NoError(t, err)
		last = ev.Type
	}
	expect.Equal(t, "the stream ends", last, responses.EventFailed)
	terminate(t, server)
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

// A task whose agentd is killed outlives it where no container ends both. The
// next agentd ends all processes of the task, hidden ones included, before it
// reports the task as lost.
func TestKilledWithATask(t *testing.T) {
	t.Parallel()
	dir := playing(t, `
turns:
  - rounds:
      - calls: [{tool: ExecCommand, arguments: {yield_time_ms: 1, cmd: 'echo $$ > leader; sh -c "trap \"\" TERM HUP; `+
		`echo \$\$ > child; while [ -e child ]; do sleep 0.05; done" & setsid sh -c "echo \$\$ > escaped; `+
		`while [ -e escaped ]; do sleep 0.05; done" & while [ -e leader ]; do sleep 0.05; done'}}]
      - text: It runs.
`)
	server, c := startServer(t, dir)
	req := request("go")
	req.Holon.SessionID = "sess_a"
	if resp, err := c.Create(t.Context(), req); err != nil || resp.OutputText() != "It runs." {
		t.Fatalf("%+v, %v", resp, err)
	}
	pids := make(map[string]int)
	for _, name := range []string{"leader", "child", "escaped"} {
		await(t, "the task started "+name, func() bool {
			data, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil || !bytes.HasSuffix(data, []byte("\n")) {
				return false
			}
			_, err = fmt.Sscan(string(data), new(int))
			pids[name], _ = strconv.Atoi(strings.TrimSpace(string(data)))
			return err == nil
		})
	}
	kill(t, server)
	for name, pid := range pids {
		if !running(pid) {
			t.Skipf("%s ended with agentd: something else ends processes here", name)
		}
	}

	server, _ = startServer(t, dir)
	for name, pid := range pids {
		await(t, name+" is gone", func() bool { return !running(pid) })
	}
	var list tasks.List
	if err := get(filepath.Join(dir, "s"), "/tasks?session_id=sess_a", &list); err != nil || len(list.Tasks) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	if task := list.Tasks[0]; task.Status != tasks.Failed || !strings.Contains(task.Summary, "lost") {
		t.Errorf("%+v", task)
	}
	if err := errors.Join(server.Process.Signal(syscall.SIGTERM), server.Wait()); err != nil {
		t.Errorf("the end: %v", err)
	}
}

// get fetches a JSON document of the server at socket.
func get(socket, path string, v any) error {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}
	c := http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
	resp, err := c.Get("http://agentd" + path)
	if err != nil {
		return err
	}
	return errors.Join(json.NewDecoder(resp.Body).Decode(v), resp.Body.Close())
}

// running reports whether a process runs. A zombie does not.
func running(pid int) bool {
	st, err := procfs.ReadStat(pid)
	return err == nil && st.Running()
}

// A server that is killed in an isolated turn leaves the private tree. At the next start the change is the turn's
// patch, listed in its record, and the tree is gone; the command that still wrote there has ended.
func TestKilledInAnIsolatedTurn(t *testing.T) {
	t.Parallel()
	dir := playing(t, "rounds:\n  - calls: [{tool: ExecCommand, "+
		"arguments: {cmd: 'echo two > f; echo > $HOLON_OUTPUT_DIR/wrote; while :; do date > new; sleep 0.01; done'}}]\n")
	expect.NoError(t, os.WriteFile(filepath.Join(dir, "f"), []byte("one\n"), 0o600))
	server, c := startServer(t, dir)
	req := request("go")
	req.Holon = responses.Holon{TurnID: "turn_i", Isolation: responses.IsolationCopy}
	req.Background = true
	if _, err := c.Create(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "out", "turns", "turn_i")
	await(t, "the command writes", func() bool { _, err := os.Stat(filepath.Join(out, turns.ArtifactsDir, "wrote")); return err == nil })
	kill(t, server)

	_, c = startServer(t, dir)
	rec, err := c.Turn(t.Context(), "turn_i")
	if err != nil || rec.Status != responses.StatusFailed || rec.Error.Code != responses.CodeInterrupted {
		t.Fatalf("the record is %+v, %v, want an interrupted turn", rec, err)
	}
	if !slices.ContainsFunc(rec.Artifacts, func(a turns.Artifact) bool { return a.Path == turns.PatchFile }) {
		t.Errorf("artifacts %+v, want %s too", rec.Artifacts, turns.PatchFile)
	}
	patch, err := os.ReadFile(filepath.Join(out, turns.PatchFile))
	if err != nil || !bytes.Contains(patch, []byte("-one\n+two\n")) {
		t.Errorf("the patch is %q, %v", patch, err)
	}
	if data, err := os.ReadFile(filepath.Join(dir, "f")); string(data) != "one\n" {
		t.Errorf("the origin has %q, %v, want one", data, err)
	}
	if left, err := os.ReadDir(filepath.Join(dir, ".agentd-turns")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("private trees: %v, %v, want none", left, err)
	}
}
