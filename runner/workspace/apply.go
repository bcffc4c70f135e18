package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// ApplyOptions name a patch and where it goes.
type ApplyOptions struct {
	Dir       string // as Options.Dir of the run
	Patch     string // a patch that Diff wrote
	Objects   string // what Diff wrote to DiffOptions.Objects; empty or absent is fine
	Borrowing Borrowing
	Scratch   string // directory for temporary files; empty means the system's

	Warnings []Warning // what Diff warned of
	Confirm  Confirm   // is asked about files that programs execute
}

// maxPatch is what git apply takes, less the end of its buffer.
const maxPatch = 1<<30 - 1<<20

// ApplyResult says what Apply did to the working tree.
type ApplyResult struct {
	Path    string   `json:"path"`    // top of the working tree
	Written []string `json:"written"` // raw bytes, sorted
	Deleted []string `json:"deleted"`
}

// Apply merges a patch into the user's files, three ways where the contents it
// starts from are at hand. Only files of the working tree change, never the
// index or anything else in .git, so the user sees the result as uncommitted
// changes. All or nothing: when any file doesn't merge, the error is
// patch_conflict or would_overwrite with the Paths at fault, and nothing was
// touched. So it is with files that programs execute, unless Confirm agrees.
// Files are moved into place one by one; a kill in between leaves the former ones in the directory
// .holon-apply-* at the top of the tree.
func Apply(ctx context.Context, options ApplyOptions) (*ApplyResult, error) {
	result, err := apply(ctx, options)
	return result, typed("apply patch", err)
}

func apply(ctx context.Context, options ApplyOptions) (*ApplyResult, error) {
	dir, err := realDirectory(options.Dir)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(options.Patch)
	if err != nil || !info.Mode().IsRegular() {
		return nil, &Error{Code: CodeInvalidPatch, Param: options.Patch, Err: err,
			Message: "the patch " + options.Patch + " can't be read"}
	}
	if options.Patch, err = filepath.Abs(options.Patch); err != nil {
		return nil, err
	}
	scratch, err := os.MkdirTemp(options.Scratch, "holon-apply-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(scratch)
	m, err := newMerge(ctx, dir, scratch, options)
	if err != nil {
		return nil, err
	}
	if info.Size() >= maxPatch {
		return nil, &Error{Code: CodeTooLarge, Param: options.Patch,
			Message: fmt.Sprintf("the patch has %d bytes; git reads less than %d", info.Size(), maxPatch),
			Hint:    "holon checkout makes a branch of the result"}
	}
	if info.Size() == 0 {
		return &ApplyResult{Path: m.top, Written: []string{}, Deleted: []string{}}, nil
	}
	return m.run(ctx)
}

// merge is one patch on its way into one working tree. Git does the merging in
// a repository and an index of ours, on a copy of what the user's files hold.
type merge struct {
	top      string
	patch    string
	scratch  string
	repo     repository
	tree     git // converts between files and blobs as the user's repository does
	index    string
	user     *userRepository // nil for a plain directory
	warnings []Warning
	confirm  Confirm

	names    []string          // every path the patch touches, sorted
	results  []string          // of each file in the patch its name afterwards
	created  []string          // names known to be new: of renamed files, and as far as conflicts were looked for
	existing map[string]placed // what is at these paths now
}

// placed is what the user's tree has at a path.
type placed struct {
	kind placedKind
	stat fileStat
}

type placedKind int

const (
	absent      placedKind = iota
	file                   // a regular file or a link
	occupied               // a directory or something special
	unreachable            // a parent is no directory
)

func newMerge(ctx context.Context, dir, scratch string, options ApplyOptions) (*merge, error) {
	user, err := locate(ctx, dir, options.Borrowing)
	if err != nil {
		return nil, err
	}
	m := &merge{top: dir, patch: options.Patch, warnings: options.Warnings, confirm: options.Confirm, scratch: scratch,
		index: filepath.Join(scratch, "index"),
		repo:  repository{dir: filepath.Join(scratch, "repo"), format: formatSHA1}, existing: map[string]placed{}}
	if user != nil {
		m.user, m.top, m.repo.format = user, user.top, user.format
		m.repo.alternates = []string{user.objects}
	}
	if options.Objects != "" {
		objects, err := filepath.Abs(options.Objects)
		if err != nil {
			return nil, err
		}
		m.repo.alternates = append(m.repo.alternates, objects)
	}
	if err := m.repo.create(); err != nil {
		return nil, err
	}
	return m, m.openTree()
}

// openTree prepares git for the user's files, with the user's line endings.
func (m *merge) openTree() error {
	m.tree = m.repo.git()
	if m.user == nil { // raw, whatever attributes files in the directory ask for
		attributes := filepath.Join(m.repo.dir, "info", "attributes")
		if err := os.WriteFile(attributes, []byte("* -text !eol !ident !filter !working-tree-encoding\n"),
			0o600); err != nil {
			return err
		}
	} else {
		v, err := m.user.view(filepath.Join(m.scratch, "view"))
		if err != nil {
			return err
		}
		m.tree = v.git().with("GIT_OBJECT_DIRECTORY="+m.repo.objects(), alternatesVariable(m.repo.alternates))
	}
	m.tree = m.tree.with("GIT_WORK_TREE="+m.top, "GIT_INDEX_FILE="+m.index)
	m.tree.dir = m.top
	return nil
}

func (m *merge) run(ctx context.Context) (*ApplyResult, error) {
	if err := m.readNames(ctx); err != nil {
		return nil, err
	}
	root, err := openFolder(m.top)
	if err != nil {
		return nil, err
	}
	defer root.close()
	if err := m.look(root); err != nil {
		return nil, err
	}
	if err := m.fillIndex(ctx); err != nil {
		return nil, fmt.Errorf("read the current files: %w", err)
	}
	before, err := m.entries(ctx, m.index)
	if err != nil {
		return nil, err
	}
	if err := m.mergeIndex(ctx); err != nil {
		return nil, err
	}
	after, err := m.entries(ctx, m.index)
	if err != nil {
		return nil, err
	}
	result, err := m.compare(before, after)
	if err != nil {
		return nil, err
	}
	files, err := m.executed(ctx, result, before, after)
	if err == nil {
		err = m.confirm.ask(files)
	}
	if err != nil {
		return nil, err
	}
	return result, m.replace(ctx, root, result)
}

// gitApply runs `git apply` in our repository, where no configuration or
// attributes of the user's or the patch's have a say.
func (m *merge) gitApply(ctx context.Context, index string, arguments ...string) ([]byte, error) {
	arguments = append(append([]string{"apply", "--whitespace=nowarn"}, arguments...), m.patch)
	return m.repo.git().with("GIT_INDEX_FILE="+index).run(ctx, nil, arguments...)
}

// readNames lists the paths the patch touches: the names after it and, with
// the patch reversed, before it.
func (m *merge) readNames(ctx context.Context) error {
	after, err := m.patchNames(ctx)
	if err != nil {
		return err
	}
	before, err := m.patchNames(ctx, "--reverse")
	if err != nil {
		return err
	}
	m.results = after
	slices.Sort(before)
	for _, name := range after {
		if _, existed := slices.BinarySearch(before, name); !existed { // the new name of a renamed file
			m.created = append(m.created, name)
		}
	}
	m.names = append(slices.Clone(after), before...)
	slices.Sort(m.names)
	m.names = slices.Compact(m.names)
	for _, name := range m.names {
		if err := checkPath(name); err != nil {
			return &Error{Code: CodeInvalidPatch, Param: m.patch, Err: err,
				Message: "the patch names a path that must not be written"}
		}
	}
	return nil
}

func (m *merge) patchNames(ctx context.Context, direction ...string) ([]string, error) {
	out, err := m.gitApply(ctx, m.index, append(direction, "--numstat", "-z")...)
	if failed, ok := errors.AsType[*gitError](err); ok && failed.cause == nil {
		return nil, &Error{Code: CodeInvalidPatch, Param: m.patch, Err: err, Message: "the patch can't be read"}
	}
	if err != nil {
		return nil, err
	}
	return parseNames(out)
}

// parseNames reads `git apply --numstat -z`: "added TAB deleted TAB path NUL".
func parseNames(out []byte) ([]string, error) {
	var names []string
	for line := range bytes.SplitSeq(bytes.TrimSuffix(out, []byte{0}), []byte{0}) {
		fields := strings.SplitN(string(line), "\t", 3)
		if len(fields) != 3 || fields[2] == "" {
			return nil, fmt.Errorf("git lists the patch with the line %.100q", line)
		}
		names = append(names, fields[2])
	}
	return names, nil
}

// look notes what the user's tree has at the patch's paths.
func (m *merge) look(root folder) error {
	at := newCursor(root, false)
	defer at.close()
	for _, name := range m.names {
		dir, base, err := at.parent(name)
		if errors.Is(err, unix.ENOENT) {
			m.existing[name] = placed{kind: absent}
			continue
		}
		if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
			m.existing[name] = placed{kind: unreachable}
			continue
		}
		if err != nil {
			return err
		}
		st, err := dir.lstat(base)
		switch {
		case errors.Is(err, unix.ENOENT):
			m.existing[name] = placed{kind: absent}
		case err != nil:
			return err
		case gitMode(st.Mode) == 0:
			m.existing[name] = placed{kind: occupied}
		default:
			m.existing[name] = placed{kind: file, stat: statOf(&st)}
		}
	}
	return nil
}

// fillIndex makes our index the user's with the files as they are now at the
// patch's paths, tracked or not. Entries that are marked so that git does not
// look at the file lose the mark: a change there must not be overwritten.
func (m *merge) fillIndex(ctx context.Context) error {
	if m.user != nil {
		if err := m.user.copyIndex(m.index); err != nil {
			return err
		}
	}
	marked, err := markedEntries(ctx, m.tree)
	if err != nil {
		return err
	}
	var entries, present strings.Builder
	for _, name := range m.names {
		entry, isMarked := marked[name]
		switch {
		case m.existing[name].kind != file:
			entries.WriteString("0 " + strings.Repeat("0", 2*m.repo.format.size()) + "\t" + name + "\x00")
			continue
		case isMarked:
			entries.WriteString(entry.mode + " " + entry.oid + " 0\t" + name + "\x00")
		}
		present.WriteString(name + "\x00")
	}
	if _, err := m.tree.run(ctx, strings.NewReader(entries.String()), "update-index", "-z",
		"--index-info"); err != nil {
		return err
	}
	_, err = m.tree.run(ctx, strings.NewReader(present.String()), "update-index", "--force-write-index", "--add",
		"--replace", "-z", "--stdin")
	return err
}

// mergeIndex applies the patch to our index. Exit 0 means that every file
// merged cleanly; anything else leaves the index unusable.
func (m *merge) mergeIndex(ctx context.Context) error {
	before := m.index + ".before"
	if err := copyFile(m.index, before); err != nil {
		return err
	}
	_, err := m.gitApply(ctx, m.index, "--cached", "--3way")
	failed, ok := errors.AsType[*gitError](err)
	if !ok || failed.cause != nil || isFull(err) {
		return err
	}
	return m.findConflicts(ctx, before, err)
}

// compare turns the difference of two states of the index into work.
func (m *merge) compare(before, after map[string]indexed) (*ApplyResult, error) {
	result := &ApplyResult{Path: m.top, Written: []string{}, Deleted: []string{}}
	var blocked []string
	for _, name := range m.names {
		old, had := before[name]
		now, has := after[name]
		switch {
		case had && !has:
			result.Deleted = append(result.Deleted, name)
		case has && now.mode == "160000":
			return nil, &Error{Code: CodeInvalidPatch, Param: name,
				Message: fmt.Sprintf("the patch changes the submodule %q", name)}
		case has && (!had || old != now):
			result.Written = append(result.Written, name)
		}
	}
	for _, name := range result.Written {
		if m.blocked(name, result.Deleted) {
			blocked = append(blocked, name)
		}
	}
	if len(blocked) > 0 {
		return nil, m.conflict(blocked, nil)
	}
	return result, nil
}

// blocked reports whether something that the patch doesn't remove is in the
// way of a new file: a parent that is no directory, or a directory.
func (m *merge) blocked(name string, deleted []string) bool {
	switch m.existing[name].kind {
	case occupied:
		return !slices.ContainsFunc(deleted, func(gone string) bool { return strings.HasPrefix(gone, name+"/") })
	case unreachable:
		for parent, _ := splitPath(name); parent != ""; parent, _ = splitPath(parent) {
			if slices.Contains(deleted, parent) {
				return false
			}
		}
		return true
	}
	return false
}
