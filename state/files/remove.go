package files

import (
	"errors"
	"io/fs"
	"os"

	"holon/internal/roots"
)

// RemoveAll removes a directory that a container wrote, in which folders may
// deny even their owner.
func RemoveAll(dir string) error {
	err := os.RemoveAll(dir)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	if err := roots.Reopen(dir); err != nil {
		return err
	}
	root, err := roots.Open(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	roots.ReopenAll(root, ".")
	return os.RemoveAll(dir)
}
