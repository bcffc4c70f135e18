package local

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// identity names one process for ever: its number, when it started (clock
// ticks since boot) and which boot that was.
type identity struct {
	PID   int    `json:"pid"`
	Ticks uint64 `json:"start_ticks"`
	Boot  string `json:"boot_id"`
}

func identify(pid int) (*identity, error) {
	boot, err := bootID()
	if err != nil {
		return nil, err
	}
	ticks, _, err := stat(pid)
	if err != nil {
		return nil, err
	}
	return &identity{PID: pid, Ticks: ticks, Boot: boot}, nil
}

// alive reports whether the process runs; a zombie does not.
func (p *identity) alive() bool {
	now, err := identify(p.PID)
	if err != nil || *now != *p {
		return false
	}
	_, state, err := stat(p.PID)
	return err == nil && state != 'Z' && state != 'X'
}

// signal sends sig to the process if it is still the same one. The descriptor
// is opened before the check, so the number cannot change hands in between.
func (p *identity) signal(sig syscall.Signal) {
	fd, err := unix.PidfdOpen(p.PID, 0)
	if err != nil {
		return // gone
	}
	defer unix.Close(fd)
	if p.alive() {
		_ = unix.PidfdSendSignal(fd, sig, nil, 0) // it may be gone by now
	}
}

// stat reads start time and state from /proc/<pid>/stat.
func stat(pid int) (ticks uint64, state byte, err error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, err
	}
	return parseStat(data)
}

// parseStat takes the fields after the command name, which is in parentheses
// and may hold anything, further parentheses included.
func parseStat(data []byte) (ticks uint64, state byte, err error) {
	const startField = 19 // field 22 of proc(5), counted from the state
	end := bytes.LastIndexByte(data, ')')
	fields := strings.Fields(string(data[end+1:]))
	if end < 0 || len(fields) <= startField || len(fields[0]) != 1 {
		return 0, 0, errors.New("malformed /proc/<pid>/stat")
	}
	ticks, err = strconv.ParseUint(fields[startField], 10, 64)
	return ticks, fields[0][0], err
}

func bootID() (string, error) {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(data)), err
}

// marked is a process that carries the environment of a program.
type marked struct {
	pid    int
	id     string
	labels map[string]string
}

// findMarked looks at all processes that this user may look at.
func findMarked() []marked {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var found []marked
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if m, ok := readMark(pid); ok {
			found = append(found, m)
		}
	}
	return found
}

func readMark(pid int) (marked, bool) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return marked{}, false
	}
	m := marked{pid: pid}
	for pair := range bytes.SplitSeq(data, []byte{0}) {
		key, value, _ := bytes.Cut(pair, []byte{'='})
		switch string(key) {
		case idVariable:
			m.id = string(value)
		case labelsVariable:
			if json.Unmarshal(value, &m.labels) != nil {
				m.labels = nil // the program changed it: found by ID only
			}
		}
	}
	return m, m.id != ""
}

// killMarked kills every process with the mark id, until a look finds none: a
// process may fork while its siblings are being killed.
func killMarked(id string) {
	for range 100 {
		found := false
		for _, m := range findMarked() {
			if m.id == id {
				found = killIfMarked(m) || found
			}
		}
		if !found {
			return
		}
	}
}

// killIfMarked looks again through a descriptor, so that the process that is
// killed is the one that has the mark. It reports whether it killed.
func killIfMarked(m marked) bool {
	fd, err := unix.PidfdOpen(m.pid, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	if again, ok := readMark(m.pid); !ok || again.id != m.id {
		return false
	}
	return unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) == nil
}
