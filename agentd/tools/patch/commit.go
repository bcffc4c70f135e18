package patch

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"holon/agentd/tools"
	"holon/internal/folder"
)

// commit makes the staged state real: all of it or, if a step fails or the call is cancelled, nothing. The order is
//
//  1. missing directories are made, and new content is written to temporary files next to their targets;
//  2. each target gets its new content by a rename, then files that go are removed;
//  3. directories that became empty are removed.
//
// Every step before the third registers how it is undone, from what was read. A process that is killed leaves files
// that are each wholly old or wholly new, and temporary files of the form .holon-<12 hex digits>-<number>.
type commit struct {
	tree   *tree
	prefix string // of the temporary names
	names  int
	undo   []func() error // in the order of the steps
	kept   string         // a file that something else changed meanwhile, so that it was not put back
}

// commit carries out what is staged.
func (t *tree) commit(ctx context.Context) *tools.Error {
	var id [6]byte
	rand.Read(id[:]) // never fails
	c := &commit{tree: t, prefix: ".holon-" + hex.EncodeToString(id[:]) + "-"}
	bad := c.run(ctx)
	if bad == nil {
		c.finish()
		return nil
	}
	var errs []error
	for i := len(c.undo) - 1; i >= 0; i-- {
		errs = append(errs, c.undo[i]())
	}
	err := errors.Join(errs...)
	switch {
	case err != nil:
		bad.Message += "; the tree could not be put back in order: " + tools.Clip(err.Error(), 500)
		bad.RecoveryHint = "look at git status before going on"
	case c.kept != "":
		bad.Message += "; something else changed " + visible(c.kept) + " at the same moment, so it was not put back"
		bad.RecoveryHint = "look at git status before going on"
	case bad.Kind != tools.KindCanceled:
		bad.Message += "; nothing was changed"
	}
	return bad
}

// run does steps 1 and 2.
func (c *commit) run(ctx context.Context) *tools.Error {
	var write, remove []*entry
	for _, e := range c.tree.order {
		switch {
		case !e.differs():
		case e.exists:
			write = append(write, e)
		default:
			remove = append(remove, e)
		}
	}
	temps := make([]string, len(write)+len(remove))
	for i, e := range write {
		if ctx.Err() != nil {
			return canceled()
		}
		err := c.makeParents(e.path)
		if err == nil {
			temps[i], err = c.writeTemp(e, e.data)
		}
		if err != nil {
			return writeError(e.path, err)
		}
	}
	for i, e := range append(write, remove...) { // so that what moves is never missing
		if ctx.Err() != nil {
			return canceled()
		}
		if bad := c.unchanged(e); bad != nil {
			return bad
		}
		if err := c.change(e, temps[i]); err != nil {
			return writeError(e.path, err)
		}
	}
	return nil
}

// undone registers how a step is undone. A file that is already gone is not an error.
func (c *commit) undone(f func() error) {
	c.undo = append(c.undo, func() error {
		if err := f(); err != nil && !missing(err) {
			return err
		}
		return nil
	})
}

// makeParents makes the directories above p that are missing.
func (c *commit) makeParents(p string) error {
	for i, char := range p {
		if char != '/' {
			continue
		}
		dir := p[:i]
		if st, err := c.tree.lstat(dir); err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
			continue
		} else if err != nil && !missing(err) {
			return err
		}
		err := c.tree.in("mkdir", dir, func(d folder.Dir, name string) error { return unix.Mkdirat(d.FD, name, 0o777) })
		if err != nil {
			return err
		}
		c.undone(func() error {
			if err := c.rmdir(dir); !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, unix.EEXIST) {
				return err
			}
			return nil
		})
	}
	return nil
}

// writeTemp writes content for e next to its place and returns the temporary path.
func (c *commit) writeTemp(e *entry, data string) (string, error) {
	c.names++
	temp := path.Join(path.Dir(e.path), c.prefix+strconv.Itoa(c.names))
	perm := uint32(0o600)
	if e.mode == 0 {
		perm = 0o666 // less the umask, as if an editor had made it
	}
	err := c.tree.in("create", temp, func(dir folder.Dir, name string) error {
		fd, err := unix.Openat(dir.FD, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, perm)
		if err != nil {
			return err
		}
		c.undone(func() error { return c.remove(temp) })
		f := os.NewFile(uintptr(fd), temp)
		_, err = f.WriteString(data)
		if e.before != nil {
			_ = f.Chown(int(e.before.Uid), int(e.before.Gid)) // already ours, or not ours to give
		}
		if err == nil && e.mode != 0 {
			err = f.Chmod(os.FileMode(e.mode))
		}
		return errors.Join(err, f.Close())
	})
	return temp, err
}

// change gives new content its name, or removes a file that goes.
func (c *commit) change(e *entry, temp string) error {
	if !e.exists {
		if err := c.remove(e.path); err != nil {
			return err
		}
		c.undone(func() error { return c.restore(e, nil) })
		return nil
	}
	written, err := c.tree.lstat(temp)
	if err == nil {
		err = c.rename(temp, e.path)
	}
	if err != nil {
		return err
	}
	c.undone(func() error { return c.restore(e, &written) })
	return nil
}

// restore gives e its earlier content back, unless another program has put something else there since it was written.
func (c *commit) restore(e *entry, written *unix.Stat_t) error {
	now, err := c.tree.lstat(e.path)
	if err != nil && !missing(err) {
		return err
	}
	if (err == nil) != (written != nil) || written != nil && !same(now, *written) {
		c.kept = e.path
		return nil
	}
	if e.before == nil {
		return c.remove(e.path)
	}
	e.mode = e.before.Mode & 0o777
	temp, err := c.writeTemp(e, e.was)
	if err != nil {
		return err
	}
	return c.rename(temp, e.path)
}

// finish removes the directories that lost their last file, as git does. The change is made, so one that stays is only
// untidy.
func (c *commit) finish() {
	for _, e := range c.tree.order {
		if e.exists || e.before == nil {
			continue
		}
		for dir := path.Dir(e.path); dir != "."; dir = path.Dir(dir) {
			if err := c.rmdir(dir); err != nil && !missing(err) {
				break
			}
		}
	}
}

func (c *commit) remove(p string) error {
	return c.tree.in("remove", p, func(dir folder.Dir, name string) error { return unix.Unlinkat(dir.FD, name, 0) })
}

func (c *commit) rmdir(p string) error { return c.tree.in("rmdir", p, folder.Dir.Rmdir) }

// rename gives the file temp the path p in the same directory.
func (c *commit) rename(temp, p string) error {
	return c.tree.in("rename", p, func(dir folder.Dir, name string) error {
		return unix.Renameat(dir.FD, path.Base(temp), dir.FD, name)
	})
}

// unchanged checks that e is still what was read.
func (c *commit) unchanged(e *entry) *tools.Error {
	now, err := c.tree.lstat(e.path)
	switch {
	case err != nil && !missing(err):
		return unreadable(e.path, err)
	case (err == nil) != (e.before != nil), err == nil && !same(now, *e.before):
		return changedMeanwhile(e.path)
	}
	return nil
}

// same reports whether a path has the same file with the same content, as far as its status tells.
func same(a, b unix.Stat_t) bool {
	return a.Dev == b.Dev && a.Ino == b.Ino && a.Mode == b.Mode && a.Size == b.Size && a.Mtim == b.Mtim
}

func writeError(p string, err error) *tools.Error {
	e := refused(kindWrite, p, fmt.Sprintf("%s cannot be written: %v", visible(p), cause(err)),
		"check the permissions of the file and its directory")
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		e.RecoveryHint = "the disk is full; remove files that are not needed, then repeat the call"
		e.Retryable = true
	case errors.Is(err, unix.ENAMETOOLONG):
		e.RecoveryHint = "use a shorter name than " + strconv.Itoa(strings.Count(path.Base(p), "")-1) + " characters"
	}
	return e
}
