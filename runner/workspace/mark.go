package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"holon/internal/durable"
	"holon/internal/folder"
	"holon/runner/workspace/git"
)

// CodeNotMarked is the code of Restore for a name that has no mark.
const CodeNotMarked = "tree_not_kept"

// marksDir, in the repository of a slot, has a ref for each mark. Its objects stay as long as the ref.
const marksDir = "refs/turns"

func (s *slot) marks() string { return filepath.Join(s.git(), filepath.FromSlash(marksDir)) }

// Mark keeps the files as they are now under a name, which is one of a file, until the tree is given up. What a diff
// leaves out, such as ignored files, is not part of it. Objects of the base and of other marks are shared.
func (t *Tree) Mark(ctx context.Context, name string) error {
	return git.WithCode("mark the files", t.withRoot(ctx, func(ctx context.Context, root folder.Dir) error {
		if err := t.compact(ctx); err != nil {
			return err
		}
		_, repo, present, err := t.present(ctx, root)
		if err != nil {
			return err
		}
		return t.mark(name, present, repo)
	}))
}

// MarkStart keeps the files that the tree began with under a name.
func (t *Tree) MarkStart(name string) error {
	return git.WithCode("mark the files", t.slot.mark(name, t.start))
}

// mark keeps a git tree whose objects are in repo.
func (t *Tree) mark(name, tree string, repo git.Repository) error {
	if err := linkObjects(repo.Objects(), t.base.Objects()); err != nil {
		return fmt.Errorf("keep the objects of a mark: %w", err)
	}
	return t.slot.mark(name, tree)
}

func (s *slot) mark(name, tree string) error {
	err := os.MkdirAll(s.marks(), 0o700)
	if err == nil {
		err = durable.WriteFile(filepath.Join(s.marks(), name), []byte(tree+"\n"), 0o600)
	}
	return err
}

// marked is the git tree of a mark, "" for none.
func (s *slot) marked(name string) (string, error) {
	data, err := os.ReadFile(filepath.Join(s.marks(), name))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return strings.TrimSpace(string(data)), err
}

// Marks are the names of the marks of a tree, which may be in use.
func Marks(held Held) (map[string]bool, error) {
	entries, err := os.ReadDir((&slot{dir: held.Slot}).marks())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, git.WithCode("list the marks", err)
	}
	names := make(map[string]bool, len(entries))
	for _, e := range entries {
		names[e.Name()] = true
	}
	return names, nil
}

// Marked reports whether a tree, which may be in use, has a mark.
func Marked(held Held, name string) bool {
	tree, err := (&slot{dir: held.Slot}).marked(name)
	return tree != "" && err == nil
}

// Restore says what a tree is brought back to.
type Restore struct {
	Mark  string
	Leave string // the mark that the files as they are now become; "": none
	Note  string // what Note returns from the moment at which the change is decided
}

// Restored is what Restore did.
type Restored struct {
	Files    []FileChange // that changed, without counts of lines
	Warnings []Warning    // of what stayed because no mark has it
}

// Restore brings the files back to a mark. What a diff leaves out stays, and is CodeConflict where a file has to be:
// nothing has changed then. The base stays.
func (t *Tree) Restore(ctx context.Context, r Restore) (done Restored, err error) {
	err = t.withRoot(ctx, func(ctx context.Context, root folder.Dir) error {
		done, err = t.restoreMark(ctx, root, r)
		return err
	})
	return done, git.WithCode("restore the files", err)
}

func (t *Tree) restoreMark(ctx context.Context, root folder.Dir, r Restore) (done Restored, err error) {
	target, err := t.slot.marked(r.Mark)
	if target == "" && err == nil {
		err = &git.Error{Code: CodeNotMarked, Param: r.Mark, Message: "the files were not kept under " + r.Mark}
	}
	if err != nil {
		return done, err
	}
	c, repo, present, err := t.present(ctx, root)
	if err != nil {
		return done, err
	}
	if r.Leave != "" && r.Leave != r.Mark {
		if err := t.mark(r.Leave, present, repo); err != nil {
			return done, err
		}
	}
	next := *t
	next.note = r.Note
	c.forget()
	done.Warnings = c.warnings.list()
	done.Files, err = t.become(ctx, &next, root, c, repo, present, target)
	return done, err
}

// Note is the note of the newest Restore of a tree, which may be in use, "" for none.
func Note(held Held) (string, error) {
	last, err := (&slot{dir: held.Slot}).readMoved(held)
	return last.Note, git.WithCode("read the note of a tree", err)
}
