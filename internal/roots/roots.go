// Package roots opens directories that something hostile may have replaced.
//
// os.OpenRoot opens what has the name before it looks whether that is a
// directory, and at a pipe without a writer it waits for ever, whatever the
// caller's context. Here only directories are opened at all.
package roots

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"syscall"
)

// Open is os.OpenRoot, with an error for anything but a directory. A path that
// ends in a link is followed, as os.OpenRoot does.
func Open(path string) (*os.Root, error) {
	if path == "" {
		return nil, missing()
	}
	return os.OpenRoot(path + directory)
}

// OpenIn is root.OpenRoot in the same way. Links don't lead out of root.
func OpenIn(root *os.Root, path string) (*os.Root, error) {
	if path == "" {
		return nil, missing()
	}
	return root.OpenRoot(path + directory)
}

// directory makes the name before it one of the way rather than of the end,
// where the kernel accepts nothing but directories.
const directory = "/."

// ErrNotRegular is the error of OpenFile for anything but a regular file.
var ErrNotRegular = errors.New("it is not a regular file")

// OpenFile opens a regular file in root for reading. It does not wait for the writer of a pipe.
func OpenFile(root *os.Root, name string) (*os.File, fs.FileInfo, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ENXIO) { // a socket
		err = ErrNotRegular
	}
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = ErrNotRegular
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// Reopen gives this process's user back the permissions on the directory path,
// which a container of the same user may have taken away. Another kind of
// file stays as it is: opening it fails.
func Reopen(path string) error { return reopen(os.Lstat, os.Chmod, path) }

// OpenOwn is OpenIn for a directory that a container of the same user may have
// closed: each part of path, which leads through directories alone, is reopened.
func OpenOwn(root *os.Root, path string) (*os.Root, error) {
	for i, c := range path + "/" {
		if c != '/' {
			continue
		}
		if err := ReopenIn(root, path[:i]); err != nil {
			return nil, err
		}
	}
	return OpenIn(root, path)
}

// ReopenIn is Reopen for a file or directory in root.
func ReopenIn(root *os.Root, name string) error { return reopen(root.Lstat, root.Chmod, name) }

func reopen(lstat func(string) (fs.FileInfo, error), chmod func(string, fs.FileMode) error, name string) error {
	info, err := lstat(name)
	if err != nil {
		return err
	}
	want := fs.FileMode(0o600)
	switch {
	case info.IsDir():
		want = 0o700
	case !info.Mode().IsRegular():
		return nil
	}
	if info.Mode()&want == want {
		return nil
	}
	return chmod(name, info.Mode().Perm()|want)
}

// maxDepth bounds how many directories ReopenAll has open at once.
const maxDepth = 512

// ReopenAll reopens the directory name of root and what is beneath it, as far as
// it can: what stays closed is told by opening it.
func ReopenAll(root *os.Root, name string) { reopenAll(root, name, 0) }

func reopenAll(root *os.Root, name string, depth int) {
	if ReopenIn(root, name) != nil || depth > maxDepth {
		return
	}
	dir, err := root.Open(name + directory)
	if err != nil {
		return
	}
	defer dir.Close()
	for err == nil {
		var entries []fs.DirEntry
		entries, err = dir.ReadDir(256)
		for _, e := range entries {
			if inner := path.Join(name, e.Name()); e.IsDir() {
				reopenAll(root, inner, depth+1)
			} else {
				_ = ReopenIn(root, inner)
			}
		}
	}
}

// RemoveAll is root.RemoveAll for what a container of the same user may have
// closed.
func RemoveAll(root *os.Root, name string) error {
	err := root.RemoveAll(name)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	ReopenAll(root, name)
	return root.RemoveAll(name)
}

// Walk calls visit for root, ".", and for all beneath it in lexical order, as fs.WalkDir does. Names are bytes, as the
// kernel has them: root.FS() refuses those that are not UTF-8.
func Walk(root *os.Root, visit fs.WalkDirFunc) error {
	info, err := root.Lstat(".")
	if err == nil {
		err = walk(root, ".", fs.FileInfoToDirEntry(info), visit)
	}
	if errors.Is(err, fs.SkipDir) || errors.Is(err, fs.SkipAll) {
		return nil
	}
	return err
}

func walk(root *os.Root, name string, d fs.DirEntry, visit fs.WalkDirFunc) error {
	if err := visit(name, d, nil); err != nil || !d.IsDir() {
		return err
	}
	entries, err := readDir(root, name)
	if err != nil {
		if err = visit(name, d, err); err != nil {
			return err
		}
	}
	for _, e := range entries {
		err := walk(root, path.Join(name, e.Name()), e, visit)
		if errors.Is(err, fs.SkipDir) && !e.IsDir() {
			return nil // the rest of the directory
		}
		if err != nil && !errors.Is(err, fs.SkipDir) {
			return err
		}
	}
	return nil
}

func readDir(root *os.Root, name string) ([]fs.DirEntry, error) {
	dir, err := root.Open(name + directory)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	entries, err := dir.ReadDir(-1)
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	return entries, err
}

func missing() error { return &fs.PathError{Op: "open", Err: errors.New("the name is empty")} }
