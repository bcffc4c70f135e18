package worktree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"holon/internal/folder"
	"holon/internal/gitname"
	"holon/responses"
)

// Bounds of a private tree.
const (
	maxEntries = 200_000
	maxBytes   = 2 << 30
	maxDepth   = 128 // of directories; two of each level are open at once
)

// budget counts what a private tree holds.
type budget struct {
	entries int
	bytes   int64
}

func (b *budget) entry() error {
	if b.entries++; b.entries > maxEntries {
		return tooLarge(fmt.Sprintf("it has more than %d files and directories", maxEntries))
	}
	return nil
}

func (b *budget) file(size int64) error {
	if b.bytes += size; size > maxBytes || b.bytes > maxBytes {
		return tooLarge(fmt.Sprintf("its files have more than %d MiB", maxBytes>>20))
	}
	return nil
}

// copier copies directories. Symbolic links are copied as links; sockets, pipes and devices are left out.
type copier struct {
	ctx    context.Context
	except map[identity]bool                                             // directories that are left out
	skip   func(from folder.Dir, dir, name string, st *unix.Stat_t) bool // what else is left out; nil for nothing
	budget budget
}

// identity is what stays the same when a directory is reached by another path.
type identity struct{ device, inode uint64 }

func identities(paths []string) map[identity]bool {
	set := make(map[identity]bool)
	for _, path := range paths {
		var st unix.Stat_t
		if unix.Stat(path, &st) == nil {
			set[identity{st.Dev, st.Ino}] = true
		}
	}
	return set
}

// copyOrigin copies the directory of a request, to which no link leads, without what would let git in the copy change
// anything elsewhere.
func (c *copier) copyOrigin(o Options, to folder.Dir) error {
	from, err := folder.Open(o.Root)
	if err != nil {
		return fmt.Errorf("copy the working tree: %w", err)
	}
	defer from.Close()
	if rel, err := filepath.Rel(o.Root, o.Origin); err != nil || rel != "." {
		at := folder.NewCursor(from, false)
		defer at.Close()
		if from, _, err = at.Parent(rel + "/."); err != nil {
			return fmt.Errorf("copy the working tree: %w", err)
		}
	}
	c.skip = leadsElsewhere
	return c.copy(from, to, "", 0)
}

// isRepository reports what git keeps of its own in a working tree, which a patch cannot carry.
func isRepository(_ folder.Dir, _, name string, _ *unix.Stat_t) bool { return gitname.IsDotGit(name) }

func (c *copier) copy(from, to folder.Dir, path string, depth int) error {
	if depth > maxDepth {
		return tooLarge(fmt.Sprintf("%.200q is nested deeper than %d directories", path, maxDepth))
	}
	return from.List(func(names []string) error {
		for _, name := range names {
			if err := context.Cause(c.ctx); err != nil {
				return err
			}
			if err := c.entry(from, to, path, name, depth); err != nil {
				return err
			}
		}
		return nil
	})
}

func (c *copier) entry(from, to folder.Dir, dir, name string, depth int) error {
	st, err := from.Lstat(name)
	if errors.Is(err, unix.ENOENT) {
		return nil // it was removed meanwhile
	}
	if err != nil {
		return c.unreadable(dir, name, err)
	}
	if c.skip != nil && c.skip(from, dir, name, &st) || c.except[identity{st.Dev, st.Ino}] {
		return nil
	}
	if err := c.budget.entry(); err != nil {
		return err
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return c.directory(from, to, dir, name, &st, depth)
	case unix.S_IFREG:
		return c.file(from, to, dir, name)
	case unix.S_IFLNK:
		target, err := from.Readlink(name)
		if err != nil {
			return c.unreadable(dir, name, err)
		}
		return written(dir, name, unix.Symlinkat(target, to.FD, name))
	}
	return nil
}

func (c *copier) directory(from, to folder.Dir, dir, name string, st *unix.Stat_t, depth int) error {
	inner, err := from.Sub(name)
	if err != nil {
		return c.unreadable(dir, name, err)
	}
	defer inner.Close()
	if err := unix.Mkdirat(to.FD, name, 0o700); err != nil {
		return written(dir, name, err)
	}
	made, err := to.Sub(name)
	if err != nil {
		return written(dir, name, err)
	}
	defer made.Close()
	if err := c.copy(inner, made, folder.Join(dir, name), depth+1); err != nil {
		return err
	}
	return written(dir, name, unix.Fchmod(made.FD, st.Mode&0o777|0o700))
}

func (c *copier) file(from, to folder.Dir, dir, name string) error {
	in, st, err := from.OpenFile(name)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, folder.ErrNotRegular) {
		return nil // it was replaced meanwhile
	}
	if err != nil {
		return c.unreadable(dir, name, err)
	}
	defer in.Close()
	if err := c.budget.file(st.Size); err != nil {
		return err
	}
	err = createFile(to, name, io.LimitReader(in, st.Size), st.Mode&0o777)
	if err == nil { // build tools compare times
		err = unix.UtimesNanoAt(to.FD, name, []unix.Timespec{st.Atim, st.Mtim}, unix.AT_SYMLINK_NOFOLLOW)
	}
	return written(dir, name, err)
}

func createFile(dir folder.Dir, name string, content io.Reader, perm uint32) error {
	fd, err := unix.Openat(dir.FD, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return &os.PathError{Op: "create", Path: name, Err: err}
	}
	f := os.NewFile(uintptr(fd), name)
	_, err = io.Copy(f, content)
	return errors.Join(err, unix.Fchmod(int(f.Fd()), perm), f.Close())
}

func writeFile(dir folder.Dir, name, data string) error {
	return createFile(dir, name, strings.NewReader(data), 0o644)
}

// errWrite marks errors of the private tree's side.
var errWrite = errors.New("write a private tree")

// written wraps an error of the private tree's side.
func written(dir, name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %.200q: %w", errWrite, folder.Join(dir, name), err)
}

func (c *copier) unreadable(dir, name string, err error) error {
	e := responses.Invalid("holon.isolation", responses.CodeInvalidValue,
		fmt.Sprintf("%.200q in the working tree cannot be read", folder.Join(dir, name)))
	e.Hint, e.Cause = "make it readable to the server, or name another holon.workspace_dir", err
	return e
}

func tooLarge(why string) error {
	e := responses.Invalid("holon.isolation", responses.CodeInvalidValue,
		"the working tree is too large for a private copy: "+why)
	e.Hint = "name a smaller holon.workspace_dir, or use the isolation none"
	return e
}
