package git

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"holon/internal/folder"

	"golang.org/x/sys/unix"
)

// CopyFile copies a file. The target does not exist or is ours.
func CopyFile(from, to string) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	return copyTo(to, source)
}

func copyTo(to string, source io.Reader) error {
	target, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	return errors.Join(err, target.Close())
}

// ReplaceFile replaces the file at path atomically: write gets a temporary file in the same directory, which is synced
// and renamed.
func ReplaceFile(path string, write func(io.Writer) error) error {
	file, err := os.CreateTemp(filepath.Dir(path), ".tmp-*")
	if err != nil {
		return fmt.Errorf("create %s: %w", path, err)
	}
	err = write(file)
	if err == nil {
		err = file.Sync()
	}
	err = errors.Join(err, file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", path, err), os.Remove(file.Name()))
	}
	return nil
}

// ReadSmall returns the content of a user's file, ended by a newline, or "" if the file can't be read, is
// empty or is too large.
func ReadSmall(path string) string {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxSmallFile+1))
	if err != nil || len(data) > maxSmallFile || len(data) == 0 {
		return ""
	}
	return string(bytes.TrimSuffix(data, []byte("\n"))) + "\n"
}

// ReadIn returns a small file of a directory that another person may have prepared, "" if it does not exist.
// No link in its path is followed.
func ReadIn(dir, path string) (string, error) {
	file, err := openIn(dir, path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxSmallFile+1))
	if len(data) > maxSmallFile {
		return "", fmt.Errorf("%s has more than %d bytes", path, maxSmallFile)
	}
	return string(data), err
}

// openIn opens a regular file beneath dir without following a link.
func openIn(dir, path string) (*os.File, error) {
	root, err := folder.Open(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	at := folder.NewCursor(root, false)
	defer at.Close()
	parent, name, err := at.Parent(path)
	if err != nil {
		return nil, err
	}
	file, _, err := parent.OpenFile(name)
	return file, err
}

func absoluteFrom(dir, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}

// Exists reports whether path exists, even if it is a dead link.
func Exists(path string) bool {
	var st unix.Stat_t
	return !errors.Is(unix.Lstat(path, &st), unix.ENOENT)
}
