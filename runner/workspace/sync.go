package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"holon/internal/folder"
	"holon/internal/visible"
	"holon/runner/workspace/git"
)

// CodeConflict is the code of Sync and Merge when two changes do not merge, or a file that the diff leaves out, such as
// an ignored one, is where a new one belongs. Paths names them. Nothing has changed then.
const CodeConflict = "conflict"

// Synced is what Sync did.
type Synced struct {
	Base  Info         // that the tree is compared with from now on
	Files []FileChange // of the tree that changed, without counts of lines
}

// Merged is what Merge did.
type Merged struct {
	Files []FileChange // of the tree that changed, without counts of lines
}

// Sync brings the user's present state into the tree: HEAD, or the files where Options.IncludeDirty says so. That is
// merged with what the tree changed since its base, and becomes the base. Ignored files of the tree stay.
func (t *Tree) Sync(ctx context.Context) (done Synced, err error) {
	err = t.withRoot(ctx, func(ctx context.Context, root folder.Dir) error {
		done.Files, err = t.sync(ctx, root)
		return err
	})
	done.Base = t.info
	return done, git.WithCode("bring in the user's changes", err)
}

func (t *Tree) sync(ctx context.Context, root folder.Dir) ([]FileChange, error) {
	if err := t.compact(ctx); err != nil {
		return nil, err
	}
	next, err := t.reopened(ctx)
	if err != nil {
		return nil, err
	}
	if next.theirs, err = next.usersTree(ctx); err == nil {
		err = next.shareObjects(ctx)
	}
	if err != nil {
		return nil, err
	}
	c, repo, ours, err := next.present(ctx, root)
	if err != nil {
		return nil, err
	}
	base, merged := t.info.BaseTree, ours
	theirs, err := overlay(ctx, next.base, filepath.Join(repo.Dir, "overlay.index"), base, t.theirs, next.theirs)
	if err != nil {
		return nil, err
	}
	switch {
	case theirs == base || theirs == ours:
	case ours == base:
		merged = theirs
	default:
		if merged, err = t.mergeTrees(ctx, repo, base, ours, theirs); err != nil {
			return nil, err
		}
	}
	next.info.BaseTree, next.start = theirs, theirs
	next.info.IncludedDirty = next.info.IncludedDirty || theirs != next.theirs
	c.forget()
	if err := next.loadEntries(ctx, theirs); err != nil {
		return nil, err
	}
	repo.Alternates = append([]string{next.base.Objects()}, next.base.Alternates...) // of submodules too
	return t.become(ctx, next, root, c, repo, ours, merged)
}

// reopened returns the tree with its source as the user has it now.
func (t *Tree) reopened(ctx context.Context) (*Tree, error) {
	options := t.source.options
	options.Dir, options.Continue = filepath.Join(t.info.Path, t.info.Prefix), nil
	source, err := open(ctx, options)
	if err != nil {
		return nil, err
	}
	if source.cache != t.source.cache || source.info.Kind != t.info.Kind || source.format != t.source.format {
		return nil, t.source.replaced()
	}
	next := *t
	next.source, next.info = source, source.info
	next.info.Warnings = slices.Clone(source.info.Warnings)
	next.base.Alternates = source.alternates()
	return &next, nil
}

// overlay returns a git tree: the base with all files that differ between two others as in the second of these. The
// base may have more than the user's: what was applied and is not committed, or what a fork began with.
func overlay(ctx context.Context, repo git.Repository, index, base, from, to string) (string, error) {
	switch {
	case base == from:
		return to, nil
	case from == to:
		return base, nil
	}
	out, err := repo.Git().Run(ctx, nil, slices.Concat(diffArguments,
		[]string{"-z", "--raw", "--no-renames", from, to})...)
	if err != nil {
		return "", err
	}
	var lines strings.Builder
	for about, rest, more := strings.Cut(string(out), "\x00"); more; about, rest, more = strings.Cut(rest, "\x00") {
		var path string
		path, rest, _ = strings.Cut(rest, "\x00")
		field := strings.Fields(about) // ":oldmode mode oldid id status"
		fmt.Fprintf(&lines, "%s %s\t%s\x00", field[1], field[3], path)
	}
	g := repo.Git().With("GIT_INDEX_FILE=" + index)
	if _, err := g.Run(ctx, nil, "read-tree", base); err != nil {
		return "", err
	}
	_, err = g.Run(ctx, strings.NewReader(lines.String()), "update-index", "-z", "--replace", "--index-info")
	if err != nil {
		return "", err
	}
	return g.Line(ctx, "write-tree")
}

// mergeTrees merges the change of the tree since its base into what the user has now.
func (t *Tree) mergeTrees(ctx context.Context, repo git.Repository, base, ours, theirs string) (string, error) {
	change := &comparison{Diff: Diff{Patch: filepath.Join(repo.Dir, "change.patch")}, from: base, to: ours}
	if err := change.write(ctx, repo); err != nil {
		return "", err
	}
	return mergePatch(ctx, repo, theirs, change.Patch, func(paths []string, cause error) error {
		return t.conflict("the agent's changes conflict with yours",
			"apply the agent's changes and merge them there, or have the agent change these files", paths, cause)
	})
}

func (t *Tree) conflict(message, hint string, paths []string, cause error) error {
	slices.Sort(paths)
	if len(paths) > 0 {
		message = fmt.Sprintf("%s in %s", message, visible.Quoted(paths[0]))
	}
	return &git.Error{Code: CodeConflict, Param: t.info.Path, Paths: paths, Err: cause, Message: message, Hint: hint}
}

// mergePatch applies a patch to a git tree, three ways, and returns the tree that results. conflict makes the error
// when they do not merge, of the files at fault, as far as they are certain.
func mergePatch(ctx context.Context, repo git.Repository, onto, file string,
	conflict func(paths []string, cause error) error) (tree string, err error) {
	index := filepath.Join(repo.Dir, "merge.index")
	defer func() {
		if removeErr := os.Remove(index); !errors.Is(removeErr, os.ErrNotExist) {
			err = errors.Join(err, removeErr)
		}
	}()
	g := repo.Git().With("GIT_INDEX_FILE=" + index)
	if _, err := g.Run(ctx, nil, "read-tree", onto); err != nil {
		return "", err
	}
	patch, err := git.ReadPatch(ctx, repo, file)
	if err != nil {
		return "", err
	}
	paths, err := patch.Merge(ctx, repo, index)
	if git.Refused(err) || len(paths) > 0 && err == nil {
		return "", conflict(paths, err)
	}
	if err != nil {
		return "", err
	}
	return g.Line(ctx, "write-tree")
}

// Merge merges a change, which another tree made, into the files of the tree. It counts as a change of this tree.
func (t *Tree) Merge(ctx context.Context, from Continuation) (done Merged, err error) {
	err = t.withRoot(ctx, func(ctx context.Context, root folder.Dir) error {
		done.Files, err = t.merge(ctx, root, from)
		return err
	})
	return done, git.WithCode("merge the change of "+from.Run, err)
}

func (t *Tree) merge(ctx context.Context, root folder.Dir, from Continuation) ([]FileChange, error) {
	c, repo, ours, err := t.present(ctx, root)
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(from.Patch); err == nil && info.Size() == 0 {
		return nil, nil // nothing changed
	}
	repo.Alternates = append([]string{from.Objects}, repo.Alternates...)
	merged, err := mergePatch(ctx, repo, ours, from.Patch, func(paths []string, cause error) error {
		return t.conflict("the change of "+from.Run+" conflicts with the working tree",
			"change these files in one of the two first, or take what is needed by hand", paths, cause)
	})
	if err != nil {
		return nil, err
	}
	next := *t
	c.forget()
	return t.become(ctx, &next, root, c, repo, ours, merged)
}

// become changes the files from one git tree to another, and the rest of the tree to next. Until the change is
// recorded, nothing has happened.
func (t *Tree) become(ctx context.Context, next *Tree, root folder.Dir, c *capture, repo git.Repository, from,
	to string) (files []FileChange, err error) {
	var ids []objectIDs
	if from != to {
		out, err := repo.Git().Run(ctx, nil, slices.Concat(diffArguments,
			[]string{"-z", "--raw", "--numstat", "--no-renames", from, to})...)
		if err == nil {
			files, ids, err = parseChanges(out)
		}
		if err != nil {
			return nil, err
		}
	}
	p := &planning{root: root, gone: map[string]bool{}}
	if next.info.BaseTree != t.info.BaseTree || next.info.BaseCommit != t.info.BaseCommit {
		p.change.Head = t.info.BaseCommit
	}
	modules, moduleIDs := moduleChanges(c, next.record.entries)
	if err := p.plan(ctx, c, append(files, modules...), append(ids, moduleIDs...)); err != nil {
		return nil, err
	}
	if len(p.blocked) > 0 {
		return nil, t.conflict("a file that the diff does not include is in the way",
			"have the agent move or remove it", p.blocked, nil)
	}
	if err := next.stage(ctx, repo, &p.change); err != nil {
		return nil, err
	}
	if err := t.reached("staged"); err != nil {
		return nil, err
	}
	next.change = &p.change
	if err := next.saveMoved(); err != nil {
		return nil, err
	}
	*t = *next
	if err := t.reached("saved"); err != nil {
		return nil, err
	}
	return files, t.finish(ctx, root, true)
}
