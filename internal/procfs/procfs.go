// Package procfs reads /proc: the state of processes, and what identifies one of
// them for longer than its number does. It keeps nothing between calls. macOS has
// no /proc: there the kernel is asked, and only for what identifies a process.
package procfs

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"strings"
)

// ClockTicks is the number of ticks in a second in which /proc gives times. The
// kernel shows this value to programs, whatever its own timer runs at.
const ClockTicks = 100

// Stat is what /proc/PID/stat says about a process.
type Stat struct {
	PID, Parent, Group, Session int
	State                       byte   // of the first thread, as ps shows it: 'R', 'S', 'Z' and so on
	Threads                     int    // that have not exited, and the first one
	Start                       uint64 // clock ticks from boot to the start of the process; on macOS µs since 1970
	CPU                         uint64 // clock ticks of processor time, of user and system
}

// Running reports whether the process has not exited. A zombie has: it only
// waits for its parent. But the first thread of a process alone may have exited.
func (s Stat) Running() bool { return s.State != 'X' && (s.State != 'Z' || s.Threads > 1) }

var errMalformed = errors.New("malformed /proc/PID/stat")

// parseStat reads a line of proc(5). The second field is the program's name in
// parentheses, which may itself hold parentheses and newlines, so fields are
// counted from the last parenthesis.
func parseStat(pid int, data []byte) (Stat, error) {
	end := bytes.LastIndexByte(data, ')')
	if end < 0 {
		return Stat{}, errMalformed
	}
	const state, start = 3, 22 // proc(5) counts from 1
	f := strings.Fields(string(data[end+1:]))
	if len(f) <= start-state || len(f[0]) != 1 {
		return Stat{}, errMalformed
	}
	st := Stat{PID: pid, State: f[0][0]}
	var user, system uint64
	var errs [7]error
	st.Parent, errs[0] = strconv.Atoi(f[4-state])
	st.Group, errs[1] = strconv.Atoi(f[5-state])
	st.Session, errs[2] = strconv.Atoi(f[6-state])
	user, errs[3] = strconv.ParseUint(f[14-state], 10, 64)
	system, errs[4] = strconv.ParseUint(f[15-state], 10, 64)
	st.Start, errs[5] = strconv.ParseUint(f[start-state], 10, 64)
	st.Threads, errs[6] = strconv.Atoi(f[20-state])
	if errors.Join(errs[:]...) != nil {
		return Stat{}, errMalformed
	}
	st.CPU = user + system
	return st, nil
}

// PIDs lists the processes that are visible.
func PIDs() []int {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1) // what could be read is the answer
	pids := make([]int, 0, len(names))
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// All returns the state of every process that is visible. It costs about 6 µs
// for each.
func All() []Stat {
	var all []Stat
	for _, pid := range PIDs() {
		if st, err := ReadStat(pid); err == nil { // else it has just ended
			all = append(all, st)
		}
	}
	return all
}

// Environ returns a variable of the environment that a process began with, "" when it has none or may not be looked at.
func Environ(pid int, name string) string {
	data, err := ReadFile("/proc/"+strconv.Itoa(pid)+"/environ", 1<<20)
	if err != nil {
		return ""
	}
	for pair := range strings.SplitSeq(string(data), "\x00") {
		if value, ok := strings.CutPrefix(pair, name+"="); ok {
			return value
		}
	}
	return ""
}
