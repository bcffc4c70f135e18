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

// giveFolder gives the folder name over if it belongs to somebody else.
func (t *Tree) giveFolder(parent folder, name string, st *unix.Stat_t) error {
	if t.source.options.Owner == nil {
		return nil
	}
	if st == nil {
		found, err := parent.lstat(name)
		if err != nil {
			return err
		}
		st = &found
	}
	if t.owned(st) {
		return nil
	}
	return give(parent, name, t.source.options.Owner)
}
