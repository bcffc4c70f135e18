package files

import (
	"errors"
	"io/fs"
	"path/filepath"

	"holon/internal/roots"
)

// RemoveAll removes a directory that a container wrote, in which folders may
// deny even their owner.
func RemoveAll(dir string) error {
	root, err := roots.Open(filepath.Dir(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close()
	return roots.RemoveAll(root, filepath.Base(dir))
}
