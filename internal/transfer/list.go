package transfer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"syscall"

	"golang.org/x/sys/unix"

	"holon/internal/folder"
)

// Entry is what tells one state of a file from another.
type Entry struct {
	Mode    fs.FileMode // its type and permissions
	Size    int64       // bytes of a regular file
	ModTime int64       // of a regular file, in nanoseconds
	Changed int64       // ctime of anything but a directory, in nanoseconds: a command cannot set it
	Inode   uint64
	Link    string // target of a symbolic link
}

// Like reports whether two files, of different places, seem to be the same.
func (e Entry) Like(other Entry) bool {
	return e.Mode.Type() == other.Mode.Type() && e.Size == other.Size && e.ModTime == other.ModTime && e.Link == other.Link
}

// Listing has the entries of a directory by their paths in it, without its own.
type Listing map[string]Entry

// maxDepth bounds how many directories lie in each other.
const maxDepth = 512

// List lists the regular files, directories and symbolic links beneath a directory, but for the paths except and what
// lies beneath them, and what lies too deep or has too long a path. More than limit are a *TooMuchError; 0 means no
// limit.
func List(ctx context.Context, dir string, except []string, limit int64) (Listing, error) {
	l := newLister(except, limit)
	if err := l.list(ctx, dir); err != nil {
		return nil, fmt.Errorf("list %s: %w", dir, err)
	}
	return l.found, nil
}

type lister struct {
	except map[string]bool
	limit  int64
	found  Listing
	rights *rights // nil: those of this process
	closed bool    // something could not be read, or is left out
}

func newLister(except []string, limit int64) *lister {
	l := &lister{except: make(map[string]bool), limit: limit, found: make(Listing)}
	for _, name := range except {
		l.except[name] = true
	}
	return l
}

func (l *lister) list(ctx context.Context, path string) error {
	dir, err := folder.Open(path + "/.") // it may be a link
	if err != nil {
		return err
	}
	return l.walk(ctx, dir, "", 0)
}

// walk lists what is in dir, whose path is prefix, and closes it.
func (l *lister) walk(ctx context.Context, dir folder.Dir, prefix string, depth int) error {
	defer dir.Close()
	var names []string
	if err := dir.List(func(some []string) error {
		names = append(names, some...)
		return ctx.Err()
	}); err != nil {
		return l.unreadable(err)
	}
	for _, base := range names {
		name := folder.Join(prefix, base)
		st, err := dir.Lstat(base)
		if l.except[name] || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = l.add(ctx, dir, base, name, st, depth)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// unreadable is err, unless a directory was removed, or closed by its owner who is another user.
func (l *lister) unreadable(err error) error {
	if errors.Is(err, fs.ErrNotExist) || l.rights != nil && errors.Is(err, fs.ErrPermission) {
		l.closed = true
		return nil
	}
	return err
}

func (l *lister) add(ctx context.Context, dir folder.Dir, base, name string, st unix.Stat_t, depth int) error {
	mode, link := fs.FileMode(st.Mode&0o777), ""
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		target, err := dir.Readlink(base)
		if err != nil {
			return l.unreadable(err)
		}
		mode, link = mode|fs.ModeSymlink, target
	case unix.S_IFDIR:
		mode |= fs.ModeDir
	case unix.S_IFREG:
	default:
		return nil
	}
	e := newEntry(mode, st.Size, unix.TimespecToNsec(st.Mtim), unix.TimespecToNsec(st.Ctim), st.Ino)
	e.Link = link
	if len(name) > maxPath || depth > maxDepth {
		l.closed = true
		return nil
	}
	if l.limit > 0 && int64(len(l.found)) >= l.limit {
		return &TooMuchError{Limits{Files: l.limit}}
	}
	l.found[name] = e
	l.rights.note(name, e.Mode.IsDir(), owner{int(st.Uid), int(st.Gid)})
	if !e.Mode.IsDir() {
		return nil
	}
	if err := l.rights.take(name); err != nil {
		return err
	}
	inner, err := dir.Sub(base)
	if err != nil {
		err = l.unreadable(err)
	} else {
		err = l.walk(ctx, inner, name, depth+1)
	}
	return errors.Join(err, l.rights.take(path.Dir(name)))
}

func entryOf(info fs.FileInfo) Entry {
	var changed int64
	var inode uint64
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		changed, inode = folder.ChangeTime(st), st.Ino
	}
	return newEntry(info.Mode(), info.Size(), info.ModTime().UnixNano(), changed, inode)
}

// newEntry has what counts of a file of that mode, but for the target of a link.
func newEntry(mode fs.FileMode, size, modTime, changed int64, inode uint64) Entry {
	e := Entry{Mode: mode.Type() | mode.Perm()}
	if !mode.IsDir() {
		e.Changed, e.Inode = changed, inode
	}
	if mode.IsRegular() {
		e.Size, e.ModTime = size, modTime
	}
	return e
}
