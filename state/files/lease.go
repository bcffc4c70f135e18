package files

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"holon/state"
)

// takeLease makes the file and locks it for this process. The lock belongs to
// the open file, so the kernel drops it when the process ends, however it does,
// and programs it starts don't keep it. Unlike flock(2), whether such a lock is
// held can be asked without taking one, so looking disturbs nobody.
func takeLease(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("make the run's lease: %w", err)
	}
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, wholeFile()); err != nil {
		return nil, errors.Join(fmt.Errorf("take the run's lease: %w", err), f.Close())
	}
	return f, nil
}

// leaseHeld reports whether a process holds the lease in dir.
func leaseHeld(dir *os.File) (bool, error) {
	f, _, err := openRegular(dir, state.LeaseFile)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	lock := wholeFile()
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, lock); err != nil {
		return false, fmt.Errorf("ask for the lock: %w", err)
	}
	return lock.Type != unix.F_UNLCK, nil
}

func wholeFile() *unix.Flock_t {
	return &unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
}
