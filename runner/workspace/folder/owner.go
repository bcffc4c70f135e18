package folder

import (
	"os"

	"golang.org/x/sys/unix"
)

// give makes owner the owner of name, never of what it may point to. Without
// an owner it does nothing.
func Chown(dir Dir, name string, owner *Owner) error {
	if owner == nil {
		return nil
	}
	if err := unix.Fchownat(dir.FD, name, owner.UID, owner.GID, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return &os.PathError{Op: "chown", Path: name, Err: err}
	}
	return nil
}

// Owner is a numeric user and group.
type Owner struct{ UID, GID int }
