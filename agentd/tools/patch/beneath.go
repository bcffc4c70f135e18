package patch

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// beneath is a directory whose files are reached without following a symbolic link anywhere on the way, even
// while other programs swap directories for links. (os.Root would follow links that stay inside, for example
// into .git.) Paths are relative, clean and use slashes. Errors are of type *fs.PathError.
type beneath struct {
	dir *os.File
	fd  int // of dir
	// fault is set by tests and called before every change.
	fault func(op, path string) error
}

func openBeneath(dir string) (*beneath, error) {
	f, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	return &beneath{dir: f, fd: int(f.Fd())}, nil
}

func (b *beneath) close() { b.dir.Close() }

// in calls f with a descriptor of the directory that holds p, and the last element of p.
func (b *beneath) in(op, p string, f func(dir int, name string) error) error {
	defer runtime.KeepAlive(b.dir)
	if b.fault != nil && op != "lstat" && op != "open" {
		if err := b.fault(op, p); err != nil {
			return &fs.PathError{Op: op, Path: p, Err: err}
		}
	}
	fd := b.fd
	dirs, name := path.Split(p)
	for part := range strings.SplitSeq(dirs, "/") {
		if part == "" {
			continue
		}
		next, err := openat(fd, part, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
		if err != nil {
			return &fs.PathError{Op: op, Path: p, Err: err}
		}
		defer unix.Close(next)
		fd = next
	}
	if err := f(fd, name); err != nil {
		return &fs.PathError{Op: op, Path: p, Err: err}
	}
	return nil
}

func openat(dir int, name string, flags int, perm uint32) (int, error) {
	for {
		fd, err := unix.Openat(dir, name, flags|unix.O_CLOEXEC, perm)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// status is the result of lstat.
type status struct{ unix.Stat_t }

func (s *status) is(kind uint32) bool { return s.Mode&unix.S_IFMT == kind }
func (s *status) perm() fs.FileMode   { return fs.FileMode(s.Mode & 0o777) }
func (s *status) same(o *status) bool { return s.Dev == o.Dev && s.Ino == o.Ino }

// unchanged reports that o is the same file, not written to in between.
func (s *status) unchanged(o *status) bool { return s.same(o) && s.Size == o.Size && s.Mtim == o.Mtim }

// lstat describes p itself, never the target of a link.
func (b *beneath) lstat(p string) (*status, error) {
	var s status
	err := b.in("lstat", p, func(dir int, name string) error {
		return unix.Fstatat(dir, name, &s.Stat_t, unix.AT_SYMLINK_NOFOLLOW)
	})
	if err != nil {
		return nil, err
	}
	return &s, nil
}

// open opens p without blocking, in case a FIFO has taken its place.
func (b *beneath) open(p string) (*os.File, error) {
	return b.file("open", p, unix.O_RDONLY|unix.O_NONBLOCK, 0)
}

// create makes the file p, which must not exist.
func (b *beneath) create(p string, perm fs.FileMode) (*os.File, error) {
	return b.file("create", p, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, uint32(perm))
}

func (b *beneath) file(op, p string, flags int, perm uint32) (f *os.File, err error) {
	err = b.in(op, p, func(dir int, name string) error {
		fd, err := openat(dir, name, flags|unix.O_NOFOLLOW, perm)
		if err == nil {
			f = os.NewFile(uintptr(fd), p)
		}
		return err
	})
	return f, err
}

func (b *beneath) mkdir(p string) error {
	return b.in("mkdir", p, func(dir int, name string) error { return unix.Mkdirat(dir, name, 0o777) })
}

func (b *beneath) remove(p string) error {
	return b.in("remove", p, func(dir int, name string) error { return unix.Unlinkat(dir, name, 0) })
}

func (b *beneath) rmdir(p string) error {
	return b.in("rmdir", p, func(dir int, name string) error { return unix.Unlinkat(dir, name, unix.AT_REMOVEDIR) })
}

// link gives p a second name in its directory.
func (b *beneath) link(p, second string) error {
	return b.in("link", p, func(dir int, name string) error { return unix.Linkat(dir, name, dir, second, 0) })
}

// replace renames the file called temp to p, in the same directory.
func (b *beneath) replace(temp, p string) error {
	return b.in("rename", p, func(dir int, name string) error { return unix.Renameat(dir, temp, dir, name) })
}

// rename renames the file called old to p, in the same directory, if p does not exist.
func (b *beneath) rename(old, p string) error {
	return b.in("rename", p, func(dir int, name string) error {
		err := unix.Renameat2(dir, old, dir, name, unix.RENAME_NOREPLACE)
		if !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOSYS) {
			return err
		}
		// This file system cannot do that in one step.
		var s unix.Stat_t
		if err := unix.Fstatat(dir, name, &s, unix.AT_SYMLINK_NOFOLLOW); err != unix.ENOENT {
			return errors.Join(unix.EEXIST, err)
		}
		return unix.Renameat(dir, old, dir, name)
	})
}
