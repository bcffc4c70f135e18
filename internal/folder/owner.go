package folder

import (
	"os"

	"golang.org/x/sys/unix"
)

// Chown gives name to owner; of a link it changes the link, not its target. Without an owner it does nothing.
func Chown(dir Dir, name string, owner *Owner) error {
	if owner == nil {
		return nil
	}
	if err := unix.Fchownat(dir.FD, name, owner.UID, owner.GID, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return &os.PathError{Op: "chown", Path: name, Err: err}
	}
	return nil
}

// Owner is the numeric user and group that files belong to.
type Owner struct{ UID, GID int }
