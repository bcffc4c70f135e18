package procfs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// ReadStat returns the state of a process. The error wraps os.ErrNotExist when
// no process has this number.
func ReadStat(pid int) (Stat, error) {
	data, err := ReadFile("/proc/"+strconv.Itoa(pid)+"/stat", 4<<10)
	if errors.Is(err, syscall.ESRCH) { // it ended between open and read
		err = os.ErrNotExist
	}
	if err != nil {
		return Stat{}, fmt.Errorf("read the state of process %d: %w", pid, err)
	}
	return parseStat(pid, data)
}

// BootID identifies the present boot of the kernel.
func BootID() (string, error) {
	id, err := ReadFile("/proc/sys/kernel/random/boot_id", 128)
	if err != nil {
		return "", fmt.Errorf("read the boot ID: %w", err)
	}
	return strings.TrimSpace(string(id)), nil
}

// SinceBoot is the present time in the unit of Stat.Start.
func SinceBoot() uint64 {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &t) != nil {
		return 0
	}
	return uint64(t.Nano()) / (1_000_000_000 / ClockTicks)
}

// ReadFile reads a file of /proc up to limit. Such files have no size and cannot
// be polled, so plain system calls read them faster than package os does.
func ReadFile(path string, limit int) ([]byte, error) {
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
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
			return nil, &os.PathError{Op: "read", Path: path, Err: err}
		}
		if n <= 0 {
			break
		}
		buf = buf[:len(buf)+n]
	}
	return buf, nil
}
