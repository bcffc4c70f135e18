package workspace

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A folder is an open directory. Its methods take single names and never
// follow a symbolic link, so that no path of a hostile tree leads out of it.
type folder struct {
	fd int

	// Ours to change: what can't be opened is made accessible. Set for trees
	// of ours, in which a container of the same user may have taken away
	// permissions; never for a directory of the user's.
	ours bool
}

// openFolder opens the directory at a path, for reading as it is.
func openFolder(path string) (folder, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return folder{fd: -1}, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return folder{fd: fd}, nil
}

// openOurs opens a directory that we may change the permissions in.
func openOurs(path string) (folder, error) {
	parent, err := openFolder(filepath.Dir(path))
	if err != nil {
		return folder{fd: -1}, err
	}
	defer parent.close()
	parent.ours = true
	return parent.folder(filepath.Base(path))
}

func (f folder) close() { unix.Close(f.fd) }

// folder opens the directory name. One of ours is listed, entered and changed
// whatever permissions it was given.
func (f folder) folder(name string) (folder, error) {
	fd, err := f.openRetry(name, unix.O_RDONLY|unix.O_DIRECTORY)
	if f.ours && errors.Is(err, unix.EACCES) {
		if err := f.chmod(name, 0o755); err != nil {
			return folder{fd: -1}, err
		}
		fd, err = f.openRetry(name, unix.O_RDONLY|unix.O_DIRECTORY)
	}
	opened := folder{fd: fd, ours: f.ours}
	if err != nil || !f.ours {
		return opened, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err == nil && st.Mode&0o700 != 0o700 {
		_ = unix.Fchmod(fd, 0o755) // what can't be changed is used as far as it can be
	}
	return opened, nil
}

// file opens the regular file name for reading, never blocking on what only
// looked like one, and returns its stat data.
func (f folder) file(name string) (*os.File, unix.Stat_t, error) {
	var st unix.Stat_t
	fd, err := f.openRetry(name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
	if f.ours && errors.Is(err, unix.EACCES) {
		if err := f.chmod(name, 0o644); err != nil {
			return nil, st, err
		}
		fd, err = f.openRetry(name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
	}
	if err != nil {
		return nil, st, err
	}
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return nil, st, &os.PathError{Op: "stat", Path: name, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		unix.Close(fd)
		return nil, st, &os.PathError{Op: "open", Path: name, Err: errNotRegular}
	}
	return os.NewFile(uintptr(fd), name), st, nil
}

var errNotRegular = errors.New("not a regular file")

func (f folder) openRetry(name string, flags int) (int, error) {
	for {
		fd, err := unix.Openat(f.fd, name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err == nil {
			return fd, nil
		}
		if err != unix.EINTR {
			return -1, &os.PathError{Op: "open", Path: name, Err: err}
		}
	}
}

func (f folder) lstat(name string) (unix.Stat_t, error) {
	var st unix.Stat_t
	for {
		err := unix.Fstatat(f.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW)
		if err == nil {
			return st, nil
		}
		if err != unix.EINTR {
			return st, &os.PathError{Op: "lstat", Path: name, Err: err}
		}
	}
}

// maxNames bounds the names of a directory that is listed whole.
const maxNames = 200_000

// names lists the directory, in no order, without . and ..
func (f folder) names() (names []string, err error) {
	err = f.list(func(some []string) error {
		if names = append(names, some...); len(names) > maxNames {
			return fmt.Errorf("list directory: it has more than %d names", maxNames)
		}
		return nil
	})
	return names, err
}

// list shows the names in the directory to visit, some at a time, so that no
// number of them takes memory. What visit removes does not disturb it.
func (f folder) list(visit func(names []string) error) error {
	if _, err := unix.Seek(f.fd, 0, io.SeekStart); err != nil {
		return fmt.Errorf("list directory: %w", err)
	}
	buffer := make([]byte, 32<<10)
	for {
		n, err := unix.ReadDirent(f.fd, buffer)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return fmt.Errorf("list directory: %w", err)
		}
		if n == 0 {
			return nil
		}
		if _, _, names := unix.ParseDirent(buffer[:n], -1, nil); len(names) > 0 {
			if err := visit(names); err != nil {
				return err
			}
		}
	}
}

func (f folder) readlink(name string) (string, error) {
	buffer := make([]byte, unix.PathMax+1)
	n, err := unix.Readlinkat(f.fd, name, buffer)
	if err != nil {
		return "", &os.PathError{Op: "readlink", Path: name, Err: err}
	}
	return string(buffer[:n]), nil
}

// chmod changes exactly the inode that name is now, not what it may point to.
func (f folder) chmod(name string, mode uint32) error {
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

// unfreeze takes from a file or directory the flags that keep it from being
// changed or removed. Only a privileged process can set them, or take them away.
func (f folder) unfreeze(name string) error {
	var st unix.Statx_t
	err := unix.Statx(f.fd, name, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_TYPE, &st)
	if kind := st.Mode & unix.S_IFMT; err != nil || st.Attributes&frozenFlags == 0 ||
		kind != unix.S_IFDIR && kind != unix.S_IFREG {
		return nil // what is wrong with it is said by whoever needs it
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

// rmdir removes an empty directory.
func (f folder) rmdir(name string) error {
	if err := unix.Unlinkat(f.fd, name, unix.AT_REMOVEDIR); err != nil {
		return &os.PathError{Op: "rmdir", Path: name, Err: err}
	}
	return nil
}

// A cursor opens the parents of many paths in turn, keeping the last open.
// With make set it creates what is missing.
type cursor struct {
	root  folder
	make  bool
	owner *Owner // of what is created; nil: this process's user

	dir  string // the open one, "" for the root
	last folder
}

func newCursor(root folder, make bool) *cursor {
	return &cursor{root: root, make: make, last: root}
}

// newMakingCursor is a cursor that creates what is missing, for owner.
func newMakingCursor(root folder, owner *Owner) *cursor {
	c := newCursor(root, true)
	c.owner = owner
	return c
}

func (c *cursor) close() {
	if c.dir != "" {
		c.last.close()
	}
	c.dir, c.last = "", c.root
}

// parent returns the directory that holds path and path's last name. The
// folder stays open until the next call.
func (c *cursor) parent(path string) (folder, string, error) {
	dir, name := splitPath(path)
	if dir == c.dir {
		return c.last, name, nil
	}
	c.close()
	if dir == "" {
		return c.root, name, nil
	}
	at, err := c.descend(dir)
	if err != nil {
		return folder{fd: -1}, "", err
	}
	c.dir, c.last = dir, at
	return at, name, nil
}

func (c *cursor) descend(dir string) (folder, error) {
	at := c.root
	for name := range strings.SplitSeq(dir, "/") {
		next, err := at.folder(name)
		if c.make && errors.Is(err, unix.ENOENT) {
			if err = unix.Mkdirat(at.fd, name, 0o755); err == nil {
				err = errors.Join(at.chmod(name, 0o755), give(at, name, c.owner))
			}
			if err == nil || err == unix.EEXIST {
				next, err = at.folder(name)
			}
		}
		if at != c.root {
			at.close()
		}
		if err != nil {
			return folder{fd: -1}, fmt.Errorf("open directory %q: %w", dir, err)
		}
		at = next
	}
	return at, nil
}

// splitPath cuts a slash path into its directory ("" at the top) and its last
// name.
func splitPath(path string) (dir, name string) {
	i := strings.LastIndexByte(path, '/')
	if i < 0 {
		return "", path
	}
	return path[:i], path[i+1:]
}

func joinPath(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}
