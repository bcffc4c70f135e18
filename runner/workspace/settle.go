package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// layout answers what belongs at a path of the tree.
type layout struct {
	entries []entry
	files   map[string]int32 // path of a file or link → its entry
	dirs    map[string]bool  // every directory; true for the top of a submodule
}

func newLayout(entries []entry) *layout {
	l := &layout{entries: entries, files: make(map[string]int32, len(entries)), dirs: map[string]bool{"": false}}
	last := ""
	for i := range entries {
		path := entries[i].path
		if entries[i].mode == modeSubmodule {
			l.dirs[path] = true
		} else {
			l.files[path] = int32(i)
		}
		dir, _ := splitPath(path)
		for top := dir; top != last; { // most entries share the directory of the one before
			if _, known := l.dirs[top]; known {
				break
			}
			l.dirs[top] = false
			top, _ = splitPath(top)
		}
		last = dir
	}
	return l
}

// settle makes the tree hold exactly the record's entries and nothing else,
// touching only what differs, and writes the record anew.
func (t *Tree) settle(ctx context.Context) error {
	if err := os.Mkdir(t.slot.tree(), 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("create tree: %w", err)
	}
	root, err := openOurs(t.slot.tree())
	if err != nil {
		return err
	}
	defer root.close()
	bin, err := openTrash(t.slot.trash())
	if err != nil {
		return err
	}
	defer bin.close()
	if err := t.giveFolder(root, ".", nil); err != nil {
		return err
	}
	s := &settler{tree: t, layout: newLayout(t.record.entries), trash: bin, have: make([]bool, len(t.record.entries))}
	if err := restoreDirectory(root, ".", nil); err != nil {
		return err
	}
	fail := func(path string, err error) error { return fmt.Errorf("clean %q: %w", path, err) }
	if err := walkTree(ctx, root, "", s.visit, fail); err != nil {
		return fmt.Errorf("clean tree: %w", err)
	}
	if err := bin.empty(ctx); err != nil {
		return err
	}
	if err := t.checkout(ctx, root, s.missing()); err != nil {
		return fmt.Errorf("check out base: %w", err)
	}
	t.record.header.Version, t.record.header.Boot, t.record.header.Stamp = recordVersion, t.boot, now()
	t.index, err = t.record.write(t.slot.record())
	return err
}

// settler removes from a tree what is not the base.
type settler struct {
	tree   *Tree
	layout *layout
	trash  *trash
	have   []bool // by entry: the file is there and right; each is set by one goroutine
}

func (s *settler) visit(dir folder, path string, names []string) (descend []string, err error) {
	for _, name := range names {
		child := joinPath(path, name)
		st, err := dir.lstat(name)
		if err != nil {
			return nil, fmt.Errorf("clean %q: %w", child, err)
		}
		if _, belongs := s.layout.dirs[child]; belongs && st.Mode&unix.S_IFMT == unix.S_IFDIR {
			if err := errors.Join(restoreDirectory(dir, name, &st), s.tree.giveFolder(dir, name, &st)); err != nil {
				return nil, fmt.Errorf("clean %q: %w", child, err)
			}
			descend = append(descend, name)
			continue
		}
		if i, belongs := s.layout.files[child]; belongs && s.unchanged(dir, name, &st, i) {
			s.have[i] = true
			continue
		}
		if err := s.trash.take(dir, name); err != nil {
			return nil, fmt.Errorf("clean %q: %w", child, err)
		}
	}
	return descend, nil
}

func (s *settler) unchanged(dir folder, name string, st *unix.Stat_t, i int32) bool {
	if !s.tree.owned(st) { // written anew, which is how it gets its owner
		return false
	}
	e := &s.layout.entries[i]
	switch s.tree.record.compare(e, st, s.tree.boot) {
	case same:
		return true
	case verify:
		oid, found, err := hashFile(s.tree.source.format, dir, name, st)
		if err != nil || oid != e.oid {
			return false
		}
		e.stat = statOf(&found) // only the device number can differ
		return true
	}
	return false
}

// hashFile returns the blob id of a regular file or link, and the stat data
// that hold for what was read.
func hashFile(format objectFormat, dir folder, name string, st *unix.Stat_t) (string, unix.Stat_t, error) {
	if st.Mode&unix.S_IFMT == unix.S_IFLNK {
		target, err := dir.readlink(name)
		if err != nil {
			return "", *st, err
		}
		oid, err := format.blobID(int64(len(target)), strings.NewReader(target))
		return oid, *st, err
	}
	file, found, err := dir.file(name)
	if err != nil {
		return "", found, err
	}
	defer file.Close()
	oid, err := format.blobID(found.Size, file)
	return oid, found, err
}

// restoreDirectory gives a directory sane permissions again: all of them to
// its owner, no special bits, no writing by others.
func restoreDirectory(parent folder, name string, st *unix.Stat_t) error {
	if st == nil {
		found, err := parent.lstat(name)
		if err != nil {
			return err
		}
		st = &found
	}
	if st.Mode&0o7722 == 0o700 {
		return nil
	}
	return parent.chmod(name, 0o755)
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
