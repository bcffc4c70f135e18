package process

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"holon/internal/durable"
)

// idVariable is the variable by which processes name their command, where traces are recorded: a leader may be gone, or
// not be recorded yet, when this program is killed.
const idVariable = "HOLON_COMMAND_ID"

const (
	traceBytes = 256     // of a file, at least, so that the second record needs no more room than the first
	maxTrace   = 4 << 10 // bytes of a file
	maxTraces  = 4096    // that EndRecorded reads
)

// recordTrace writes the trace of a command to Options.Dir: before it starts, to have room for it, and again when it
// has a process. A command without its record must not start: nothing would end it after a SIGKILL of this program.
func (s *Supervisor) recordTrace(p *Process) error {
	if !s.records() {
		return nil
	}
	t := Trace{ID: p.id}
	if p.pid != 0 {
		t = p.Trace()
	}
	data, err := json.Marshal(t)
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

// EndRecorded ends what is left of the commands whose traces other supervisors, which were killed, recorded in
// Options.Dir, and removes these traces. No other supervisor may be using the directory.
func (s *Supervisor) EndRecorded() (sum Strays, err error) {
	entries, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return sum, nil
	}
	if err != nil {
		return sum, fmt.Errorf("read the traces of commands: %w", err)
	}
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return strings.HasPrefix(e.Name(), s.prefix) })
	var traces []Trace
	for _, e := range entries[:min(len(entries), maxTraces)] {
		var t Trace
		data, err := durable.ReadFile(filepath.Join(s.dir, e.Name()), maxTrace)
		if err == nil && json.Unmarshal(data, &t) == nil { // half a trace is of a command that never started
			traces = append(traces, t)
		}
	}
	for _, n := range EndStrays(traces) {
		sum.Ended += n.Ended
		sum.Survivors += n.Survivors
	}
	for _, e := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(s.dir, e.Name())))
	}
	if err != nil {
		return sum, fmt.Errorf("remove the traces of commands: %w", err)
	}
	return sum, nil
}
