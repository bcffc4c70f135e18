package turnfiles

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"holon/internal/visible"
	"holon/responses"
	"holon/test/expect"
)

// collect copies what turn_1 left below dir.
func collect(t *testing.T, dir, to string, limit int64) ([]string, error) {
	t.Helper()
	return Collect(t.Context(), dir, "turn_1", to, limit)
}

// collectFrom makes the artifacts of a turn and collects them.
func collectFrom(t *testing.T, plant func(turn string)) (dst string, warnings []string) {
	t.Helper()
	dir, dst := t.TempDir(), t.TempDir()
	artifacts := filepath.Join(dir, "output/turns/turn_1/artifacts")
	mkdir(t, artifacts)
	plant(artifacts)
	warnings, err := collect(t, dir, dst, 0)
	expect.NoError(t, err)
	return filepath.Join(dst, "artifacts"), warnings
}

// Special files are neither opened nor waited for.
func TestCollectSpecialFiles(t *testing.T) {
	t.Parallel()
	dst, warnings := collectFrom(t, func(turn string) {
		for name, mode := range map[string]uint32{"pipe": unix.S_IFIFO, "socket": unix.S_IFSOCK, "device": unix.S_IFCHR,
			"block": unix.S_IFBLK} {
			err := unix.Mknod(filepath.Join(turn, name), mode|0o600, int(unix.Mkdev(1, 5))) // /dev/zero has no end
			if errors.Is(err, unix.EPERM) {
				t.Logf("%s needs root", name)
				err = syscall.Mkfifo(filepath.Join(turn, name), 0o600)
			}
			expect.NoError(t, err)
		}
		write(t, filepath.Join(turn, "turn.json"), "{}")
	})
	entries, err := os.ReadDir(dst)
	if err != nil || len(entries) != 1 || len(warnings) != 4 {
		t.Errorf("collected %v, said %q, %v", entries, warnings, err)
	}
}

// Ten gigabytes that were never written are left out, one is a gigabyte that
// takes no space.
func TestCollectSparseFiles(t *testing.T) {
	t.Parallel()
	dst, warnings := collectFrom(t, func(turn string) {
		for name, size := range map[string]int64{"huge": 10 << 30, "large": 1 << 30} {
			write(t, filepath.Join(turn, name), "begin")
			expect.NoError(t, os.Truncate(filepath.Join(turn, name), size))
		}
		f, err := os.OpenFile(filepath.Join(turn, "large"), os.O_WRONLY, 0)
		if err == nil {
			_, err = f.WriteAt([]byte("end"), 1<<30-3)
			err = errors.Join(err, f.Close())
		}
		expect.NoError(t, err)
	})
	if _, err := os.Lstat(filepath.Join(dst, "huge")); !errors.Is(err, fs.ErrNotExist) ||
		!strings.Contains(strings.Join(warnings, ""), `huge"`) {
		t.Errorf("%v, %q", err, warnings)
	}
	var st unix.Stat_t
	if err := unix.Stat(filepath.Join(dst, "large"), &st); err != nil || st.Size != 1<<30 || st.Blocks*512 > 1<<20 {
		t.Errorf("size %d in %d blocks, %v", st.Size, st.Blocks, err)
	}
	f, err := os.Open(filepath.Join(dst, "large"))
	expect.NoError(t, err)
	defer f.Close()
	var ends [8]byte
	if _, err := f.ReadAt(ends[:5], 0); err != nil {
		t.Error(err)
	}
	if _, err := f.ReadAt(ends[5:], 1<<30-3); err != nil || string(ends[:]) != "beginend" {
		t.Errorf("%q, %v", ends, err)
	}
}

// More files than anybody reads cost no more than the bound, be they in one
// folder or in many. The count starts just below it: making as many takes long.
func TestCollectManyFiles(t *testing.T) {
	t.Parallel()
	from, to := t.TempDir(), t.TempDir()
	for i := range 100 {
		mkdir(t, filepath.Join(from, fmt.Sprint("d", i)))
		write(t, filepath.Join(from, fmt.Sprint("d", i), "f"), "")
		write(t, filepath.Join(from, fmt.Sprint("f", i)), "")
	}
	src, err := os.OpenRoot(from)
	expect.NoError(t, err)
	defer src.Close()
	dst, err := os.OpenRoot(to)
	expect.NoError(t, err)
	defer dst.Close()
	c := &collector{src: src, dst: dst, files: maxCollectFiles - 50}
	expect.NoError(t, c.folder(t.Context(), ".", 0))
	count := -1
	err = filepath.WalkDir(to, func(string, fs.DirEntry, error) error { count++; return nil })
	if err != nil || count != 50 {
		t.Errorf("%d were collected, %v", count, err)
	}
	if said := strings.Join(c.warnings, "\n"); !strings.Contains(said, "more than 20000 files") || len(c.warnings) > 2 {
		t.Errorf("%d warnings: %s", len(c.warnings), said)
	}
}

// Names of any bytes are kept as they are, and never shown as they are.
func TestCollectNames(t *testing.T) {
	t.Parallel()
	names := []string{"new\nline", "\x1b[2Jcleared", "\x1b]0;title\x07", "\u202egnp.exe", "\xff\xfe", " ", "-rf", "ü"}
	dst, warnings := collectFrom(t, func(turn string) {
		for _, name := range names {
			write(t, filepath.Join(turn, name), "x")
			expect.NoError(t, os.Symlink("x", filepath.Join(turn, name+" link")))
		}
	})
	for _, name := range names {
		if _, err := os.Lstat(filepath.Join(dst, name)); err != nil {
			t.Error(err)
		}
		if shown := visible.OneLine(name, 100); !utf8.ValidString(shown) ||
			strings.ContainsAny(shown, "\n\x1b\x07\u202e") {
			t.Errorf("%q is shown as %q", name, shown)
		}
	}
	if len(warnings) != len(names) || strings.ContainsAny(strings.Join(warnings, ""), "\n\x1b\x07\u202e") {
		t.Errorf("%q", warnings)
	}
}

// A name that changes between being looked at and being opened leads nowhere.
func TestCollectSwappedFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	turn, secret := filepath.Join(dir, "output/turns/turn_1/artifacts"), filepath.Join(dir, "secret")
	mkdir(t, turn)
	write(t, secret, "secret")
	mkdir(t, filepath.Join(dir, "folder"))
	write(t, filepath.Join(dir, "folder/f"), "secret")
	stop, swapped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(swapped)
		file, folder := filepath.Join(turn, "f"), filepath.Join(turn, "d")
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			_, _ = os.Remove(file), os.RemoveAll(folder) // that which is there
			switch n % 3 {
			case 0:
				_ = os.WriteFile(file, []byte("fine"), 0o600)
				_ = os.Mkdir(folder, 0o700)
				_ = os.WriteFile(filepath.Join(folder, "f"), []byte("fine"), 0o600)
			case 1:
				_, _ = os.Symlink(secret, file), os.Symlink(filepath.Join(dir, "folder"), folder)
			case 2:
				_, _ = syscall.Mkfifo(file, 0o600), syscall.Mkfifo(folder, 0o600)
			}
		}
	}()
	copied := 0
	for try := 0; try < 150 || copied == 0 && try < 20_000; try++ {
		dst := t.TempDir()
		if _, err := collect(t, dir, dst, 0); err != nil {
			t.Error(err)
		}
		for _, name := range []string{"artifacts/f", "artifacts/d/f"} {
			data, err := os.ReadFile(filepath.Join(dst, name))
			if string(data) == "secret" {
				t.Fatalf("%s was followed", name)
			}
			if err == nil && len(data) > 0 {
				copied++
			}
		}
	}
	close(stop)
	<-swapped
	if copied == 0 {
		t.Error("never was a file there to be copied")
	}
}

// A file with many names is copied and counted once.
func TestCollectHardLinks(t *testing.T) {
	t.Parallel()
	const size, names = 1 << 20, 1000
	dir, dst := t.TempDir(), t.TempDir()
	turn := filepath.Join(dir, "output/turns/turn_1")
	mkdir(t, filepath.Join(turn, "artifacts"))
	write(t, filepath.Join(turn, "turn.json"), "{}")
	write(t, filepath.Join(turn, "artifacts/f"), strings.Repeat("x", size))
	links := map[string]string{"artifacts/forged": "turn.json"}
	for i := range names {
		links[fmt.Sprint("artifacts/f", i)] = "artifacts/f"
	}
	for name, to := range links {
		expect.NoError(t, os.Link(filepath.Join(turn, to), filepath.Join(turn, name)))
	}
	warnings, err := collect(t, dir, dst, size+size/2)
	if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], "forged") {
		t.Fatalf("%q, %v", warnings, err)
	}
	var st unix.Stat_t
	if err := unix.Lstat(filepath.Join(dst, "artifacts/f7"), &st); err != nil || st.Nlink != names+1 || st.Size != size {
		t.Errorf("%d names of %d bytes, %v", st.Nlink, st.Size, err)
	}
	if err := unix.Lstat(filepath.Join(dst, "turn.json"), &st); err != nil || st.Nlink != 1 {
		t.Errorf("the record has %d names, %v", st.Nlink, err)
	}
}

// closeAll takes every permission away from dir and all beneath.
func closeAll(t *testing.T, dir string) {
	t.Helper()
	var paths []string
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		paths = append(paths, path)
		return err
	})
	for _, path := range slices.Backward(paths) {
		err = errors.Join(err, os.Chmod(path, 0))
	}
	expect.NoError(t, err)
}

// An agent that runs as this process's user can't close what it left to the host.
func TestClosedOutput(t *testing.T) {
	t.Parallel()
	dir, dst := t.TempDir(), t.TempDir()
	turn := filepath.Join(dir, "output/turns/turn_1")
	mkdir(t, filepath.Join(turn, "artifacts/sub"))
	writeRecord(t, turn, responses.StatusInProgress)
	write(t, filepath.Join(turn, "artifacts/sub/f"), "x")
	closeAll(t, filepath.Join(dir, "output"))
	if rec, _, err := Read(dir, "turn_1"); rec == nil || err != nil {
		t.Errorf("the record can't be read: %v", err)
	}
	expect.NoError(t, errors.Join(os.Chmod(turn, 0), os.Chmod(filepath.Join(dir, "output"), 0)))
	warnings, err := collect(t, dir, dst, 0)
	if err != nil || len(warnings) > 0 {
		t.Fatalf("%q, %v", warnings, err)
	}
	for _, name := range []string{"turn.json", "artifacts/sub/f"} {
		if _, err := os.ReadFile(filepath.Join(dst, name)); err != nil {
			t.Error(err)
		}
	}
}
