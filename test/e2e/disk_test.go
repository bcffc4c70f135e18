package e2e

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"holon/test/expect"
)

// A full disk under the state home is said so, with the remedy, at every point
// at which it can be met; what was begun is taken back.
func TestFullDisk(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("mounting a small file system needs root")
	}
	for _, tc := range []struct {
		name string
		free int64 // bytes left for the run
	}{
		{"nothing left", 0},
		{"a little left", 64 << 10},
		{"too little for a turn", 8 << 20},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			repo := repository(t, "echo a > a")
			dir, err := os.MkdirTemp("", "holon-e2e-")
			expect.NoError(t, err)
			t.Cleanup(func() { _ = os.Remove(dir) })
			if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=16m"); err != nil {
				t.Skipf("no file system can be mounted: %v", err)
			}
			t.Cleanup(func() { unmount(t, dir) })
			h := homeIn(t, filepath.Join(dir, "home"))
			fill(t, filepath.Join(dir, "filler"), 16<<20-tc.free)
			r := h.run(repo, "run", "--model", "scripted/demo", "x")
			if r.code != 4 || !strings.Contains(r.stderr, "holon: ") {
				t.Errorf("exit code %d\n%s", r.code, r.stderr)
			}
			last := r.stderr[strings.LastIndex(strings.TrimSpace(r.stderr), "\n")+1:]
			if !strings.Contains(last, "; ") || !(strings.Contains(last, "space") || strings.Contains(last, "full")) {
				t.Errorf("the error does not say that the disk is full, and what to do: %s", last)
			}
			if r.manifest != nil {
				if f := r.failure(t); f.Code != "disk_full" {
					t.Errorf("%+v", f)
				}
			}
		})
	}
}

// A disk that fills up while the agent works has an end on record that names it; what was changed is collected once
// there is room.
func TestDiskThatFillsUp(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("mounting a small file system needs root")
	}
	repo := repository(t, "echo a > a")
	dir, err := os.MkdirTemp("", "holon-e2e-")
	expect.NoError(t, err)
	t.Cleanup(func() { _ = os.Remove(dir) })
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=100m"); err != nil {
		t.Skipf("no file system can be mounted: %v", err)
	}
	t.Cleanup(func() { unmount(t, dir) })
	h, filler := homeIn(t, filepath.Join(dir, "home"), "HOLON_MIN_FREE=1m"), filepath.Join(dir, "filler")
	scenario := filepath.Join(t.TempDir(), "fill.yaml")
	expect.NoError(t, os.WriteFile(scenario, fmt.Appendf(nil, `rounds:
  - calls: [{tool: ExecCommand, arguments: {yield_time_ms: 60000, cmd: "dd if=/dev/urandom of=c bs=1k count=300;
      cp /dev/zero %[1]s; truncate -s -100K %[1]s"}}]
  - text: done
`, filler), 0o600))
	r := h.run(repo, "run", "--engine", "local", "--model", "scripted/"+scenario, "x")
	if r.code != 1 || strings.Contains(r.stderr, "killed") {
		t.Errorf("exit code %d\n%s", r.code, r.stderr)
	}
	expect.Equal(t, "the code", r.failure(t).Code, "disk_full")
	expect.NoError(t, os.Remove(filler))
	h.gc()
	settled := h.settled(r.manifest.RunID)
	expect.Equal(t, "the code after gc", settled.failure(t).Code, "disk_full")
	if files := settled.manifest.Workspace.Changes.Files; len(files) != 1 || files[0].Path != "c" {
		t.Errorf("collected were %+v", files)
	}
	h.checkTidy()
}

// unmount takes the file system at dir away. A container that another test is
// starting holds a copy of every mount for a moment, and the kernel calls the
// original busy until the copy is gone; what stays busy is a leak.
func unmount(t *testing.T, dir string) {
	t.Helper()
	for range 100 {
		err := syscall.Unmount(dir, 0)
		if err == nil {
			return
		}
		if !errors.Is(err, syscall.EBUSY) {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Errorf("something still uses the file system at %s", dir)
}

// fill writes a file of about size bytes, less where the disk is full before.
func fill(t *testing.T, path string, size int64) {
	t.Helper()
	f, err := os.Create(path)
	expect.NoError(t, err)
	_, err = io.CopyN(f, zeros{}, size)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil && !strings.Contains(err.Error(), syscall.ENOSPC.Error()) {
		t.Fatal(fmt.Errorf("fill the disk: %w", err))
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }
