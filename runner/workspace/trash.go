package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// A trash takes what must go from a working tree. Whole directories are moved
// in with one rename and taken apart there without recursion, so that neither
// depth nor permissions that a container chose can stop the removal.
type trash struct {
	dir  folder
	next atomic.Int64
}

// openTrash opens the directory path, making it when absent.
func openTrash(path string) (*trash, error) {
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("open trash: %w", err)
	}
	dir, err := openOurs(path)
	if err != nil {
		return nil, fmt.Errorf("open trash: %w", err)
	}
	return &trash{dir: dir}, nil
}

func (t *trash) close() { t.dir.close() }

// take removes name from dir: a directory by moving it here, anything else at
// once. Absence is no error.
func (t *trash) take(dir folder, name string) error {
	err := unix.Unlinkat(dir.fd, name, 0)
	if err == unix.EPERM {
		if err := dir.unfreeze(name); err != nil {
			return err
		}
		err = unix.Unlinkat(dir.fd, name, 0)
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
func (t *trash) move(dir folder, name string) error {
	if err := dir.unfreeze(name); err != nil {
		return err
	}
	opened := false
	for {
		to := strconv.FormatInt(t.next.Add(1), 36)
		err := unix.Renameat(dir.fd, name, t.dir.fd, to)
		switch {
		case err == nil || err == unix.ENOENT:
			return nil
		case err == unix.EEXIST || err == unix.ENOTEMPTY || err == unix.ENOTDIR:
			continue // the name is taken by what a dead holder left
		case err == unix.EACCES && !opened: // a directory must be writable to be moved
			if err := dir.chmod(name, 0o700); err != nil {
				return err
			}
			opened = true
		default:
			return &os.LinkError{Op: "rename", Old: name, New: to, Err: err}
		}
	}
}

// empty deletes everything in the trash. Each directory found within another
// is moved to the top first, so one level is ever looked at.
func (t *trash) empty(ctx context.Context) error {
	for found := true; found; {
		found = false
		err := t.dir.list(func(names []string) error {
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
	err := unix.Unlinkat(t.dir.fd, name, 0)
	if err == nil || err == unix.ENOENT {
		return nil
	}
	if err := errors.Join(t.dir.unfreeze(name), t.dir.chmod(name, 0o700)); err != nil {
		return err
	}
	dir, err := t.dir.folder(name)
	if err != nil {
		return err
	}
	defer dir.close()
	err = dir.list(func(names []string) error {
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
	return t.dir.rmdir(name)
}
