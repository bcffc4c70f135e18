package files

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// flock locks the open file as takeLock does, where the system has no F_OFD_SETLK. Only flocked locks it shared, for a
// moment: the lock is tried again then, so that a question is not taken for a holder.
func flock(f *os.File) error {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EAGAIN) {
			return err
		}
		if held, asking := flocked(f); held || asking != nil {
			return errors.Join(err, asking)
		}
	}
}

// flocked reports whether another open file holds the lock. The lock that it takes for that is shared, which disturbs
// neither a holder nor another question; f, which has no lock, has none afterwards.
func flocked(f *os.File) (bool, error) {
	err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	if errors.Is(err, unix.EAGAIN) {
		return true, nil
	}
	if err == nil { // closing alone would leave it to a program that is being started
		err = unix.Flock(int(f.Fd()), unix.LOCK_UN)
	}
	return false, err
}
