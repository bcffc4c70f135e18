package worktree

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"holon/internal/folder"
	"holon/internal/gitname"
)

// Bounds of a patch. What is beyond them is left out and said to be.
const (
	maxCompared  = 4 * maxEntries // names in both trees; a long one counts several times
	longName     = 64
	maxFileBytes = 16 << 20 // of one file, before or after
	maxPatch     = 64 << 20
	maxOmissions = 20 // that are kept; the others are counted
)

// Codes of omission.
const (
	omittedSpecialFile = "special_file"      // a pipe, socket or device
	omittedUnreadable  = "unreadable"        // it cannot be opened, or vanished meanwhile
	omittedTooLarge    = "file_too_large"    // maxFileBytes
	omittedPatchFull   = "patch_too_large"   // maxPatch
	omittedTooMany     = "too_many_files"    // maxCompared
	omittedTooDeep     = "too_deep"          // maxDepth
	omittedUnsafeName  = "unsafe_name"       // git would refuse the whole patch
	omittedRepository  = "nested_repository" // its files are taken, its history is not
	omittedCommits     = "commits_elsewhere" // a branch, a tag or the stash, which is not checked out
)

// omission is a part of the change that the patch leaves out.
type omission struct{ Path, Code string }

// Summary says what a patch holds.
type Summary struct {
	Files    int // patches of files
	Omitted  []omission
	Unlisted int // further omissions
}

// comparison compares the tree with its base.
type comparison struct {
	ctx     context.Context
	w       io.Writer
	written int
	seen    int
	full    bool // nothing more is looked at
	ignore  *ignoreRules
	summary Summary
}

// Diff writes the patch that makes the base the tree, in the order of the names, or nothing when nothing changed. An
// error is one of w or of ctx; what of the tree cannot be part of a patch is in the summary.
func (t *Tree) Diff(ctx context.Context, w io.Writer) (Summary, error) {
	base, err := t.dir.Sub(baseName)
	if err != nil {
		return Summary{}, fmt.Errorf("compare a private tree: %w", err)
	}
	defer base.Close()
	c := &comparison{ctx: ctx, w: w}
	if t.git {
		c.ignore = &ignoreRules{}
	}
	tree, err := t.dir.Sub(treeName)
	if err != nil { // a command removed it, or put something else there: nothing is left of the files
		err = c.directory(&base, nil, "")
		return c.summary, err
	}
	defer tree.Close()
	err = c.directory(&base, &tree, "")
	if t.references != nil {
		c.omitReferences(tree, t.references)
	}
	return c.summary, err
}

func (c *comparison) omit(path, code string) {
	if len(c.summary.Omitted) == maxOmissions {
		c.summary.Unlisted++
		return
	}
	c.summary.Omitted = append(c.summary.Omitted, omission{path, code})
}

// directory compares two directories, either of which may be nil.
func (c *comparison) directory(base, tree *folder.Dir, path string) error {
	if strings.Count(path, "/") >= maxDepth || len(path) > gitname.MaxPath-256 {
		c.omit(path, omittedTooDeep)
		return nil
	}
	var names []string
	for _, dir := range []*folder.Dir{base, tree} {
		if dir == nil {
			continue
		}
		list, err := dir.Names()
		if err != nil {
			c.omit(path, omittedTooMany)
			return nil
		}
		for _, name := range list {
			c.seen += 1 + len(name)/longName
		}
		names = append(names, list...)
	}
	if c.seen > maxCompared && !c.full {
		c.full = true
		c.omit(path, omittedTooMany)
	}
	if tree != nil && c.ignore != nil {
		defer c.ignore.enter(*tree, path)()
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if err := context.Cause(c.ctx); err != nil {
			return err
		}
		if c.full {
			return nil
		}
		if err := c.entry(base, tree, path, name); err != nil {
			return err
		}
	}
	return nil
}

// A kind is what a name leads to.
type kind int

const (
	nothing kind = iota
	directory
	file
	link
	special
)

func look(dir *folder.Dir, name string) (kind, unix.Stat_t, error) {
	if dir == nil {
		return nothing, unix.Stat_t{}, nil
	}
	st, err := dir.Lstat(name)
	if errors.Is(err, unix.ENOENT) {
		return nothing, st, nil
	}
	if err != nil {
		return nothing, st, err
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return directory, st, nil
	case unix.S_IFREG:
		return file, st, nil
	case unix.S_IFLNK:
		return link, st, nil
	}
	return special, st, nil
}

func (c *comparison) entry(base, tree *folder.Dir, dir, name string) error {
	path := folder.Join(dir, name)
	before, old, err1 := look(base, name)
	after, now, err2 := look(tree, name)
	switch {
	case err1 != nil || err2 != nil:
		c.omit(path, omittedUnreadable)
		return nil
	case gitname.IsDotGit(name):
		c.omitGit(path, name, dir, after)
		return nil
	case after == special:
		c.omit(path, omittedSpecialFile)
		return nil
	case after == link && gitname.IsDotGitmodules(name):
		c.omit(path, omittedUnsafeName)
		return nil
	case before == nothing && c.ignore.ignores(path, after == directory):
		return nil
	}
	if before == directory || after == directory {
		if err := c.descend(base, tree, path, name, before, after); err != nil {
			return err
		}
	}
	isFile := func(k kind) bool { return k == file || k == link }
	if !isFile(before) && !isFile(after) {
		return nil
	}
	return c.file(base, tree, path, name, side{before, &old}, side{after, &now})
}

// omitGit says what of a repository is left out. That of the tree itself was never part of the base.
func (c *comparison) omitGit(path, name, dir string, after kind) {
	switch {
	case after == nothing || dir == "" && name == ".git":
	case name == ".git":
		c.omit(path, omittedRepository)
	default:
		c.omit(path, omittedUnsafeName)
	}
}

func (c *comparison) descend(base, tree *folder.Dir, path, name string, before, after kind) error {
	open := func(dir *folder.Dir, k kind) (*folder.Dir, error) {
		if k != directory {
			return nil, nil
		}
		sub, err := dir.Sub(name)
		return &sub, err
	}
	b, err1 := open(base, before)
	if b != nil {
		defer b.Close()
	}
	t, err2 := open(tree, after)
	if t != nil {
		defer t.Close()
	}
	if err1 != nil || err2 != nil {
		c.omit(path, omittedUnreadable)
		return nil
	}
	return c.directory(b, t, path)
}

// side is what one of the trees has at a path.
type side struct {
	kind kind
	st   *unix.Stat_t
}

func (s side) mode() string {
	switch {
	case s.kind == link:
		return modeLink
	case s.st.Mode&0o100 != 0:
		return modeExecutable
	}
	return modeFile
}

func (c *comparison) file(base, tree *folder.Dir, path, name string, before, after side) error {
	if before.kind == file && after.kind == file && before.mode() == after.mode() && before.st.Size > maxFileBytes &&
		before.st.Size == after.st.Size && before.st.Mtim == after.st.Mtim {
		return nil // as it was copied, as far as its status tells
	}
	old, code := read(base, name, before)
	if code == "" {
		var now *version
		if now, code = read(tree, name, after); code == "" {
			return c.write(path, old, now)
		}
	}
	c.omit(path, code)
	return nil
}

// read returns a file or link, nil for anything else, or why it is left out.
func read(dir *folder.Dir, name string, s side) (v *version, omitted string) {
	switch s.kind {
	case link:
		target, err := dir.Readlink(name)
		if err != nil {
			return nil, omittedUnreadable
		}
		return &version{modeLink, []byte(target)}, ""
	case file:
		if s.st.Size > maxFileBytes {
			return nil, omittedTooLarge
		}
		f, _, err := dir.OpenFile(name)
		if err != nil {
			return nil, omittedUnreadable
		}
		defer f.Close()
		data, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
		if err != nil {
			return nil, omittedUnreadable
		}
		if len(data) > maxFileBytes {
			return nil, omittedTooLarge
		}
		return &version{s.mode(), data}, ""
	}
	return nil, ""
}

func (c *comparison) write(path string, before, after *version) error {
	if before != nil && after != nil && before.mode == after.mode && bytes.Equal(before.data, after.data) {
		return nil
	}
	var b bytes.Buffer
	writeChange(&b, path, before, after)
	if c.written+b.Len() > maxPatch {
		c.omit(path, omittedPatchFull)
		return nil
	}
	n, err := c.w.Write(b.Bytes())
	c.written += n
	if err != nil {
		return fmt.Errorf("write the patch: %w", err)
	}
	c.summary.Files++
	return nil
}
