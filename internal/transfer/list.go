package transfer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"syscall"

	"holon/internal/folder"
	"holon/internal/roots"
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
	root, err := roots.Open(dir)
	if err == nil {
		err = l.walk(ctx, root, "", 0)
	}
	if err != nil {
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

// walk lists what is in root, whose path is prefix, and closes it.
func (l *lister) walk(ctx context.Context, root *os.Root, prefix string, depth int) error {
	defer root.Close()
	if err := ctx.Err(); err != nil {
		return err
	}
	dir, err := root.Open(".")
	if err != nil {
		return l.unreadable(err)
	}
	entries, err := dir.ReadDir(-1)
	if err = errors.Join(err, dir.Close()); err != nil {
		return l.unreadable(err)
	}
	for _, d := range entries {
		name := path.Join(prefix, d.Name())
		info, err := root.Lstat(d.Name())
		if l.except[name] || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = l.add(ctx, root, d.Name(), name, info, depth)
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

func (l *lister) add(ctx context.Context, root *os.Root, base, name string, info fs.FileInfo, depth int) error {
	e := entryOf(info)
	switch info.Mode().Type() {
	case fs.ModeSymlink:
		target, err := root.Readlink(base)
		if err != nil {
			return l.unreadable(err)
		}
		e.Link = target
	case fs.ModeDir, 0:
	default:
		return nil
	}
	if len(name) > maxPath || depth > maxDepth {
		l.closed = true
		return nil
	}
	if l.limit > 0 && int64(len(l.found)) >= l.limit {
		return &TooMuchError{Limits{Files: l.limit}}
	}
	l.found[name] = e
	if err := l.rights.note(name, info); err != nil || !info.IsDir() {
		return err
	}
	if err := l.rights.take(name); err != nil {
		return err
	}
	inner, err := roots.OpenIn(root, base)
	if err != nil {
		err = l.unreadable(err)
	} else {
		err = l.walk(ctx, inner, name, depth+1)
	}
	return errors.Join(err, l.rights.take(path.Dir(name)))
}

func entryOf(info fs.FileInfo) Entry {
	e := Entry{Mode: info.Mode().Type() | info.Mode().Perm()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && !info.IsDir() {
		e.Changed, e.Inode = folder.ChangeTime(st), st.Ino
	}
	if info.Mode().IsRegular() {
		e.Size, e.ModTime = info.Size(), info.ModTime().UnixNano()
	}
	return e
}
