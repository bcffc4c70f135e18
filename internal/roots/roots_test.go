package roots_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"holon/internal/roots"
	"holon/test/expect"
)

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	for _, err := range []error{
		os.Mkdir(filepath.Join(dir, "dir"), 0o700),
		os.WriteFile(filepath.Join(dir, "dir", "inside"), nil, 0o600),
		os.WriteFile(filepath.Join(dir, "file"), nil, 0o600),
		syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600),
		os.Symlink("dir", filepath.Join(dir, "link")),
		os.Symlink("pipe", filepath.Join(dir, "link-to-pipe")),
		os.Symlink("/", filepath.Join(dir, "out")),
	} {
		expect.NoError(t, err)
	}
	root, err := os.OpenRoot(dir)
	expect.NoError(t, err)
	defer root.Close()
	open := map[string]func(string) (*os.Root, error){
		"Open": func(name string) (*os.Root, error) {
			if name == "" {
				return roots.Open("")
			}
			return roots.Open(filepath.Join(dir, name))
		},
		"OpenIn": func(name string) (*os.Root, error) { return roots.OpenIn(root, name) },
	}
	for how, open := range open {
		for name, want := range map[string]error{
			"dir": nil, "link": nil, "file": syscall.ENOTDIR, "pipe": syscall.ENOTDIR, "link-to-pipe": syscall.ENOTDIR,
			"none": syscall.ENOENT,
		} {
			got, err := within(t, func() (*os.Root, error) { return open(name) })
			if !errors.Is(err, want) {
				t.Errorf("%s of a %s: %v, want %v", how, name, err, want)
			}
			if err == nil {
				if _, err := got.Stat("inside"); err != nil {
					t.Errorf("%s of a %s opened another directory: %v", how, name, err)
				}
				got.Close()
			}
		}
		if _, err := open(""); err == nil {
			t.Errorf("%s opens something without a name", how)
		}
	}
	if _, err := roots.OpenIn(root, "out"); err == nil {
		t.Error("a link led out of the root")
	}
}

// within fails the test when open waits.
func within(t *testing.T, open func() (*os.Root, error)) (root *os.Root, err error) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		root, err = open()
	}()
	select {
	case <-done:
		return root, err
	case <-time.After(30 * time.Second):
		t.Fatal("waits")
		return nil, nil
	}
}
