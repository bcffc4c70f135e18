package files

import (
	"errors"
	"holon/test/expect"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// A tree in which folders deny even their owner is removed.
func TestUserRemoveAll(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "session")
	err := os.MkdirAll(filepath.Join(dir, "a/b/c"), 0o700)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "a/b/c/f"), nil, 0o600)
	}
	expect.NoError(t, err)
	for _, sub := range []string{"a/b/c", "a/b", "a", "."} {
		expect.NoError(t, os.Chmod(filepath.Join(dir, sub), 0))
	}
	expect.NoError(t, RemoveAll(dir))
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
