package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"sync/atomic"

	"holon/runner/workspace/folder"

	"golang.org/x/sys/unix"
)

// A trash removes files and directories of a working tree. A directory is moved into the trash with one
// rename and deleted there without recursion, so that neither depth nor permissions that a container chose
// can prevent the removal.
type trash struct {
	dir  folder.Dir
	next atomic.Int64
}

// openTrash opens the directory path and creates it if it is absent.
func openTrash(path string) (*trash, error) {
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("open trash: %w", err)
	}
	dir, err := folder.OpenOwned(path)
	if err != nil {
		return nil, fmt.Errorf("open trash: %w", err)
	}
	return &trash{dir: dir}, nil
}

func (t *trash) close() { t.dir.Close() }

// take removes name from dir: a directory by moving it to the trash, anything else at once. An absent name is
// not an error.
func (t *trash) take(dir folder.Dir, name string) error {
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
func (t *trash) move(dir folder.Dir, name string) error {
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

// empty deletes everything in the trash. A directory within another one is moved to the top first, so that
// only one level is open at a time.
func (t *trash) empty(ctx context.Context) error {
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

func (t *trash) remove(name string) error {
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
			if err := t.take(dir, inner); err != nil {
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
