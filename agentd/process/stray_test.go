package process

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"holon/internal/procfs"
	"holon/test/expect"
)

// startStray starts a command that writes "ready" when all of it runs.
func startStray(t *testing.T, s *Supervisor, script string) (*Process, string) {
	t.Helper()
	dir := t.TempDir()
	c := sh(script + "\ntouch ready; sleep 600")
	c.Dir = dir
	p, err := s.Start(c)
	expect.NoError(t, err)
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(dir, "ready")); err == nil {
			return p, dir
		}
		if isClosed(p.exited) || time.Now().After(end) {
			t.Fatal("the command did not get ready")
		}
	}
}

// The processes left of a command are found by its trace alone: the leader, what is in its session, and what left that
// and names the command.
func TestEndStrays(t *testing.T) {
	s := newTestOf(t, Options{Exclusive: true, Dir: filepath.Join(t.TempDir(), "commands")})
	one, dir := startStray(t, s, `setsid sh -c 'echo $$ > escaped; exec sleep 600' &
sh -c 'trap "" TERM HUP; echo $$ > deaf; while :; do sleep 600; done' &
while [ ! -s escaped ] || [ ! -s deaf ]; do sleep 0.01; done`)
	other, otherDir := startStray(t, s,
		`sh -c 'echo $$ > child; exec sleep 600' & while [ ! -s child ]; do sleep 0.01; done`)
	if got := endStrays([]trace{one.trace(), {}}); got.Ended < 4 || got.Survivors != 0 {
		t.Errorf("%+v, want at least 4 that were ended", got)
	}
	for _, name := range []string{"escaped", "deaf"} {
		if alive(t, filepath.Join(dir, name)) {
			t.Errorf("%s lives", name)
		}
	}
	if isClosed(other.exited) || !alive(t, filepath.Join(otherDir, "child")) {
		t.Error("another command was ended")
	}
	if one.Result().Signal != unix.SIGKILL {
		t.Errorf("%+v", one.Result())
	}
}

// A trace that does not fit in every point finds nothing: neither a number that is used again, nor another boot or
// namespace, nor this program.
func TestStraysAreNotMistaken(t *testing.T) {
	s := newTestOf(t, Options{Exclusive: true})
	p, dir := startStray(t, s, `sh -c 'echo $$ > child; exec sleep 600' & while [ ! -s child ]; do sleep 0.01; done`)
	good := p.trace()
	self, err := procfs.ReadStat(os.Getpid())
	expect.NoError(t, err)
	for name, change := range map[string]func(*trace){
		"an older process of that number":  func(t *trace) { t.Start-- },
		"a younger process of that number": func(t *trace) { t.Start++ },
		"another boot":                     func(t *trace) { t.Boot = "8e8a5d5c-0000-4000-8000-000000000000" },
		"another namespace":                func(t *trace) { t.Space = "pid:[1]" },
		"no boot":                          func(t *trace) { t.Boot = "" },
		"the first process":                func(t *trace) { t.PID = 1; t.Start = 0 },
		"a negative number":                func(t *trace) { t.PID = -p.pid },
		"a command that is over":           func(t *trace) { t.PID, t.Start = 1<<22+1, 0 },
	} {
		other := good
		other.ID = ""
		change(&other)
		expect.Equal(t, fmt.Sprintf("%s: ended", name), endStrays([]trace{other}), (Strays{}))
	}
	own := trace{Boot: good.Boot, Space: good.Space, PID: self.PID, Start: self.Start}
	expect.Equal(t, "of this program", endStrays([]trace{own}), (Strays{}))
	if isClosed(p.exited) || !alive(t, filepath.Join(dir, "child")) {
		t.Fatal("the command was ended")
	}
	p.Kill()
	p.Result()
}

// The recorded trace of a running command finds it. It is there from before the start until the end.
func TestRecordedTraces(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "commands")
	s := newTestOf(t, Options{Exclusive: true, Dir: dir})
	p, _ := startStray(t, s, "sleep 600 & sleep 600 &")
	data, err := os.ReadFile(filepath.Join(dir, p.id))
	expect.NoError(t, err)
	var recorded trace
	if err := json.Unmarshal(data, &recorded); err != nil || recorded != p.trace() {
		t.Fatalf("the trace is %s (%v), want %+v", data, err, p.trace())
	}
	if got := endStrays([]trace{recorded}); got.Ended < 3 || got.Survivors != 0 {
		t.Errorf("%+v were ended, want the shell and both that sleep", got)
	}
	<-p.Done()
	if entries, err := os.ReadDir(dir); len(entries) != 0 || err != nil {
		t.Errorf("after the end %v (%v) are recorded, want nothing", entries, err)
	}
}

// What a leader left is found by the id of its command, also where the program was killed before it recorded a process.
func TestStraysWithoutTheirLeader(t *testing.T) {
	s := newTestOf(t, Options{Exclusive: true, Dir: filepath.Join(t.TempDir(), "commands")})
	p, dir := startStray(t, s, `sh -c 'trap "" HUP; echo $$ > deaf; while :; do sleep 600; done' &
while [ ! -s deaf ]; do sleep 0.01; done`)
	s.starting.Lock() // its supervisor does nothing any more
	expect.NoError(t, unix.Kill(p.pid, unix.SIGKILL))
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if st, err := procfs.ReadStat(p.pid); err != nil || !st.Running() {
			break
		}
	}
	got := endStrays([]trace{{ID: p.id}})
	s.starting.Unlock()
	if got.Ended < 2 || got.Survivors != 0 || alive(t, filepath.Join(dir, "deaf")) {
		t.Errorf("%+v were ended, want the loop and what it waits for", got)
	}
	p.Result()
}

// A command whose trace cannot be recorded does not start, and nothing of its trace stays. PID 1 needs no trace.
func TestUnrecordedTraces(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "commands")
	s := newTestOf(t, Options{Exclusive: true, Dir: dir})
	expect.NoError(t, os.Mkdir(dir, 0o700))
	trace, ran := filepath.Join(dir, s.prefix+"1"), filepath.Join(t.TempDir(), "ran")
	expect.NoError(t, os.Symlink("/dev/full", trace))
	_, err := s.Start(sh("touch " + ran))
	if start, ok := errors.AsType[*StartError](err); !ok || start.Op != "record" || !errors.Is(err, unix.ENOSPC) {
		t.Errorf("the error is %v, want that of recording, with ENOSPC", err)
	}
	if _, err := os.Lstat(trace); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the trace gives %v, want that it is gone", err)
	}
	if res := run(t, s, sh("exit 7")); res.ExitCode != 7 {
		t.Errorf("with room again the exit code is %d, want 7", res.ExitCode)
	}
	if _, err := os.Stat(ran); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what the first command makes gives %v, want that it never ran", err)
	}
	s.first = true
	expect.NoError(t, os.Symlink("/dev/full", filepath.Join(dir, s.prefix+"3")))
	if res := run(t, s, sh("exit 8")); res.ExitCode != 8 {
		t.Errorf("as PID 1 the exit code is %d, want 8", res.ExitCode)
	}
}

// EndRecorded leaves its own supervisor's traces, reads what others planted without waiting for it, and removes it.
func TestEndRecorded(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "commands")
	s := newTestOf(t, Options{Exclusive: true, Dir: dir})
	if left, err := s.EndRecorded(); left != (Strays{}) || err != nil {
		t.Errorf("without a directory: %+v, %v; want nothing", left, err)
	}
	p, _ := startStray(t, s, "true")
	for name, text := range map[string]string{"half": `{"boot_`, "other": `{"boot_id":"x","pid":7}`} {
		expect.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	expect.NoError(t, unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	if left, err := s.EndRecorded(); left != (Strays{}) || err != nil {
		t.Errorf("%+v, %v; want nothing", left, err)
	}
	entries, err := os.ReadDir(dir)
	if len(entries) != 1 || entries[0].Name() != p.id || err != nil {
		t.Errorf("%v (%v) are recorded, want %s alone", entries, err, p.id)
	}
}
