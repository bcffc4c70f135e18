package process

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"holon/internal/durable"
	"holon/internal/procfs"
)

// idVariable is the variable by which processes name their command, where traces are recorded: a leader may be gone, or
// not be recorded yet, when this program is killed.
const idVariable = "HOLON_COMMAND_ID"

const (
	traceBytes = 256     // of a file, at least, so that the second record needs no more room than the first
	maxTrace   = 4 << 10 // bytes of a file
	maxTraces  = 4096    // that EndRecorded reads
)

// trace is recorded for a command so that a later program can find what is left of it after this one was killed. It
// holds no secret and is not trusted: see endStrays.
type trace struct {
	ID    string `json:"command_id"`    // of the command, which its processes have in their environment
	Boot  string `json:"boot_id"`       // of the kernel
	Space string `json:"pid_namespace"` // in which PID counts
	PID   int    `json:"pid"`           // of the leader, and of its session; 0: it has not started yet
	Start uint64 `json:"start_ticks"`   // when the leader started, in the kernel's clock
}

// place names the kernel and the pid namespace that this program runs in.
func place() (boot, space string) {
	boot, err := procfs.BootID()
	if err != nil {
		return "", ""
	}
	space, err = os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return "", ""
	}
	return boot, space
}

// trace returns the trace of a command that runs or is about to start.
func (p *Process) trace() trace {
	t := trace{ID: p.id}
	if st, err := procfs.ReadStat(p.pid); err == nil && p.pid != 0 {
		t.Boot, t.Space, t.PID, t.Start = p.s.boot, p.s.space, p.pid, st.Start
	}
	return t
}

// recordTrace writes the trace of a command to Options.Dir: before it starts, to have room for it, and again when it
// has a process. A command without its record must not start: nothing would end it after a SIGKILL of this program.
func (s *Supervisor) recordTrace(p *Process) error {
	if !s.records() {
		return nil
	}
	data, err := json.Marshal(p.trace())
	if err == nil {
		data = append(data, bytes.Repeat([]byte{' '}, max(0, traceBytes-len(data)))...)
		err = os.WriteFile(s.tracePath(p), data, 0o660)
	}
	if errors.Is(err, fs.ErrNotExist) { // the first command of all
		if err = os.MkdirAll(s.dir, 0o770); err == nil {
			err = os.WriteFile(s.tracePath(p), data, 0o660)
		}
	}
	if err != nil {
		s.forgetTrace(p) // half of it may be there
		return &StartError{"record", p.id, err}
	}
	return nil
}

// forgetTrace removes the trace of a command that has ended.
func (s *Supervisor) forgetTrace(p *Process) {
	if s.records() {
		_ = os.Remove(s.tracePath(p)) // a trace that stays finds nothing
	}
}

// records reports whether traces of commands are recorded. The kernel ends everything below PID 1 together with it, so
// that one needs no traces.
func (s *Supervisor) records() bool { return s.dir != "" && !s.first }

func (s *Supervisor) tracePath(p *Process) string { return filepath.Join(s.dir, p.id) }

// Strays counts what was left of commands.
type Strays struct {
	Ended     int // processes that were killed
	Survivors int // processes that could not be killed
}

// EndRecorded ends what is left of the commands whose traces other supervisors, which were killed, recorded in
// Options.Dir, and removes these traces. No other supervisor may be using the directory.
func (s *Supervisor) EndRecorded() (Strays, error) {
	entries, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return Strays{}, nil
	}
	if err != nil {
		return Strays{}, fmt.Errorf("read the traces of commands: %w", err)
	}
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return strings.HasPrefix(e.Name(), s.prefix) })
	var traces []trace
	for _, e := range entries[:min(len(entries), maxTraces)] {
		var t trace
		data, err := durable.ReadFile(filepath.Join(s.dir, e.Name()), maxTrace)
		if err == nil && json.Unmarshal(data, &t) == nil { // half a trace is of a command that never started
			traces = append(traces, t)
		}
	}
	left := endStrays(traces)
	for _, e := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(s.dir, e.Name())))
	}
	if err != nil {
		return left, fmt.Errorf("remove the traces of commands: %w", err)
	}
	return left, nil
}

// endStrays ends what is left of commands whose supervisor was killed. A process is taken for a stray only by evidence
// that no other process can have by accident: it has the id of a command in its environment, or it is the leader, by
// pid and time of start, or in the session of the living leader. A pid that is used again is not enough. This program
// and its ancestors are spared, and so is every process if the machine has been restarted or the pid namespace differs.
func endStrays(traces []trace) Strays {
	if len(traces) == 0 {
		return Strays{}
	}
	killed := make(map[birth]bool)
	deadline := time.Now().Add(killWait)
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		// Stopped, none forks or outlives its leader unseen.
		left := freeze(func() map[birth]procfs.Stat { return strays(traces) },
			func(st procfs.Stat) { signalExactly(st, unix.SIGSTOP) })
		if len(left) == 0 {
			return Strays{Ended: len(killed)}
		}
		for key, st := range left {
			killed[key] = true
			signalExactly(st, unix.SIGKILL)
		}
		if time.Now().After(deadline) {
			return Strays{Ended: len(killed) - len(left), Survivors: len(left)}
		}
		time.Sleep(pause)
	}
}

// strays lists the running processes that traces lead to.
func strays(traces []trace) map[birth]procfs.Stat {
	ids, leaders := make(map[string]bool), make(map[birth]bool)
	boot, space := place()
	for _, t := range traces {
		ids[t.ID] = t.ID != ""
		leaders[birth{t.PID, t.Start}] = boot != "" && t.Boot == boot && t.Space == space && t.PID > 1
	}
	all := procfs.All()
	sessions, parents := make(map[int]bool), make(map[int]int)
	for _, st := range all {
		parents[st.PID] = st.Parent
		if leaders[birth{st.PID, st.Start}] {
			sessions[st.PID] = true
		}
	}
	found := make(map[birth]procfs.Stat)
	for _, st := range all {
		if st.PID > 1 && st.Running() && (sessions[st.PID] || sessions[st.Session] ||
			ids[procfs.Environ(st.PID, idVariable)]) {
			found[birth{st.PID, st.Start}] = st
		}
	}
	ancestors := make(map[int]bool)
	for pid := os.Getpid(); pid > 0 && !ancestors[pid]; pid = parents[pid] {
		ancestors[pid] = true
	}
	maps.DeleteFunc(found, func(key birth, _ procfs.Stat) bool { return ancestors[key.pid] })
	return found
}
