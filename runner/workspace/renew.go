package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Names of directories in a slot: its tree, and one that is going to replace a
// directory of the tree. The second is made there, outside the tree, so that it
// inherits nothing from its future parent.
const (
	treeName  = "tree"
	freshName = "fresh"
)

// renewTouched replaces the directories that were touched, parents first.
func (s *settler) renewTouched(ctx context.Context) error {
	if err := s.trash.take(s.top, freshName); err != nil { // of a process that was killed
		return err
	}
	if slices.Contains(s.touched, ".") {
		if err := s.renew(s.top, treeName, ""); err != nil {
			return err
		}
	}
	root, err := s.top.folder(treeName)
	if err != nil {
		return err
	}
	defer root.close()
	at := newCursor(root, false)
	defer at.close()
	slices.Sort(s.touched)
	for _, path := range s.touched {
		if path == "." {
			continue
		}
		parent, name, err := at.parent(path)
		if err == nil {
			err = s.renew(parent, name, path)
		}
		if err := errors.Join(err, ctx.Err()); err != nil {
			return fmt.Errorf("renew %q: %w", path, err)
		}
	}
	return nil
}

// renew puts a new directory in the place of one and moves everything that is
// left in it there.
func (s *settler) renew(parent folder, name, path string) error {
	if err := unix.Mkdirat(s.top.fd, freshName, 0o700); err != nil {
		return &os.PathError{Op: "mkdir", Path: freshName, Err: err}
	}
	fresh, err := s.top.folder(freshName)
	if err != nil {
		return err
	}
	defer fresh.close()
	old, err := parent.folder(name)
	if err != nil {
		return err
	}
	defer old.close()
	err = old.list(func(names []string) error {
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
	if err := errors.Join(s.top.chmod(freshName, 0o755), give(s.top, freshName, s.tree.source.options.Owner),
		parent.rmdir(name)); err != nil {
		return err
	}
	if err := unix.Renameat(s.top.fd, freshName, parent.fd, name); err != nil {
		return &os.LinkError{Op: "rename", Old: freshName, New: name, Err: err}
	}
	return nil
}

// moveOver moves one file or directory of path. Being moved changes the stat data
// of a file, which are recorded anew; those of directories are at the end.
func (s *settler) moveOver(old, fresh folder, path, name string) error {
	if err := unix.Renameat(old.fd, name, fresh.fd, name); err != nil {
		return &os.LinkError{Op: "rename", Old: name, New: freshName, Err: err}
	}
	i, ok := s.layout.files[joinPath(path, name)]
	if !ok {
		return nil
	}
	st, err := fresh.lstat(name)
	s.tree.record.entries[i].stat = statOf(&st)
	return err
}

// recordDirs gives every directory its time and records their stat data.
func (s *settler) recordDirs(root folder) error {
	none := string(make([]byte, s.tree.source.format.size()))
	dirs := make([]entry, 0, len(s.layout.dirs))
	for path := range s.layout.dirs {
		dirs = append(dirs, entry{path: path, oid: none})
	}
	sortEntries(dirs) // so that the cursor opens each parent once
	at := newCursor(root, false)
	defer at.close()
	for i := range dirs {
		if err := s.recordDir(at, &dirs[i]); err != nil {
			return fmt.Errorf("record directory %q: %w", dirs[i].path, err)
		}
	}
	sortEntries(dirs) // the top has another name now
	s.tree.record.dirs = dirs
	return nil
}

// recordDir sets the time of a directory to the one it was handed out with
// before, or to that of a fresh tree when the base put something new into it.
func (s *settler) recordDir(at *cursor, dir *entry) error {
	parent, name, err := at.parent(dir.path)
	if err != nil {
		return err
	}
	newer := s.newer[dir.path]
	if dir.path == "" {
		name, dir.path = ".", "."
	}
	since := unix.NsecToTimespec(s.tree.record.header.Since)
	if e := s.known[dir.path]; e != nil && !newer {
		since = unix.Timespec{Sec: int64(e.stat.mtimeSec), Nsec: int64(e.stat.mtimeNsec)}
	}
	st, err := parent.lstat(name)
	if err == nil && st.Mtim != since {
		if err = unix.UtimesNanoAt(parent.fd, name, []unix.Timespec{since, since},
			unix.AT_SYMLINK_NOFOLLOW); err == nil {
			st, err = parent.lstat(name)
		}
	}
	dir.mode, dir.stat = st.Mode, statOf(&st)
	return err
}

// topTime is the recorded modification time of the tree's top.
func (t *Tree) topTime() time.Time {
	i := slices.IndexFunc(t.record.dirs, func(e entry) bool { return e.path == "." })
	return time.Unix(int64(t.record.dirs[i].stat.mtimeSec), int64(t.record.dirs[i].stat.mtimeNsec))
}
