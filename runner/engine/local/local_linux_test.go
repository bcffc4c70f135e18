package local_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"holon/internal/procfs"
	"holon/runner/engine"
	"holon/runner/engine/local"
	"holon/state"
	"holon/test/enginetest"
	"holon/test/expect"
)

func TestMain(m *testing.M) { enginetest.Main(m, nil) }

func TestSuite(t *testing.T) {
	dir := t.TempDir()
	enginetest.Run(t, enginetest.Rig{
		New:     func(t *testing.T) engine.Engine { return open(t, dir) },
		Program: enginetest.Program,
	})
}

func open(t *testing.T, dir string) *local.Engine {
	t.Helper()
	e, err := local.New(local.Options{Dir: dir, Env: []string{"BASE=1"}})
	expect.NoError(t, err)
	return e
}

// start runs the program with args until it has printed something.
func start(t *testing.T, e *local.Engine, program, name string, args ...string) (engine.Handle, string) {
	t.Helper()
	h, err := e.Create(t.Context(), engine.Spec{Name: name, Args: append([]string{program}, args...),
		Labels: map[string]string{"test": name}})
	expect.NoError(t, err)
	expect.NoError(t, e.Start(t.Context(), h))
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if out, err := e.Logs(t.Context(), h, 1<<20); err != nil || strings.HasSuffix(string(out), "\n") {
			return h, string(out)
		}
	}
	t.Fatal("the program printed nothing")
	return h, ""
}

// Processes that a program started in a session of their own end with it.
func TestOrphansEndWithTheProgram(t *testing.T) {
	e := open(t, t.TempDir())
	h, out := start(t, e, enginetest.Program, "orphan", "orphan")
	if exit, err := e.Wait(t.Context(), h); err != nil || exit.Code != 0 {
		t.Fatalf("Wait = %+v, %v", exit, err)
	}
	pid, err := strconv.Atoi(strings.Fields(out)[1])
	expect.NoError(t, err)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		st, err := procfs.ReadStat(pid)
		if err != nil || !st.Running() { // gone, or waiting for process 1 to reap it
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the orphan lives on")
		}
	}
	expect.NoError(t, errors.Join(e.Remove(t.Context(), h), e.Close()))
}

// The host's environment may hold keys; it does not reach the program.
func TestEnvironmentIsNotInherited(t *testing.T) {
	t.Setenv("HOLON_TEST_SECRET", "key")
	e := open(t, t.TempDir())
	_, out := start(t, e, enginetest.Program, "report", "report")
	if strings.Contains(out, "HOLON_TEST_SECRET") || !strings.Contains(out, "BASE=1") {
		t.Errorf("environment in %s", out)
	}
	expect.NoError(t, e.Close())
}

func TestCloseKillsAndKeepsRecords(t *testing.T) {
	dir := t.TempDir()
	e := open(t, dir)
	h, _ := start(t, e, enginetest.Program, "stubborn", "stubborn")
	expect.NoError(t, e.Close())
	if _, err := e.Create(t.Context(), engine.Spec{Name: "late", Args: []string{"/bin/true"}}); !state.IsCode(err,
		engine.CodeUnreachable) {
		t.Errorf("Create after Close = %v", err)
	}
	again := open(t, dir)
	state, err := again.Inspect(t.Context(), h)
	if err != nil || state.Exit == nil || state.Exit.Code != 128+int(syscall.SIGKILL) {
		t.Errorf("state after Close = %+v, %v", state, err)
	}
	expect.NoError(t, again.Remove(t.Context(), h))
}

// A record whose leader's number was taken by another process (this one) must
// not lead to a signal.
func TestRecycledNumberIsNotSignalled(t *testing.T) {
	dir := t.TempDir()
	e := open(t, dir)
	h, err := e.Create(t.Context(), engine.Spec{Name: "ghost", Args: []string{"/bin/true"}})
	expect.NoError(t, err)
	boot, err := procfs.BootID()
	expect.NoError(t, err)
	record := `{"handle":{"version":1,"engine":"local","id":"` + h.ID + `","name":"ghost"},"labels":{"a":"b"},` +
		`"leader":{"pid":` + strconv.Itoa(os.Getpid()) + `,"start_ticks":1,"boot_id":"` +
		boot + `"}}`
	expect.NoError(t, os.WriteFile(filepath.Join(dir, "ghost", "record.json"), []byte(record), 0o600))
	other := open(t, dir)
	exit, err := other.Wait(t.Context(), h)
	if err != nil || exit.Code != -1 || exit.Error == "" {
		t.Errorf("Wait = %+v, %v", exit, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := errors.Join(other.Stop(ctx, h, 0), other.Remove(ctx, h)); err != nil { // this process survives both
		t.Fatal(err)
	}
	expect.NoError(t, e.Close())
}

func TestLogKeepsTheEnd(t *testing.T) {
	e := open(t, t.TempDir())
	const size = 12_000_000 // more than both files of the log hold
	h, err := e.Create(t.Context(),
		engine.Spec{Name: "print", Args: []string{enginetest.Program, "print", strconv.Itoa(size)}})
	expect.NoError(t, err)
	expect.NoError(t, e.Start(t.Context(), h))
	if _, err := e.Wait(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	logs, err := e.Logs(t.Context(), h, 16<<20)
	expect.NoError(t, err)
	if n := len(logs); n < 5<<20 || n > 10<<20 {
		t.Errorf("%d bytes of the log are kept, want 5 to 10 MiB", n)
	}
	// the order between the two streams is not kept
	if end := strings.Replace(string(logs[len(logs)-40:]), "done", "", 1); !strings.HasSuffix(end,
		"011999980\n011999990\n") {
		t.Errorf("the log ends with %q, want the last line", end)
	}
	expect.NoError(t, e.Close())
}

// What a killed process left without a record goes, unless it may be one that is being made.
func TestUnmade(t *testing.T) {
	dir := t.TempDir()
	open(t, dir)
	for _, name := range []string{"old", "new", "made"} {
		expect.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o700))
		expect.NoError(t, os.WriteFile(filepath.Join(dir, name, ".tmp-1"), nil, 0o600))
	}
	expect.NoError(t, os.WriteFile(filepath.Join(dir, "made", "record.json"), []byte("{}"), 0o600))
	past := time.Now().Add(-time.Hour)
	for _, name := range []string{"old", "made"} {
		expect.NoError(t, os.Chtimes(filepath.Join(dir, name), past, past))
	}
	open(t, dir)
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	expect.NoError(t, err)
	expect.Equal(t, "left", strings.Join(left, " "), filepath.Join(dir, "made")+" "+filepath.Join(dir, "new"))
}
