// Package worktree gives a turn a private working tree and says what the turn changed there.
//
//	<root>/.agentd-turns/<session id>/tree   the turn works here
//	<root>/.agentd-turns/<session id>/base   the files of tree at the start, without .git; while the turn runs
//	<root>/.agentd-turns/<session id>/turn   the turn's id
//	<root>/.agentd-turns/<session id>/left   after the turn: its response, the kind of isolation and the origin
//
// The path is that of the session, so that what a conversation says of it stays true in later turns; a further turn of
// the session that waits meanwhile has its own id in the path. Make fills both, Tree.Diff writes the difference as a
// patch for git apply. Then Tree.Keep leaves the tree to the turn that continues the response, or Tree.Remove removes
// it.
//
// Invariants. The origin is only read. At most maxKept trees wait for a turn that goes on with them. Commands of the
// turn have written the tree, so it is hostile: it is read name by name from open directories, never through a symbolic
// link, within bounds, and no program is started on it. Every directory of a turn is locked by the process that made
// it; one without a lock was kept, or was left by a crash, and Recover removes it.
//
// Not promised: that commands stay within the tree, a consistent copy of an origin that is written meanwhile, and a
// consistent patch while a command still writes.
package worktree

import (
	"cmp"
	"context"
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
	leftName  = "left"
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
	kind   string     // of isolation, and the origin, as in the file left
	goesOn string     // the response whose tree this is until the turn runs, "" for a new one

	references map[string]string // at the beginning; nil where another process made the tree
}

// WorkDir returns the directory in which the turn works.
func (t *Tree) WorkDir() string { return filepath.Join(t.root, turnsName, t.name, treeName, t.prefix) }

// Ceiling returns the directory that holds the tree. git in the tree must not look for a repository there or above: it
// would find that of the user.
func (t *Tree) Ceiling() string { return filepath.Join(t.root, turnsName, t.name) }

// IsPrivate reports whether dir is, or lies within, a directory of private trees.
func IsPrivate(dir string) bool { return slices.Contains(strings.Split(dir, "/"), turnsName) }

// Make makes the private tree of a turn. Its errors are *responses.Error values about the request, or say what the
// disk refused. On error nothing is left that was not there before.
func Make(ctx context.Context, o Options) (*Tree, error) {
	t := &Tree{root: o.Root, name: o.SessionID, git: o.Kind == responses.IsolationWorktree, kind: o.Kind + " " + o.Origin}
	err := t.create(o)
	if errors.Is(err, unix.EBUSY) {
		t.name = o.TurnID
		err = t.create(o)
	}
	if err != nil {
		return nil, fmt.Errorf("make a private tree: %w", err)
	}
	if err := t.fill(ctx, o); err != nil {
		return nil, errors.Join(err, t.Release())
	}
	return t, nil
}

// create makes and locks the turn's directory, or takes over the one that was kept of the response that the turn
// continues. Another turn that ends may remove the parent meanwhile, and a process that starts may take an unlocked
// directory for what a crash left. The error is EBUSY when another turn has the directory.
func (t *Tree) create(o Options) error {
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
		if err == nil && t.turns.Has(t.name, t.dir) {
			if len(names) == 0 {
				return writeFile(t.dir, turnName, o.TurnID)
			}
			if o.Continues != "" && t.waitsFor(o.Continues) {
				t.goesOn = o.Continues
				return t.takeOver(o.TurnID)
			}
		}
		// It was removed meanwhile, or holds what another turn or a process that was killed left.
		if err := t.Remove(); err != nil {
			return err
		}
	}
	return &os.PathError{Op: "lock", Path: t.name, Err: unix.EBUSY}
}

// waitsFor reports whether this is the tree that the turn of a response left. Commands may have removed it since.
func (t *Tree) waitsFor(response string) bool {
	kind, _, err := look(&t.dir, treeName)
	return err == nil && kind == directory && string(readFile(t.dir, leftName)) == t.leftBy(response)
}

// leftBy is the content of the file left.
func (t *Tree) leftBy(response string) string { return response + " " + t.kind }

// takeOver makes a tree that was kept this turn's.
func (t *Tree) takeOver(turnID string) error {
	for _, name := range []string{leftName, turnName} {
		if err := unix.Unlinkat(t.dir.FD, name, 0); err != nil && !errors.Is(err, unix.ENOENT) {
			return &os.PathError{Op: "remove", Path: name, Err: err}
		}
	}
	return writeFile(t.dir, turnName, turnID)
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
		return err
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
	if t.goesOn != "" {
		if tree, err = t.dir.Sub(treeName); err != nil {
			return tree, fmt.Errorf("open a private tree: %w", err)
		}
	} else if tree, err = t.make(treeName); err != nil {
		return tree, err
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
		return folder.Dir{FD: -1}, fmt.Errorf("make a private tree: %w", err)
	}
	return t.dir.Sub(name)
}

// Keep leaves the tree to a turn that continues the response, and removes the oldest trees that wait for one.
func (t *Tree) Keep(response string) error {
	err := t.clear(treeName, turnName)
	if err == nil {
		err = writeFile(t.dir, leftName, t.leftBy(response))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("keep a private tree: %w", err), t.Remove())
	}
	err = t.prune()
	t.close()
	return err
}

// Release gives up a tree in which no command ran: it stays as the turn before left it, or is removed if it is new.
func (t *Tree) Release() error {
	if t.goesOn != "" {
		return t.Keep(t.goesOn)
	}
	return t.Remove()
}

// prune removes the oldest trees that are kept beyond maxKept.
func (t *Tree) prune() error {
	names, err := t.turns.Names()
	if err != nil {
		return fmt.Errorf("look for private trees: %w", err)
	}
	kept := make(map[string]int64) // when it was left
	for _, name := range names {
		var st unix.Stat_t
		if unix.Fstatat(t.turns.FD, name+"/"+leftName, &st, unix.AT_SYMLINK_NOFOLLOW) == nil {
			kept[name] = st.Mtim.Nano()
		}
	}
	oldest := slices.SortedFunc(maps.Keys(kept), func(a, b string) int { return cmp.Compare(kept[a], kept[b]) })
	var errs []error
	for _, name := range oldest[:max(0, len(oldest)-maxKept)] {
		old := &Tree{root: t.root, name: name}
		if err := old.open(); err != nil {
			errs = append(errs, err)
		} else if lock(old.dir) {
			errs = append(errs, old.Remove())
		} else { // a turn goes on with it
			old.close()
		}
	}
	return errors.Join(errs...)
}

// Remove removes the tree, whatever commands put there.
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

// clear removes all from the turn's directory but for some names.
func (t *Tree) clear(but ...string) error {
	bin, err := folder.OpenTrashIn(t.dir, trashName)
	if err != nil {
		return err
	}
	defer bin.Close()
	err = t.dir.List(func(names []string) error {
		for _, name := range names {
			if name == trashName || slices.Contains(but, name) {
				continue
			}
			if err := bin.Take(t.dir, name); err != nil {
				return err
			}
		}
		return nil
	})
	// Not the turn's context: what is to go goes also when the turn was cancelled.
	if err = errors.Join(err, bin.Empty(context.Background())); err != nil {
		return err
	}
	return t.dir.Rmdir(trashName)
}

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
		errs = append(errs, (&Tree{root: root, name: name}).recover(keep))
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
	_, running := t.dir.Lstat(baseName)
	_, left := t.dir.Lstat(leftName)
	if running == nil && !keep(string(readFile(t.dir, turnName)), t) || running != nil && left == nil {
		t.close()
		return nil
	}
	return t.Remove()
}
