package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"holon/internal/procfs"
	"holon/test/expect"
)

func TestMain(m *testing.M) {
	// This binary can be another program that a test needs.
	if file := os.Getenv(headlessVar); file != "" {
		if err := serveHeadless(file); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// newTest returns a supervisor that has this program to itself: no test of this
// package starts a process in another way, and none runs in parallel.
func newTest(t *testing.T) *Supervisor {
	t.Helper()
	return newTestOf(t, Options{Exclusive: true})
}

func newTestOf(t *testing.T, opts Options) *Supervisor {
	t.Helper()
	s := New(opts)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		nothingIsLeft(t)
	})
	return s
}

func descendants() (found []procfs.Stat) {
	all := procfs.All()
	var walk func(int)
	walk = func(parent int) {
		for _, st := range all {
			if st.Parent == parent {
				found = append(found, st)
				walk(st.PID)
			}
		}
	}
	walk(os.Getpid())
	return found
}

func sh(script string) Command {
	return Command{Argv: []string{"sh", "-c", script}, Dir: "/", Env: Environ(os.Environ()), Timeout: time.Minute,
		Grace: 5 * time.Second}
}

// run runs c to its end.
func (s *Supervisor) run(c Command) (Result, error) {
	p, err := s.Start(c)
	if err != nil {
		return Result{}, err
	}
	return p.Result(), nil
}

func run(t *testing.T, s *Supervisor, c Command) Result {
	t.Helper()
	res, err := s.run(c)
	if err != nil {
		t.Fatalf("run %q: %v", c.Argv, err)
	}
	return res
}

// alive reports whether the process whose pid is in the file still runs.
func alive(t *testing.T, pidFile string) bool {
	t.Helper()
	data, err := os.ReadFile(pidFile)
	if err != nil {
		t.Fatalf("the process did not say its pid: %v", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	expect.NoError(t, err)
	st, err := procfs.ReadStat(pid)
	return err == nil && st.Running()
}

func TestRunStatus(t *testing.T) {
	tests := []struct {
		script   string
		code     int
		signal   syscall.Signal
		out, err string
	}{
		{script: "true"},
		{script: "echo out; echo err >&2; exit 3", code: 3, out: "out\n", err: "err\n"},
		{script: "kill -9 $$", code: 137, signal: syscall.SIGKILL},
		{script: "kill -TERM $$", code: 143, signal: syscall.SIGTERM},
		{script: "exit 255", code: 255},
		{script: "cat; echo end", out: "end\n"}, // stdin is empty, not a terminal that waits
		{script: "echo $TERM $PAGER", out: "dumb cat\n"},
		{script: "exec >&- 2>&-; sleep 0.05; exit 4", code: 4}, // closed pipes are not the end
		{script: `printf 'a\0b'`, out: "a\x00b"},
	}
	s := newTest(t)
	for _, tt := range tests {
		res := run(t, s, sh(tt.script))
		if res.ExitCode != tt.code || res.Signal != tt.signal {
			t.Errorf("%s: exit code %d signal %d, want %d %d", tt.script, res.ExitCode, res.Signal, tt.code, tt.signal)
		}
		expect.Equal(t, fmt.Sprintf("%s: stdout", tt.script), string(res.Stdout.Head), tt.out)
		expect.Equal(t, fmt.Sprintf("%s: stderr", tt.script), string(res.Stderr.Head), tt.err)
		expect.Equal(t, fmt.Sprintf("%s: res.TimedOut", tt.script), res.TimedOut, false)
		expect.Equal(t, fmt.Sprintf("%s: res.Canceled", tt.script), res.Canceled, false)
		expect.Equal(t, fmt.Sprintf("%s: res.Ended", tt.script), res.Ended, 0)
		expect.Equal(t, fmt.Sprintf("%s: res.Survivors", tt.script), res.Survivors, 0)
	}
}

func TestStartErrors(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	expect.NoError(t, os.WriteFile(plain, []byte("x"), 0o600))
	garbage := filepath.Join(dir, "garbage")
	expect.NoError(t, os.WriteFile(garbage, []byte("\x00not a program"), 0o700))
	env := Environ(os.Environ())
	tests := map[string]struct {
		cmd  Command
		op   string
		want error
	}{
		"nothing":       {Command{Dir: "/", Env: env}, "find", nil},
		"unknown":       {Command{Argv: []string{"no-such-program-here"}, Dir: "/", Env: env}, "find", fs.ErrNotExist},
		"no permission": {Command{Argv: []string{plain}, Dir: "/", Env: env}, "find", fs.ErrPermission},
		"not a program": {Command{Argv: []string{garbage}, Dir: "/", Env: env}, "start", syscall.ENOEXEC},
		"no directory":  {Command{Argv: []string{"true"}, Dir: dir + "/none", Env: env}, "start", fs.ErrNotExist},
		"argument bytes": {Command{Argv: []string{"true", strings.Repeat("x", 1<<20)}, Dir: "/", Env: env}, "start",
			syscall.E2BIG},
		"tree in PATH": {Command{Argv: []string{"garbage"}, Dir: dir, Env: []string{"PATH=.:"}}, "find",
			fs.ErrNotExist},
	}
	s := newTest(t)
	for name, tt := range tests {
		_, err := s.run(tt.cmd)
		se, ok := errors.AsType[*StartError](err)
		switch {
		case !ok:
			t.Errorf("%s: error %v, want %s with %v", name, err, tt.op, tt.want)
		case se.Op != tt.op:
			t.Errorf("%s: se.Op = %q, want %q", name, se.Op, tt.op)
		case tt.want != nil && !errors.Is(err, tt.want):
			t.Errorf("%s: tt.want != nil && !errors.Is(err, tt.want), want the contrary", name)
		}
	}
}

func TestDeadline(t *testing.T) {
	tests := map[string]struct {
		script string
		grace  time.Duration
		signal syscall.Signal
		out    string
	}{
		"obeys": {"echo begun; exec sleep 300", time.Minute, syscall.SIGTERM, "begun\n"},
		"ignores": {"trap '' TERM; echo begun; while :; do sleep 1; done", 50 * time.Millisecond,
			syscall.SIGKILL, "begun\n"},
		"cleans up": {"trap 'echo bye; exit 0' TERM; echo begun; while :; do sleep 0.01; done", time.Minute, 0,
			"begun\nbye\n"},
		"child cleans up": {`sh -c 'trap "sleep 0.2; echo child done; exit" TERM; while :; do sleep 0.01; ` +
			`done' & echo begun; wait; exit 1`, time.Minute, syscall.SIGTERM, "begun\nchild done\n"},
		"stopped":          {"echo begun; kill -STOP $$", time.Minute, syscall.SIGTERM, "begun\n"},
		"grandchild holds": {"setsid sleep 300 & echo begun; sleep 300", time.Minute, syscall.SIGTERM, "begun\n"},
	}
	s := newTest(t)
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := sh(tt.script)
			c.Timeout, c.Grace = 400*time.Millisecond, tt.grace
			res := run(t, s, c)
			if !res.TimedOut || res.Canceled {
				t.Errorf("timed out %v, canceled %v", res.TimedOut, res.Canceled)
			}
			expect.Equal(t, "signal", res.Signal, tt.signal)
			expect.Equal(t, "stdout", string(res.Stdout.Head), tt.out)
		})
	}
}

func TestCloseEndsCommands(t *testing.T) {
	s := New(Options{Exclusive: true})
	file := filepath.Join(t.TempDir(), "pid")
	c := sh("(setsid sleep 300 &); echo $$ >$F; exec sleep 300")
	c.Env = Environ(os.Environ(), "F="+file)
	results := make(chan Result, 1)
	go func() {
		res, err := s.run(c)
		if err != nil {
			t.Error(err)
		}
		results <- res
	}()
	for {
		if data, _ := os.ReadFile(file); len(data) > 0 {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	expect.NoError(t, s.Close())
	if res := <-results; !res.Canceled {
		t.Errorf("result %+v, want canceled", res)
	}
	nothingIsLeft(t)
	if _, err := s.run(sh("true")); !errors.Is(err, ErrClosed) {
		t.Errorf("run after close: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
}

// A command's leftovers are ended without touching those of another command that is still running.
func TestLiveCommandsKeepTheirOwn(t *testing.T) {
	s := newTest(t)
	dir := t.TempDir()
	wait := "w() { while [ ! -s $1 ]; do sleep 0.01; done; }\n"
	long := sh(wait + `(setsid sh -c 'echo $$ >$D/one; exec sleep 300' &)
		w $D/one; echo >$D/ready; w $D/finish; kill -0 $(cat $D/one) && echo still there`)
	long.Env = Environ(os.Environ(), "D="+dir)
	results := make(chan Result, 1)
	go func() {
		res, err := s.run(long)
		if err != nil {
			t.Error(err)
		}
		results <- res
	}()
	short := sh(wait + `w $D/ready; (sh -c 'echo $$ >$D/two; exec sleep 300' &); w $D/two`)
	short.Env = long.Env
	run(t, s, short)
	if alive(t, filepath.Join(dir, "two")) {
		t.Error("the short command's process lives on")
	}
	if !alive(t, filepath.Join(dir, "one")) {
		t.Error("the long command's process was ended with the short one")
	}
	expect.NoError(t, os.WriteFile(filepath.Join(dir, "finish"), []byte("x"), 0o600))
	if res := <-results; string(res.Stdout.Head) != "still there\n" {
		t.Errorf("stdout %q", res.Stdout.Head)
	}
	if alive(t, filepath.Join(dir, "one")) {
		t.Error("the long command's process lives on")
	}
}

// Exit codes survive a reaper that works next to many commands, each of which
// leaves orphans that end at any moment.
func TestExitCodesUnderReaping(t *testing.T) {
	s := newTest(t)
	each := 25
	if testing.Short() {
		each = 8
	}
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range each {
				want := w*25 + i
				c := sh(fmt.Sprintf("(setsid true &); (sleep 0.0%d &); (true &); exit %d", i%10, want))
				res, err := s.run(c)
				if err != nil || res.ExitCode != want || res.Signal != 0 {
					t.Errorf("exit code %d (%v), want %d", res.ExitCode, err, want)
				}
			}
		})
	}
	stop := make(chan struct{})
	var hammer sync.WaitGroup
	hammer.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				s.reapZombies()
			}
		}
	})
	wg.Wait()
	close(stop)
	hammer.Wait()
}
