package durable

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"holon/internal/bounded"
)

// Open opens a regular file for reading. It follows no link in the file's own
// place and does not wait at a pipe, so a path that others can write to may be
// opened. A file that does not exist is fs.ErrNotExist.
func Open(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(fmt.Errorf("%s is not a regular file", filepath.Base(path)), err, f.Close())
	}
	return f, nil
}

// ReadFile reads a file that Open opens, of at most limit bytes.
func ReadFile(path string, limit int64) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := bounded.ReadAll(f, limit)
	if err != nil {
		err = fmt.Errorf("read %s: %w", filepath.Base(path), err)
	}
	return data, err
}
