package patch

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"

	"holon/agentd/tools"
)

// commit makes the staged state real. Files that go are renamed aside, new
// content is written beside its place, and only then does anything change under
// its own name. Each step says how it is undone; the first failure undoes all.
func (t *tree) commit() *tools.Error {
	var id [6]byte
	rand.Read(id[:]) // never fails
	c := &committing{tree: t, prefix: ".holon-" + hex.EncodeToString(id[:]) + "-"}
	if bad := c.run(); bad != nil {
		if left := c.rollback(); len(left) > 0 {
			bad.Message += "; the tree could not be put back in order: " + tools.Clip(errors.Join(left...).Error(), 500)
			bad.RecoveryHint = "look at git status before going on"
		} else {
			bad.Message += "; nothing was changed"
		}
		return bad
	}
	c.finish()
	return nil
}

type committing struct {
	*tree
	prefix string // of temporary names
	n      int
	undo   []func() error
	aside  []string // names of what was replaced or removed, to delete at the end
	gone   []string // paths that were removed
}

func (c *committing) run() *tools.Error {
	var writes []*entry
	for _, e := range c.order {
		if !e.differs() {
			continue
		}
		if bad := c.unchanged(e); bad != nil {
			return bad
		}
		if e.exists {
			writes = append(writes, e)
		} else if err := c.remove(e); err != nil {
			return writeError(e.path, err)
		}
	}
	temps := make([]string, len(writes))
	for i, e := range writes {
		temp, err := c.write(e)
		if err != nil {
			return writeError(e.path, err)
		}
		temps[i] = temp
	}
	for i, e := range writes {
		if err := c.replace(e, temps[i]); err != nil {
			return writeError(e.path, err)
		}
	}
	return nil
}

// unchanged checks that e is still what was read.
func (c *committing) unchanged(e *entry) *tools.Error {
	fi, err := c.root.Lstat(e.path)
	switch {
	case e.before == nil && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)):
		return nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return unreadable(e.path, err)
	case err != nil || e.before == nil || !os.SameFile(fi, e.before) || fi.Size() != e.before.Size() || !fi.ModTime().Equal(e.before.ModTime()):
		return changedMeanwhile(e.path)
	}
	return nil
}

func (c *committing) name(p string) string {
	c.n++
	return path.Join(path.Dir(p), c.prefix+strconv.Itoa(c.n))
}

func (c *committing) remove(e *entry) error {
	aside := c.name(e.path)
	if err := c.root.Rename(e.path, aside); err != nil {
		return err
	}
	c.undo = append(c.undo, func() error { return c.root.Rename(aside, e.path) })
	c.aside = append(c.aside, aside)
	c.gone = append(c.gone, e.path)
	return nil
}

// write puts the new content of e into a file beside it.
func (c *committing) write(e *entry) (temp string, err error) {
	if err := c.makeDirs(path.Dir(e.path)); err != nil {
		return "", err
	}
	temp = c.name(e.path)
	// A new file gets its permissions by way of the umask, as if an editor had
	// made it.
	perm := fs.FileMode(0o666)
	if e.mode&0o111 != 0 {
		perm = 0o777
	}
	f, err := c.root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return "", err
	}
	c.undo = append(c.undo, func() error {
		if err := c.root.Remove(temp); !errors.Is(err, fs.ErrNotExist) { // it may have got its final name
			return err
		}
		return nil
	})
	_, err = f.WriteString(e.data)
	if e.before != nil {
		if st, ok := e.before.Sys().(*syscall.Stat_t); ok {
			_ = f.Chown(int(st.Uid), int(st.Gid)) // ours already, or not ours to give
		}
	}
	if err == nil && e.given {
		err = f.Chmod(e.mode)
	}
	return temp, errors.Join(err, f.Close())
}

// makeDirs makes the missing directories down to dir, one by one, so that they
// can be taken back.
func (c *committing) makeDirs(dir string) error {
	if dir == "." {
		return nil
	}
	for i := 0; i <= len(dir); i++ {
		if i < len(dir) && dir[i] != '/' {
			continue
		}
		d := dir[:i]
		err := c.root.Mkdir(d, 0o777)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return err
		}
		c.undo = append(c.undo, func() error { return c.root.Remove(d) })
	}
	return nil
}

// replace gives temp the name of e. What has the name so far keeps a second one
// until the end.
func (c *committing) replace(e *entry, temp string) error {
	if bad := c.unchanged(e); bad != nil {
		return errors.New("it was changed by something else at the same moment")
	}
	if e.before != nil {
		aside := c.name(e.path)
		if err := c.root.Link(e.path, aside); err != nil {
			// No hard links here. The name is missing for an instant then.
			if err := c.root.Rename(e.path, aside); err != nil {
				return err
			}
		}
		c.undo = append(c.undo, func() error { return c.root.Rename(aside, e.path) })
		c.aside = append(c.aside, aside)
	}
	if err := c.root.Rename(temp, e.path); err != nil {
		return err
	}
	if e.before == nil {
		c.undo = append(c.undo, func() error { return c.root.Remove(e.path) })
	}
	return nil
}

func (c *committing) rollback() (left []error) {
	for i := len(c.undo) - 1; i >= 0; i-- {
		if err := c.undo[i](); err != nil {
			left = append(left, err)
		}
	}
	return left
}

// finish takes away what is no longer needed. The change is made, so what cannot
// be taken away is only untidy.
func (c *committing) finish() {
	for _, name := range c.aside {
		_ = c.root.Remove(name)
	}
	for _, p := range c.gone {
		// Like git: a directory goes with its last file.
		for dir := path.Dir(p); dir != "."; dir = path.Dir(dir) {
			if c.root.Remove(dir) != nil {
				break
			}
		}
	}
}

func writeError(p string, err error) *tools.Error {
	e := &tools.Error{Kind: KindWrite, Message: fmt.Sprintf("%s cannot be written: %v", visible(p), cause(err)), Details: map[string]any{"path": p},
		RecoveryHint: "check the permissions of the file and its directory"}
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		e.RecoveryHint = "the disk is full; remove files that are not needed, then repeat the call"
		e.Retryable = true
	case errors.Is(err, syscall.ENAMETOOLONG):
		e.RecoveryHint = "use a shorter name than " + strconv.Itoa(strings.Count(path.Base(p), "")-1) + " characters"
	}
	return e
}
