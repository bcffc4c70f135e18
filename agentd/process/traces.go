package process

import (
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

// maxTrace bounds the file of a trace, maxTraces how many EndRecorded reads.
const (
	maxTrace  = 4 << 10
	maxTraces = 4096
)

// recordTrace writes the trace of a command that is about to start to Options.Dir. There is no process yet, so the mark
// alone identifies it. A command without its record must not start: nothing would end it after a SIGKILL of this
// program.
func (s *Supervisor) recordTrace(p *Process) error {
	if !s.records(p) {
		return nil
	}
	data, err := json.Marshal(Trace{Boot: s.boot, Space: s.space, Start: p.start, Mark: uint64(p.mark)})
	if err == nil {
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
	if s.records(p) {
		_ = os.Remove(s.tracePath(p)) // a trace that stays finds nothing
	}
}

// records reports whether the trace of a command is recorded. The kernel ends everything below PID 1 together
// with it, so that one needs no traces.
func (s *Supervisor) records(p *Process) bool { return s.dir != "" && p.mark != 0 && !s.first }

func (s *Supervisor) tracePath(p *Process) string { return filepath.Join(s.dir, p.id) }

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
	var traces []Trace
	for _, e := range entries[:min(len(entries), maxTraces)] {
		var t Trace
		data, err := durable.ReadFile(filepath.Join(s.dir, e.Name()), maxTrace)
		if err == nil && json.Unmarshal(data, &t) == nil { // half a trace is of a command that never started
			traces = append(traces, t)
		}
	}
	var sum Strays
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
