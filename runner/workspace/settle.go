package workspace

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"holon/internal/folder"
	"holon/runner/workspace/git"

	"golang.org/x/sys/unix"
)

// layout is the expected content of the tree by path.
type layout struct {
	entries []git.Entry
	files   map[string]int32 // path of a file or link → its entry
	dirs    map[string]bool  // every directory; true for the top of a submodule
	above   map[string]bool  // directories with a submodule beneath
	modules bool             // there is a submodule
}

func newLayout(entries []git.Entry) *layout {
	l := &layout{entries: entries, files: make(map[string]int32, len(entries)), dirs: map[string]bool{"": false},
		above: map[string]bool{}}
	last := ""
	for i := range entries {
		path := entries[i].Path
		if entries[i].Mode == git.ModeSubmodule {
			l.dirs[path], l.modules = true, true
			for dir, _ := folder.Split(path); dir != "" && !l.above[dir]; dir, _ = folder.Split(dir) {
				l.above[dir] = true
			}
		} else {
			l.files[path] = int32(i)
		}
		dir, _ := folder.Split(path)
		for top := dir; top != last; { // most entries share the directory of the one before
			if _, known := l.dirs[top]; known {
				break
			}
			l.dirs[top] = false
			top, _ = folder.Split(top)
		}
		last = dir
	}
	return l
}

// settle makes the tree contain exactly the record's entries and writes the record. Every file and directory that was
// touched since the last record is created again, which removes any kind of metadata that a run could leave; untouched
// ones stay. atRest says that the tree is released: no container has it until it is acquired again.
func (t *Tree) settle(ctx context.Context, atRest bool) error {
	top, err := folder.OpenOwned(t.slot.dir)
	if err != nil {
		return err
	}
	defer top.Close()
	bin, err := folder.OpenTrash(t.slot.trash())
	if err != nil {
		return err
	}
	defer bin.Close()
	s := newSettler(t, top, bin)
	if err := s.clean(ctx); err != nil {
		return fmt.Errorf("clean tree: %w", err)
	}
	if err := bin.Empty(ctx); err != nil {
		return err
	}
	root, err := top.Sub(treeName)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := t.checkout(ctx, root, s.missing()); err != nil {
		return fmt.Errorf("check out base: %w", err)
	}
	if err := s.recordDirs(root); err != nil {
		return err
	}
	t.record.header.Stamp, t.record.header.AtRest = time.Now().UnixNano(), atRest
	t.index, err = t.record.write(t.slot.record())
	return err
}

// settler removes everything from a tree that is not in the base.
type settler struct {
	tree   *Tree
	layout *layout
	top    folder.Dir // the slot
	trash  *folder.Trash
	have   []bool // by entry: the file is there and right; each is set by one goroutine

	known map[string]*git.Entry // recorded directories
	newer map[string]bool       // directories of entries that the slot holds for the first time

	mu      sync.Mutex
	touched []string // directories that are there, but not as they were recorded
}

func newSettler(t *Tree, top folder.Dir, bin *folder.Trash) *settler {
	s := &settler{tree: t, layout: newLayout(t.record.entries), top: top, trash: bin,
		have:  make([]bool, len(t.record.entries)),
		known: make(map[string]*git.Entry, len(t.record.dirs)), newer: map[string]bool{}}
	for i := range t.record.dirs {
		s.known[t.record.dirs[i].Path] = &t.record.dirs[i]
	}
	for i := range t.record.entries {
		if e := &t.record.entries[i]; e.Stat == (folder.Stat{}) {
			dir, _ := folder.Split(e.Path)
			s.newer[dir] = true
		}
	}
	return s
}

// clean removes files that are not as recorded and renews the touched directories, which it finds before changing them.
func (s *settler) clean(ctx context.Context) error {
	if err := unix.Mkdirat(s.top.FD, treeName, 0o755); err != nil && err != unix.EEXIST {
		return &os.PathError{Op: "mkdir", Path: treeName, Err: err}
	}
	st, err := s.top.Lstat(treeName)
	if err == nil {
		err = s.look(s.top, treeName, ".", &st)
	}
	if err != nil {
		return err
	}
	root, err := s.top.Sub(treeName)
	if err != nil {
		return err
	}
	defer root.Close()
	fail := func(path string, err error) error { return fmt.Errorf("clean %q: %w", path, err) }
	if err := folder.Walk(ctx, root, "", s.visit, fail); err != nil {
		return err
	}
	return s.renewTouched(ctx)
}

// look remembers a directory if it was touched and makes it accessible.
func (s *settler) look(parent folder.Dir, name, path string, st *unix.Stat_t) error {
	if e := s.known[path]; e != nil && e.Mode == uint32(st.Mode) && s.tree.owned(st) &&
		s.tree.record.untouched(e.Stat, st) {
		return nil
	}
	s.mu.Lock()
	s.touched = append(s.touched, path)
	s.mu.Unlock()
	if err := parent.Unfreeze(name); err != nil {
		return err
	}
	if st.Mode&0o700 == 0o700 {
		return nil
	}
	return parent.Chmod(name, 0o700)
}

func (s *settler) visit(dir folder.Dir, path string, names []string) (descend []string, err error) {
	for _, name := range names {
		child := folder.Join(path, name)
		st, err := dir.Lstat(name)
		if err != nil {
			return nil, fmt.Errorf("clean %q: %w", child, err)
		}
		if _, belongs := s.layout.dirs[child]; belongs && st.Mode&unix.S_IFMT == unix.S_IFDIR {
			if err := s.look(dir, name, child, &st); err != nil {
				return nil, fmt.Errorf("clean %q: %w", child, err)
			}
			descend = append(descend, name)
			continue
		}
		// a file of another owner is written again, to give it to its own
		if i, belongs := s.layout.files[child]; belongs && s.tree.owned(&st) &&
			s.tree.record.same(&s.layout.entries[i], &st) {
			s.have[i] = true
			continue
		}
		if err := s.trash.Take(dir, name); err != nil {
			return nil, fmt.Errorf("clean %q: %w", child, err)
		}
	}
	return descend, nil
}

// hashFile returns the blob id of a regular file or link and the stat data of the inode that was read.
func hashFile(format git.ObjectFormat, dir folder.Dir, name string, st *unix.Stat_t) (string, unix.Stat_t, error) {
	if st.Mode&unix.S_IFMT == unix.S_IFLNK {
		target, err := dir.Readlink(name)
		if err != nil {
			return "", *st, err
		}
		oid, err := format.BlobID(int64(len(target)), strings.NewReader(target))
		return oid, *st, err
	}
	file, found, err := dir.OpenFile(name)
	if err != nil {
		return "", found, err
	}
	defer file.Close()
	oid, err := format.BlobID(found.Size, file)
	return oid, found, err
}

// missing lists the entries to write.
func (s *settler) missing() []int32 {
	var list []int32
	for i := range s.have {
		if !s.have[i] {
			list = append(list, int32(i))
		}
	}
	return list
}
