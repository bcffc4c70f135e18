package workspace

import (
	"os"

	"golang.org/x/sys/unix"
)

// give makes owner the owner of name, never of what it may point to. Without
// an owner it does nothing.
func give(dir folder, name string, owner *Owner) error {
	if owner == nil {
		return nil
	}
	if err := unix.Fchownat(dir.fd, name, owner.UID, owner.GID, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return &os.PathError{Op: "chown", Path: name, Err: err}
	}
	return nil
}

// owned reports whether a file of the tree belongs to whom the tree is for.
func (t *Tree) owned(st *unix.Stat_t) bool {
	owner := t.source.options.Owner
	return owner == nil || int(st.Uid) == owner.UID && int(st.Gid) == owner.GID
}
