// Package folder opens and walks directories that a hostile program may write meanwhile.
//
// Invariant: every operation takes a single name relative to an open directory and never follows a symbolic link, so no
// path leads out of the directory that was opened first. Depth and the number of open directories are bounded. Not
// promised: an order, or a consistent view of a directory that changes while it is listed.
package folder

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// A Dir is an open directory. Its methods take single names and never follow a symbolic link, so that no path
// of a hostile tree leads out of it.
type Dir struct {
	FD int

	// ours allows changing permissions to open an entry. It is set for trees of ours, in which a container of
	// the same user may have taken permissions away, and never for a directory of the user's.
	ours bool
}

// Open opens the directory at a path, without changing permissions.
func Open(path string) (Dir, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return Dir{FD: -1}, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return Dir{FD: fd}, nil
}

// OpenOwned opens a directory in which permissions may be changed to open its entries.
func OpenOwned(path string) (Dir, error) {
	parent, err := Open(filepath.Dir(path))
	if err != nil {
		return Dir{FD: -1}, err
	}
	defer parent.Close()
	parent.ours = true
	return parent.Sub(filepath.Base(path))
}

func (f Dir) Close() { unix.Close(f.FD) }

// Sub opens the directory name. In an owned tree its permissions are changed as needed to list, enter and change it.
func (f Dir) Sub(name string) (Dir, error) {
	fd, err := f.openRetry(name, unix.O_RDONLY|unix.O_DIRECTORY)
	if f.ours && errors.Is(err, unix.EACCES) {
		if err := f.Chmod(name, 0o755); err != nil {
			return Dir{FD: -1}, err
		}
		fd, err = f.openRetry(name, unix.O_RDONLY|unix.O_DIRECTORY)
	}
	opened := Dir{FD: fd, ours: f.ours}
	if err != nil || !f.ours {
		return opened, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err == nil && st.Mode&0o700 != 0o700 {
		_ = unix.Fchmod(fd, 0o755) // without success the directory is used as far as possible
	}
	return opened, nil
}

// OpenFile opens the regular file name for reading and returns its stat data. It never blocks on a pipe or device that
// takes the file's place.
func (f Dir) OpenFile(name string) (*os.File, unix.Stat_t, error) {
	var st unix.Stat_t
	fd, err := f.openRetry(name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
	if f.ours && errors.Is(err, unix.EACCES) {
		if err := f.Chmod(name, 0o644); err != nil {
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
		return nil, st, &os.PathError{Op: "open", Path: name, Err: ErrNotRegular}
	}
	return os.NewFile(uintptr(fd), name), st, nil
}

var ErrNotRegular = errors.New("not a regular file")

func (f Dir) openRetry(name string, flags int) (int, error) {
	for {
		fd, err := unix.Openat(f.FD, name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err == nil {
			return fd, nil
		}
		if err != unix.EINTR {
			return -1, &os.PathError{Op: "open", Path: name, Err: err}
		}
	}
}

func (f Dir) Lstat(name string) (unix.Stat_t, error) {
	var st unix.Stat_t
	for {
		err := unix.Fstatat(f.FD, name, &st, unix.AT_SYMLINK_NOFOLLOW)
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

// Names lists the directory, in no order, without . and ..
func (f Dir) Names() (names []string, err error) {
	err = f.List(func(some []string) error {
		if names = append(names, some...); len(names) > maxNames {
			return fmt.Errorf("list directory: it has more than %d names", maxNames)
		}
		return nil
	})
	return names, err
}

// List calls visit with the names in the directory, some at a time, so that memory use is bounded. visit may remove
// entries.
func (f Dir) List(visit func(names []string) error) error {
	if _, err := unix.Seek(f.FD, 0, io.SeekStart); err != nil {
		return fmt.Errorf("list directory: %w", err)
	}
	buffer := make([]byte, 32<<10)
	for {
		n, err := unix.ReadDirent(f.FD, buffer)
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

func (f Dir) Readlink(name string) (string, error) {
	buffer := make([]byte, unix.PathMax+1)
	n, err := unix.Readlinkat(f.FD, name, buffer)
	if err != nil {
		return "", &os.PathError{Op: "readlink", Path: name, Err: err}
	}
	return string(buffer[:n]), nil
}

// Rmdir removes an empty directory.
func (f Dir) Rmdir(name string) error {
	if err := unix.Unlinkat(f.FD, name, unix.AT_REMOVEDIR); err != nil {
		return &os.PathError{Op: "rmdir", Path: name, Err: err}
	}
	return nil
}

// A Cursor opens the parents of many paths in turn and keeps the last one open. With make set it creates missing
// directories.
type Cursor struct {
	root  Dir
	make  bool
	owner *Owner // of what is created; nil: this process's user

	dir  string // the open one, "" for the root
	last Dir
}

func NewCursor(root Dir, make bool) *Cursor {
	return &Cursor{root: root, make: make, last: root}
}

// NewCreatingCursor returns a cursor that creates missing directories, for owner.
func NewCreatingCursor(root Dir, owner *Owner) *Cursor {
	c := NewCursor(root, true)
	c.owner = owner
	return c
}

func (c *Cursor) Close() {
	if c.dir != "" {
		c.last.Close()
	}
	c.dir, c.last = "", c.root
}

// Parent returns the directory that holds path and path's last name. The
// folder stays open until the next call.
func (c *Cursor) Parent(path string) (Dir, string, error) {
	dir, name := Split(path)
	if dir == c.dir {
		return c.last, name, nil
	}
	c.Close()
	if dir == "" {
		return c.root, name, nil
	}
	at, err := c.descend(dir)
	if err != nil {
		return Dir{FD: -1}, "", err
	}
	c.dir, c.last = dir, at
	return at, name, nil
}

func (c *Cursor) descend(dir string) (Dir, error) {
	at := c.root
	for name := range strings.SplitSeq(dir, "/") {
		next, err := at.Sub(name)
		if c.make && errors.Is(err, unix.ENOENT) {
			if err = unix.Mkdirat(at.FD, name, 0o755); err == nil {
				err = c.Own(at, name)
			}
			if err == nil || err == unix.EEXIST {
				next, err = at.Sub(name)
			}
		}
		if at != c.root {
			at.Close()
		}
		if err != nil {
			return Dir{FD: -1}, fmt.Errorf("open directory %q: %w", dir, err)
		}
		at = next
	}
	return at, nil
}

// Own gives a directory that was just created the permissions and the owner of those that the cursor creates.
func (c *Cursor) Own(parent Dir, name string) error {
	return errors.Join(parent.Chmod(name, 0o755), Chown(parent, name, c.owner))
}

// Split cuts a slash path into its directory ("" at the top) and its last
// name.
func Split(path string) (dir, name string) {
	i := strings.LastIndexByte(path, '/')
	if i < 0 {
		return "", path
	}
	return path[:i], path[i+1:]
}

func Join(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}

// Has reports whether name is the directory inner.
func (f Dir) Has(name string, inner Dir) bool {
	var st unix.Stat_t
	at, err := f.Lstat(name)
	return err == nil && unix.Fstat(inner.FD, &st) == nil && st.Dev == at.Dev && st.Ino == at.Ino
}

// MakeOwned returns the directory name, which it creates if it is absent, and in which permissions may be changed to
// open entries.
func (f Dir) MakeOwned(name string) (Dir, error) {
	if err := unix.Mkdirat(f.FD, name, 0o700); err != nil && err != unix.EEXIST {
		return Dir{FD: -1}, &os.PathError{Op: "mkdir", Path: name, Err: err}
	}
	f.ours = true
	return f.Sub(name)
}
