package workspace

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"holon/internal/folder"
	"holon/runner/workspace/git"
	"holon/state"
)

// DiffOptions say where Diff writes.
type DiffOptions struct {
	// Patch is the file that receives the patch, replaced when it exists. The patch is empty when nothing changed.
	Patch string
	// Objects, when set, becomes an object directory with what the user's repository may lack of the base, such as
	// uncommitted files, which Apply needs for a three-way merge, and of the result, which Checkout needs.
	Objects string
	// Bundle, when set with Objects, becomes a git bundle with the commits of the agent that are not in the result, if
	// there are any.
	Bundle string
	// Submodules makes changes within submodules that are checked out part of the patch.
	Submodules bool
}

// Diff and its parts are what a run did to its tree, as its record has them.
type (
	Diff            = state.Diff
	FileChange      = state.FileChange
	History         = state.History
	SubmoduleChange = state.SubmoduleChange
)

// comparison is a Diff that is being made.
type comparison struct {
	Diff
	from, to string      // the git trees that are compared: BaseTree and ResultTree, or these with submodules
	start    string      // the tree of a run with an earlier change, in the same way
	ids      []objectIDs // of Files
}

// objectIDs are those of the contents of a file; before is "" when it was added.
type objectIDs struct{ before, after string }

// Diff compares the tree with its base and writes the patch. It compares files only, so it does not matter
// whether the agent committed or staged its changes. Untracked files are included unless git would ignore
// them. Diff may be called again. In the tree it changes nothing except permissions that prevent reading.
// Call it when no process writes the tree any more.
func (t *Tree) Diff(ctx context.Context, options DiffOptions) (*Diff, error) {
	var diff *Diff
	err := t.withRoot(ctx, func(ctx context.Context, root folder.Dir) (err error) {
		diff, err = t.diff(ctx, root, options)
		return err
	})
	return diff, git.WithCode("compute diff", err)
}

func (t *Tree) diff(ctx context.Context, root folder.Dir, options DiffOptions) (*Diff, error) {
	var modules []string
	if options.Submodules {
		modules = t.populated()
	}
	c, repo, tree, err := t.presentWith(ctx, root, modules)
	if err != nil {
		return nil, err
	}
	diff := &comparison{from: t.info.BaseTree, to: tree, start: t.info.StartTree,
		Diff: Diff{Patch: options.Patch, BaseCommit: t.info.BaseCommit, BaseTree: t.info.BaseTree,
			ResultTree: tree, Files: []FileChange{}}}
	if err := t.includeModules(ctx, diff, c, repo); err != nil {
		return nil, err
	}
	t.warnModuleCommits(root, c)
	diff.Warnings = c.warnings.list()
	diff.Incomplete = c.partial || c.warnings.count[warnSubmodule] > 0
	if err := diff.write(ctx, repo); err != nil {
		return nil, err
	}
	if err := diff.writeModules(ctx, repo); err != nil {
		return nil, err
	}
	if err := diff.markEarlier(ctx, repo, diff.start); err != nil {
		return nil, err
	}
	if err := diff.warnLFS(ctx, repo); err != nil {
		return nil, err
	}
	if err := diff.warnExecuted(ctx, repo, t.record,
		t.source.configured(ctx, diff.Submodules)); err != nil {
		return nil, err
	}
	diff.shorten()
	if err := t.saveObjects(ctx, diff, repo, options.Objects); err != nil {
		return nil, err
	}
	return &diff.Diff, t.saveHistory(ctx, diff, root, repo, options)
}

// maxListed bounds the list of changed files, as JSON. New files have a smaller
// bound of their own; deleted ones are as many as the user's repository had.
const maxListed = 16 << 20

// shorten cuts the list of changes to the size that a manifest may have. The patch and the result have all changes.
func (d *comparison) shorten() {
	size := 0
	for i := range d.Files {
		if size += changeSize(d.Files[i].Path + d.Files[i].From); size > maxListed {
			d.Warnings = append(d.Warnings, Warning{Code: warnMore,
				Message: fmt.Sprintf("%d more files changed; the patch has them all", len(d.Files)-i)})
			d.Files = slices.Clip(d.Files[:i])
			return
		}
	}
}

// resultRepository makes a fresh repository for the objects of this diff.
func (t *Tree) resultRepository(ctx context.Context) (git.Repository, error) {
	if err := t.discard(ctx, t.slot.result()); err != nil {
		return git.Repository{}, err
	}
	repo := git.Repository{Dir: t.slot.result(), Format: t.source.format,
		Alternates: append([]string{t.base.Objects()}, t.base.Alternates...)}
	return repo, repo.Create()
}

// diffArguments keep git from running programs and pin everything that a configuration could change.
var diffArguments = []string{"diff-tree", "-r", "--no-ext-diff", "--no-textconv",
	"--full-index", "--no-abbrev", "--no-color", "--diff-algorithm=myers", "--ignore-submodules=none"}

// patchArguments are those of a patch, in addition.
var patchArguments = []string{"--patch", "--binary", "--unified=3", "--src-prefix=a/", "--dst-prefix=b/"}

// write fills in the files and writes the patch. If finding renamed files takes too long, they are shown as removed and
// added.
func (d *comparison) write(ctx context.Context, repo git.Repository) error {
	err := d.writeWith(ctx, repo.Git().WithCPUTime(git.RenameTime), "--find-renames=50%", "-l1000")
	if !git.IsOverBudget(err) {
		return err
	}
	d.Warnings = append(d.Warnings, Warning{Code: warnSlowRenames,
		Message: "renamed files are shown as removed and added, since finding them took too long"})
	return d.writeWith(ctx, repo.Git(), "--no-renames")
}

// writeWith takes the list of changes and the patch from one command, so that renamed files are looked for once.
func (d *comparison) writeWith(ctx context.Context, g git.Runner, renames ...string) error {
	err := git.ReplaceFile(d.Patch, func(w io.Writer) error {
		if d.from == d.to {
			return nil
		}
		out := &listAndPatch{patch: w}
		err := g.Stream(ctx, nil, out, slices.Concat(diffArguments, renames, []string{"-z", "--raw", "--numstat"},
			patchArguments, []string{d.from, d.to})...)
		if err == nil {
			d.Files, d.ids, err = parseChanges(out.list)
		}
		return err
	})
	if err != nil {
		return err
	}
	info, err := os.Stat(d.Patch)
	if err == nil {
		d.PatchBytes = info.Size()
	}
	return err
}

// markEarlier marks the files that are as in the tree that a run with an earlier change began with, "" for any other.
func (d *comparison) markEarlier(ctx context.Context, repo git.Repository, start string) error {
	if start == "" || len(d.Files) == 0 {
		return nil
	}
	out, err := repo.Git().Run(ctx, nil, "diff-tree", "-r", "-z", "--no-renames", "--name-only", start, d.to)
	if err != nil {
		return fmt.Errorf("compare with the earlier change: %w", err)
	}
	changed := make(map[string]bool)
	for name := range bytes.SplitSeq(out, []byte{0}) {
		changed[string(name)] = true
	}
	for i := range d.Files {
		f := &d.Files[i]
		f.Earlier = !changed[f.Path] && !changed[cmp.Or(f.From, f.Path)]
	}
	return nil
}

// maxChangeList bounds the list of changes, in bytes.
const maxChangeList = 256 << 20

// listAndPatch takes what `git diff-tree -z --raw --numstat --patch` prints: a list for parseChanges, an empty field,
// and the patch.
type listAndPatch struct {
	patch io.Writer
	list  []byte
	at    int  // where the next field of the list begins
	paths int  // fields that follow and are paths
	whole bool // the list is complete
}

func (l *listAndPatch) Write(p []byte) (int, error) {
	if l.whole {
		return l.patch.Write(p)
	}
	if len(l.list)+len(p) > maxChangeList {
		return 0, fmt.Errorf("git's list of changes has more than %d MiB", maxChangeList>>20)
	}
	l.list = append(l.list, p...)
	for !l.whole {
		n := bytes.IndexByte(l.list[l.at:], 0)
		if n < 0 {
			return len(p), nil
		}
		l.take(l.list[l.at : l.at+n])
		l.at += n + 1
	}
	rest := l.list[l.at:]
	l.list = l.list[:l.at-1]
	_, err := l.patch.Write(rest)
	return len(p), err
}

// take takes a field of the list. Those of a renamed file have two paths.
func (l *listAndPatch) take(field []byte) {
	_, status, _ := bytes.Cut(field[max(0, bytes.LastIndexByte(field, ' ')):], []byte(" "))
	switch {
	case l.paths > 0:
		l.paths--
	case len(field) == 0:
		l.whole = true
	case field[0] != ':':
		if counts := bytes.SplitN(field, []byte("\t"), 3); len(counts) == 3 && len(counts[2]) == 0 {
			l.paths = 2
		}
	case bytes.HasPrefix(status, []byte("R")):
		l.paths = 2
	default:
		l.paths = 1
	}
}

// parseChanges reads `git diff-tree -z --raw --numstat`: for each file ":oldmode mode oldid id status NUL path NUL", a
// renamed one with both paths, then for each "added TAB deleted TAB path NUL", a renamed one with an empty path
// followed by both.
func parseChanges(out []byte) (changes []FileChange, ids []objectIDs, err error) {
	fields := bytes.Split(bytes.TrimSuffix(out, []byte{0}), []byte{0})
	next := func() string {
		if len(fields) == 0 {
			return ""
		}
		field := string(fields[0])
		fields = fields[1:]
		return field
	}
	for len(fields) > 0 && bytes.HasPrefix(fields[0], []byte(":")) {
		change, id, err := parseRaw(next(), next)
		if err != nil {
			return nil, nil, err
		}
		changes, ids = append(changes, change), append(ids, id)
	}
	for i := range changes {
		if err := parseNumstat(next(), next, &changes[i]); err != nil {
			return nil, nil, err
		}
	}
	if len(fields) > 0 && len(changes) > 0 {
		return nil, nil, fmt.Errorf("git's list of changes goes on with %.100q", fields[0])
	}
	return changes, ids, nil
}

var statusNames = map[byte]string{'A': "added", 'M': "modified", 'D': "deleted", 'R': "renamed", 'T': "type_changed"}

func parseRaw(about string, next func() string) (change FileChange, id objectIDs, err error) {
	field := strings.Fields(strings.TrimPrefix(about, ":"))
	if len(field) != 5 || statusNames[field[4][0]] == "" {
		return change, id, fmt.Errorf("git's list of changes has the line %.100q", about)
	}
	change = FileChange{Path: next(), OldMode: field[0], Mode: field[1], Status: statusNames[field[4][0]]}
	id = objectIDs{field[2], field[3]}
	if field[4][0] == 'R' {
		change.From, change.Path = change.Path, next()
	}
	if strings.Trim(change.Mode, "0") == "" {
		change.Mode = ""
	}
	if strings.Trim(change.OldMode, "0") == "" {
		change.OldMode, id.before = "", ""
	}
	if change.Path == "" {
		return change, id, fmt.Errorf("git's list of changes lacks a path after %.100q", about)
	}
	return change, id, nil
}

func parseNumstat(line string, next func() string, change *FileChange) error {
	field := strings.SplitN(line, "\t", 3)
	if len(field) != 3 {
		return fmt.Errorf("git's line counts have the line %.100q", line)
	}
	path := field[2]
	if path == "" {
		next()
		path = next()
	}
	if path != change.Path {
		return fmt.Errorf("git's line counts name %.100q where %.100q was expected", path, change.Path)
	}
	if field[0] == "-" {
		change.Binary = true
		return nil
	}
	var addedErr, deletedErr error
	change.Added, addedErr = strconv.Atoi(field[0])
	change.Deleted, deletedErr = strconv.Atoi(field[1])
	return errors.Join(addedErr, deletedErr)
}

// saveObjects saves the contents that the patch starts from and, for a repository, everything that Checkout needs. Of a
// plain directory, whose base contains all of its files, only the changed ones are packed.
func (t *Tree) saveObjects(ctx context.Context, d *comparison, result git.Repository, objects string) error {
	if objects == "" || len(d.Files) == 0 {
		return nil
	}
	if err := os.MkdirAll(filepath.Join(objects, "pack"), 0o700); err != nil {
		return fmt.Errorf("save objects: %w", err)
	}
	if t.info.Kind == KindCopy {
		return d.saveBase(ctx, t.base, objects)
	}
	from := []string{t.base.Objects(), result.Objects()}
	if pin := t.source.pin; pin != nil && pin.objects != "" { // they go with what was pinned
		from = append(from, pin.objects)
	}
	for _, dir := range from {
		if err := linkObjects(dir, objects); err != nil {
			return fmt.Errorf("save objects: %w", err)
		}
	}
	return nil
}

// linkObjects adds the objects of a repository of ours to another object directory. Objects never change, so
// a hard link is as good as a copy and takes no space.
func linkObjects(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, relative)
		switch {
		case relative == "info":
			return filepath.SkipDir
		case d.IsDir():
			return os.MkdirAll(target, 0o700)
		case !d.Type().IsRegular() || strings.HasPrefix(d.Name(), "tmp_"):
			return nil
		}
		err = os.Link(path, target)
		if errors.Is(err, fs.ErrExist) {
			return nil
		}
		if err != nil { // another disk, or a file system without hard links
			return git.CopyFile(path, target)
		}
		return nil
	})
}

// saveBase packs the contents that the patch starts from.
func (d *comparison) saveBase(ctx context.Context, base git.Repository, objects string) error {
	var ids strings.Builder
	for i := range d.Files {
		if id := d.ids[i].before; id != "" {
			ids.WriteString(id + "\n")
		}
	}
	if ids.Len() == 0 {
		return nil
	}
	_, err := base.Git().Run(ctx, strings.NewReader(ids.String()), "pack-objects", "--non-empty", "--quiet",
		filepath.Join(objects, "pack", "pack"))
	if err != nil {
		return fmt.Errorf("save base: %w", err)
	}
	return nil
}
