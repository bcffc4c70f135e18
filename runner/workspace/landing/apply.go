// Package landing brings the result of a run into the user's repository: Apply merges its patch into the
// files, Checkout makes it a branch with a working tree of its own, Remove takes that working tree away again.
//
// Invariants. Apply changes files of the working tree alone, all of them or none. Checkout only adds: objects
// that passed git's strict checks in a quarantine, a branch, a working tree. Nothing that the user's or the
// run's configuration, hooks or attributes name is run. Files that programs execute unasked are written only
// when Confirm agrees. An error of an exported function is a *git.Error.
package landing

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
	"holon/runner/workspace"
	"holon/runner/workspace/git"

	"golang.org/x/sys/unix"
)

// ApplyOptions name a patch and where it goes.
type ApplyOptions struct {
	Dir       string // as Options.Dir of the run
	Patch     string // a patch that Diff wrote
	Merge     string // how the caller can have a conflict merged, for the remedy; "" when it cannot
	Objects   string // what Diff wrote to DiffOptions.Objects; empty or absent is fine
	Borrowing git.Borrowing
	RunDir    string // the run's own directory, which gets the journal, absolute; "": a kill cannot be undone
	Check     bool   // only find out whether it can be done, and what it would do
	Hold      bool   // keep the former contents and the journal, until Undo or Settle

	Submodules []workspace.SubmoduleChange // that the patch changes; each is checked out
	Warnings   []workspace.Warning         // what Diff warned of
	Confirm    Confirm                     // is asked about files that programs execute
}

// maxPatch is what git apply takes, less the end of its buffer.
const maxPatch = 1<<30 - 1<<20

// ApplyResult says what Apply did to the working tree.
type ApplyResult struct {
	RunID   string   `json:"run_id,omitempty"` // of the change, where the caller names it
	Path    string   `json:"path"`             // top of the working tree
	Written []string `json:"written"`          // raw bytes, sorted
	Deleted []string `json:"deleted"`
}

// Apply merges a patch into the user's files, three-way if the contents that the patch starts from are available. A
// file that has its change already stays as it is, also a deleted or renamed one. Only files of the working tree
// change, never the index or anything else in .git, so the user sees the result as uncommitted changes. All or
// nothing: if a file doesn't merge, the error is patch_conflict or would_overwrite with its path in Paths, and nothing
// changes. The same holds for files that programs execute, unless Confirm agrees. Files are moved into place one by
// one; if the process is killed in between, UndoKilled moves the former ones back.
func Apply(ctx context.Context, options ApplyOptions) (*ApplyResult, error) {
	result, err := apply(ctx, options)
	return result, git.WithCode("apply patch", err)
}

func apply(ctx context.Context, options ApplyOptions) (*ApplyResult, error) {
	dir, err := git.RealDirectory(options.Dir)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(options.Patch)
	if err != nil || !info.Mode().IsRegular() {
		return nil, &git.Error{Code: CodeInvalidPatch, Param: options.Patch, Err: err,
			Message: "the patch " + options.Patch + " can't be read"}
	}
	if options.Patch, err = filepath.Abs(options.Patch); err != nil {
		return nil, err
	}
	if options.RunDir == "" {
		if options.RunDir, err = os.MkdirTemp("", "holon-apply-"); err != nil {
			return nil, err
		}
		defer os.RemoveAll(options.RunDir)
	}
	unlock, err := lockRun(ctx, options.RunDir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if _, _, err := undoIn(options.RunDir, false); err != nil { // what cannot be undone keeps its journal
		return nil, err
	}
	scratch, err := os.MkdirTemp(options.RunDir, scratchPrefix)
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(scratch)
	m, err := newMerge(ctx, dir, scratch, options)
	if err != nil {
		return nil, err
	}
	if info.Size() >= maxPatch {
		return nil, &git.Error{Code: git.CodeTooLarge, Param: options.Patch,
			Message: fmt.Sprintf("the patch has %d bytes; git reads less than %d", info.Size(), maxPatch),
			Hint:    "holon checkout makes a branch of the result"}
	}
	if info.Size() == 0 {
		return &ApplyResult{Path: m.top, Written: []string{}, Deleted: []string{}}, nil
	}
	return m.run(ctx, options.Patch)
}

// merge applies one patch to one working tree. Git merges in a repository and an index of ours, on a copy of the user's
// files.
type merge struct {
	top      string
	patch    *git.Patch
	scratch  string
	runDir   string // gets the journal
	repo     git.Repository
	tree     git.Runner // converts between files and blobs as the user's repository does
	index    string
	user     *git.UserRepository // nil for a plain directory
	modules  []string            // submodules that are directories in the index
	warnings []workspace.Warning
	confirm  Confirm
	check    bool                      // change nothing
	hold     bool                      // keep the journal
	remedy   func(clear string) string // of a conflict

	names    []string          // every path the patch touches, sorted
	created  []string          // names known to be new: of renamed files, and as far as conflicts were looked for
	existing map[string]placed // what is at these paths now
}

// placed is the present state of a path in the user's tree.
type placed struct {
	kind placedKind
	stat folder.Stat
}

type placedKind int

const (
	absent      placedKind = iota
	file                   // a regular file or a link
	occupied               // a directory or something special
	unreachable            // a parent is not a directory
)

func newMerge(ctx context.Context, dir, scratch string, options ApplyOptions) (*merge, error) {
	user, err := git.Locate(ctx, dir, options.Borrowing)
	if err != nil {
		return nil, err
	}
	m := &merge{top: dir, warnings: options.Warnings, confirm: options.Confirm, remedy: options.remedy,
		check: options.Check, hold: options.Hold,
		scratch: scratch, runDir: options.RunDir, index: filepath.Join(scratch, "index"),
		repo: git.Repository{Dir: filepath.Join(scratch, "repo"), Format: git.SHA1}, existing: map[string]placed{}}
	if user != nil {
		m.user, m.top, m.repo.Format = user, user.Top, user.Format
		m.repo.Alternates = []string{user.Objects}
	}
	if options.Objects != "" {
		objects, err := filepath.Abs(options.Objects)
		if err != nil {
			return nil, err
		}
		m.repo.Alternates = append(m.repo.Alternates, objects)
	}
	if err := m.repo.Create(); err != nil {
		return nil, err
	}
	if err := m.openTree(); err != nil {
		return nil, err
	}
	for _, s := range options.Submodules {
		if err := m.addModule(s); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// openTree prepares git for the user's files, with the user's line endings.
func (m *merge) openTree() error {
	m.tree = m.repo.Git()
	if m.user == nil { // without conversion, even if attribute files in the directory ask for it
		attributes := filepath.Join(m.repo.Dir, "info", "attributes")
		if err := os.WriteFile(attributes, []byte("* -text !eol !ident !filter !working-tree-encoding\n"),
			0o600); err != nil {
			return err
		}
	} else {
		v, err := m.user.View(filepath.Join(m.scratch, "view"))
		if err != nil {
			return err
		}
		m.tree = v.Git().With("GIT_OBJECT_DIRECTORY="+m.repo.Objects(), git.AlternatesVariable(m.repo.Alternates))
	}
	m.tree = m.tree.With("GIT_WORK_TREE="+m.top, "GIT_INDEX_FILE="+m.index)
	m.tree.Dir = m.top
	return nil
}

func (m *merge) run(ctx context.Context, patch string) (*ApplyResult, error) {
	if err := m.readPatch(ctx, patch); err != nil {
		return nil, err
	}
	root, err := folder.Open(m.top)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if err := m.look(root); err != nil {
		return nil, err
	}
	if err := m.fillIndex(ctx); err != nil {
		return nil, fmt.Errorf("read the current files: %w", err)
	}
	// Only from here, as git gives an object that is there already a new time.
	m.tree = m.tree.With(git.AlternatesVariable(m.repo.Alternates))
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
	if m.check {
		return result, nil
	}
	return result, m.replace(ctx, root, result)
}

// readPatch lists the paths the patch touches, before and after it.
func (m *merge) readPatch(ctx context.Context, path string) (err error) {
	if m.patch, err = git.ReadPatch(ctx, m.repo, path); err != nil {
		if git.Refused(err) {
			err = &git.Error{Code: CodeInvalidPatch, Param: path, Err: err, Message: "the patch can't be read"}
		}
		return err
	}
	before := slices.Sorted(slices.Values(m.patch.Before))
	for _, name := range m.patch.After {
		if _, existed := slices.BinarySearch(before, name); !existed { // the new name of a renamed file
			m.created = append(m.created, name)
		}
	}
	m.names = slices.Sorted(slices.Values(slices.Concat(m.patch.Before, m.patch.After)))
	m.names = slices.Compact(m.names)
	for _, name := range m.names {
		if err := git.CheckPath(name); err != nil {
			return &git.Error{Code: CodeInvalidPatch, Param: path, Err: err,
				Message: "the patch names a path that must not be written"}
		}
	}
	return nil
}

// look reads the present state of the patch's paths.
func (m *merge) look(root folder.Dir) error {
	at := folder.NewCursor(root, false)
	defer at.Close()
	for _, name := range m.names {
		dir, base, err := at.Parent(name)
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
		st, err := dir.Lstat(base)
		switch {
		case errors.Is(err, unix.ENOENT):
			m.existing[name] = placed{kind: absent}
		case err != nil:
			return err
		case git.ModeOf(uint32(st.Mode)) == 0:
			m.existing[name] = placed{kind: occupied}
		default:
			m.existing[name] = placed{kind: file, stat: folder.StatOf(&st)}
		}
	}
	return git.CheckOpened(m.top, append(parents(m.names), ""))
}

// fillIndex makes our index a copy of the user's, with the present files at the patch's paths, tracked or not. Entries
// lose the marks skip-worktree and assume-unchanged, which hide changes from git: they must not be overwritten.
func (m *merge) fillIndex(ctx context.Context) error {
	if m.user != nil {
		if err := m.user.CopyIndex(m.index); err != nil {
			return err
		}
	}
	lines, err := git.ReadIndex(ctx, m.tree)
	if err != nil {
		return err
	}
	marked := map[string]git.IndexEntry{}
	for _, e := range lines {
		if e.Marked && !e.Unmerged {
			marked[e.Path] = e.IndexEntry
		}
	}
	var entries, present strings.Builder
	remove := func(name string) {
		entries.WriteString("0 " + strings.Repeat("0", 2*m.repo.Format.Size()) + "\t" + name + "\x00")
	}
	for _, module := range m.modules {
		remove(module)
	}
	for _, name := range m.names {
		entry, isMarked := marked[name]
		switch {
		case m.existing[name].kind != file:
			remove(name)
			continue
		case isMarked:
			entries.WriteString(entry.Mode + " " + entry.Oid + " 0\t" + name + "\x00")
		}
		present.WriteString(name + "\x00")
	}
	if _, err := m.tree.Run(ctx, strings.NewReader(entries.String()), "update-index", "-z",
		"--index-info"); err != nil {
		return err
	}
	_, err = m.tree.Run(ctx, strings.NewReader(present.String()), "update-index", "--force-write-index", "--add",
		"--replace", "-z", "--stdin")
	return err
}

// mergeIndex applies the patch to our index.
func (m *merge) mergeIndex(ctx context.Context) error {
	conflicts, err := m.patch.Merge(ctx, m.repo, m.index)
	if git.Refused(err) {
		return m.conflict(nil, err)
	}
	if err != nil || len(conflicts) == 0 {
		return err
	}
	for _, name := range conflicts {
		created, err := m.patch.Creates(ctx, m.repo, m.index+".none", name)
		if err != nil {
			return err
		}
		if created {
			m.created = append(m.created, name)
		}
	}
	return m.conflict(conflicts, nil)
}

// compare returns the files to write and to delete from two states of the index.
func (m *merge) compare(before, after map[string]git.IndexEntry) (*ApplyResult, error) {
	result := &ApplyResult{Path: m.top, Written: []string{}, Deleted: []string{}}
	var blocked []string
	for _, name := range m.names {
		old, had := before[name]
		now, has := after[name]
		switch {
		case had && !has:
			result.Deleted = append(result.Deleted, name)
		case has && now.Mode == "160000":
			return nil, &git.Error{Code: CodeInvalidPatch, Param: name,
				Message: "the patch changes the submodule " + visible.Quoted(name)}
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

// blocked reports whether a path that the patch doesn't remove prevents creating a new file: a parent that is not a
// directory, or a directory of the same name.
func (m *merge) blocked(name string, deleted []string) bool {
	switch m.existing[name].kind {
	case occupied:
		return !slices.ContainsFunc(deleted, func(gone string) bool { return strings.HasPrefix(gone, name+"/") })
	case unreachable:
		for parent, _ := folder.Split(name); parent != ""; parent, _ = folder.Split(parent) {
			if slices.Contains(deleted, parent) {
				return false
			}
		}
		return true
	}
	return false
}

// entries reads an index of ours, as far as the patch is concerned.
func (m *merge) entries(ctx context.Context, index string) (map[string]git.IndexEntry, error) {
	lines, err := git.ReadIndex(ctx, m.repo.Git().With("GIT_INDEX_FILE="+index))
	if err != nil {
		return nil, err
	}
	entries := map[string]git.IndexEntry{}
	for _, e := range lines {
		if _, concerned := slices.BinarySearch(m.names, e.Path); !concerned {
			continue
		}
		if e.Unmerged {
			return nil, m.conflict([]string{e.Path}, nil)
		}
		entries[e.Path] = e.IndexEntry
	}
	return entries, nil
}
