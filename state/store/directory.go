package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
	"time"

	"holon/internal/folder"
	"holon/internal/roots"
	"holon/state"
)

// seen is by what a file is known not to have changed since it was read.
type seen struct {
	Size   int64  `json:"size"`
	Time   int64  `json:"mtime"`
	Change int64  `json:"ctime"`
	Inode  uint64 `json:"inode"`
	SHA256 string `json:"sha256"`
	Fence  int64  `json:"fence"` // of its object
}

// same reports whether the file still is what was read.
func (s seen) same(now seen) bool {
	now.SHA256, now.Fence = s.SHA256, s.Fence
	return s.SHA256 != "" && s == now
}

// found is an entry of a directory as it is here.
type found struct {
	entry
	seen seen // of a file, without digest
}

// racy is for how long after its last change a file may change without another time.
const racy = 2 * time.Second

// maxDepth bounds how deep a file may lie that is kept.
const maxDepth = 500

// scan lists what the directory of a unit has, in the order of a manifest. Links are not followed. What the directory's
// container closed to its owner is opened. What is skipped or lies too deep is left out with what is beneath.
func scan(ctx context.Context, root *os.Root, u Unit) (list []found, err error) {
	skip := u.skips()
	var walk func(dir string) error
	walk = func(dir string) error {
		_ = roots.ReopenIn(root, dir) // opening it says what is wrong
		sub, err := roots.OpenIn(root, dir)
		if errors.Is(err, fs.ErrNotExist) && dir != "." {
			return nil // removed meanwhile
		}
		if err != nil {
			return err
		}
		entries, err := fs.ReadDir(sub.FS(), ".")
		_ = sub.Close() // it was only read
		for _, e := range entries {
			name := path.Join(dir, e.Name())
			if err != nil || skip(name) || strings.Count(name, "/") > maxDepth {
				continue
			}
			var f found
			if f, err = look(root, name); f.Kind == "" {
				continue
			}
			if list = append(list, f); len(list) > maxEntries {
				err = &state.Error{Code: CodeTooMuch, Param: "store", Hint: "remove some",
					Message: fmt.Sprintf("%s has more than %d files, which cannot be saved", u.Key, maxEntries)}
			}
			if err == nil && f.Kind == kindDir {
				err = errors.Join(context.Cause(ctx), walk(name))
			}
		}
		return err
	}
	if err := walk("."); err != nil {
		return nil, fmt.Errorf("list the files to save: %w", err)
	}
	return list, nil
}

// look describes what has a name; no Kind is for what is not kept.
func look(root *os.Root, name string) (f found, err error) {
	info, err := root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err != nil {
		return f, err
	}
	f.Path, f.Mode = fileName(name), uint32(info.Mode().Perm())
	switch info.Mode().Type() {
	case fs.ModeDir:
		f.Kind = kindDir
	case fs.ModeSymlink:
		f.Mode = 0
		target, err := root.Readlink(name)
		if errors.Is(err, fs.ErrNotExist) {
			return f, nil
		}
		f.Kind, f.Target = kindLink, fileName(target)
		return f, err
	case 0:
		f.Kind, f.Size, f.Time = kindFile, info.Size(), info.ModTime().UnixNano()
		f.seen = seen{Size: f.Size, Time: f.Time}
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			f.seen.Inode, f.seen.Change = st.Ino, folder.ChangeTime(st)
		}
	}
	return f, err
}

// aside moves what has a name to another directory of the same root, under its path.
func aside(root *os.Root, name, to string) error {
	target := path.Join(to, name)
	if err := root.MkdirAll(path.Dir(target), 0o700); err != nil {
		return fmt.Errorf("move %s aside: %w", name, err)
	}
	if err := root.Rename(name, target); err != nil {
		return fmt.Errorf("move %s aside: %w", name, err)
	}
	return nil
}
