package durable

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"holon/internal/bounded"
)

// ReadFile reads a regular file of at most limit bytes. It follows no link in the
// file's own place and waits for nobody at a pipe, so a path that somebody else
// can write to may be read. A file that does not exist is fs.ErrNotExist.
func ReadFile(path string, limit int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file", filepath.Base(path))
	}
	data, err := bounded.ReadAll(f, limit)
	if err != nil {
		err = fmt.Errorf("read %s: %w", filepath.Base(path), err)
	}
	return data, err
}
