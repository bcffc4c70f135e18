package trees

import (
	"context"
	"fmt"
	"strings"

	"holon/internal/visible"
	"holon/runner/workspace"
	"holon/state"
	"holon/state/ledger"
)

// bundleFile is the git bundle of an agent's other commits, in the directory of a change.
const bundleFile = "commits.bundle"

// contents are what would be lost with a tree.
type contents struct {
	diff   *workspace.Diff // nil: the tree is not there
	branch string          // that its agent has checked out
	moved  bool            // another one than the tree was made with
	made   []string        // branches and tags of its agent
	err    error           // why its repository cannot be read
}

// examine finds out what would be lost with a tree, and keeps it: its change as a patch, commits that are not of it as
// a bundle.
func (o *opened) examine(ctx context.Context) (c contents, err error) {
	if err := o.compare(ctx); err != nil {
		return c, err
	}
	c = contents{diff: o.diff}
	c.branch, c.made, c.err = o.CheckedOut(ctx)
	c.moved = c.err == nil && c.branch != o.tree.Branch && o.Info().BaseCommit != ""
	return c, ctx.Err()
}

// untaken reports whether there is anything in a tree that its operator has not.
func untaken(d *state.Diff) bool {
	return len(d.Files) > 0 || len(d.Branches) > 0 || len(workspace.Lost(d)) > 0
}

// maxKeptText bounds what is said of the commits of a tree, in bytes.
const maxKeptText = 500

// text says what of a tree is kept, in the directory of its change; "" when nothing is lost with it.
func (c contents) text() string {
	var parts []string
	if len(c.diff.Files) > 0 || c.diff.Incomplete {
		parts = append(parts, "its change is kept as "+patchFile)
	}
	var names []string
	for _, b := range c.diff.Branches {
		names = append(names, fmt.Sprintf("%s (%d)", b.Name, b.Commits))
	}
	if len(names) > 0 {
		parts = append(parts, visible.Clip("commits of its agent are kept as "+bundleFile+": "+
			strings.Join(names, ", "), maxKeptText))
	}
	for _, what := range workspace.Lost(c.diff) {
		parts = append(parts, visible.Clip(what, maxKeptText))
	}
	if len(c.made) > 0 {
		parts = append(parts, visible.Clip("its agent made "+workspace.NamesOf(c.made), maxKeptText))
	}
	if c.moved {
		parts = append(parts, "it is not on the branch that it was made with")
	}
	if c.err != nil {
		parts = append(parts, visible.Clip("its repository cannot be read: "+c.err.Error(), maxKeptText))
	}
	return strings.Join(parts, "; ")
}

// tell adds what a tree holds to what is said of its end.
func (c contents) tell(e *Ended, tree ledger.Tree) {
	if c.diff == nil {
		return
	}
	if c.err == nil {
		e.Branch = c.branch
	}
	if tree.Status != ledger.TreeRemoved {
		e.Reason = c.text()
	}
	if untaken(c.diff) {
		e.Patch = c.diff.Patch
	}
	for _, f := range c.diff.Files {
		e.ChangedFiles = append(e.ChangedFiles, f.Path)
	}
}
