package folder

import (
	"os"

	"golang.org/x/sys/unix"
)

// Chmod changes the inode that has the name now, never the target of a link.
func (f Dir) Chmod(name string, mode uint32) error {
	if err := unix.Fchmodat(f.FD, name, mode, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return &os.PathError{Op: "chmod", Path: name, Err: err}
	}
	return nil
}

// Unfreeze does nothing: containers share no files with this system, so they set no flags of one.
func (f Dir) Unfreeze(string) error { return nil }

// RenameNew renames a file, each name relative to an open directory, with EEXIST where something has the new name.
func RenameNew(fromDir int, from string, toDir int, to string) error {
	return unix.RenameatxNp(fromDir, from, toDir, to, unix.RENAME_EXCL)
}

// Swap gives each of two files the other's path, at once.
func Swap(one, other string) error {
	return unix.RenameatxNp(unix.AT_FDCWD, one, unix.AT_FDCWD, other, unix.RENAME_SWAP)
}

// Clone fails: macOS clones to new names alone.
func Clone(_, _ *os.File) error { return unix.ENOTSUP }
