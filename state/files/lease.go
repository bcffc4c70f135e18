package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"holon/state"
)

// takeLease makes the file and locks it for this process. The lock belongs to
// the open file, so the kernel drops it when the process ends, however it does,
// and programs it starts don't keep it. Unlike flock(2), whether such a lock is
// held can be asked without taking one, so that looking disturbs no holder.
func takeLease(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("make the run's lease: %w", err)
	}
	if err := takeLock(f); err != nil {
		return nil, errors.Join(fmt.Errorf("take the run's lease: %w", err), f.Close())
	}
	return f, nil
}

// retakeLease locks the lease of a run that another process made, in its open
// directory. It returns nil without an error when some process holds it.
func retakeLease(dir *os.File) (*os.File, error) {
	f, err := openAt(dir, state.LeaseFile, unix.O_RDWR)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errNotRegular
	}
	if err == nil {
		err = takeLock(f)
	}
	if err != nil {
		closeErr := f.Close()
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
			return nil, closeErr
		}
		return nil, fmt.Errorf("take the run's lease: %w", errors.Join(err, closeErr))
	}
	return f, nil
}

// leaseHeld reports whether a process holds the lease in dir, and when its
// holder last said that it lives. Without a lease the answer is no.
func leaseHeld(dir *os.File) (held bool, seen time.Time, err error) {
	f, info, err := openRegular(dir, state.LeaseFile)
	if errors.Is(err, fs.ErrNotExist) {
		return false, time.Time{}, nil
	}
	if err != nil {
		return false, time.Time{}, err
	}
	defer f.Close()
	if held, err = isLocked(f); err != nil {
		return false, info.ModTime(), fmt.Errorf("ask for the lock: %w", err)
	}
	return held, info.ModTime(), nil
}
