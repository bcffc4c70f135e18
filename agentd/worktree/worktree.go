// Package worktree gives a turn a private working tree and says what the turn changed there.
//
//	<root>/.agentd-turns/<session id>/tree   the turn works here
//	<root>/.agentd-turns/<session id>/base   the files of tree at the start, without .git; while the turn runs
//	<root>/.agentd-turns/<session id>/turn   the turn's id
//	<root>/.agentd-turns/.<digest>           a tree that waits for the turn that continues a response
//
// The path is that of the session, so that what a conversation says of it stays true in later turns; a further turn of
// the session that waits meanwhile has its own id in the path. Make fills both, Tree.Diff writes the difference as a
// patch for git apply. Then Tree.Keep moves the tree aside for the turn that continues the response, whose Make moves
// it back, or Tree.Remove removes it.
//
// Invariants. The origin is only read. At most maxKept trees wait for a turn that goes on with them, each under the
// digest of its response, so that branches of a conversation keep their own. Commands of the turn have written the
// tree, so it is hostile: it is read name by name from open directories, never through a symbolic link, within bounds,
// and no program is started on it. Every directory of a turn is locked by the process that made it; one without a lock
// was left by a crash, and Recover removes it.
//
// Not promised: that commands stay within the tree, a consistent copy of an origin that is written meanwhile, and a
// consistent patch while a command still writes.
package worktree

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
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
	turnName  = "turn"
	newName   = "new" // a base that is not complete
	trashName = "trash"
)

// maxKept is how many trees are kept for turns to come. The oldest go first.
const maxKept = 16

// Options say which tree to make. All fields but Continues and Except are required.
type Options struct {
	Root      string // the directory below which private trees lie
	Origin    string // a directory below Root, or Root
	SessionID string
	TurnID    string
	Continues string   // the response that the turn continues, whose tree it goes on with if that was kept
	Kind      string   // responses.IsolationCopy or responses.IsolationWorktree
	Except    []string // directories of the server's own, which are not copied
}

// A Tree is the private tree of a turn. It is not for concurrent use.
type Tree struct {
	root   string
	name   string     // of the turn's directory
	turns  folder.Dir // the directory of private trees
	dir    folder.Dir // of the turn; locked
	prefix string     // of the working directory in the tree
	git    bool       // the base is a commit, so that ignored files are left out of the patch
	kind   string     // of isolation, and the origin
	goesOn string     // the response whose tree this is until the turn runs, "" for a new one

	references map[string]string // at the beginning; nil where another process made the tree
}

// WorkDir returns the directory in which the turn works.
func (t *Tree) WorkDir() string { return filepath.Join(t.root, turnsName, t.name, treeName, t.prefix) }

// Continues reports whether the tree is that of the turn before; else it has what the origin had.
func (t *Tree) Continues() bool { return t.goesOn != "" }

// Ceiling returns the directory that holds the tree. git in the tree must not look for a repository there or above: it
// would find that of the user.
func (t *Tree) Ceiling() string { return filepath.Join(t.root, turnsName, t.name) }

// IsPrivate reports whether dir is, or lies within, a directory of private trees.
func IsPrivate(dir string) bool { return slices.Contains(strings.Split(dir, "/"), turnsName) }

// Make makes the private tree of a turn. Its errors are *responses.Error values about the request, or say what the
// disk refused. On error nothing is left that was not there before.
func Make(ctx context.Context, o Options) (*Tree, error) {
	t := &Tree{root: o.Root, name: o.SessionID, git: o.Kind == responses.IsolationWorktree, kind: o.Kind + " " + o.Origin}
	err := t.create(o.TurnID)
	if errors.Is(err, unix.EBUSY) {
		t.name = o.TurnID
		err = t.create(o.TurnID)
	}
	if err != nil {
		return nil, fmt.Errorf("make a private tree: %w", err)
	}
	if err := t.fill(ctx, o); err != nil {
		return nil, errors.Join(err, t.Release())
	}
	return t, nil
}

// Foresee returns where the turn would work if its tree were made now, and the directory from which the tree would have
// its files: the tree that waits for the turn, or the origin. It changes nothing. Its errors are as those of Make.
func Foresee(o Options) (workDir, from string, err error) {
	t := &Tree{root: o.Root, name: o.SessionID, kind: o.Kind + " " + o.Origin}
	if o.Kind == responses.IsolationWorktree {
		top, err := findRepository(o.Root, o.Origin)
		if err == nil {
			t.prefix, err = filepath.Rel(top, o.Origin)
		}
		if err != nil {
			return "", "", err
		}
	}
	from = filepath.Join(t.root, turnsName, t.aside(o.Continues))
	if info, err := os.Lstat(from); o.Continues == "" || err != nil || !info.IsDir() {
		return t.WorkDir(), o.Origin, nil
	}
	return t.WorkDir(), filepath.Join(from, t.prefix), nil
}

// create makes and locks the turn's directory. Another turn that ends may remove the parent meanwhile, and a process
// that starts may take an unlocked directory for what a crash left. The error is EBUSY when another turn has the
// directory.
func (t *Tree) create(turnID string) error {
	const tries = 100
	for range tries {
		if err := t.open(); errors.Is(err, unix.ENOENT) {
			continue
		} else if err != nil {
			return err
		}
		if !lock(t.dir) {
			t.close()
			break
		}
		names, err := t.dir.Names()
		if err == nil && len(names) == 0 && t.turns.Has(t.name, t.dir) {
			return writeFile(t.dir, turnName, turnID)
		}
		// It was removed meanwhile, or holds what a process that was killed left.
		if err := t.Remove(); err != nil {
			return err
		}
	}
	return &os.PathError{Op: "lock", Path: t.name, Err: unix.EBUSY}
}

// aside is the name of the tree that the turn of a response left.
func (t *Tree) aside(response string) string {
	sum := sha256.Sum256([]byte(response + " " + t.kind))
	return "." + hex.EncodeToString(sum[:16])
}

// open opens the turn's directory, which it creates if it is absent, and its parent. What a command put in their place
// is removed.
func (t *Tree) open() error {
	root, err := folder.Open(t.root)
	if err != nil {
		return err
	}
	defer root.Close()
	if t.turns, err = replaceOther(root, turnsName); err != nil {
		return err
	}
	if t.dir, err = replaceOther(t.turns, t.name); err != nil {
		t.turns.Close()
	}
	return err
}

func replaceOther(dir folder.Dir, name string) (folder.Dir, error) {
	made, err := dir.MakeOwned(name)
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		if err = unix.Unlinkat(dir.FD, name, 0); err == nil {
			made, err = dir.MakeOwned(name)
		}
	}
	return made, err
}

func (t *Tree) close() {
	t.dir.Close() // and with it the lock
	t.turns.Close()
}

func lock(dir folder.Dir) bool { return unix.Flock(dir.FD, unix.LOCK_EX|unix.LOCK_NB) == nil }

func (t *Tree) fill(ctx context.Context, o Options) (err error) {
	tree, err := t.content(ctx, o)
	if err != nil {
		return err
	}
	defer tree.Close()
	t.references = references(tree)
	base, err := t.make(newName)
	if err != nil {
		return fmt.Errorf("make a private tree: %w", err)
	}
	defer base.Close()
	c := &copier{ctx: ctx, skip: isRepository}
	if err := c.copy(tree, base, "", 0); err != nil {
		return err
	}
	if err := unix.Renameat(t.dir.FD, newName, t.dir.FD, baseName); err != nil {
		return fmt.Errorf("complete a private tree: %w", err)
	}
	return nil
}

// content returns the tree that the turn before left, or a new one with what the origin has.
func (t *Tree) content(ctx context.Context, o Options) (tree folder.Dir, err error) {
	if o.Continues != "" && unix.Renameat(t.turns.FD, t.aside(o.Continues), t.dir.FD, treeName) == nil {
		t.goesOn = o.Continues
		tree, err = t.dir.Sub(treeName)
	} else {
		tree, err = t.make(treeName)
	}
	if err != nil {
		return tree, fmt.Errorf("make a private tree: %w", err)
	}
	switch {
	case t.git:
		t.prefix, err = checkout(ctx, o, tree, t.goesOn == "")
	case t.goesOn == "":
		c := &copier{ctx: ctx, except: identities(append(o.Except, filepath.Join(o.Root, turnsName)))}
		err = c.copyOrigin(o, tree)
	}
	if err != nil {
		tree.Close()
	}
	return tree, err
}

func (t *Tree) make(name string) (folder.Dir, error) {
	if err := unix.Mkdirat(t.dir.FD, name, 0o755); err != nil {
		return folder.Dir{FD: -1}, err
	}
	return t.dir.Sub(name)
}

// Keep moves the tree aside for a turn that continues the response. A tree that commands removed is not kept.
func (t *Tree) Keep(response string) error {
	tree, err := t.dir.Sub(treeName) // which makes it one that can be moved
	if err == nil {
		tree.Close()
		err = unix.Renameat(t.dir.FD, treeName, t.turns.FD, t.aside(response))
	}
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		err = nil
	}
	if err != nil {
		err = fmt.Errorf("keep a private tree: %w", err)
	}
	return errors.Join(err, t.Remove())
}

// Release gives up a tree in which no command ran: it stays as the turn before left it, or is removed if it is new.
func (t *Tree) Release() error {
	if t.goesOn != "" {
		return t.Keep(t.goesOn)
	}
	return t.Remove()
}

// Remove removes the tree, whatever commands put there, and the oldest of those that wait for a turn.
func (t *Tree) Remove() error {
	defer t.close()
	err := t.clear()
	if err == nil && t.turns.Has(t.name, t.dir) {
		err = t.turns.Rmdir(t.name)
	}
	if err != nil {
		return fmt.Errorf("remove a private tree: %w", err)
	}
	_ = os.Remove(filepath.Join(t.root, turnsName)) // it stays while it holds another tree
	return nil
}

// clear removes all from the turn's directory, and the trees beyond maxKept.
func (t *Tree) clear() error {
	bin, err := folder.OpenTrashIn(t.dir, trashName)
	if err != nil {
		return err
	}
	defer bin.Close()
	names, err := t.surplus()
	for _, name := range names {
		err = errors.Join(err, bin.Take(t.turns, name))
	}
	err = errors.Join(err, t.dir.List(func(names []string) error {
		for _, name := range names {
			if name == trashName {
				continue
			}
			if err := bin.Take(t.dir, name); err != nil {
				return err
			}
		}
		return nil
	}))
	// Not the turn's context: what is to go goes also when the turn was cancelled.
	if err = errors.Join(err, bin.Empty(context.Background())); err != nil {
		return err
	}
	return t.dir.Rmdir(trashName)
}

// surplus lists the trees that were moved aside first, but for the last maxKept.
func (t *Tree) surplus() ([]string, error) {
	names, err := t.turns.Names()
	moved := make(map[string]int64) // when; the kernel notes it, and commands cannot change it
	for _, name := range names {
		if st, err := t.turns.Lstat(name); err == nil && isAside(name) {
			moved[name] = st.Ctim.Nano()
		}
	}
	oldest := slices.SortedFunc(maps.Keys(moved), func(a, b string) int { return cmp.Compare(moved[a], moved[b]) })
	return oldest[:max(0, len(oldest)-maxKept)], err
}

// isAside reports whether a name is one of a tree that waits for a turn. No id begins with a dot.
func isAside(name string) bool { return strings.HasPrefix(name, ".") }

// Recover removes the trees below root that a crash left. Before it removes a complete tree, it calls keep, which may
// make the patch of the turn, and leaves the tree when that reports that the turn is not its own. Trees that wait for a
// turn stay.
func Recover(root string, keep func(turnID string, t *Tree) (own bool)) error {
	turns, err := folder.Open(filepath.Join(root, turnsName))
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for private trees: %w", err)
	}
	names, err := turns.Names()
	turns.Close()
	errs := []error{err}
	for _, name := range names {
		if !isAside(name) {
			errs = append(errs, (&Tree{root: root, name: name}).recover(keep))
		}
	}
	_ = os.Remove(filepath.Join(root, turnsName)) // it stays while it holds a tree
	return errors.Join(errs...)
}

func (t *Tree) recover(keep func(turnID string, t *Tree) (own bool)) error {
	if err := t.open(); err != nil {
		return fmt.Errorf("remove a private tree: %w", err)
	}
	if !lock(t.dir) {
		t.close()
		return nil
	}
	if _, err := t.dir.Lstat(baseName); err == nil && !keep(string(readFile(t.dir, turnName)), t) {
		t.close()
		return nil
	}
	return t.Remove()
}
