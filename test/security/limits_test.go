package security

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"holon/runner/engine"
	"holon/runner/uidpool"
	"holon/test/expect"
)

// A container of root cannot take from another what the kernel counts for each
// user id.
func TestPerUserLimits(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("containers of an ordinary user share that user's limits, as holon doctor says")
	}
	l := newLab(t)
	pool := uidpool.Pool{Dir: filepath.Join(t.TempDir(), "uids"), First: uidpool.DefaultFirst + uidpool.DefaultCount,
		Count: 8}
	shared := t.TempDir()
	expect.NoError(t, os.Chmod(shared, 0o777))
	e := l.config().Engine
	begin := func(name string, args ...string) engine.Handle {
		t.Helper()
		uid, err := pool.Take("", name, shared)
		expect.NoError(t, err)
		spec, err := engine.Spec{Name: "holon-limits-" + name + "-" + filepath.Base(filepath.Dir(shared)),
			Image: baseImage,
			Args:  append([]string{"/input/probe"}, args...), User: &engine.User{UID: uid, GID: uid},
			Mounts: []engine.Mount{{Source: shared, Target: "/shared"},
				{Source: input, Target: "/input", ReadOnly: true}}}.Complete()
		expect.NoError(t, err)
		h, err := e.Create(t.Context(), spec)
		expect.NoError(t, err)
		t.Cleanup(func() { l.host("docker", "rm", "-f", h.ID) })
		expect.NoError(t, e.Start(t.Context(), h))
		return h
	}
	greedy := begin("greedy", "exhaust", "/shared/exhausted")
	exhausted := filepath.Join(shared, "exhausted")
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if _, err := os.Lstat(exhausted); err == nil {
			break
		}
		if state, err := e.Inspect(t.Context(), greedy); err != nil || state.Exit != nil || time.Now().After(deadline) {
			said, _ := e.Logs(t.Context(), greedy, 1<<10)
			t.Fatalf("the limits were not exhausted: %+v, %v, %q", state.Exit, err, said)
		}
	}
	modest := begin("modest", "user")
	exit, err := e.Wait(t.Context(), modest)
	if err != nil || exit.Code != 0 {
		t.Fatalf("the other container ended with %+v, %v", exit, err)
	}
	said, err := e.Logs(t.Context(), modest, 1<<10)
	if want := "inotify\tOK\npipe\tOK\ntimer\tOK\n"; err != nil || string(said) != want {
		t.Errorf("the other container got %q, %v, want %q", said, err, want)
	}
}
