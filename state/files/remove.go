package files

import (
	"errors"
	"io/fs"
	"os"

	"holon/state/roots"
)

// RemoveAll removes a directory that a container wrote, in which folders may
// deny even their owner.
func RemoveAll(dir string) error {
	err := os.RemoveAll(dir)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return err
	}
	root, err := roots.Open(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	// A folder is opened up before it is read; links are not followed.
	_ = fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() && err == nil {
			return root.Chmod(path, 0o700)
		}
		return nil
	})
	return os.RemoveAll(dir)
}
