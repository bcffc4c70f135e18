package durable_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"holon/internal/durable"
	"holon/test/expect"
)

func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	expect.NoError(t, errors.Join(os.WriteFile(at("file"), []byte("1234"), 0o600), os.Symlink("file", at("link")),
		syscall.Mkfifo(at("pipe"), 0o600), os.Mkdir(at("dir"), 0o700)))
	if data, err := durable.ReadFile(at("file"), 4); err != nil || string(data) != "1234" {
		t.Errorf("%q, %v", data, err)
	}
	if _, err := durable.ReadFile(at("file"), 3); err == nil {
		t.Error("a file that is too large was read")
	}
	for _, name := range []string{"link", "pipe", "dir"} {
		if _, err := durable.ReadFile(at(name), 4); err == nil {
			t.Errorf("the %s was read", name)
		}
	}
	if _, err := durable.ReadFile(at("none"), 4); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what is not there: %v", err)
	}
}
