package worktree

import (
	"bytes"
	"maps"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"holon/internal/folder"
)

// Bounds of the references that are looked at.
const (
	maxReferences    = 1000
	maxReferencePath = 16 // directories
)

// omitReferences names what the turn committed or stashed elsewhere than on what it left checked out: the patch does not
// have it, and it goes with the tree. What cannot be read as a reference counts as none.
func (c *comparison) omitReferences(tree folder.Dir, head string) {
	dir, err := tree.Sub(".git")
	if err != nil {
		return
	}
	defer dir.Close()
	found := map[string]string{}
	for line := range bytes.Lines(readFile(dir, "packed-refs")) {
		if id, name, ok := strings.Cut(strings.TrimSpace(string(line)), " "); ok && len(found) < maxReferences {
			found[name] = id
		}
	}
	if refs, err := dir.Sub("refs"); err == nil {
		collectReferences(refs, "refs", found)
		refs.Close()
	}
	checkedOut := strings.TrimPrefix(strings.TrimSpace(string(readFile(dir, "HEAD"))), "ref: ")
	for _, name := range slices.Sorted(maps.Keys(found)) {
		id := found[name]
		if plumbing.IsHash(id) && id != head && name != checkedOut && id != checkedOut && id != found[checkedOut] {
			c.omit(name, OmittedCommits)
		}
	}
}

// collectReferences reads the files of references beneath dir, whose name is path.
func collectReferences(dir folder.Dir, path string, found map[string]string) {
	names, err := dir.Names()
	if err != nil || strings.Count(path, "/") > maxReferencePath {
		return
	}
	for _, name := range names {
		full := folder.Join(path, name)
		if len(found) >= maxReferences {
			return
		}
		if sub, err := dir.Sub(name); err == nil {
			collectReferences(sub, full, found)
			sub.Close()
		} else if !strings.HasSuffix(name, ".lock") {
			found[full] = strings.TrimSpace(string(readFile(dir, name)))
		}
	}
}
