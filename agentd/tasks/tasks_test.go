package tasks

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"holon/agentd/process"
	"holon/responses"
	wire "holon/responses/tasks"
	"holon/test/expect"
	"holon/test/memory"
)

func TestMain(m *testing.M) {
	memory.Use()
	goleak.VerifyTestMain(m)
}

// patience bounds every wait. No test takes that long unless it fails.
const patience = 30 * time.Second

// bench is a Manager with a supervisor of its own.
type bench struct {
	*Manager
	t   testing.TB
	sup *process.Supervisor
	dir string
	out string
	n   int
}

func newBench(t testing.TB, opts Options) *bench {
	t.Helper()
	if opts.Dir == "" {
		opts.Dir = filepath.Join(t.TempDir(), "tasks")
	}
	b := &bench{Manager: New(opts), t: t, sup: process.New(process.Options{Exclusive: true}), dir: opts.Dir,
		out: t.TempDir()}
	expect.NoError(t, b.Load())
	t.Cleanup(func() {
		if err := errors.Join(b.Close(), b.sup.Close()); err != nil {
			t.Error(err)
		}
	})
	return b
}

// start makes a task of a command, and returns when the next has a later time: tasks of one millisecond have no order.
func (b *bench) start(spec wire.Command) wire.Snapshot {
	b.t.Helper()
	s, err := b.adopt(spec)
	expect.NoError(b.t, err)
	for time.Since(s.CreatedAt.Time()) < time.Millisecond {
		runtime.Gosched()
	}
	return s
}

func (b *bench) adopt(spec wire.Command) (wire.Snapshot, error) {
	b.t.Helper()
	b.n++
	name := filepath.Join(b.out, "log"+string(rune('a'+b.n%26))+responses.NewID("x"))
	c := process.Command{Argv: []string{"sh", "-c", spec.Cmd}, Dir: b.out, Env: process.Environ(os.Environ()),
		TTY: spec.TTY, Input: spec.AcceptsInput, StdoutPath: name + ".out"}
	if !spec.TTY {
		c.StderrPath = name + ".err"
	}
	p, err := b.sup.Start(c)
	expect.NoError(b.t, err)
	spec.Workdir, spec.OutputPath, spec.StderrPath = b.out, c.StdoutPath, c.StderrPath
	s, err := b.Adopt(responses.NewID(wire.Prefix), Owner{SessionID: "sess_1", ThreadID: "thread_1", TurnID: "turn_1"},
		spec, p)
	if err != nil {
		p.Kill()
	}
	return s, err
}

// ended waits for the end of a task.
func (b *bench) ended(id string) wire.OutputResult {
	b.t.Helper()
	out, err := b.Output(b.t.Context(), "", id, patience, 4000)
	expect.NoError(b.t, err)
	if out.RetrievalStatus != wire.Success {
		b.t.Fatalf("%s: %+v", out.RetrievalStatus, out.Task)
	}
	return out
}

func TestEnds(t *testing.T) {
	b := newBench(t, Options{})
	for _, tt := range []ending{
		{"echo hello", wire.Completed, 0, "", "hello\n"},
		{"echo bad >&2; exit 3", wire.Failed, 3, "nonzero_exit", "stderr:\nbad\n"},
		{"echo a; echo b >&2", wire.Completed, 0, "", "stdout:\na\nstderr:\nb\n"},
		{"kill -9 $$", wire.Failed, 137, "signal", ""},
		{"printf 'a\\000b\\377'", wire.Completed, 0, "", "a^@b\ufffd"},
	} {
		t.Run(tt.cmd, func(t *testing.T) { tt.check(t, b) })
	}
}

// ending is a command and how its task ends.
type ending struct {
	cmd     string
	status  wire.Status
	exit    int
	failure string
	output  string
}

func (e ending) check(t *testing.T, b *bench) {
	s := b.start(wire.Command{Cmd: e.cmd})
	if s.Status != wire.Running && s.Status != e.status { // a short command may have ended before this looks
		t.Errorf("announced as %s, want %s or %s", s.Status, wire.Running, e.status)
	}
	if s.Kind != wire.KindCommand || s.SessionID != "sess_1" {
		t.Errorf("announced as a %s of %s, want a %s of sess_1", s.Kind, s.SessionID, wire.KindCommand)
	}
	if s.Command.Cmd != e.cmd || s.Command.CmdDigest == "" {
		t.Errorf("announced with the command %+v, want %q and a digest", s.Command, e.cmd)
	}
	out := b.ended(s.TaskID).Task
	if out.ExitStatus == nil {
		t.Fatalf("ended without a status: %+v", out)
	}
	got := ending{e.cmd, out.Status, *out.ExitStatus, "", out.OutputPreview}
	if f := out.FailureArtifact; f != nil {
		if got.failure = f.Kind; f.TaskID != s.TaskID || f.Category != "task" {
			t.Errorf("the failure is a %s of %s, want a task of %s", f.Category, f.TaskID, s.TaskID)
		}
	}
	if got != e || out.OutputTruncated {
		t.Errorf("got %+v, truncated %v, want %+v", got, out.OutputTruncated, e)
	}
	after, err := b.Get("sess_1", s.TaskID)
	if err != nil || after.Status != e.status || after.Failure != e.failure {
		t.Errorf("later it is %s, %q, %v, want %s, %q", after.Status, after.Failure, err, e.status, e.failure)
	} else if after.Command.ResultSummary == "" {
		t.Error("later there is no summary")
	}
}

func TestSessionsAreApart(t *testing.T) {
	b := newBench(t, Options{})
	s := b.start(wire.Command{Cmd: "true"})
	b.ended(s.TaskID)
	for _, id := range []string{s.TaskID, "task_none", "../x", ""} {
		_, err := b.Get("sess_2", id)
		if e := responses.AsError(err); e == nil || e.Type != responses.TypeNotFound {
			t.Errorf("%q: %v, want not_found", id, err)
		}
		_, err = b.Output(t.Context(), "sess_2", id, 0, 100)
		_, err2 := b.Input(t.Context(), "sess_2", id, wire.Input{Input: "x"})
		_, err3 := b.Stop(t.Context(), "sess_2", id, false)
		if err == nil || err2 == nil || err3 == nil {
			t.Errorf("%q: another session reaches it", id)
		}
	}
	switch l := b.List("sess_2", 10); {
	case len(l.Tasks) != 0:
		t.Errorf("len(l.Tasks) = %d (%+v), want 0", len(l.Tasks), l.Tasks)
	case l.Omitted != 0:
		t.Errorf("l.Omitted = %d, want 0", l.Omitted)
	case l.Tasks == nil:
		t.Error("l.Tasks = nil, want a value")
	}
	if l := b.List("", 10); len(l.Tasks) != 1 {
		t.Errorf("list of all %+v", l)
	}
	if list := b.Ended("sess_2", "thread_1"); len(list) != 0 {
		t.Errorf("ends of another session %+v", list)
	}
}

// until waits until a task has printed what is asked for.
func (b *bench) until(id, want string) {
	b.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(2 * time.Millisecond) {
		out, err := b.Output(b.t.Context(), "", id, 0, 4000)
		expect.NoError(b.t, err)
		if strings.Contains(out.Task.OutputPreview, want) {
			return
		}
		if time.Now().After(end) {
			b.t.Fatalf("output %q, want %q", out.Task.OutputPreview, want)
		}
	}
}

func TestInput(t *testing.T) {
	b := newBench(t, Options{})
	refused := []struct {
		in    wire.Input
		param string
	}{{wire.Input{}, "input"}, {wire.Input{Input: strings.Repeat("x", maxInput+1)}, "input"}}
	cat := b.start(wire.Command{Cmd: "cat", AcceptsInput: true})
	for _, tt := range refused {
		_, err := b.Input(t.Context(), "", cat.TaskID, tt.in)
		switch e := responses.AsError(err); {
		case e == nil:
			t.Errorf("%+v: e = nil, want a value", tt)
		case e.Param != tt.param:
			t.Errorf("%+v: e.Param = %q, want %q", tt, e.Param, tt.param)
		case e.Hint == "":
			t.Errorf(`%+v: e.Hint = "", want another value`, tt)
		}
	}
	in, err := b.Input(t.Context(), "", cat.TaskID, wire.Input{Input: "last", Close: true})
	if err != nil || !in.AcceptedInput || in.Task.Command.AcceptsInput && in.Task.Status == wire.Running {
		t.Errorf("%+v, %v", in, err)
	}
	expect.Equal(t, "output", b.ended(cat.TaskID).Task.OutputPreview, "last")
	deaf := b.start(wire.Command{Cmd: "sleep 600"})
	in, err = b.Input(t.Context(), "", deaf.TaskID, wire.Input{Input: "x"})
	if err != nil || in.AcceptedInput || !strings.Contains(in.SummaryText, "accepts_input") {
		t.Errorf("%+v, %v", in, err)
	}
}

func TestTerminal(t *testing.T) {
	b := newBench(t, Options{})
	s := b.start(wire.Command{Cmd: "stty size; read x; echo [$x]; stty size; cat", TTY: true, AcceptsInput: true})
	if s.Command.InputTarget != wire.TargetTTY || s.Command.StderrPath != "" {
		t.Errorf("%+v", s.Command)
	}
	b.until(s.TaskID, "24 80\n")
	if in, err := b.Input(t.Context(), "", s.TaskID, wire.Input{Rows: 50, Cols: 132}); err != nil || !in.AcceptedInput {
		t.Errorf("%+v, %v", in, err)
	}
	if in, err := b.Input(t.Context(), "", s.TaskID, wire.Input{Input: "word\n"}); err != nil || !in.AcceptedInput ||
		in.InputTarget != wire.TargetTTY {
		t.Errorf("%+v, %v", in, err)
	}
	b.until(s.TaskID, "[word]\n50 132\n")
	if in, err := b.Input(t.Context(), "", s.TaskID, wire.Input{Close: true}); err != nil || !in.AcceptedInput {
		t.Errorf("%+v, %v", in, err)
	}
	switch out := b.ended(s.TaskID).Task; {
	case out.Status != wire.Completed:
		t.Errorf("out.Status = %q, want %q", out.Status, wire.Completed)
	case out.OutputArtifact == nil:
		t.Error("out.OutputArtifact = nil, want a value")
	case len(out.Artifacts) != 1:
		t.Errorf("len(out.Artifacts) = %d (%+v), want 1", len(out.Artifacts), out.Artifacts)
	}
}

func TestActive(t *testing.T) {
	b := newBench(t, Options{})
	s := b.start(wire.Command{Cmd: "sleep 600"})
	if got, ok := b.Active("sess_1", s.Command.CmdDigest); !ok || got.TaskID != s.TaskID {
		t.Errorf("%+v, %v", got, ok)
	}
	if _, ok := b.Active("sess_2", s.Command.CmdDigest); ok {
		t.Error("another session's task is found")
	}
	if _, ok := b.Active("sess_1", Digest(wire.Command{Cmd: "sleep 600", TTY: true, Workdir: b.out})); ok {
		t.Error("a terminal makes it another command")
	}
	if _, err := b.Stop(t.Context(), "", s.TaskID, false); err != nil {
		t.Fatal(err)
	}
	if _, ok := b.Active("sess_1", s.Command.CmdDigest); ok {
		t.Error("an ended task is found")
	}
}

func TestTold(t *testing.T) {
	b := newBench(t, Options{})
	running := b.start(wire.Command{Cmd: "sleep 600"})
	first, second := b.start(wire.Command{Cmd: "true"}), b.start(wire.Command{Cmd: "false"})
	b.ended(first.TaskID)
	b.ended(second.TaskID)
	list := b.Ended("sess_1", "thread_1")
	if len(list) != 2 {
		t.Fatalf("len(list) = %d (%+v), want 2", len(list), list)
	}
	expect.Equal(t, "list[0].TaskID", list[0].TaskID, first.TaskID)
	expect.Equal(t, "list[1].TaskID", list[1].TaskID, second.TaskID)
	b.Reported(first.TaskID)
	b.Reported(running.TaskID)
	b.Reported("task_none")
	if list := b.Ended("sess_1", "thread_1"); len(list) != 1 || list[0].TaskID != second.TaskID {
		t.Fatalf("ended %+v", list)
	}
	again := newBench(t, Options{Dir: b.copy()})
	switch list := again.Ended("sess_1", "thread_1"); {
	case len(list) != 2:
		t.Fatalf("len(list) = %d (%+v), want 2", len(list), list)
	case list[0].TaskID != running.TaskID:
		t.Fatalf("list[0].TaskID = %q, want %q", list[0].TaskID, running.TaskID)
	case list[1].TaskID != second.TaskID:
		t.Fatalf("list[1].TaskID = %q, want %q", list[1].TaskID, second.TaskID)
	}
}

func TestBounds(t *testing.T) {
	b := newBench(t, Options{})
	b.maxRunning, b.maxRecords = 2, 4
	var first wire.Snapshot
	for i := range 6 {
		s := b.start(wire.Command{Cmd: "true"})
		b.ended(s.TaskID)
		if i == 0 {
			first = s
		}
	}
	if _, err := b.Get("", first.TaskID); err == nil {
		t.Error("the oldest record is still there")
	}
	entries, err := os.ReadDir(b.dir)
	if err != nil || len(entries) != 4 {
		t.Errorf("%d records on disk, %v", len(entries), err)
	}
	for range 2 {
		b.start(wire.Command{Cmd: "sleep 600"})
	}
	if _, err := b.adopt(wire.Command{Cmd: "sleep 600"}); !errors.Is(err, ErrTooMany) {
		t.Errorf("%v, want ErrTooMany", err)
	}
	switch l := b.List("", 1); {
	case len(l.Tasks) != 1:
		t.Errorf("len(l.Tasks) = %d (%+v), want 1", len(l.Tasks), l.Tasks)
	case l.Omitted != 3:
		t.Errorf("l.Omitted = %d, want 3", l.Omitted)
	case l.Tasks[0].Status != wire.Running:
		t.Errorf("l.Tasks[0].Status = %q, want %q", l.Tasks[0].Status, wire.Running)
	}
}

func TestManyAtOnce(t *testing.T) {
	b := newBench(t, Options{})
	var group sync.WaitGroup
	ids := make(chan string, 20)
	for range 20 {
		ids <- b.start(wire.Command{Cmd: "read x; echo $x", AcceptsInput: true}).TaskID
	}
	close(ids)
	for id := range ids {
		group.Go(func() {
			if in, err := b.Input(t.Context(), "", id, wire.Input{Input: id + "\n"}); err != nil || !in.AcceptedInput {
				t.Errorf("%+v, %v", in, err)
			}
			b.List("", 5)
			if got := b.ended(id).Task.OutputPreview; got != id+"\n" {
				t.Errorf("output %q of %s", got, id)
			}
			b.Reported(id)
		})
	}
	group.Wait()
	if list := b.Ended("sess_1", "thread_1"); len(list) != 0 {
		t.Errorf("%d ends are news", len(list))
	}
}
