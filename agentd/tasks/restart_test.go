package tasks

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	wire "holon/responses/tasks"
	"holon/responses/turns"
	"holon/test/expect"
)

// copy is the directory of the records as a kill would leave it.
func (b *bench) copy() string {
	b.t.Helper()
	dir := b.t.TempDir()
	expect.NoError(b.t, os.CopyFS(dir, os.DirFS(b.dir)))
	return dir
}

// A task that ran when the runtime was killed is lost, and never reported as running.
func TestRestart(t *testing.T) {
	b := newBench(t, Options{})
	done := b.start(wire.Command{Cmd: "echo done; exit 4"})
	b.ended(done.TaskID)
	running := b.start(wire.Command{Cmd: "echo begun; exec sleep 600"})
	b.until(running.TaskID, "begun")
	again := newBench(t, Options{Dir: b.copy()})
	lost := checkLost(t, again, running.TaskID)
	kept, err := again.Get("", done.TaskID)
	if err != nil || kept.Status != wire.Failed || *kept.Command.ExitStatus != 4 {
		t.Errorf("what had ended is %+v, %v, want it to have failed with 4", kept, err)
	}
	// Settled means settled: the next start changes nothing.
	third := New(Options{Dir: again.copy()})
	third.now = func() time.Time { return time.Now().Add(time.Hour) }
	expect.NoError(t, third.Load())
	if s, err := third.Get("", running.TaskID); err != nil || s.UpdatedAt != lost.UpdatedAt {
		t.Errorf("%v, first %v, %v", s.UpdatedAt, lost.UpdatedAt, err)
	}
}

// checkLost checks a task whose runtime was killed after it had printed "begun".
func checkLost(t *testing.T, b *bench, id string) wire.Snapshot {
	t.Helper()
	lost, err := b.Get("", id)
	if err != nil || lost.Status != wire.Failed || lost.Failure != wire.FailureLost {
		t.Fatalf("it is %s, %q, %v, want %s, lost", lost.Status, lost.Failure, err, wire.Failed)
	}
	if lost.Command.ExitStatus != nil || lost.Command.AcceptsInput {
		t.Errorf("the command has an exit status or takes input: %+v", lost.Command)
	}
	out, err := b.Output(t.Context(), "", id, patience, 4000)
	if err != nil || out.RetrievalStatus != wire.Success || out.Task.OutputPreview != "begun\n" {
		t.Errorf("output %q, %s, %v, want what it had printed", out.Task.OutputPreview, out.RetrievalStatus, err)
	}
	if f := out.Task.FailureArtifact; f == nil || f.Kind != "lost" {
		t.Errorf("failure %+v, want lost", f)
	}
	if r, err := b.Stop(t.Context(), "", id, true); err != nil || r.StopRequested {
		t.Errorf("stopped again: %+v, %v", r, err)
	}
	if in, err := b.Input(t.Context(), "", id, wire.Input{Input: "x"}); err != nil || in.AcceptedInput {
		t.Errorf("took input: %+v, %v", in, err)
	}
	return lost
}

func TestBrokenRecordsAreLeftOut(t *testing.T) {
	dir := t.TempDir()
	b := newBench(t, Options{Dir: filepath.Join(dir, "tasks")})
	s := b.start(wire.Command{Cmd: "true"})
	b.ended(s.TaskID)
	big := strings.Repeat(" ", maxRecord+1)
	for name, content := range map[string]string{"task_a.json": "{", "task_b.json": big, "task_c.json": `{"version":9}`,
		"other.txt": "x", ".tmp-0": "x", "task_d.json": `{"version":1,"task_id":"task_e"}`} {
		expect.NoError(t, os.WriteFile(filepath.Join(b.dir, name), []byte(content), 0o600))
	}
	expect.NoError(t, errors.Join(unix.Mkfifo(filepath.Join(b.dir, "task_f.json"), 0o600),
		os.Symlink(s.TaskID+".json", filepath.Join(b.dir, "task_g.json"))))
	again := New(Options{Dir: b.dir})
	expect.NoError(t, again.Load())
	if l := again.List("", 100); len(l.Tasks) != 1 || l.Tasks[0].ID != s.TaskID {
		t.Errorf("list %+v", l)
	}
	if _, err := os.Stat(filepath.Join(b.dir, ".tmp-0")); err == nil {
		t.Error("what a crash left behind is still there")
	}
}

// Each file in the directory is refused or gives a record that can be shown.
func FuzzRecord(f *testing.F) {
	now := turns.At(time.UnixMilli(1_700_000_000_000))
	good := record{Version: recordVersion, Snapshot: wire.Snapshot{TaskID: "task_1", SessionID: "s", TurnID: "t",
		Status: wire.Running, CreatedAt: now, UpdatedAt: now, Command: &wire.Command{Cmd: "x\ny"}}}
	ended := good
	ended.interrupt(now)
	for _, r := range []record{good, ended} {
		data, err := json.Marshal(r)
		expect.NoError(f, err)
		f.Add(data)
	}
	f.Add([]byte(`{"version":1,"task_id":"task_1","status":"completed","created_at":"2026-01-01T00:00:00.000Z",` +
		`"updated_at":"2026-01-01T00:00:00.000Z"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := decodeRecord(data, "task_1")
		if err != nil {
			return
		}
		if !r.Status.Terminal() {
			r.interrupt(now)
		}
		task := &task{rec: r}
		switch s := task.snapshot(); {
		case s.Status == wire.Running:
			t.Fatalf("s.Status = %q, want another value", wire.Running)
		case s.TaskID != "task_1":
			t.Fatalf(`s.TaskID = %q, want "task_1"`, s.TaskID)
		case s.Command.AcceptsInput:
			t.Fatal("s.Command.AcceptsInput = true, want false")
		}
		if e := task.entry(); len(e.Command) > 4*maxPreview {
			t.Fatalf("preview of %d bytes", len(e.Command))
		}
		if c, _ := r.Stdout.capture(filepath.Join(t.TempDir(), "none"), 100); c.Omitted() != 0 {
			t.Fatalf("%+v", c)
		}
	})
}
