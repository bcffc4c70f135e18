package folder

import (
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Chmod changes the inode that has the name now, never the target of a link.
func (f Dir) Chmod(name string, mode uint32) error {
	fd, err := f.openRetry(name, unix.O_PATH)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return &os.PathError{Op: "chmod", Path: name, Err: errors.Join(err, unix.ELOOP)}
	}
	if err := unix.Chmod("/proc/self/fd/"+strconv.Itoa(fd), mode); err != nil {
		return &os.PathError{Op: "chmod", Path: name, Err: err}
	}
	return nil
}

// Flags of an inode that keep even root from changing or removing it: the
// numbers that statx and FS_IOC_GETFLAGS share.
const frozenFlags = unix.STATX_ATTR_IMMUTABLE | unix.STATX_ATTR_APPEND

// Unfreeze clears the flags of a file or directory that prevent changing and removing it. Only a privileged process can
// set or clear them.
func (f Dir) Unfreeze(name string) error {
	var st unix.Statx_t
	err := unix.Statx(f.FD, name, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_TYPE, &st)
	if kind := st.Mode & unix.S_IFMT; err != nil || st.Attributes&frozenFlags == 0 ||
		kind != unix.S_IFDIR && kind != unix.S_IFREG {
		return nil // the caller's own operation reports what is wrong with it
	}
	fd, err := f.openRetry(name, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	flags, err := unix.IoctlGetInt(fd, unix.FS_IOC_GETFLAGS)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, flags&^frozenFlags)
	}
	if err != nil {
		return &os.PathError{Op: "unfreeze", Path: name, Err: err}
	}
	return nil
}

// RenameNew renames a file, each name relative to an open directory, with EEXIST where something has the new name.
func RenameNew(fromDir int, from string, toDir int, to string) error {
	return unix.Renameat2(fromDir, from, toDir, to, unix.RENAME_NOREPLACE)
}

// Swap gives each of two files the other's path, at once.
func Swap(one, other string) error {
	return unix.Renameat2(unix.AT_FDCWD, one, unix.AT_FDCWD, other, unix.RENAME_EXCHANGE)
}

// Clone makes a file share the content of another. Where the file system cannot do that it fails.
func Clone(to, from *os.File) error { return unix.IoctlFileClone(int(to.Fd()), int(from.Fd())) }
