package process

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"holon/test/expect"
)

// A supervisor that shares its program leaves other people's children alone.
func TestSharedLeavesStrangersAlone(t *testing.T) {
	other := New(Options{})
	defer other.Close()
	s := New(Options{})
	defer s.Close()
	done := make(chan Result, 1)
	dir := t.TempDir()
	c := sh("(env -i sleep 2 &); touch $D/up; while [ ! -e $D/stop ]; do sleep 0.01; done; exit 9")
	c.Env = Environ(os.Environ(), "D="+dir)
	go func() {
		res, err := other.run(c)
		if err != nil {
			t.Error(err)
		}
		done <- res
	}()
	for {
		if _, err := os.Stat(dir + "/up"); err == nil {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	for range 5 {
		if res := run(t, s, sh("sleep 300 & exit 2")); res.ExitCode != 2 || res.Ended != 1 {
			t.Errorf("exit code %d, ended %d, want 2 and 1", res.ExitCode, res.Ended)
		}
		s.reapZombies()
	}
	expect.NoError(t, s.Close())
	expect.NoError(t, os.WriteFile(dir+"/stop", nil, 0o600))
	if res := <-done; res.ExitCode != 9 {
		t.Errorf("the other supervisor's command ended with %d, want 9", res.ExitCode)
	}
}

func TestReaperCollectsWhileCommandsRun(t *testing.T) {
	s := newTest(t)
	done := make(chan struct{})
	dir := t.TempDir()
	c := sh("for i in 1 2 3 4 5 6 7 8; do (setsid true &); done; touch $D/up; while [ ! -e $D/stop ]; do sleep " +
		"0.01; done")
	c.Env = Environ(os.Environ(), "D="+dir)
	go func() {
		defer close(done)
		if _, err := s.run(c); err != nil {
			t.Error(err)
		}
	}()
	deadline := time.Now().Add(30 * time.Second)
	for {
		_, up := os.Stat(dir + "/up")
		zombies := 0
		for _, st := range descendants() {
			if st.State == 'Z' && st.Parent == os.Getpid() {
				zombies++
			}
		}
		if up == nil && zombies == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d zombies are not collected", zombies)
		}
		time.Sleep(10 * time.Millisecond)
	}
	expect.NoError(t, os.WriteFile(dir+"/stop", nil, 0o600))
	<-done
}

// A flood costs the head, the tail and the capped file, and every byte counts.
func TestFlood(t *testing.T) {
	const limit = 1 << 20
	total := 512 << 20
	if testing.Short() {
		total = 64 << 20
	}
	s := newTest(t)
	path := filepath.Join(t.TempDir(), "out.log")
	c := sh(fmt.Sprintf("echo first; head -c %d /dev/zero; echo; echo last", total))
	c.StdoutPath, c.LogBytes, c.KeepBytes = path, limit, 1024
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	res := run(t, s, c)
	runtime.ReadMemStats(&after)
	if want := int64(total + len("first\n\nlast\n")); res.Stdout.Total != want {
		t.Errorf("counted %d bytes, want %d", res.Stdout.Total, want)
	}
	if !strings.HasPrefix(string(res.Stdout.Head), "first\n") ||
		!strings.HasSuffix(string(res.Stdout.Tail), "\nlast\n") {
		t.Error("the beginning or the end is missing")
	}
	switch {
	case len(res.Stdout.Head) != 1024:
		t.Errorf("len(res.Stdout.Head) = %d (%q), want 1024", len(res.Stdout.Head), res.Stdout.Head)
	case len(res.Stdout.Tail) != 1024:
		t.Errorf("len(res.Stdout.Tail) = %d (%q), want 1024", len(res.Stdout.Tail), res.Stdout.Tail)
	}
	expect.Equal(t, "res.Stdout.Lines", res.Stdout.Lines, 3)
	fi, err := os.Stat(path)
	if err != nil || fi.Size() != limit || res.Stdout.Logged != limit {
		t.Errorf("log %v (%v), logged %d, want %d", fi, err, res.Stdout.Logged, limit)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 4<<20 {
		t.Errorf("%d bytes were allocated for a flood", used)
	}
}

func TestLogFailureIsTold(t *testing.T) {
	s := newTest(t)
	path := filepath.Join(t.TempDir(), "out.log")
	expect.NoError(t, os.Symlink("/tmp/elsewhere", path))
	c := sh("echo hello")
	c.StdoutPath = path
	res := run(t, s, c)
	expect.ErrorIs(t, "log error", res.Stdout.LogErr, fs.ErrExist)
	if string(res.Stdout.Head) != "hello\n" || res.Stdout.Logged != 0 {
		t.Errorf("capture %+v", res.Stdout)
	}
}
