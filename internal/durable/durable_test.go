package durable

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"holon/test/expect"
)

func TestWriteFile(t *testing.T) {
	for _, tc := range []struct {
		name string
		old  []byte
		data []byte
		perm fs.FileMode
	}{
		{name: "new file", data: []byte("hello"), perm: 0o600},
		{name: "replaces longer content", old: bytes.Repeat([]byte("x"), 1<<16), data: []byte("short"), perm: 0o644},
		{name: "empty", old: []byte("x"), data: nil, perm: 0o640},
		{name: "permissions the umask would take away", data: []byte("x"), perm: 0o666},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "file")
			if tc.old != nil {
				expect.NoError(t, os.WriteFile(path, tc.old, 0o444))
			}
			expect.NoError(t, WriteFile(path, tc.data, tc.perm))
			got, err := os.ReadFile(path)
			if err != nil || !bytes.Equal(got, tc.data) {
				t.Fatalf("content = %q, %v; want %q", got, err, tc.data)
			}
			info, err := os.Lstat(path)
			if err != nil || info.Mode() != tc.perm {
				t.Fatalf("mode = %v, %v; want %v", info.Mode(), err, tc.perm)
			}
			onlyEntry(t, dir, "file")
		})
	}
}

func TestWriteFileReplacesSymlink(t *testing.T) {
	dir, outside := t.TempDir(), filepath.Join(t.TempDir(), "outside")
	expect.NoError(t, os.WriteFile(outside, []byte("keep"), 0o600))
	path := filepath.Join(dir, "file")
	expect.NoError(t, os.Symlink(outside, path))
	expect.NoError(t, WriteFile(path, []byte("new"), 0o600))
	if kept, _ := os.ReadFile(outside); string(kept) != "keep" {
		t.Fatalf("the link's target was written: %q", kept)
	}
	onlyEntry(t, dir, "file")
}

func TestWriteFileFailureLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	target := filepath.Join(dir, "target")
	if err := os.Mkdir(target, 0o755); err != nil { // a file can't be renamed over a directory
		t.Fatal(err)
	}
	if err := WriteFile(target, []byte("x"), 0o600); err == nil {
		t.Fatal("writing over a directory succeeded")
	}
	onlyEntry(t, dir, "target")

	err := WriteFile(filepath.Join(dir, "absent", "file"), nil, 0o600)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("error = %v, want ErrNotExist", err)
	}
}

// A write that fails half way, here by the file size limit of the process as a
// full disk would, leaves the old content and no temporary file.
func TestWriteFileDiskFull(t *testing.T) {
	dir := t.TempDir()
	target := filepath.Join(dir, "file")
	expect.NoError(t, WriteFile(target, []byte("old"), 0o600))
	var limit syscall.Rlimit
	expect.NoError(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit))
	low := limit
	low.Cur = 4096
	expect.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &low))
	err := WriteFile(target, make([]byte, 1<<20), 0o600)
	expect.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit))
	if !errors.Is(err, syscall.EFBIG) {
		t.Fatalf("error = %v, want EFBIG", err)
	}
	if kept, _ := os.ReadFile(target); string(kept) != "old" {
		t.Fatalf("content = %q, want the old one", kept)
	}
	onlyEntry(t, dir, "file")
}

// While writers work, readers see one of the whole contents, never a mixture.
func TestWriteFileConcurrent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	contents := [][]byte{bytes.Repeat([]byte("a"), 10000), bytes.Repeat([]byte("b"), 20000)}
	expect.NoError(t, WriteFile(path, contents[0], 0o600))
	var writers sync.WaitGroup
	done := make(chan struct{})
	for _, content := range contents {
		writers.Go(func() {
			for range 25 {
				if err := WriteFile(path, content, 0o600); err != nil {
					t.Error(err)
				}
			}
		})
	}
	go func() { writers.Wait(); close(done) }()
	for {
		got, err := os.ReadFile(path)
		if err != nil || (!bytes.Equal(got, contents[0]) && !bytes.Equal(got, contents[1])) {
			t.Fatalf("read %d bytes, %v: not one whole content", len(got), err)
		}
		select {
		case <-done:
			onlyEntry(t, filepath.Dir(path), "file")
			return
		default:
		}
	}
}

func onlyEntry(t *testing.T, dir, want string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	expect.NoError(t, err)
	if len(entries) != 1 || entries[0].Name() != want {
		t.Fatalf("entries = %v, want only %s", entries, want)
	}
}
