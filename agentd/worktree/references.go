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

// references are those of a tree by their names, HEAD among them: what each file holds. What cannot be read as a
// reference counts as none.
func references(tree folder.Dir) map[string]string {
	found := map[string]string{}
	dir, err := tree.Sub(".git")
	if err != nil {
		return found
	}
	defer dir.Close()
	found["HEAD"] = strings.TrimPrefix(strings.TrimSpace(string(readFile(dir, "HEAD"))), "ref: ")
	if refs, err := dir.Sub("refs"); err == nil {
		collectReferences(refs, "refs", found)
		refs.Close()
	}
	for line := range bytes.Lines(readFile(dir, "packed-refs")) {
		id, name, ok := strings.Cut(strings.TrimSpace(string(line)), " ")
		if _, newer := found[name]; ok && !newer && len(found) < maxReferences {
			found[name] = id
		}
	}
	return found
}

// omitReferences names what the turn committed or stashed elsewhere than on what it left checked out: the patch does
// not have it, and it goes with the tree. What a reference had at the beginning is in the origin, and what one of a
// remote repository has is there.
func (c *comparison) omitReferences(tree folder.Dir, atStart map[string]string) {
	had := map[string]bool{}
	for _, id := range atStart {
		had[id] = true
	}
	found := references(tree)
	checkedOut := found["HEAD"]
	for _, name := range slices.Sorted(maps.Keys(found)) {
		id := found[name]
		if plumbing.IsHash(id) && !had[id] && name != checkedOut && id != checkedOut && id != found[checkedOut] &&
			!strings.HasPrefix(name, "refs/remotes/") {
			c.omit(name, omittedCommits)
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
