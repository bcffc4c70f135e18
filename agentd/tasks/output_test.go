package tasks

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"holon/agentd/process"
	wire "holon/responses/tasks"
	"holon/test/expect"
)

func TestRetrieval(t *testing.T) {
	b := newBench(t, Options{})
	s := b.start(wire.Command{Cmd: "echo begun; read x; echo got $x", AcceptsInput: true})
	if !s.Command.AcceptsInput || s.Command.InputTarget != wire.TargetStdin {
		t.Errorf("input %+v", s.Command)
	}
	b.until(s.TaskID, "begun\n")
	out, err := b.Output(t.Context(), "", s.TaskID, 0, 4000)
	expect.NoError(t, err)
	expect.Equal(t, "out.RetrievalStatus", out.RetrievalStatus, wire.NotReady)
	expect.Equal(t, "out.Task.Status", out.Task.Status, wire.Running)
	expect.Equal(t, "out.Task.ExitStatus", out.Task.ExitStatus, nil)
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
	expect.NoError(t, err)
	expect.Equal(t, "in.AcceptedInput", in.AcceptedInput, true)
	expect.Equal(t, "in.BytesWritten", in.BytesWritten, 5)
	expect.Equal(t, "in.InputTarget", in.InputTarget, wire.TargetStdin)
	expect.Equal(t, "output", b.ended(s.TaskID).Task.OutputPreview, "begun\ngot word\n")
	in, err = b.Input(t.Context(), "", s.TaskID, wire.Input{Input: "late\n"})
	if err != nil || in.AcceptedInput || in.SummaryText == "" {
		t.Errorf("input after the end: %+v, %v", in, err)
	}
}

// A reader sees a character of several bytes when it is complete. Bytes that are
// never completed are shown as they are.
func TestOutputTearsNoCharacter(t *testing.T) {
	b := newBench(t, Options{})
	task := b.start(wire.Command{Cmd: "exec cat", AcceptsInput: true})
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
			expect.NoError(t, err)
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
	expect.Equal(t, "the output is", look(torn), text)
	if _, err := b.Input(t.Context(), "", task.TaskID, wire.Input{Close: true}); err != nil {
		t.Fatal(err)
	}
	expect.Equal(t, "at the end the output is", b.ended(task.TaskID).Task.OutputPreview, text+"\ufffd\ufffd")
}

// The file is preferred; when it is gone, the record still has the beginning and
// the end.
func TestOutputWithoutItsFile(t *testing.T) {
	b := newBench(t, Options{})
	s := b.start(wire.Command{Cmd: "seq 1 20000"})
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
		}
		expect.Equal(t, "out.OutputBytes", out.OutputBytes, 108894)
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
		expect.NoError(t, errors.Join(os.RemoveAll(s.Command.OutputPath), how(s.Command.OutputPath)))
		ended()
	}
	replace(func(string) error { return nil })
	replace(func(path string) error { return os.Mkdir(path, 0o700) })
	replace(func(path string) error { return unix.Mkfifo(path, 0o600) }) // must not be waited for
	replace(func(path string) error { return os.Symlink("/etc/passwd", path) })
	replace(func(path string) error { return os.WriteFile(path, []byte("short"), 0o600) })
}

// A file that holds the beginning of an output is named, although the preview is the excerpt of the record.
func TestFileOfCutOutput(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stdout.log")
	expect.NoError(t, os.WriteFile(path, []byte("0123456789"), 0o600))
	for logged, artifacts := range map[int64]int{10: 1, 20: 0} { // of the latter, bytes are gone
		s := stream{Total: 1000, Logged: logged, Excerpt: "0123 … 999"}
		out, rec := wire.Output{}, record{Snapshot: wire.Snapshot{Status: wire.Completed, Command: &wire.Command{OutputPath: path}}, Stdout: s}
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
