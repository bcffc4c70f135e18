package workspace

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"holon/internal/visible"
	"holon/runner/workspace/git"
)

// CodeContinueConflict is the code of a run that cannot continue another: the change of that one does not merge with
// the user's files as they are now.
const CodeContinueConflict = "continue_conflict"

// Continuation is the change of an earlier run, on top of which a tree begins.
type Continuation struct {
	Run     string   // for people
	Patch   string   // that Diff wrote
	Objects string   // what Diff wrote to DiffOptions.Objects; may be absent
	Restore []string // paths that are not taken from the patch: they are as in the base

	Submodules []SubmoduleChange // that the patch changes
}

// continued returns the tree of the files that the agent begins with: the base, with the change that is continued
// merged into it. A base that has the change already stays as it is. All objects of the tree that the base lacks get
// into the slot's repository, so that the earlier run is not needed any more.
func (t *Tree) continued(ctx context.Context, from Continuation) (tree string, err error) {
	base, err := t.withSubmodules(ctx, from)
	if err != nil {
		return "", fmt.Errorf("continue %s: %w", from.Run, err)
	}
	repo := t.base
	repo.Alternates = append([]string{from.Objects}, t.base.Alternates...)
	tree, err = mergePatch(ctx, repo, base, from.Patch, func(paths []string, cause error) error {
		return t.continueConflict(from, paths, cause)
	})
	if err != nil {
		return "", fmt.Errorf("continue %s: %w", from.Run, err)
	}
	if tree, err = t.restored(ctx, repo, tree, base, from.Restore); err != nil {
		return "", err
	}
	// What the earlier run had was not written again.
	_, err = repo.Git().Run(ctx, strings.NewReader(tree+"\n^"+base+"\n"), "pack-objects", "--revs",
		"--non-empty", "--quiet", filepath.Join(t.base.Objects(), "pack", "pack"))
	if err == nil && base != t.info.BaseTree {
		tree, err = t.keepSubmodules(ctx, tree)
	}
	return tree, err
}

// continueConflict names the files at fault, as far as they are known.
func (t *Tree) continueConflict(from Continuation, paths []string, cause error) error {
	slices.Sort(paths)
	e := &git.Error{Code: CodeContinueConflict, Param: "--continue", Paths: paths, Err: cause,
		Message: fmt.Sprintf("the change of %s does not fit the files in %s any more", from.Run, t.info.Path),
		Hint:    "undo your changes there"}
	if len(from.Submodules) == 0 { // a branch has nothing of what changed within these
		e.Hint += ", or merge them with the result first: holon checkout " + from.Run + " makes a branch of it"
	}
	if len(paths) > 0 {
		e.Message = fmt.Sprintf("the change of %s conflicts with %s in %s as it is now", from.Run,
			visible.Quoted(paths[0]), t.info.Path)
	}
	return e
}
