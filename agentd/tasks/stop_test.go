package tasks

import (
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	wire "holon/responses/tasks"
	"holon/test/expect"
)

func TestStop(t *testing.T) {
	b := newBench(t, Options{})
	s := b.start(wire.Command{Cmd: "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.01; done"})
	b.until(s.TaskID, "up\n")
	r, err := b.Stop(t.Context(), "", s.TaskID, false)
	expect.NoError(t, err)
	expect.Equal(t, "r.StopRequested", r.StopRequested, true)
	expect.Equal(t, "r.ForceStopRequested", r.ForceStopRequested, false)
	expect.Equal(t, "r.Task.Status", r.Task.Status, wire.Cancelled)
	expect.Equal(t, "r.Task.Failure", r.Task.Failure, "stopped")
	// the shell may mourn its sleep
	expect.Contains(t, "output", b.ended(s.TaskID).Task.OutputPreview, "up\nbye\n")
	r, err = b.Stop(t.Context(), "", s.TaskID, true)
	if err != nil || r.StopRequested || r.Task.Status != wire.Cancelled {
		t.Errorf("again: %+v, %v", r, err)
	}
	s = b.start(wire.Command{Cmd: "trap '' TERM; echo up; while :; do sleep 0.01; done"})
	b.until(s.TaskID, "up\n")
	r, err = b.Stop(t.Context(), "", s.TaskID, true)
	expect.NoError(t, err)
	expect.Equal(t, "forced: r.ForceStopRequested", r.ForceStopRequested, true)
	expect.Equal(t, "forced: r.Task.Status", r.Task.Status, wire.Cancelled)
	expect.Equal(t, "forced: r.Task.Command.Signal", r.Task.Command.Signal, int(unix.SIGKILL))
}

// A task that ignores the wish to end is killed after the grace.
func TestStopEscalates(t *testing.T) {
	b := newBench(t, Options{})
	b.stopGrace = 100 * time.Millisecond
	s := b.start(wire.Command{Cmd: "trap '' TERM; (trap '' TERM; setsid sleep 600) & echo up; while :; do sleep 0.01; done"})
	b.until(s.TaskID, "up\n")
	r, err := b.Stop(t.Context(), "", s.TaskID, false)
	if err != nil || !r.StopRequested || !r.ForceStopRequested {
		t.Errorf("stopped as %+v, %v, want it to be requested and forced", r, err)
	}
	expect.Equal(t, "the task is", r.Task.Status, wire.Cancelled)
}

func TestCloseEndsTasks(t *testing.T) {
	b := newBench(t, Options{})
	var ids []string
	for range 5 {
		ids = append(ids, b.start(wire.Command{Cmd: "sleep 600"}).TaskID)
	}
	expect.NoError(t, b.Close())
	for _, id := range ids {
		if s, err := b.Get("", id); err != nil || s.Status != wire.Cancelled || s.Failure != "shutdown" {
			t.Errorf("%+v, %v", s, err)
		}
	}
	if _, err := b.adopt(wire.Command{Cmd: "sleep 600"}); !errors.Is(err, ErrClosed) {
		t.Errorf("%v, want ErrClosed", err)
	}
	again := newBench(t, Options{Dir: b.copy()})
	if s, err := again.Get("", ids[0]); err != nil || s.Status != wire.Cancelled {
		t.Errorf("after a restart %+v, %v", s, err)
	}
}
