package patch

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"holon/agentd/tools"
)

// commit makes the staged state real: all of it or, if a step fails or the call is cancelled, nothing. The order is
//
//  1. files that go are renamed aside, and missing directories are made;
//  2. new content is written to temporary files next to their targets;
//  3. each target keeps its old content under a second name and gets the new content by a rename;
//  4. the second names are removed, then the directories that became empty.
//
// Every step before the fourth registers how it is undone. A process that is killed leaves files that are each wholly
// old or wholly new, and names of the form .holon-<12 hex digits>-<number>; docs/reference/patch.md says what follows.
type commit struct {
	tree   *tree
	prefix string // of the names of this commit
	names  int
	undo   []func() error // in the order of the steps
	asides []string       // second names, removed at the end
	kept   []string       // "PATH is in NAME" for files that changed under our hands
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
	err := c.rollback()
	switch {
	case err != nil:
		bad.Message += "; the tree could not be put back in order: " + tools.Clip(err.Error(), 500)
		bad.RecoveryHint = "look at git status before going on"
	case len(c.kept) > 0:
		bad.Message += "; something else changed a file at the same moment, so the earlier content of " + c.kept[0]
		bad.RecoveryHint = "look at both files before going on"
	case bad.Kind != tools.KindCanceled:
		bad.Message += "; nothing was changed"
	}
	return bad
}

// run does steps 1 to 3.
func (c *commit) run(ctx context.Context) *tools.Error {
	var write []*entry
	for _, e := range c.tree.order {
		if !e.differs() {
			continue
		}
		if bad := c.tree.unchanged(e); bad != nil {
			return bad
		}
		if e.exists {
			write = append(write, e)
		} else if err := c.putAside(e); err != nil {
			return writeError(e.path, err)
		}
	}
	temps := make([]string, len(write))
	for i, e := range write {
		if ctx.Err() != nil {
			return canceled()
		}
		err := c.makeParents(e.path)
		if err == nil {
			temps[i], err = c.writeTemp(e)
		}
		if err != nil {
			return writeError(e.path, err)
		}
	}
	for i, e := range write {
		if ctx.Err() != nil {
			return canceled()
		}
		if bad := c.tree.unchanged(e); bad != nil {
			return writeError(e.path, errors.New("it was changed by something else at the same moment"))
		}
		if err := c.replace(e, temps[i]); err != nil {
			return writeError(e.path, err)
		}
	}
	return nil
}

// name returns a new name in the directory of p.
func (c *commit) name(p string) string {
	c.names++
	return path.Join(path.Dir(p), c.prefix+strconv.Itoa(c.names))
}

// undone registers how a step is undone. Undoing finds it no fault that something is missing.
func (c *commit) undone(f func() error) {
	c.undo = append(c.undo, func() error {
		if err := f(); err != nil && !missing(err) {
			return err
		}
		return nil
	})
}

// putAside renames a file that goes.
func (c *commit) putAside(e *entry) error {
	aside := c.name(e.path)
	if err := c.tree.root.rename(path.Base(e.path), aside); err != nil {
		return err
	}
	c.keepAside(e, aside)
	return nil
}

func (c *commit) keepAside(e *entry, aside string) {
	c.asides = append(c.asides, aside)
	c.undone(func() error { return c.restore(e, aside) })
}

// makeParents makes the directories above p that are missing.
func (c *commit) makeParents(p string) error {
	for i, char := range p {
		if char != '/' {
			continue
		}
		dir := p[:i]
		if s, err := c.tree.root.lstat(dir); err == nil && s.is(unix.S_IFDIR) {
			continue
		} else if err != nil && !missing(err) {
			return err
		}
		if err := c.tree.root.mkdir(dir); err != nil {
			return err
		}
		c.undone(func() error {
			if err := c.tree.root.rmdir(dir); !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, unix.EEXIST) {
				return err
			}
			return nil
		})
	}
	return nil
}

// writeTemp writes the new content of e next to its place and returns the temporary name.
func (c *commit) writeTemp(e *entry) (string, error) {
	// A new file gets its permissions by way of the umask, as if an editor had made it.
	perm := fs.FileMode(0o666)
	if e.mode&0o111 != 0 {
		perm = 0o777
	}
	temp := c.name(e.path)
	f, err := c.tree.root.create(temp, perm)
	if err != nil {
		return "", err
	}
	c.undone(func() error { return c.tree.root.remove(temp) })
	_, err = f.WriteString(e.data)
	if e.before != nil {
		_ = f.Chown(int(e.before.Uid), int(e.before.Gid)) // already ours, or not ours to give
	}
	if err == nil && e.given {
		err = f.Chmod(e.mode)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return "", err
	}
	e.written, err = c.tree.root.lstat(temp)
	return temp, err
}

// replace gives new content its name. An existing file gets a second name first.
func (c *commit) replace(e *entry, temp string) error {
	root := c.tree.root
	if e.before == nil {
		if err := root.rename(path.Base(temp), e.path); err != nil {
			return err
		}
		c.undone(func() error { return c.removeWritten(e) })
		return nil
	}
	aside := c.name(e.path)
	if err := root.link(e.path, path.Base(aside)); err != nil {
		// Without hard links the name is missing for an instant.
		if err := c.putAside(e); err != nil {
			return err
		}
		return root.rename(path.Base(temp), e.path)
	}
	c.keepAside(e, aside)
	return root.replace(path.Base(temp), e.path)
}

// rollback undoes every step, the last one first.
func (c *commit) rollback() error {
	var errs []error
	for i := len(c.undo) - 1; i >= 0; i-- {
		errs = append(errs, c.undo[i]())
	}
	return errors.Join(errs...)
}

// removeWritten removes a new file, unless another program has replaced or changed it.
func (c *commit) removeWritten(e *entry) error {
	now, err := c.tree.root.lstat(e.path)
	if err == nil && now.unchanged(e.written) {
		err = c.tree.root.remove(e.path)
	}
	return err
}

// restore gives what was put aside its name back, unless another program's file has the name now.
func (c *commit) restore(e *entry, aside string) error {
	root := c.tree.root
	was, err := root.lstat(aside)
	if err != nil {
		return err
	}
	now, err := root.lstat(e.path)
	switch {
	case err != nil && missing(err):
		return root.rename(path.Base(aside), e.path)
	case err != nil:
		return err
	case was.same(now):
		return root.remove(aside)
	case e.written != nil && now.unchanged(e.written):
		return root.replace(path.Base(aside), e.path)
	}
	c.kept = append(c.kept, visible(e.path)+" is in "+aside)
	return nil
}

// finish removes what is no longer needed. The change is made, so leftovers are only untidy.
func (c *commit) finish() {
	for _, aside := range c.asides {
		_ = c.tree.root.remove(aside)
	}
	for _, e := range c.tree.order {
		if e.exists || e.before == nil {
			continue
		}
		// Like git: a directory goes with its last file.
		for dir := path.Dir(e.path); dir != "."; dir = path.Dir(dir) {
			if err := c.tree.root.rmdir(dir); err != nil && !missing(err) {
				break
			}
		}
	}
}

// unchanged checks that e is still what was read.
func (t *tree) unchanged(e *entry) *tools.Error {
	now, err := t.root.lstat(e.path)
	switch {
	case err != nil && !missing(err):
		return unreadable(e.path, err)
	case (err == nil) != (e.before != nil), err == nil && !now.unchanged(e.before):
		return changedMeanwhile(e.path)
	}
	return nil
}

// missing reports whether an error says that nothing exists at a path.
func missing(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ENAMETOOLONG)
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
