package files

import (
	"errors"
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
	if err != nil {
		t.Fatal(err)
	}
	for _, sub := range []string{"a/b/c", "a/b", "a", "."} {
		if err := os.Chmod(filepath.Join(dir, sub), 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
