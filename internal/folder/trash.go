package folder

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// A Trash removes files and directories of a tree that something hostile wrote. A directory is moved into the trash
// with one rename and deleted there without recursion, so that neither depth nor permissions that a container chose can
// prevent the removal.
type Trash struct {
	dir  Dir
	next atomic.Int64
}

// OpenTrash opens the directory path and creates it if it is absent.
func OpenTrash(path string) (*Trash, error) {
	parent, err := Open(filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("open trash: %w", err)
	}
	defer parent.Close()
	return OpenTrashIn(parent, filepath.Base(path))
}

// OpenTrashIn is OpenTrash for the directory name in parent.
func OpenTrashIn(parent Dir, name string) (*Trash, error) {
	parent.ours = true
	err := unix.Mkdirat(parent.FD, name, 0o700)
	if err != nil && err != unix.EEXIST {
		return nil, fmt.Errorf("open trash: %w", &os.PathError{Op: "mkdir", Path: name, Err: err})
	}
	dir, err := parent.Sub(name)
	if err != nil {
		return nil, fmt.Errorf("open trash: %w", err)
	}
	return &Trash{dir: dir}, nil
}

// Close leaves what Empty did not delete.
func (t *Trash) Close() { t.dir.Close() }

// Take removes name from dir: a directory by moving it to the trash, anything else at once. An absent name is
// not an error.
func (t *Trash) Take(dir Dir, name string) error {
	err := unix.Unlinkat(dir.FD, name, 0)
	if err == unix.EPERM {
		if err := dir.Unfreeze(name); err != nil {
			return err
		}
		err = unix.Unlinkat(dir.FD, name, 0)
	}
	if err == nil || err == unix.ENOENT {
		return nil
	}
	if err != unix.EISDIR && err != unix.EPERM {
		return &os.PathError{Op: "unlink", Path: name, Err: err}
	}
	return t.move(dir, name)
}

// move renames a directory into the trash under a free name.
func (t *Trash) move(dir Dir, name string) error {
	if err := dir.Unfreeze(name); err != nil {
		return err
	}
	opened := false
	for {
		to := strconv.FormatInt(t.next.Add(1), 36)
		err := unix.Renameat(dir.FD, name, t.dir.FD, to)
		switch {
		case err == nil || err == unix.ENOENT:
			return nil
		case err == unix.EEXIST || err == unix.ENOTEMPTY || err == unix.ENOTDIR:
			continue // a process that was killed left this name
		case err == unix.EACCES && !opened: // a directory must be writable to be moved
			if err := dir.Chmod(name, 0o700); err != nil {
				return err
			}
			opened = true
		default:
			return &os.LinkError{Op: "rename", Old: name, New: to, Err: err}
		}
	}
}

// Empty deletes everything in the trash. A directory within another one is moved to the top first, so that
// only one level is open at a time.
func (t *Trash) Empty(ctx context.Context) error {
	for found := true; found; {
		found = false
		err := t.dir.List(func(names []string) error {
			found = true
			for _, name := range names {
				if err := errors.Join(ctx.Err(), t.remove(name)); err != nil {
					return fmt.Errorf("empty trash: %w", err)
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (t *Trash) remove(name string) error {
	err := unix.Unlinkat(t.dir.FD, name, 0)
	if err == nil || err == unix.ENOENT {
		return nil
	}
	if err := errors.Join(t.dir.Unfreeze(name), t.dir.Chmod(name, 0o700)); err != nil {
		return err
	}
	dir, err := t.dir.Sub(name)
	if err != nil {
		return err
	}
	defer dir.Close()
	err = dir.List(func(names []string) error {
		for _, inner := range names {
			if err := t.Take(dir, inner); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return t.dir.Rmdir(name)
}
