package procfs

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"holon/test/expect"
)

// A program chooses its own name in /proc/PID/stat.
func TestParseStat(t *testing.T) {
	const fields = "11 12 13 0 -1 0 0 0 0 0 7 8 0 0 20 0 1 0 4242 0 0"
	for name, tc := range map[string]struct {
		line  string
		state byte // 0: malformed
	}{
		"plain":       {"12 (cat) S " + fields, 'S'},
		"parentheses": {"12 (a) R 1 (b)) Z " + fields, 'Z'},
		"newline":     {"12 (a\n) S 0) R " + fields, 'R'},
		"short":       {"12 (cat) S 1 2 3", 0},
		"no name":     {"12 cat S " + fields, 0},
		"no number":   {"12 (cat) S " + strings.Replace(fields, "4242", "x", 1), 0},
		"long state":  {"12 (cat) SS " + fields, 0},
		"empty":       {"", 0},
	} {
		want := Stat{PID: 12, Parent: 11, Group: 12, Session: 13, State: tc.state, Threads: 1, Start: 4242, CPU: 15}
		if tc.state == 0 {
			want = Stat{}
		}
		got, err := parseStat(12, []byte(tc.line))
		expect.Equal(t, name, got, want)
		if malformed := errors.Is(err, errMalformed); malformed != (tc.state == 0) {
			t.Errorf("%s: got the error %v", name, err)
		}
	}
}

func TestRunning(t *testing.T) {
	for st, want := range map[Stat]bool{{State: 'S', Threads: 1}: true, {State: 'Z', Threads: 1}: false,
		{State: 'Z'}: false, {State: 'Z', Threads: 2}: true, {State: 'X', Threads: 2}: false} {
		if got := st.Running(); got != want {
			t.Errorf("%c with %d threads runs: %v, want %v", st.State, st.Threads, got, want)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("1 (sh) S 0 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 42 1000"))
	f.Add([]byte("1 (a) Z 9 (b) R 7 8 9 0 -1 0 1 2 3 4 5 6 7 8 20 0 1 0 43 1"))
	f.Add([]byte(")))((("))
	f.Add([]byte("1 () "))
	f.Fuzz(func(t *testing.T, data []byte) {
		st, err := parseStat(1, data)
		if err != nil {
			return
		}
		expect.Equal(t, "got the number", st.PID, 1)
		if st.State == 0 {
			t.Error("got neither a state nor an error")
		}
	})
}

func TestOwnProcess(t *testing.T) {
	st, err := ReadStat(os.Getpid())
	expect.NoError(t, err)
	expect.Equal(t, "parent", st.Parent, os.Getppid())
	if now := SinceBoot(); st.Start == 0 || st.Start > now {
		t.Errorf("start: got %d, want one from 1 to %d", st.Start, now)
	}
	if !slices.ContainsFunc(All(), func(s Stat) bool { return s.PID == st.PID && s.Start == st.Start }) {
		t.Error("All lacks this process")
	}
	if p, err := Identify(os.Getpid()); err != nil || !p.Running() {
		t.Errorf("this process does not run: %+v, %v", p, err)
	}
}

// A process is told from every other one that has, had or will have its number.
func TestProcessIsNotMistaken(t *testing.T) {
	cmd := exec.Command("sleep", "600")
	expect.NoError(t, cmd.Start())
	p, err := Identify(cmd.Process.Pid)
	expect.NoError(t, err)
	for _, other := range []Process{{p.PID, p.Start + 1, p.Boot}, {p.PID, p.Start, "another boot"}, {PID: p.PID}} {
		if other.Running() {
			t.Errorf("%+v runs", other)
		}
		if err := other.Signal(syscall.SIGKILL); !errors.Is(err, ErrOther) {
			t.Errorf("signal to %+v: got %v, want %v", other, err, ErrOther)
		}
	}
	for _, none := range []Process{{}, {PID: -p.PID, Start: p.Start, Boot: p.Boot}} {
		if err := none.Signal(syscall.SIGKILL); err == nil {
			t.Errorf("signal to %+v: got no error", none)
		}
	}
	if !p.Running() {
		t.Fatal("the process got a signal that was for another one")
	}
	expect.NoError(t, p.Signal(syscall.SIGTERM))
	for stat := (Stat{State: 'R'}); stat.Running(); {
		if stat, err = ReadStat(p.PID); err != nil {
			t.Fatal(err)
		}
	}
	if p.Running() {
		t.Error("a zombie runs")
	}
	if again, err := Identify(p.PID); err != nil || again != p {
		t.Errorf("identity of the zombie: got %+v, %v, want %+v", again, err, p)
	}
	_ = cmd.Wait() // it was signalled
	expect.ErrorIs(t, "signal to a process that ended", p.Signal(syscall.SIGTERM), os.ErrProcessDone)
	if _, err := ReadStat(p.PID); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("stat of a process that ended: got %v, want %v", err, os.ErrNotExist)
	}
}

func TestBootID(t *testing.T) {
	id, err := BootID()
	if err != nil || len(id) != 36 {
		t.Errorf("got %q, %v, want a UUID", id, err)
	}
}
