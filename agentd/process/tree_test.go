package process

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"holon/internal/procfs"
	"holon/test/expect"
)

// Each script leaves a process behind and says its pid in a file. None of them
// may live when Run returns, even if it tried to hide.
func TestNothingOutlivesACommand(t *testing.T) {
	self, err := os.Executable()
	expect.NoError(t, err)
	tests := map[string]string{
		"background":        `sleep 300 & echo $! >$F`,
		"holds the pipe":    `(sleep 300; echo late) & echo $! >$F`,
		"nohup":             `nohup sleep 300 >/dev/null 2>&1 & echo $! >$F`,
		"setsid":            `setsid sh -c 'echo $$ >$F; exec sleep 300' & wait_for_file`,
		"double fork":       `(setsid sh -c '(echo $$ >$F; exec sleep 300) &' &) ; wait_for_file`,
		"double setsid":     `setsid sh -c 'setsid sh -c "echo \$\$ >$F; exec sleep 300" &' & wait_for_file`,
		"no environment":    `env -i F=$F setsid sh -c 'echo $$ >$F; exec sleep 300' >/dev/null 2>&1 & wait_for_file`,
		"forged id":         `HOLON_COMMAND_ID=someone-else setsid sh -c 'echo $$ >$F; exec sleep 300' & wait_for_file`,
		"ignores SIGTERM":   `sh -c 'trap "" TERM HUP; echo $$ >$F; while :; do sleep 1; done' & wait_for_file`,
		"stopped":           `setsid sh -c 'echo $$ >$F; kill -STOP $$' & wait_for_file`,
		"leaves a child":    `setsid sh -c 'sleep 300 & echo $! >$F; exec sleep 300' & wait_for_file`,
		"writes for ever":   `setsid sh -c 'echo $$ >$F; exec yes' & wait_for_file`,
		"leader is killed":  `sleep 300 & echo $! >$F; kill -9 $$`,
		"no first thread":   headlessVar + `=$F setsid $SELF & wait_for_file`,
		"forks incessantly": `setsid sh -c 'echo $$ >$F; while :; do (sleep 60 &) ; sleep 0.01; done' & wait_for_file`,
	}
	s := newTest(t)
	for name, script := range tests {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "pid")
			c := sh("wait_for_file() { while [ ! -s $F ]; do sleep 0.01; done; }\n" + script)
			c.Env = Environ(os.Environ(), "F="+file, "SELF="+self)
			res := run(t, s, c)
			if alive(t, file) {
				t.Error("the process lives on")
			}
			if res.Ended == 0 || res.Survivors != 0 {
				t.Errorf("ended %d, survivors %d", res.Ended, res.Survivors)
			}
			nothingIsLeft(t)
		})
	}
}

// hide starts what follows in a session of its own, without environment and
// without parents, and waits until its pid is in the file $1.
const hide = `hide() {
	(env -i setsid sh -c 'echo $$ >'$1'; exec sleep 300' >/dev/null 2>&1 &)
	while [ ! -s $1 ]; do sleep 0.01; done; }
`

// A process that hid everything ends with the last of the commands that ran when it was born, so that none that belongs
// to another command is ended.
func TestHiddenAmongOthers(t *testing.T) {
	s := newTest(t)
	dir := t.TempDir()
	task := func(name string) *Process {
		c := sh(hide + "hide $D/" + name + "; echo up; exec sleep 300")
		c.Env = Environ(os.Environ(), "D="+dir)
		p := start(t, s, c)
		awaitOutput(t, p, "up")
		return p
	}
	older, younger := task("older"), task("younger")
	younger.Stop(0)
	if younger.Result(); !alive(t, dir+"/younger") || !alive(t, dir+"/older") {
		t.Error("what may belong to another command was ended")
	}
	older.Stop(0)
	older.Result()
	for _, name := range []string{"older", "younger"} {
		if alive(t, dir+"/"+name) {
			t.Errorf("the hidden process of %q lives on", name)
		}
	}
}

// Stop reaches every process with SIGTERM, not only those of the group, and
// gives each of them the grace.
func TestStopAsksTheWholeTree(t *testing.T) {
	s := newTest(t)
	c := sh(`setsid sh -c 'trap "sleep 0.1; echo put away; exit" TERM; echo up; while :; do sleep 0.01; ` +
		`done' & wait`)
	c.Grace = time.Minute
	p := start(t, s, c)
	awaitOutput(t, p, "up")
	p.Stop(0)
	p.Stop(time.Nanosecond) // changes nothing
	res := p.Result()
	switch {
	case !res.Stopped:
		t.Error("res.Stopped = false, want true")
	case res.TimedOut:
		t.Error("res.TimedOut = true, want false")
	case res.Canceled:
		t.Error("res.Canceled = true, want false")
	case !strings.HasSuffix(string(res.Stdout.Head), "put away\n"):
		t.Errorf("string(res.Stdout.Head) = %q, want it to end with %q", string(res.Stdout.Head), "put away\n")
	}
}

// Kill insists where Stop was patient.
func TestKillAfterStop(t *testing.T) {
	s := newTest(t)
	p := start(t, s, sh("trap '' TERM; echo up; while :; do sleep 0.01; done"))
	awaitOutput(t, p, "up")
	p.Stop(time.Hour)
	p.Kill()
	p.Kill()
	if res := p.Result(); !res.Stopped || res.ExitCode != 137 {
		t.Errorf("%+v", res)
	}
	p.Stop(0) // of a process that is gone
	p.Kill()
}

// A bomb that forks into ever new sessions as fast as it can is put out, and
// nothing of it is left.
func TestForkBomb(t *testing.T) {
	size := 150
	if testing.Short() {
		size = 40
	}
	uid := 100_000 + rand.IntN(1_000_000) // of no other process, so that only the bomb counts against the limit
	bombs := map[string]string{
		"one group": `bomb() { while [ -e $F ]; do bomb & bomb & wait; done; }; bomb 2>/dev/null`,
		"sessions":  `eval "$B"`,
	}
	s := newTest(t)
	for name, script := range bombs {
		t.Run(name, func(t *testing.T) {
			dir, err := os.MkdirTemp("", "bomb")
			expect.NoError(t, err)
			t.Cleanup(func() { _ = os.RemoveAll(dir) })
			file := filepath.Join(dir, "fuse")
			expect.NoError(t, errors.Join(os.Chmod(dir, 0o755), os.WriteFile(file, nil, 0o644)))
			// As another user, whose processes are limited here as they are in
			// a container; without the fuse the bomb goes out by itself.
			c := sh("")
			c.Argv = []string{"setpriv", "--reuid", strconv.Itoa(uid), "--clear-groups", "prlimit",
				"--nproc=" + strconv.Itoa(size), "sh", "-c", script}
			c.Env = Environ(os.Environ(), "F="+file, `B=while [ -e $F ]; do setsid -f sh -c "$B" 2>/dev/null; done`)
			p := start(t, s, c)
			for !isClosed(p.exited) && len(descendants()) < size*2/3 {
				time.Sleep(time.Millisecond)
			}
			p.Kill()
			res := p.Result()
			if res.Survivors != 0 { // a shell that cannot fork may have ended by itself
				t.Errorf("%+v", res)
			}
			nothingIsLeft(t)
		})
	}
}

// The dead of another command that runs are no reason to look for what is left of a command once more.
func TestDeadOfAnotherCommand(t *testing.T) {
	s := newTest(t)
	p := start(t, s, sh("exec sleep 300"))
	other := start(t, s, sh("while :; do setsid -f true; done"))
	isDead := func(st procfs.Stat) bool { return !st.Running() }
	for dead := false; !dead; time.Sleep(time.Millisecond) {
		s.starting.Lock() // nobody else reaps them
		if dead = slices.ContainsFunc(descendants(), isDead); dead {
			if left, reaped := s.leftovers(p, nil); reaped || len(left) > 0 {
				t.Errorf("of the command: reaped %v, left %v", reaped, left)
			}
		}
		s.starting.Unlock()
	}
	for _, c := range []*Process{p, other} {
		c.Kill()
		c.Result()
	}
}

// nothingIsLeft fails the test when a descendant lives on. On a busy machine one that was killed takes its time to die,
// and a dead one waits for the supervisor to reap it. A bomb that was missed goes on forking.
func nothingIsLeft(t *testing.T) {
	t.Helper()
	left := descendants()
	for looks := 0; len(left) > 0 && looks < 500; looks++ { // not by the clock: a look may take half a second
		time.Sleep(5 * time.Millisecond)
		left = descendants()
	}
	if len(left) > 0 {
		living := slices.IndexFunc(left, func(st procfs.Stat) bool { return st.Running() })
		t.Errorf("%d processes are left, the first that lives has index %d: %+v", len(left), living, left)
	}
}
