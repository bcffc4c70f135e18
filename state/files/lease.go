package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"holon/internal/folder"
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

// retakeLease locks the lease of a run that another process made. It returns nil without an error when some process
// holds it.
func retakeLease(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = folder.ErrNotRegular
	}
	if err == nil {
		err = takeLock(f)
	}
	switch {
	case err == nil:
		return f, nil
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EACCES):
		return nil, f.Close()
	}
	return nil, fmt.Errorf("take the run's lease: %w", errors.Join(err, f.Close()))
}

// leaseHeld reports whether a process holds the lease in d, and when its holder
// was last seen alive. Without a lease the answer is no.
func leaseHeld(d folder.Dir) (held bool, seen time.Time, err error) {
	f, st, err := d.OpenFile(state.LeaseFile)
	if errors.Is(err, fs.ErrNotExist) {
		return false, time.Time{}, nil
	}
	if err != nil {
		return false, time.Time{}, err
	}
	defer f.Close()
	seen = time.Unix(st.Mtim.Unix())
	if held, err = isLocked(f); err != nil {
		return false, seen, fmt.Errorf("ask for the lock: %w", err)
	}
	return held, seen, nil
}
