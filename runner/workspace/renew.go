package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"holon/internal/folder"
	"holon/runner/workspace/git"

	"golang.org/x/sys/unix"
)

// Names of directories in a slot: its tree, and a new directory that replaces one of the tree. The new one is created
// outside the tree, so that it inherits nothing, such as an access list, from its future parent.
const (
	treeName  = "tree"
	freshName = "fresh"
)

// renewTouched replaces the directories that were touched, parents first.
func (s *settler) renewTouched(ctx context.Context) error {
	if err := s.trash.Take(s.top, freshName); err != nil { // of a process that was killed
		return err
	}
	if slices.Contains(s.touched, ".") {
		if err := s.renew(s.top, treeName, ""); err != nil {
			return err
		}
	}
	root, err := s.top.Sub(treeName)
	if err != nil {
		return err
	}
	defer root.Close()
	at := folder.NewCursor(root, false)
	defer at.Close()
	slices.Sort(s.touched)
	for _, path := range s.touched {
		if path == "." {
			continue
		}
		parent, name, err := at.Parent(path)
		if err == nil {
			err = s.renew(parent, name, path)
		}
		if err := errors.Join(err, ctx.Err()); err != nil {
			return fmt.Errorf("renew %q: %w", path, err)
		}
	}
	return nil
}

// renew replaces a directory by a new one and moves all of its remaining content there.
func (s *settler) renew(parent folder.Dir, name, path string) error {
	if err := unix.Mkdirat(s.top.FD, freshName, 0o700); err != nil {
		return &os.PathError{Op: "mkdir", Path: freshName, Err: err}
	}
	fresh, err := s.top.Sub(freshName)
	if err != nil {
		return err
	}
	defer fresh.Close()
	old, err := parent.Sub(name)
	if err != nil {
		return err
	}
	defer old.Close()
	err = old.List(func(names []string) error {
		for _, inner := range names {
			if err := s.moveOver(old, fresh, path, inner); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := errors.Join(s.top.Chmod(freshName, 0o755), folder.Chown(s.top, freshName, s.tree.source.options.Owner),
		parent.Rmdir(name)); err != nil {
		return err
	}
	if err := unix.Renameat(s.top.FD, freshName, parent.FD, name); err != nil {
		return &os.LinkError{Op: "rename", Old: freshName, New: name, Err: err}
	}
	return nil
}

// moveOver moves one file or directory of path. The move changes the stat data of a file, so they are
// recorded again; those of directories are recorded at the end.
func (s *settler) moveOver(old, fresh folder.Dir, path, name string) error {
	if err := unix.Renameat(old.FD, name, fresh.FD, name); err != nil {
		return &os.LinkError{Op: "rename", Old: name, New: freshName, Err: err}
	}
	i, ok := s.layout.files[folder.Join(path, name)]
	if !ok {
		return nil
	}
	st, err := fresh.Lstat(name)
	s.tree.record.entries[i].Stat = folder.StatOf(&st)
	return err
}

// recordDirs sets the time of every directory and records its stat data.
func (s *settler) recordDirs(root folder.Dir) error {
	none := string(make([]byte, s.tree.source.format.Size()))
	dirs := make([]git.Entry, 0, len(s.layout.dirs))
	for path := range s.layout.dirs {
		dirs = append(dirs, git.Entry{Path: path, Oid: none})
	}
	git.SortEntries(dirs) // so that the cursor opens each parent once
	at := folder.NewCursor(root, false)
	defer at.Close()
	for i := range dirs {
		if err := s.recordDir(at, &dirs[i]); err != nil {
			return fmt.Errorf("record directory %q: %w", dirs[i].Path, err)
		}
	}
	git.SortEntries(dirs) // the top has another name now
	s.tree.record.dirs = dirs
	return nil
}

// recordDir sets the time of a directory to its recorded time, or to that of a fresh tree if the base added
// something to it.
func (s *settler) recordDir(at *folder.Cursor, dir *git.Entry) error {
	parent, name, err := at.Parent(dir.Path)
	if err != nil {
		return err
	}
	newer := s.newer[dir.Path]
	if dir.Path == "" {
		name, dir.Path = ".", "."
	}
	since := unix.NsecToTimespec(s.tree.record.header.Since)
	if e := s.known[dir.Path]; e != nil && !newer {
		since = unix.Timespec{Sec: int64(e.Stat.MtimeSec), Nsec: int64(e.Stat.MtimeNsec)}
	}
	st, err := parent.Lstat(name)
	if err == nil && st.Mtim != since {
		if err = unix.UtimesNanoAt(parent.FD, name, []unix.Timespec{since, since},
			unix.AT_SYMLINK_NOFOLLOW); err == nil {
			st, err = parent.Lstat(name)
		}
	}
	dir.Mode, dir.Stat = uint32(st.Mode), folder.StatOf(&st)
	return err
}

// dirTime is the recorded modification time of a directory, "." for the tree's top.
func (t *Tree) dirTime(path string) time.Time {
	i := slices.IndexFunc(t.record.dirs, func(e git.Entry) bool { return e.Path == path })
	return time.Unix(int64(t.record.dirs[i].Stat.MtimeSec), int64(t.record.dirs[i].Stat.MtimeNsec))
}
