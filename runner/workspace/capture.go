package workspace

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"holon/internal/folder"
	"holon/internal/gitname"
	"holon/runner/workspace/git"
	"holon/state"

	"golang.org/x/sys/unix"
)

// Codes of Warning: what a diff or a copy leaves out, and why.
const (
	warnSpecialFile      = "special_file"      // a FIFO, device or socket
	warnUnreadable       = "unreadable"        // can't be opened or vanished meanwhile
	warnFileTooLarge     = "file_too_large"    // Limits.FileBytes
	warnDiffTooLarge     = "diff_too_large"    // Limits.DiffBytes
	warnTooManyFiles     = "too_many_files"    // Limits.Files or Limits.NameBytes
	warnTooDeep          = "too_deep"          // nested or named longer than git can hold
	warnUnsafeName       = "unsafe_name"       // a name that some system takes for .git
	warnNestedRepository = "nested_repository" // a repository within: files taken, history not
	warnSubmodule        = "submodule_changed" // files within a submodule, or all of it, that the diff leaves out
	warnLeftover         = "leftover"          // a temporary file of a patch that was cut off; not part of the change
	warnOutsideLink      = "outside_link"      // a link that leads out of the tree; it is included
	warnSlowIgnore       = "slow_ignore"       // ignore rules that took git too long and were not obeyed
	warnSlowRenames      = "slow_renames"      // renamed files that took too long to find
	warnManyLines        = "many_lines"        // too many to be compared line by line: included as binary data
	warnLFS              = "lfs_file"          // a file of Git LFS with its content in the place of its pointer
	warnNoIgnored        = "no_ignored"        // a pattern of Options.Ignored that fits nothing
	warnMore             = "more"              // further warnings of a kind were not listed

	// WarnExecuted marks a changed file that some program executes without being asked to: git, an editor, a shell, a
	// package manager or a service that builds what is pushed. The change is complete all the same.
	WarnExecuted = "executed_file"
)

// Warning describes a difference between the tree and the result.
type Warning = state.Warning

// maxWarnings bounds the warnings of one code, maxWarningBytes the paths of all, as JSON.
const (
	maxWarnings     = 50
	maxWarningBytes = 1 << 20
)

// capture is the comparison of a directory with its record.
type capture struct {
	root   folder.Dir
	record *record
	layout *layout
	limits Limits

	have          []bool          // by entry: unchanged; each is set by one goroutine
	ignoreNothing bool            // the tree's ignore rules have no effect
	taken         map[string]bool // paths of ignored files that were copied, which are not part of a diff
	modules       map[string]bool // submodules whose changes are collected; those within others are warned of

	hashed atomic.Int64 // entries known to be unchanged by content alone

	mu       sync.Mutex
	inner    changeSet       // within modules, once it is known
	seen     int             // new paths so far
	names    int             // their bytes, or more
	changed  []found         // paths of the record with other content or mode
	files    []found         // files that the record doesn't know
	dirs     []string        // directories that it doesn't know, not looked into
	ignores  map[string]bool // directories with a .gitignore
	omitted  map[string]bool // paths of the record that stay as in the base, with what was beneath
	tops     map[string]bool // submodules whose directory is there
	long     []string        // paths with too many lines, once they are imported
	partial  bool            // something was left out
	warnings warningList
}

// found is a file or link to be read.
type found struct {
	path string
	mode uint32
	size int64
}

// compareTree walks root and compares its content with the record, without the ignored files that were taken along.
// Changes within modules are collected.
func compareTree(ctx context.Context, root folder.Dir, r *record, limits Limits, taken, modules []string) (*capture,
	error) {
	c := &capture{root: root, record: r, layout: newLayout(r.entries), limits: limits,
		have: make([]bool, len(r.entries)), taken: map[string]bool{}, ignores: map[string]bool{},
		omitted: map[string]bool{}, modules: map[string]bool{}, tops: map[string]bool{}}
	for _, path := range taken {
		c.taken[strings.TrimSuffix(path, "/")] = true
	}
	for _, path := range modules {
		c.modules[path] = true
	}
	if err := folder.Walk(ctx, root, "", c.visit, c.unreadable); err != nil {
		return nil, fmt.Errorf("compare tree: %w", err)
	}
	return c, nil
}

func (c *capture) visit(dir folder.Dir, path string, names []string) (descend []string, err error) {
	within := c.moduleOf(path)
	module := within != "" && !c.modules[within]
	for _, name := range names {
		if c.skipName(path, name) {
			continue
		}
		child := folder.Join(path, name)
		st, err := dir.Lstat(name)
		if err != nil {
			c.omit(child, warnUnreadable, err.Error())
			continue
		}
		isDir := st.Mode&unix.S_IFMT == unix.S_IFDIR
		top, known := c.layout.dirs[child]
		switch {
		case known && isDir:
			if top {
				c.add(func() { c.tops[child] = true })
			}
			descend = append(descend, name)
		case top: // a submodule replaced by a file
			c.omit(child, warnSubmodule, "the submodule's directory was replaced; the diff keeps the submodule")
		case c.layout.above[child]:
			c.omit(child, warnSubmodule, "the directory has a submodule and was replaced; the diff keeps what was there")
		case module:
			c.compareModule(dir, name, child, &st)
		case isDir:
			if c.fits(child) {
				c.add(func() { c.dirs = append(c.dirs, child) })
			}
		default:
			c.compareFile(dir, name, child, &st)
		}
	}
	return descend, nil
}

// anyAbove reports whether the path or a directory above it is in the set.
func anyAbove(set map[string]bool, path string) bool {
	for path != "" {
		if set[path] {
			return true
		}
		path, _ = folder.Split(path)
	}
	return false
}

// skipName filters names that are never part of a diff.
func (c *capture) skipName(dir, name string) bool {
	switch {
	case len(c.taken) > 0 && c.taken[folder.Join(dir, name)]:
		return true
	case name == ".git":
		if dir != "" && !c.layout.dirs[dir] {
			c.warn(warnNestedRepository, dir, "a repository within the tree; its files are taken, its history is not")
		}
		return true
	case gitname.IsDotGit(name):
		c.omit(folder.Join(dir, name), warnUnsafeName, "some file systems take this name for .git")
		return true
	case name == ".gitignore":
		c.add(func() { c.ignores[dir] = true })
	}
	return false
}

// compareFile compares a file, a link or a special file with the record.
func (c *capture) compareFile(dir folder.Dir, name, path string, st *unix.Stat_t) {
	mode := git.ModeOf(uint32(st.Mode))
	i, known := c.layout.files[path]
	switch {
	case known && c.matches(dir, name, i, st):
		c.have[i] = true
	case mode == 0 && known: // an unknown one may be ignored, so the warning has to wait
		c.omit(path, warnSpecialFile, "not a file, directory or link")
	case known:
		c.add(func() { c.changed = append(c.changed, found{path, mode, st.Size}) })
	case c.fits(path):
		c.add(func() { c.files = append(c.files, found{path, mode, st.Size}) })
	}
}

// matches compares stat data, and then content if the stat data leave a doubt and the sizes are equal.
func (c *capture) matches(dir folder.Dir, name string, i int32, st *unix.Stat_t) bool {
	e := &c.record.entries[i]
	if c.record.same(e, st) {
		return true
	}
	if git.ModeOf(uint32(st.Mode)) != e.Mode || uint32(st.Size) != e.Stat.Size {
		return false
	}
	oid, found, err := hashFile(c.record.format, dir, name, st)
	if err != nil || oid != e.Oid || git.ModeOf(uint32(found.Mode)) != e.Mode {
		return false
	}
	c.hashed.Add(1)
	return true
}

// compareModule warns of changes within a submodule, which a patch can't contain.
func (c *capture) compareModule(dir folder.Dir, name, path string, st *unix.Stat_t) {
	if i, known := c.layout.files[path]; known && c.matches(dir, name, i, st) {
		c.have[i] = true
		return
	}
	c.omit(path, warnSubmodule, "changed within a submodule, which the diff does not include")
}

func (c *capture) unreadable(path string, err error) error {
	if git.IsCancelled(err) {
		return err
	}
	c.omit(path, warnUnreadable, err.Error())
	return nil
}

// omit keeps path and everything below it as in the base.
func (c *capture) omit(path, code, message string) {
	c.add(func() { c.leaveOut(path, code, message) })
}

// leaveOut is omit for a caller that holds mu.
func (c *capture) leaveOut(path, code, message string) {
	c.partial = true
	_, isDir := c.layout.dirs[path]
	// Only these are looked up, and unlike others their number is bounded.
	if _, isFile := c.layout.files[path]; isDir && path != "" || isFile {
		c.omitted[path] = true
	}
	c.warnings.add(Warning{Code: code, Path: path, Message: message})
}

func (c *capture) warn(code, path, message string) {
	c.add(func() { c.warnings.add(Warning{Code: code, Path: path, Message: message}) })
}

func (c *capture) add(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

// deleted lists the deleted entries. Submodules and unreadable paths are not known to be deleted, so they stay.
func (c *capture) deleted() []string {
	gone := make(map[string]bool)
	for i := range c.record.entries {
		e := &c.record.entries[i]
		switch {
		case c.have[i] || anyAbove(c.omitted, e.Path):
		case e.Mode == git.ModeSubmodule:
			if c.modules[e.Path] && !c.tops[e.Path] {
				c.omit(e.Path, warnSubmodule, "the submodule's directory was removed; the diff keeps the submodule")
			}
		case e.Module && !c.modules[c.moduleOf(e.Path)]:
			c.warn(warnSubmodule, e.Path, "deleted within a submodule, which the diff does not include")
		default:
			gone[e.Path] = true
		}
	}
	for _, f := range c.changed {
		delete(gone, f.path)
	}
	return slices.Sorted(maps.Keys(gone))
}

// expand lists unknown directories level by level, so that an ignored one is never entered. ignored tells
// which paths of one level are ignored; nil ignores nothing.
func (c *capture) expand(ctx context.Context, files []found, dirs []string, ignored ignoreJudge) ([]found, error) {
	var fresh []found
	files, dirs = slices.Clone(files), slices.Clone(dirs)
	at := folder.NewCursor(c.root, false)
	defer at.Close()
	for len(files)+len(dirs) > 0 {
		slices.SortFunc(files, func(a, b found) int { return strings.Compare(a.path, b.path) })
		slices.Sort(dirs)
		if ignored != nil {
			skip, err := ignored(files, dirs)
			if err != nil {
				return nil, err
			}
			files = slices.DeleteFunc(files, func(f found) bool { return skip[f.path] })
			dirs = slices.DeleteFunc(dirs, func(dir string) bool { return skip[dir] })
		}
		fresh = append(fresh, c.usable(files)...)
		level := dirs
		files, dirs = nil, nil
		for _, dir := range level {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			newFiles, newDirs := c.list(at, dir)
			files, dirs = append(files, newFiles...), append(dirs, newDirs...)
		}
	}
	return fresh, nil
}

// ignoreJudge returns the paths that are ignored.
type ignoreJudge func(files []found, dirs []string) (map[string]bool, error)

// usable drops special files, which git can't store, and temporary files of interrupted patches.
func (c *capture) usable(files []found) []found {
	return slices.DeleteFunc(files, func(f found) bool {
		_, name := folder.Split(f.path)
		switch {
		case leftover().MatchString(name):
			c.warn(warnLeftover, f.path, "left by a patch that was cut off; the diff does not include it")
		case f.mode == 0:
			c.omit(f.path, warnSpecialFile, "not a file, directory or link")
		default:
			return false
		}
		return true
	})
}

// list reads one unknown directory.
func (c *capture) list(at *folder.Cursor, dir string) (files []found, dirs []string) {
	if len(dir) > gitname.MaxPath-256 || strings.Count(dir, "/") >= folder.MaxDepth {
		c.omit(dir, warnTooDeep, "nested too deeply")
		return nil, nil
	}
	here, _, err := at.Parent(folder.Join(dir, "."))
	if err != nil {
		c.omit(dir, warnUnreadable, err.Error())
		return nil, nil
	}
	err = here.List(func(names []string) error {
		for _, name := range names {
			if c.skipName(dir, name) {
				continue
			}
			child := folder.Join(dir, name)
			st, err := here.Lstat(name)
			isDir := st.Mode&unix.S_IFMT == unix.S_IFDIR
			switch {
			case err != nil:
				c.omit(child, warnUnreadable, err.Error())
			case !c.fits(child):
			case isDir:
				dirs = append(dirs, child)
			default:
				files = append(files, found{child, git.ModeOf(uint32(st.Mode)), st.Size})
			}
		}
		return nil
	})
	if err != nil {
		c.omit(dir, warnUnreadable, err.Error())
	}
	return files, dirs
}

// open opens a found file for reading and returns its size.
func (c *capture) open(at *folder.Cursor, f found) (*os.File, int64, error) {
	dir, name, err := at.Parent(f.path)
	if err != nil {
		return nil, 0, err
	}
	file, st, err := dir.OpenFile(name)
	if err != nil {
		return nil, 0, err
	}
	return file, st.Size, nil
}
