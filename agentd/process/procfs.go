package process

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// procStat is the part of /proc/<pid>/stat that decides on ownership.
type procStat struct {
	pid, ppid, pgrp, session int
	state                    byte   // 'Z' is a zombie
	start                    uint64 // clock ticks since boot
}

// kernelTicks is the time since boot in the unit of a process's start.
func kernelTicks() uint64 {
	const hz = 100 // the unit that the kernel shows to programs
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &t) != nil {
		return 0
	}
	return uint64(t.Nano()) / (1_000_000_000 / hz)
}

func readStat(pid int) (procStat, error) {
	data, err := readProc("/proc/"+strconv.Itoa(pid)+"/stat", 4<<10)
	if err != nil {
		return procStat{}, err
	}
	return parseStat(pid, data)
}

// parseStat reads a stat line. The program's name is in parentheses and may hold anything, parentheses and newlines
// included, so fields count from the last one.
func parseStat(pid int, data []byte) (procStat, error) {
	bad := errors.New("malformed stat line")
	end := bytes.LastIndexByte(data, ')')
	if end < 0 {
		return procStat{}, bad
	}
	f := strings.Fields(string(data[end+1:]))
	if len(f) < 20 || len(f[0]) != 1 {
		return procStat{}, bad
	}
	st := procStat{pid: pid, state: f[0][0]}
	var err1, err2, err3, err4 error
	st.ppid, err1 = strconv.Atoi(f[1])
	st.pgrp, err2 = strconv.Atoi(f[2])
	st.session, err3 = strconv.Atoi(f[3])
	st.start, err4 = strconv.ParseUint(f[19], 10, 64)
	if errors.Join(err1, err2, err3, err4) != nil {
		return procStat{}, bad
	}
	return st, nil
}

// scan lists every process that is visible, about 6 µs each.
func scan() []procStat {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	var all []procStat
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if st, err := readStat(pid); err == nil {
			all = append(all, st)
		}
	}
	return all
}

// ownChildren lists our children without scanning all processes. ok is false if the kernel was built without these files.
func ownChildren() (pids []int, ok bool) {
	tasks, err := os.Open("/proc/self/task")
	if err != nil {
		return nil, false
	}
	defer tasks.Close()
	names, _ := tasks.Readdirnames(-1)
	for _, tid := range names {
		of, ok := childrenOf(tid)
		if !ok {
			if _, gone := os.Stat("/proc/self/task/" + tid); gone != nil {
				continue // the thread ended in between
			}
			return nil, false
		}
		pids = append(pids, of...)
	}
	return pids, true
}

// adopted lists the children of our first thread: those that it started itself and all that were re-parented to us. The
// kernel gives orphans to the first thread of a process that has not ended, and that of a Go program never ends. This
// saves reading a file for every thread, of which there may be dozens.
func adopted() (pids []int, ok bool) { return childrenOf(strconv.Itoa(os.Getpid())) }

// childrenOf lists the children of one of our threads.
func childrenOf(tid string) (pids []int, ok bool) {
	data, err := readProc("/proc/self/task/"+tid+"/children", 1<<20)
	if err != nil {
		return nil, false
	}
	for f := range strings.FieldsSeq(string(data)) {
		if pid, err := strconv.Atoi(f); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids, true
}

// readProc reads a file of /proc up to limit. These files have no size and cannot be polled, so it uses plain system
// calls.
func readProc(path string, limit int) ([]byte, error) {
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer syscall.Close(fd)
	buf := make([]byte, 0, 512)
	for len(buf) < limit {
		if len(buf) == cap(buf) {
			buf = append(buf, 0)[:len(buf)]
		}
		n, err := syscall.Read(fd, buf[len(buf):min(cap(buf), limit)])
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		if n <= 0 {
			break
		}
		buf = buf[:len(buf)+n]
	}
	return buf, nil
}
