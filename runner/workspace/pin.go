package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"holon/runner/workspace/git"
)

// pinned is the base of all trees of a Source, whatever becomes of the user's files.
type pinned struct {
	tree    string // hex
	objects string // directory with those that the user's repository lacks; "" for none

	bases map[string]string // Tree.bases
}

// Pin makes the user's files as they are now the base of every tree that is acquired from now on. dir, which must not
// exist, gets what the trees borrow; it has to stay as long as they do.
func (s *Source) Pin(ctx context.Context, dir string) error {
	return git.WithCode("open workspace", s.pinIn(ctx, dir))
}

func (s *Source) pinIn(ctx context.Context, dir string) (err error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return fmt.Errorf("take the base: %w", err)
	}
	if s.info.Kind == KindGit && !s.info.IncludedDirty {
		s.pin = &pinned{tree: s.headTree}
		return nil
	}
	t := &Tree{source: s, info: s.info, slot: &slot{dir: dir}}
	t.base = git.Repository{Dir: filepath.Join(dir, "git"), Format: s.format}
	if s.info.Kind == KindGit {
		t.base.Alternates = []string{s.user.Objects}
	}
	if err := t.base.Create(); err != nil {
		return err
	}
	p := &pinned{objects: t.base.Objects()}
	if s.info.Kind == KindCopy {
		p.tree, err = t.importSource(ctx)
	} else {
		p.tree, err = t.snapshot(ctx)
	}
	p.bases = t.bases
	if err != nil {
		return err
	}
	s.pin, s.info.Warnings = p, t.info.Warnings
	return nil
}

// With returns a Source of the same base, whose trees have another claim and begin with another change.
func (s *Source) With(claim string, from *Continuation) *Source {
	other := *s
	other.info.Warnings = slices.Clone(s.info.Warnings)
	other.options.Claim, other.options.Continue = claim, from
	return &other
}

// Again returns a Source of the base that the tree has, for trees with another claim.
func (t *Tree) Again() *Source {
	other := *t.source
	if other.pin == nil {
		other.pin = &pinned{tree: t.info.BaseTree, bases: t.bases}
	}
	return &other
}

// Detached returns a Source of the base that the tree has, for trees of runs: with another claim, in the cache, and
// without the directories that this one's agent sees. They borrow from this tree, which has to stay as long as they do.
func (t *Tree) Detached(containerObjects string) *Source {
	other := *t.source
	o := &other.options
	o.TreeDir, o.ObjectsDir, o.Owner, o.Continue, o.ContainerObjects = "", "", nil, nil, containerObjects
	other.info, other.pin = t.info, &pinned{tree: t.info.BaseTree, objects: t.base.Objects(), bases: t.bases}
	return &other
}

// restored returns a tree in which paths are as in the base. Those that the base lacks go.
func (t *Tree) restored(ctx context.Context, repo git.Repository, tree, base string, paths []string) (_ string,
	err error) {
	if len(paths) == 0 {
		return tree, nil
	}
	index := filepath.Join(repo.Dir, "restored.index")
	defer func() { err = errors.Join(err, os.RemoveAll(index)) }()
	g := repo.Git().With("GIT_INDEX_FILE=" + index)
	if _, err := g.Run(ctx, nil, "read-tree", tree); err != nil {
		return "", fmt.Errorf("restore files of the base: %w", err)
	}
	if err := t.restore(ctx, g, base, paths); err != nil {
		return "", err
	}
	return g.Line(ctx, "write-tree")
}

// restore brings paths of an index back to the base.
func (t *Tree) restore(ctx context.Context, g git.Runner, base string, paths []string) error {
	listed, err := g.Run(ctx, nil, "ls-tree", "-r", "-z", "--full-tree", base)
	if err != nil {
		return fmt.Errorf("list the base: %w", err)
	}
	var lines bytes.Buffer
	restored := make(map[string]bool, len(paths))
	for _, path := range paths { // first, as a file may stand where the base has a directory
		restored[path] = true
		fmt.Fprintf(&lines, "0 %0*d\t%s\x00", 2*t.source.format.Size(), 0, path)
	}
	for line := range bytes.SplitSeq(listed, []byte{0}) {
		if _, path, _ := bytes.Cut(line, []byte{'\t'}); restored[string(path)] {
			lines.Write(append(line, 0))
		}
	}
	if _, err := g.Run(ctx, &lines, "update-index", "-z", "--replace", "--index-info"); err != nil {
		return fmt.Errorf("restore files of the base: %w", err)
	}
	return nil
}
