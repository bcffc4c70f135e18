package process

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"math"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"holon/internal/procfs"
)

// A mark identifies the processes of a command, also those that left its session, cleared their environment and lost
// their parents. It is a resource limit that limits nothing: the time a real-time process may run without a system
// call, set to more than a hundred thousand years. Every descendant inherits it across exec, /proc shows it, and it can
// be lowered by any process but raised only with CAP_SYS_RESOURCE. The supervisor lowers its own limit by a random step
// before each fork, so the command's leader is born with a number that no other command has.
//
// A process that lowers its limit on purpose to that of a later command is taken for one of that command's; so is, with
// the capability, one that raises it. Neither happens by accident.
type mark uint64

// forking is held from lowering this program's limit to the fork. The limit belongs to the program, not to a
// supervisor.
var forking sync.Mutex

// maxMark is the first mark below infinity, in microseconds; maxStep leaves room for tens of millions of commands.
const (
	maxMark mark = 1 << 62
	maxStep      = 1 << 36
)

// nextMark gives this program, and so its next child, a new mark. It returns 0 if that is not possible. The caller
// holds forking.
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
		return 0 // the limit is meant as one, or all marks are used up
	}
	m -= step
	if unix.Prlimit(0, unix.RLIMIT_RTTIME, &unix.Rlimit{Cur: uint64(m), Max: uint64(m)}, nil) != nil {
		return 0
	}
	return m
}

// readMark returns the mark of a process, or 0.
func readMark(pid int) mark {
	data, err := procfs.ReadFile("/proc/"+strconv.Itoa(pid)+"/limits", 8<<10)
	if err != nil {
		return 0
	}
	return parseMark(data)
}

// parseMark finds the hard limit in the table of /proc/<pid>/limits.
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
