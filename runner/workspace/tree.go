package workspace

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"holon/runner/workspace/git"

	"golang.org/x/sys/unix"
)

// A Tree is a private working tree at the base of its Source, locked until Release.
type Tree struct {
	source  *Source
	info    Info
	start   string            // the git tree that the agent begins with: the base, or an earlier change on top of it
	begun   map[string]string // by path, the trees of the submodules that the earlier run changed
	bases   map[string]string // by path, the trees of the submodules whose uncommitted changes are part of the base
	slot    *slot
	base    git.Repository // our own objects of the base, and where the rest is borrowed
	record  *record
	index   []byte // git index of the base, as of the last settle
	objects []objectDir
	theirs  string  // the git tree of what the user had when the tree last got it
	change  *change // that is recorded and not complete; nil for none
	note    string  // Restore.Note of the newest one

	interrupt func(step string) error // of a test; nil
}

// objectDir is a git object directory that the agent's repository borrows from; the runner mounts it read-only at
// ContainerPath, which equals HostPath where Options.ContainerObjects is empty.
type objectDir struct {
	HostPath, ContainerPath string

	transitive bool // named by the alternates of another, not by the agent's repository
}

// Acquire takes a free working tree and brings it to the base: the user's commit, with the uncommitted changes of this
// moment when they are included. The caller must Release it.
func (s *Source) Acquire(ctx context.Context) (*Tree, error) {
	held, err := s.cache.acquire(s.options.Claim)
	if err != nil {
		return nil, git.WithCode("acquire working tree", err)
	}
	tree := &Tree{source: s, slot: held}
	err = tree.prepare(ctx)
	if isPermission(err) { // a container of another user left files that we may not change
		if err = held.abandon(); err == nil {
			err = tree.prepare(ctx)
		}
	}
	if err == nil {
		err = tree.takeIgnored(ctx)
	}
	if err != nil {
		return nil, git.WithCode("acquire working tree", errors.Join(err, held.disclaim(), held.unlock()))
	}
	return tree, nil
}

func isPermission(err error) bool {
	if _, ok := errors.AsType[*git.Error](err); ok {
		return false
	}
	return errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM)
}

// Dir is the top of the working tree on the host.
func (t *Tree) Dir() string { return t.slot.tree() }

// WorkDir is where the agent starts: Dir, or the directory within it that corresponds to Options.Dir.
func (t *Tree) WorkDir() string { return filepath.Join(t.slot.tree(), t.info.Prefix) }

// Info is the Source's Info with the base tree and the submodules, which Acquire finds.
func (t *Tree) Info() Info { return t.info }

// ObjectDirs lists the directories that the agent's repository borrows objects from, including those that the user's
// repository borrows from. A plain directory has none, because its tree has no repository.
func (t *Tree) ObjectDirs() []objectDir { return t.objects }

// prepare makes the tree, the record and the agent's repository agree.
func (t *Tree) prepare(ctx context.Context) error {
	t.info = t.source.info
	t.info.Warnings = slices.Clone(t.info.Warnings)
	if err := t.openBase(ctx); err != nil {
		return err
	}
	if err := t.chooseBase(ctx); err != nil {
		return err
	}
	return t.handOut(ctx)
}

// handOut writes the files of the record and the agent's repository, and puts the tree in its place.
func (t *Tree) handOut(ctx context.Context) error {
	if err := t.shareObjects(ctx); err != nil {
		return err
	}
	if err := t.settle(ctx, false); err != nil {
		return err
	}
	if err := t.writeAgentRepository(ctx); err != nil {
		return fmt.Errorf("write the agent's repository: %w", err)
	}
	return t.slot.place(t.source.options.TreeDir)
}

// maxCopyPacks is how many imports a copy's repository collects before it is
// made again, so that old versions don't accumulate.
const maxCopyPacks = 20

// openBase makes the slot's own repository ready. A git source's holds only
// the last snapshot, which is taken anew each time, so that it is made anew too; a copy's holds the files.
func (t *Tree) openBase(ctx context.Context) error {
	if err := errors.Join(t.slot.takeBack(false), t.discard(ctx, t.slot.base(), t.slot.staged())); err != nil {
		return err
	}
	t.base = git.Repository{Dir: t.slot.git(), Format: t.source.format, Alternates: t.source.alternates()}
	packs, err := filepath.Glob(filepath.Join(t.base.Objects(), "pack", "*.pack"))
	if err == nil && t.source.info.Kind == KindCopy && t.base.Usable() && len(packs) <= maxCopyPacks {
		return nil
	}
	if err := t.discard(ctx, t.slot.git(), t.slot.source()); err != nil {
		return err
	}
	return t.base.Create()
}

// chooseBase decides the base tree and what the agent begins with, and fills the record with its entries.
func (t *Tree) chooseBase(ctx context.Context) (err error) {
	if t.info.BaseTree, err = t.usersTree(ctx); err != nil {
		return err
	}
	t.start, t.theirs, t.begun = t.info.BaseTree, t.info.BaseTree, nil
	t.record = readRecord(t.slot.record(), t.source.format)
	if from := t.source.options.Continue; from != nil {
		if t.start, err = t.continued(ctx, *from); err != nil {
			return err
		}
		t.info.StartTree = t.start
	}
	return t.loadEntries(ctx, t.start)
}

// usersTree returns the git tree of what the user has now, and sets those of submodules.
func (t *Tree) usersTree(ctx context.Context) (tree string, err error) {
	t.bases = nil
	switch {
	case t.source.pin != nil:
		t.bases = t.source.pin.bases
		return t.source.pin.tree, nil
	case t.source.info.Kind == KindCopy:
		return t.importSource(ctx)
	case t.source.info.IncludedDirty:
		return t.snapshot(ctx)
	default:
		return t.source.headTree, nil
	}
}

// snapshot takes the user's files as they are now, in submodules too.
func (t *Tree) snapshot(ctx context.Context) (tree string, err error) {
	t.bases = map[string]string{}
	for _, m := range t.source.user.Status.Modified {
		if m.User.Format != t.source.format {
			continue // its files are not in the tree either
		}
		if t.bases[m.Path], err = m.User.Snapshot(ctx, t.base, t.slot.dir); err != nil {
			return "", fmt.Errorf("submodule %q: %w", m.Path, err)
		}
	}
	return t.source.user.Snapshot(ctx, t.base, t.slot.dir)
}

// Release resets the tree to its base and unlocks the slot. Beyond Options.Keep slots the tree is deleted. The slot is
// unlocked even if resetting fails; the next Acquire then resets it. A second call does nothing. After a
// cancelled run the caller passes a context that is not cancelled.
func (t *Tree) Release(ctx context.Context) error {
	if t.slot.lock == nil {
		return nil
	}
	err := t.recycle(ctx)
	err = errors.Join(err, t.slot.disclaim(), t.slot.unlock())
	t.slot.lock = nil
	return git.WithCode("release working tree", err)
}

// Leave unlocks the tree as it is. With Options.Claim it stays claimed: no run gets it until the holder of
// the claim resumes and releases it.
func (t *Tree) Leave() error {
	if t.slot.lock == nil {
		return nil
	}
	err := t.slot.unlock()
	t.slot.lock = nil
	return git.WithCode("leave working tree", err)
}

func (t *Tree) recycle(ctx context.Context) error {
	if err := t.slot.takeBack(true); err != nil {
		return err
	}
	if t.slot.number >= t.source.options.Keep {
		return t.slot.clear(ctx)
	}
	if err := t.discard(ctx, t.slot.result(), t.slot.base(), t.slot.staged()); err != nil {
		return err
	}
	return t.settle(ctx, true)
}

// discard removes files and directories of the slot.
func (t *Tree) discard(ctx context.Context, paths ...string) error {
	return t.slot.discard(ctx, func(name string) bool {
		return slices.Contains(paths, filepath.Join(t.slot.dir, name))
	})
}

// owned reports whether a file of the tree has the owner of the tree.
func (t *Tree) owned(st *unix.Stat_t) bool {
	owner := t.source.options.Owner
	return owner == nil || int(st.Uid) == owner.UID && int(st.Gid) == owner.GID
}
