// Package worktree gives a turn a private working tree and says what the turn changed there.
//
//	<root>/.agentd-turns/<turn id>/tree   the turn works here
//	<root>/.agentd-turns/<turn id>/base   the files of tree as they were at the start, without .git
//
// Make fills both, Tree.Diff writes the difference as a patch for git apply, Tree.Remove removes them.
//
// Invariants. The origin is only read. Commands of the turn have written the tree, so it is hostile: it is read name by
// name from open directories, never through a symbolic link, within bounds, and no program is started on it. Every
// directory of a turn is locked by the process that made it; one without a lock was left by a crash, and Recover
// removes it.
//
// Not promised: that commands stay within the tree, a consistent copy of an origin that is written meanwhile, and a
// consistent patch while a command still writes.
package worktree

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"holon/internal/folder"
	"holon/responses"
)

// Names of the directories.
const (
	turnsName = ".agentd-turns"
	treeName  = "tree"
	baseName  = "base"
	newName   = "new" // a base that is not complete
	trashName = "trash"
)

// Options say which tree to make. All fields but Except are required.
type Options struct {
	Root   string   // the directory below which private trees lie
	Origin string   // a directory below Root, or Root
	TurnID string   // names the tree
	Kind   string   // responses.IsolationCopy or responses.IsolationWorktree
	Except []string // directories of the server's own, which are not copied
}

// A Tree is the private tree of a turn. It is not for concurrent use.
type Tree struct {
	path   string
	dir    folder.Dir // of the turn; locked
	prefix string     // of the working directory in the tree
	git    bool       // the base is a commit, so that ignored files are left out of the patch
}

// WorkDir returns the directory in which the turn works.
func (t *Tree) WorkDir() string { return filepath.Join(t.path, treeName, t.prefix) }

// IsPrivate reports whether dir is, or lies within, a directory of private trees.
func IsPrivate(dir string) bool { return slices.Contains(strings.Split(dir, "/"), turnsName) }

// Make makes the private tree of a turn. Its errors are *responses.Error values about the request, or say what the
// disk refused. On error nothing is left.
func Make(ctx context.Context, o Options) (*Tree, error) {
	t := &Tree{path: filepath.Join(o.Root, turnsName, o.TurnID), git: o.Kind == responses.IsolationWorktree}
	if err := t.create(); err != nil {
		return nil, fmt.Errorf("make a private tree: %w", err)
	}
	if err := t.fill(ctx, o); err != nil {
		return nil, errors.Join(err, t.Remove())
	}
	return t, nil
}

// create makes and locks the turn's directory. Another turn that ends may remove the parent meanwhile, and a process
// that starts may take an unlocked directory for what a crash left.
func (t *Tree) create() error {
	const tries = 100
	for range tries {
		if err := os.MkdirAll(t.path, 0o700); err != nil {
			return err
		}
		dir, err := folder.OpenOwned(t.path)
		if err == nil && lock(dir) {
			if names, err := dir.Names(); err == nil && len(names) == 0 && dir.At(t.path) {
				t.dir = dir
				return nil
			}
			// What a crash left: a turn id is used again when the turn's directory was removed.
			if err := (&Tree{path: t.path, dir: dir}).Remove(); err != nil {
				return err
			}
			continue
		}
		if err == nil {
			dir.Close()
		} else if !errors.Is(err, unix.ENOENT) {
			return err
		}
	}
	return &os.PathError{Op: "lock", Path: t.path, Err: unix.EBUSY}
}

func lock(dir folder.Dir) bool { return unix.Flock(dir.FD, unix.LOCK_EX|unix.LOCK_NB) == nil }

func (t *Tree) fill(ctx context.Context, o Options) (err error) {
	tree, err := t.make(treeName)
	if err != nil {
		return err
	}
	defer tree.Close()
	c := &copier{ctx: ctx, except: identities(append(o.Except, filepath.Join(o.Root, turnsName)))}
	if t.git {
		t.prefix, err = checkout(ctx, o, tree)
	} else {
		err = c.copyOrigin(o.Origin, tree)
	}
	if err != nil {
		return err
	}
	base, err := t.make(newName)
	if err != nil {
		return err
	}
	defer base.Close()
	c = &copier{ctx: ctx, skip: isRepository}
	if err := c.copy(tree, base, "", 0); err != nil {
		return err
	}
	if err := unix.Renameat(t.dir.FD, newName, t.dir.FD, baseName); err != nil {
		return fmt.Errorf("complete a private tree: %w", err)
	}
	return nil
}

func (t *Tree) make(name string) (folder.Dir, error) {
	if err := unix.Mkdirat(t.dir.FD, name, 0o755); err != nil {
		return folder.Dir{FD: -1}, fmt.Errorf("make a private tree: %w", err)
	}
	return t.dir.Sub(name)
}

// Remove removes the tree, whatever commands put there.
func (t *Tree) Remove() error {
	defer t.dir.Close() // and with it the lock
	bin, err := folder.OpenTrash(filepath.Join(t.path, trashName))
	if err != nil {
		return fmt.Errorf("remove a private tree: %w", err)
	}
	defer bin.Close()
	err = t.dir.List(func(names []string) error {
		for _, name := range names {
			if name == trashName {
				continue
			}
			if err := bin.Take(t.dir, name); err != nil {
				return err
			}
		}
		return nil
	})
	// Not the turn's context: the tree goes also when the turn was cancelled.
	err = errors.Join(err, bin.Empty(context.Background()))
	if err == nil {
		err = errors.Join(t.dir.Rmdir(trashName), os.Remove(t.path))
	}
	if err != nil {
		return fmt.Errorf("remove a private tree: %w", err)
	}
	_ = os.Remove(filepath.Dir(t.path)) // it stays while it holds another tree
	return nil
}

// Recover removes the trees below root that no process holds. Before it removes a complete tree, it calls keep, which
// may make the patch of the turn.
func Recover(root string, keep func(turnID string, t *Tree)) error {
	turns, err := folder.Open(filepath.Join(root, turnsName))
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for private trees: %w", err)
	}
	defer turns.Close()
	names, err := turns.Names()
	errs := []error{err}
	for _, name := range names {
		if strings.HasPrefix(name, ".") {
			continue
		}
		t := &Tree{path: filepath.Join(root, turnsName, name)}
		if t.dir, err = folder.OpenOwned(t.path); err != nil {
			errs = append(errs, err)
			continue
		}
		if !lock(t.dir) {
			t.dir.Close()
			continue
		}
		if _, err := t.dir.Lstat(baseName); err == nil {
			keep(name, t)
		}
		errs = append(errs, t.Remove())
	}
	_ = os.Remove(filepath.Join(root, turnsName)) // it stays while it holds a tree
	return errors.Join(errs...)
}
