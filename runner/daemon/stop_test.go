package daemon_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"holon/runner/daemon"
	"holon/state"
	"holon/test/expect"
)

// One that neither answers nor follows a signal is killed.
func TestStubborn(t *testing.T) {
	t.Parallel()
	dir := home(t)
	d := of(t, dir, "stubborn", "a")
	pid := start(t, d).Status.PID
	if stopped, err := d.Stop(t.Context()); err != nil || stopped.How != daemon.Killed || stopped.PID != pid {
		t.Errorf("%+v, %v", stopped, err)
	}
	if s := status(t, d); s.State != daemon.Ended || len(s.Stale) > 0 {
		t.Errorf("%+v", s)
	}
}

// One that hangs is told from one that is gone and from a stranger, and is
// replaced when that is asked for.
func TestHangs(t *testing.T) {
	t.Parallel()
	dir := home(t)
	self, err := os.Executable()
	expect.NoError(t, err)
	d := of(t, dir, "well", "a")
	pid := start(t, d).Status.PID
	expect.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
	awaitStopped(t, pid)
	hurried := daemon.New(daemon.Options{Home: dir, Fingerprint: "a", Program: self, Env: environ(),
		Args:        []string{"serve", "well", daemon.SocketPath(dir), dir, "a"},
		StartWithin: 100 * time.Millisecond, KillWithin: 100 * time.Millisecond, AskWithin: 50 * time.Millisecond})
	s := status(t, hurried)
	expect.Equal(t, "s.State", s.State, daemon.NotAnswering)
	expect.Equal(t, "s.PID", s.PID, pid)
	expect.Equal(t, "s.Control.Problem is empty", s.Control.Problem == "", false)
	if _, err := hurried.Start(t.Context()); !state.IsCode(err, "daemon_not_answering") {
		t.Errorf("%v", err)
	}
	// The one that is to be replaced gets the answers late, but gets them.
	patient := of(t, dir, "well", "a")
	again, err := patient.Restart(t.Context())
	if err != nil || again.Already || again.Status.PID == pid {
		t.Errorf("%+v, %v", again, err)
	}
}

// awaitStopped waits until no thread of a process that was told to stop runs.
func awaitStopped(t *testing.T, pid int) {
	t.Helper()
	for ctx := t.Context(); ctx.Err() == nil; time.Sleep(time.Millisecond) {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		if err != nil || len(threads) == 0 {
			t.Fatalf("process %d has no threads: %v", pid, err)
		}
		stopped := 0
		for _, path := range threads {
			if stat, err := os.ReadFile(path); err == nil && strings.Contains(string(stat), ") T ") {
				stopped++
			}
		}
		if stopped == len(threads) {
			return
		}
	}
}
