package files

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// takeLock locks the open file, or fails at once with EAGAIN or EACCES.
func takeLock(f *os.File) error { return unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, wholeFile()) }

func isLocked(f *os.File) (bool, error) {
	lock := wholeFile()
	err := unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, lock)
	return lock.Type != unix.F_UNLCK, err
}

func wholeFile() *unix.Flock_t {
	return &unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
}
