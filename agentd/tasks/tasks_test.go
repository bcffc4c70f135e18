package tasks

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"holon/agentd/process"
	"holon/responses"
	wire "holon/responses/tasks"
	"holon/responses/turns"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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
	if err := b.Load(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(b.Close(), b.sup.Close()); err != nil {
			t.Error(err)
		}
	})
	return b
}

// start makes a task of a command.
func (b *bench) start(spec Spec) wire.Snapshot {
	b.t.Helper()
	s, err := b.adopt(spec)
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

func (b *bench) adopt(spec Spec) (wire.Snapshot, error) {
	b.t.Helper()
	b.n++
	name := filepath.Join(b.out, "log"+string(rune('a'+b.n%26))+responses.NewID("x"))
	c := process.Command{Argv: []string{"sh", "-c", spec.Cmd}, Dir: b.out, Env: process.Environ(os.Environ()),
		TTY: spec.TTY, Input: spec.AcceptsInput, StdoutPath: name + ".out"}
	if !spec.TTY {
		c.StderrPath = name + ".err"
	}
	p, err := b.sup.Start(c)
	if err != nil {
		b.t.Fatal(err)
	}
	spec.Workdir = b.out
	s, err := b.Adopt(responses.NewID(wire.Prefix), Owner{SessionID: "sess_1", ThreadID: "thread_1", TurnID: "turn_1"}, spec, p, c.StdoutPath, c.StderrPath)
	if err != nil {
		p.Kill()
	}
	return s, err
}

// ended waits for the end of a task.
func (b *bench) ended(id string) wire.OutputResult {
	b.t.Helper()
	out, err := b.Output(b.t.Context(), "", id, patience, 4000)
	if err != nil {
		b.t.Fatal(err)
	}
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
	s := b.start(Spec{Cmd: e.cmd})
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
	s := b.start(Spec{Cmd: "true"})
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

func TestRetrieval(t *testing.T) {
	b := newBench(t, Options{})
	s := b.start(Spec{Cmd: "echo begun; read x; echo got $x", AcceptsInput: true})
	if !s.Command.AcceptsInput || s.Command.InputTarget != wire.TargetStdin {
		t.Errorf("input %+v", s.Command)
	}
	b.until(s.TaskID, "begun\n")
	out, err := b.Output(t.Context(), "", s.TaskID, 0, 4000)
	switch {
	case err != nil:
		t.Errorf("unexpected error: %v", err)
	case out.RetrievalStatus != wire.NotReady:
		t.Errorf("out.RetrievalStatus = %q, want %q", out.RetrievalStatus, wire.NotReady)
	case out.Task.Status != wire.Running:
		t.Errorf("out.Task.Status = %q, want %q", out.Task.Status, wire.Running)
	case out.Task.ExitStatus != nil:
		t.Errorf("out.Task.ExitStatus = %+v, want nil", out.Task.ExitStatus)
	}
	out, err = b.Output(t.Context(), "", s.TaskID, time.Millisecond, 4000)
	if err != nil || out.RetrievalStatus != wire.Timeout {
		t.Errorf("%+v, %v", out, err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("the turn ended")
	cancel(cause)
	if _, err := b.Output(ctx, "", s.TaskID, patience, 4000); !errors.Is(err, cause) {
		t.Errorf("%v, want the cause", err)
	}
	in, err := b.Input(t.Context(), "", s.TaskID, wire.Input{Input: "word\n"})
	switch {
	case err != nil:
		t.Errorf("unexpected error: %v", err)
	case !in.AcceptedInput:
		t.Error("in.AcceptedInput = false, want true")
	case in.BytesWritten != 5:
		t.Errorf("in.BytesWritten = %d, want 5", in.BytesWritten)
	case in.InputTarget != wire.TargetStdin:
		t.Errorf("in.InputTarget = %q, want %q", in.InputTarget, wire.TargetStdin)
	}
	if got := b.ended(s.TaskID).Task.OutputPreview; got != "begun\ngot word\n" {
		t.Errorf("output %q", got)
	}
	in, err = b.Input(t.Context(), "", s.TaskID, wire.Input{Input: "late\n"})
	if err != nil || in.AcceptedInput || in.SummaryText == "" {
		t.Errorf("input after the end: %+v, %v", in, err)
	}
}

// until waits until a task has printed what is asked for.
func (b *bench) until(id, want string) {
	b.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(2 * time.Millisecond) {
		out, err := b.Output(b.t.Context(), "", id, 0, 4000)
		if err != nil {
			b.t.Fatal(err)
		}
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
	cat := b.start(Spec{Cmd: "cat", AcceptsInput: true})
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
	if got := b.ended(cat.TaskID).Task.OutputPreview; got != "last" {
		t.Errorf("output %q", got)
	}
	deaf := b.start(Spec{Cmd: "sleep 600"})
	in, err = b.Input(t.Context(), "", deaf.TaskID, wire.Input{Input: "x"})
	if err != nil || in.AcceptedInput || !strings.Contains(in.SummaryText, "accepts_input") {
		t.Errorf("%+v, %v", in, err)
	}
}

// A reader sees a character of several bytes when it is complete. Bytes that are
// never completed are shown as they are.
func TestOutputTearsNoCharacter(t *testing.T) {
	b := newBench(t, Options{})
	task := b.start(Spec{Cmd: "exec cat", AcceptsInput: true})
	const text, torn = "ä€😀", "\xf0\x9f"
	written := int64(0)
	look := func(part string) string {
		t.Helper()
		if _, err := b.Input(t.Context(), "", task.TaskID, wire.Input{Input: part}); err != nil {
			t.Fatal(err)
		}
		written += int64(len(part))
		for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
			out, err := b.Output(t.Context(), "", task.TaskID, 0, 4000)
			if err != nil {
				t.Fatal(err)
			}
			if out.Task.OutputBytes == written {
				return out.Task.OutputPreview
			}
		}
		t.Fatalf("%d bytes did not come back", written)
		return ""
	}
	for i := range len(text) {
		whole := text[:i+1]
		for !utf8.ValidString(whole) {
			whole = whole[:len(whole)-1]
		}
		if got := look(text[i : i+1]); got != whole {
			t.Errorf("after %d bytes the output is %q, want %q", i+1, got, whole)
		}
	}
	if got := look(torn); got != text {
		t.Errorf("the output is %q", got)
	}
	if _, err := b.Input(t.Context(), "", task.TaskID, wire.Input{Close: true}); err != nil {
		t.Fatal(err)
	}
	if got := b.ended(task.TaskID).Task.OutputPreview; got != text+"\ufffd\ufffd" {
		t.Errorf("at the end the output is %q", got)
	}
}

func TestTerminal(t *testing.T) {
	b := newBench(t, Options{})
	s := b.start(Spec{Cmd: "stty size; read x; echo [$x]; stty size; cat", TTY: true, AcceptsInput: true})
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

func TestStop(t *testing.T) {
	b := newBench(t, Options{})
	s := b.start(Spec{Cmd: "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.01; done"})
	b.until(s.TaskID, "up\n")
	r, err := b.Stop(t.Context(), "", s.TaskID, false)
	switch {
	case err != nil:
		t.Errorf("unexpected error: %v", err)
	case !r.StopRequested:
		t.Error("r.StopRequested = false, want true")
	case r.ForceStopRequested:
		t.Error("r.ForceStopRequested = true, want false")
	case r.Task.Status != wire.Cancelled:
		t.Errorf("r.Task.Status = %q, want %q", r.Task.Status, wire.Cancelled)
	case r.Task.Failure != "stopped":
		t.Errorf(`r.Task.Failure = %q, want "stopped"`, r.Task.Failure)
	}
	// the shell may mourn its sleep
	if got := b.ended(s.TaskID).Task.OutputPreview; !strings.Contains(got, "up\nbye\n") {
		t.Errorf("output %q", got)
	}
	r, err = b.Stop(t.Context(), "", s.TaskID, true)
	if err != nil || r.StopRequested || r.Task.Status != wire.Cancelled {
		t.Errorf("again: %+v, %v", r, err)
	}
	s = b.start(Spec{Cmd: "trap '' TERM; echo up; while :; do sleep 0.01; done"})
	b.until(s.TaskID, "up\n")
	r, err = b.Stop(t.Context(), "", s.TaskID, true)
	switch {
	case err != nil:
		t.Errorf("forced: unexpected error: %v", err)
	case !r.ForceStopRequested:
		t.Error("forced: r.ForceStopRequested = false, want true")
	case r.Task.Status != wire.Cancelled:
		t.Errorf("forced: r.Task.Status = %q, want %q", r.Task.Status, wire.Cancelled)
	case r.Task.Command.Signal != int(unix.SIGKILL):
		t.Errorf("forced: r.Task.Command.Signal = %d, want %d", r.Task.Command.Signal, int(unix.SIGKILL))
	}
}

// A task that ignores the wish to end is killed after the grace.
func TestStopEscalates(t *testing.T) {
	b := newBench(t, Options{})
	b.stopGrace = 100 * time.Millisecond
	s := b.start(Spec{Cmd: "trap '' TERM; (trap '' TERM; setsid sleep 600) & echo up; while :; do sleep 0.01; done"})
	b.until(s.TaskID, "up\n")
	r, err := b.Stop(t.Context(), "", s.TaskID, false)
	if err != nil || !r.StopRequested || !r.ForceStopRequested {
		t.Errorf("stopped as %+v, %v, want it to be requested and forced", r, err)
	}
	if r.Task.Status != wire.Cancelled {
		t.Errorf("the task is %s, want %s", r.Task.Status, wire.Cancelled)
	}
}

func TestActive(t *testing.T) {
	b := newBench(t, Options{})
	s := b.start(Spec{Cmd: "sleep 600"})
	if got, ok := b.Active("sess_1", s.Command.CmdDigest); !ok || got.TaskID != s.TaskID {
		t.Errorf("%+v, %v", got, ok)
	}
	if _, ok := b.Active("sess_2", s.Command.CmdDigest); ok {
		t.Error("another session's task is found")
	}
	if _, ok := b.Active("sess_1", (Spec{Cmd: "sleep 600", TTY: true, Workdir: b.out}).Digest()); ok {
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
	running := b.start(Spec{Cmd: "sleep 600"})
	first, second := b.start(Spec{Cmd: "true"}), b.start(Spec{Cmd: "false"})
	b.ended(first.TaskID)
	b.ended(second.TaskID)
	list := b.Ended("sess_1", "thread_1")
	switch {
	case len(list) != 2:
		t.Fatalf("len(list) = %d (%+v), want 2", len(list), list)
	case list[0].TaskID != first.TaskID:
		t.Fatalf("list[0].TaskID = %q, want %q", list[0].TaskID, first.TaskID)
	case list[1].TaskID != second.TaskID:
		t.Fatalf("list[1].TaskID = %q, want %q", list[1].TaskID, second.TaskID)
	}
	b.Told(first.TaskID)
	b.Told(running.TaskID)
	b.Told("task_none")
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

// copy is the directory of the records as a kill would leave it.
func (b *bench) copy() string {
	b.t.Helper()
	dir := b.t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(b.dir)); err != nil {
		b.t.Fatal(err)
	}
	return dir
}

// A task that ran when the runtime was killed is lost, and never reported as running.
func TestRestart(t *testing.T) {
	b := newBench(t, Options{})
	done := b.start(Spec{Cmd: "echo done; exit 4"})
	b.ended(done.TaskID)
	running := b.start(Spec{Cmd: "echo begun; sleep 600"})
	b.until(running.TaskID, "begun")
	again := newBench(t, Options{Dir: b.copy()})
	lost := checkLost(t, again, running.TaskID)
	kept, err := again.Get("", done.TaskID)
	if err != nil || kept.Status != wire.Failed || *kept.Command.ExitStatus != 4 {
		t.Errorf("what had ended is %+v, %v, want it to have failed with 4", kept, err)
	}
	// Settled means settled: the next start changes nothing.
	third := newBench(t, Options{Dir: again.copy(), Now: func() time.Time { return time.Now().Add(time.Hour) }})
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

func TestCloseEndsTasks(t *testing.T) {
	b := newBench(t, Options{})
	var ids []string
	for range 5 {
		ids = append(ids, b.start(Spec{Cmd: "sleep 600"}).TaskID)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		if s, err := b.Get("", id); err != nil || s.Status != wire.Cancelled || s.Failure != "shutdown" {
			t.Errorf("%+v, %v", s, err)
		}
	}
	if _, err := b.adopt(Spec{Cmd: "sleep 600"}); !errors.Is(err, ErrClosed) {
		t.Errorf("%v, want ErrClosed", err)
	}
	again := newBench(t, Options{Dir: b.copy()})
	if s, err := again.Get("", ids[0]); err != nil || s.Status != wire.Cancelled {
		t.Errorf("after a restart %+v, %v", s, err)
	}
}

func TestBounds(t *testing.T) {
	b := newBench(t, Options{MaxRunning: 2, MaxRecords: 4})
	var first wire.Snapshot
	for i := range 6 {
		s := b.start(Spec{Cmd: "true"})
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
		b.start(Spec{Cmd: "sleep 600"})
	}
	if _, err := b.adopt(Spec{Cmd: "sleep 600"}); !errors.Is(err, ErrTooMany) {
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

// The file is preferred; when it is gone, the record still has the beginning and
// the end.
func TestOutputWithoutItsFile(t *testing.T) {
	b := newBench(t, Options{})
	s := b.start(Spec{Cmd: "seq 1 20000"})
	ended := func() wire.Output {
		t.Helper()
		out := b.ended(s.TaskID).Task
		switch {
		case !out.OutputTruncated:
			t.Error("out.OutputTruncated = false, want true")
		case !strings.HasPrefix(out.OutputPreview, "1\n2\n"):
			t.Errorf("out.OutputPreview = %q, want it to begin with %q", out.OutputPreview, "1\n2\n")
		case !strings.HasSuffix(out.OutputPreview, "20000\n"):
			t.Errorf("out.OutputPreview = %q, want it to end with %q", out.OutputPreview, "20000\n")
		case out.OutputBytes != 108894:
			t.Errorf("out.OutputBytes = %d, want 108894", out.OutputBytes)
		}
		return out
	}
	out := ended()
	if out.OutputArtifact == nil {
		t.Fatal("out.OutputArtifact = nil, want a value")
	}
	if out.Artifacts[*out.OutputArtifact].Path != s.Command.OutputPath {
		t.Errorf("artifacts %+v", out.Artifacts)
	}
	replace := func(how func(path string) error) {
		t.Helper()
		if err := errors.Join(os.RemoveAll(s.Command.OutputPath), how(s.Command.OutputPath)); err != nil {
			t.Fatal(err)
		}
		ended()
	}
	replace(func(string) error { return nil })
	replace(func(path string) error { return os.Mkdir(path, 0o700) })
	replace(func(path string) error { return unix.Mkfifo(path, 0o600) }) // must not be waited for
	replace(func(path string) error { return os.Symlink("/etc/passwd", path) })
	replace(func(path string) error { return os.WriteFile(path, []byte("short"), 0o600) })
}

func TestManyAtOnce(t *testing.T) {
	b := newBench(t, Options{})
	var group sync.WaitGroup
	ids := make(chan string, 20)
	for range 20 {
		ids <- b.start(Spec{Cmd: "read x; echo $x", AcceptsInput: true}).TaskID
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
			b.Told(id)
		})
	}
	group.Wait()
	if list := b.Ended("sess_1", "thread_1"); len(list) != 0 {
		t.Errorf("%d ends are news", len(list))
	}
}

func TestBrokenRecordsAreLeftOut(t *testing.T) {
	dir := t.TempDir()
	b := newBench(t, Options{Dir: filepath.Join(dir, "tasks")})
	s := b.start(Spec{Cmd: "true"})
	b.ended(s.TaskID)
	big := strings.Repeat(" ", maxRecord+1)
	for name, content := range map[string]string{"task_a.json": "{", "task_b.json": big, "task_c.json": `{"version":9}`,
		"other.txt": "x", ".tmp-0": "x", "task_d.json": `{"version":1,"task_id":"task_e"}`} {
		if err := os.WriteFile(filepath.Join(b.dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(unix.Mkfifo(filepath.Join(b.dir, "task_f.json"), 0o600),
		os.Symlink(s.TaskID+".json", filepath.Join(b.dir, "task_g.json"))); err != nil {
		t.Fatal(err)
	}
	again := New(Options{Dir: b.dir})
	if err := again.Load(); err != nil {
		t.Fatal(err)
	}
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
	good := record{Version: recordVersion, TaskID: "task_1", SessionID: "s", TurnID: "t", Status: wire.Running,
		CreatedAt: now, UpdatedAt: now, Spec: Spec{Cmd: "x\ny"}}
	ended := good
	ended.interrupt(now, process.Strays{})
	for _, r := range []record{good, ended} {
		data, err := json.Marshal(r)
		if err != nil {
			f.Fatal(err)
		}
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
			r.interrupt(now, process.Strays{})
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
		if c, _ := r.End.Stdout.capture(filepath.Join(t.TempDir(), "none"), 100); c.Omitted() != 0 {
			t.Fatalf("%+v", c)
		}
	})
}

// A file that holds the beginning of an output is named, although the preview is the excerpt of the record.
func TestFileOfCutOutput(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stdout.log")
	if err := os.WriteFile(path, []byte("0123456789"), 0o600); err != nil {
		t.Fatal(err)
	}
	for logged, artifacts := range map[int64]int{10: 1, 20: 0} { // of the latter, bytes are gone
		s := stream{Total: 1000, Logged: logged, Excerpt: "0123 … 999"}
		out, rec := wire.Output{}, record{StdoutPath: path, End: &end{Stdout: s}}
		c, _ := s.capture(path, 100)
		rec.addArtifacts(&out, c, process.Capture{})
		if len(out.Artifacts) != artifacts || string(c.Head) != s.Excerpt {
			t.Errorf(
				"%d of 1000 bytes kept: artifacts %v, preview %q, want %d and the excerpt",
				logged,
				out.Artifacts,
				c.Head,
				artifacts,
			)
		}
	}
}
