package workspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"holon/internal/folder"
	"holon/runner/workspace/git"
)

// Fork makes a new tree of the same directory whose base is the present state of this one, with what is not committed.
// Of options it uses TreeDir, Claim and Owner, and ObjectsDir and ContainerObjects, which are this tree's if they are
// empty.
func (t *Tree) Fork(ctx context.Context, options Options) (fork *Tree, err error) {
	err = t.withRoot(ctx, func(ctx context.Context, root folder.Dir) error {
		fork, err = t.fork(ctx, root, options)
		return err
	})
	return fork, git.WithCode("fork working tree", err)
}

func (t *Tree) fork(ctx context.Context, root folder.Dir, options Options) (*Tree, error) {
	_, repo, present, err := t.present(ctx, root)
	if err != nil {
		return nil, err
	}
	source := *t.source
	o := &source.options
	o.ObjectsDir = cmp.Or(options.ObjectsDir, o.ObjectsDir)
	o.ContainerObjects = cmp.Or(options.ContainerObjects, o.ContainerObjects)
	o.TreeDir, o.Claim, o.Owner, o.Continue = options.TreeDir, options.Claim, options.Owner, nil
	if err := o.checkPaths(); err != nil {
		return nil, err
	}
	if source.info.Kind == KindGit {
		if err := source.checkOrigin(ctx); err != nil {
			return nil, err
		}
		if err := source.user.LoadReferences(ctx); err != nil {
			return nil, err
		}
	}
	held, err := source.cache.acquire(o.Claim)
	if err != nil {
		return nil, err
	}
	fork := &Tree{source: &source, slot: held, info: t.info, start: present, theirs: t.theirs,
		bases: t.bases}
	fork.info.BaseTree, fork.info.IncludedDirty = present, true
	if err := fork.begin(ctx, t, repo); err != nil {
		return nil, errors.Join(err, held.takeBack(true), held.disclaim(), held.unlock())
	}
	return fork, nil
}

// begin fills a fork with the objects of the tree that it is made from, whose present state is in repo.
func (t *Tree) begin(ctx context.Context, from *Tree, repo git.Repository) error {
	if err := t.openBase(ctx); err != nil {
		return err
	}
	for _, have := range []git.Repository{from.base, repo} {
		if err := linkObjects(have.Objects(), t.base.Objects()); err != nil {
			return fmt.Errorf("take over objects: %w", err)
		}
	}
	if dir := from.source.options.ObjectsDir; dir != "" && dir != t.source.options.ObjectsDir {
		if err := t.shareObjects(ctx, dir); err != nil { // the user may have collected some
			return err
		}
	}
	t.record = readRecord(t.slot.record(), t.source.format)
	if err := t.loadEntries(ctx, t.start); err != nil {
		return err
	}
	if err := t.saveMoved(); err != nil {
		return err
	}
	return t.handOut(ctx)
}
