package process

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"math"
	"strconv"

	"golang.org/x/sys/unix"
)

// A mark is how a process is known that has left its session, cleared its
// environment and lost its parents. It is a resource limit that limits nothing:
// the time a real-time process may run without a system call, set to a hundred
// thousand years and a bit. Every descendant inherits it, whatever it executes;
// /proc shows it; and it can be lowered by anyone but raised only with
// CAP_SYS_RESOURCE. So the supervisor lowers its own limit by a random step
// before each fork, and the command's leader is born with a number that no other
// command has.
//
// A process that lowers its limit on purpose to that of a later command passes
// for one of that command's; so does, with the capability, one that raises it.
// Nothing does this by accident, and a control group sees through both.
//
// The limit is this program's only one, so marks are made only by a supervisor
// that has the program to itself.
type mark uint64

// maxMark is the first mark below infinity, in microseconds; maxStep leaves room
// for some hundred million commands, one inside another.
const (
	maxMark mark = 1 << 62
	maxStep      = 1 << 36
)

// nextMark gives this program, and so its next child, a mark of its own. It
// returns 0 where that is not possible. The caller holds starting for writing,
// or is the only one to fork.
func nextMark() mark {
	var limit unix.Rlimit
	if unix.Prlimit(0, unix.RLIMIT_RTTIME, nil, &limit) != nil {
		return 0
	}
	var b [8]byte
	rand.Read(b[:]) // never fails
	step := 1 + mark(binary.LittleEndian.Uint64(b[:])%maxStep)
	m := min(mark(limit.Max), maxMark)
	if m <= maxMark/2 {
		return 0 // somebody means this limit, or all marks are used up
	}
	m -= step
	if unix.Prlimit(0, unix.RLIMIT_RTTIME, &unix.Rlimit{Cur: uint64(m), Max: uint64(m)}, nil) != nil {
		return 0
	}
	return m
}

// readMark returns the mark of a process, or 0.
func readMark(pid int) mark {
	data, err := readProc("/proc/"+strconv.Itoa(pid)+"/limits", 8<<10)
	if err != nil {
		return 0
	}
	return parseMark(data)
}

// parseMark finds the hard limit in the table that /proc/<pid>/limits is.
func parseMark(limits []byte) mark {
	_, rest, found := bytes.Cut(limits, []byte("Max realtime timeout "))
	if !found {
		return 0
	}
	line, _, _ := bytes.Cut(rest, []byte{'\n'})
	fields := bytes.Fields(line)
	if len(fields) < 2 {
		return 0
	}
	n, err := strconv.ParseUint(string(fields[1]), 10, 64)
	if err != nil || n > math.MaxInt64 {
		return 0 // "unlimited"
	}
	return mark(n)
}
