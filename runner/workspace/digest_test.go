package workspace

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"holon/test/expect"
)

// A digest changes with what a tree holds, and with nothing else.
func TestDigest(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) func() error {
		return func() error {
			path := filepath.Join(dir, name)
			return errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644))
		}
	}
	digest := func() string {
		t.Helper()
		sum, err := Digest(t.Context(), dir, "own")
		expect.NoError(t, err)
		return sum
	}
	last := digest()
	for _, step := range []struct {
		name    string
		do      func() error
		changes bool
	}{
		{"nothing", func() error { return nil }, false},
		{"a file", write("a/b", "1"), true},
		{"a longer file", write("a/b", "12"), true},
		{"another time", func() error {
			return os.Chtimes(filepath.Join(dir, "a/b"), time.Time{}, time.Unix(7, 0))
		}, true},
		{"another mode", func() error { return os.Chmod(filepath.Join(dir, "a/b"), 0o755) }, true},
		{"another name", func() error { return os.Rename(filepath.Join(dir, "a/b"), filepath.Join(dir, "a/c")) }, true},
		{"a link to itself", func() error { return os.Symlink(".", filepath.Join(dir, "loop")) }, true},
		{"an empty folder", func() error { return os.Mkdir(filepath.Join(dir, "e"), 0o755) }, true},
		{"what is left out", write("own/x", "1"), false},
		{"its name elsewhere", write("a/own", "1"), true},
		{"removed", func() error { return os.RemoveAll(filepath.Join(dir, "a")) }, true},
	} {
		expect.NoError(t, step.do())
		now := digest()
		if (now != last) != step.changes {
			t.Errorf("%s: %s after %s", step.name, now, last)
		}
		last = now
	}
	if _, err := Digest(t.Context(), filepath.Join(dir, "nowhere")); err == nil {
		t.Error("what is not there has a digest")
	}
}
