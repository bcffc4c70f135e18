package workspace

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"holon/test/expect"
	"holon/test/gittest"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// recycleBase is what the recycled trees hold.
var recycleBase = map[string]string{"a": "a\n", "run.sh": "#!/bin/sh\n", "link": "-> a", "d/b": "b\n", "d/e/c": "c\n",
	"d/e/same": "a\n", "f/g/h/i": "i\n"}

// describe lists everything that a process can see of a tree: metadata, extended attributes, inode flags and content of
// each path, but not inode numbers, change times and what reading alone changes. Times are shown relative to those of
// the top.
func describe(t testing.TB, dir string) map[string]string {
	t.Helper()
	var top unix.Stat_t
	expect.NoError(t, unix.Lstat(dir, &top))
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		var st unix.Stat_t
		if err == nil {
			err = unix.Lstat(path, &st)
		}
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		text := fmt.Sprintf("mode %o owner %d:%d links %d size %d", st.Mode, st.Uid, st.Gid, st.Nlink, st.Size)
		if name != ".git" && !strings.HasPrefix(name, ".git/") { // made when the tree is handed out
			text += fmt.Sprint(" time ", time.Duration(st.Mtim.Nano()-top.Mtim.Nano()))
		}
		found[name] = text + attributes(t, path) + content(t, name, path, d)
		return nil
	})
	expect.NoError(t, err)
	return found
}

func attributes(t testing.TB, path string) string {
	t.Helper()
	buffer := make([]byte, 64<<10)
	n, err := unix.Llistxattr(path, buffer)
	if err != nil && err != unix.ENOTSUP {
		t.Fatal(err)
	}
	text := fmt.Sprintf(" attributes %q", buffer[:n])
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return text // a link
	}
	defer unix.Close(fd)
	if flags, err := unix.IoctlGetInt(fd, unix.FS_IOC_GETFLAGS); err == nil {
		text += fmt.Sprintf(" flags %x", flags)
	}
	return text
}

func content(t testing.TB, name, path string, d fs.DirEntry) string {
	t.Helper()
	switch {
	case d.Type()&fs.ModeSymlink != 0:
		target, err := os.Readlink(path)
		expect.NoError(t, err)
		return " -> " + target
	case d.Type().IsRegular() && name != ".git/index": // which holds inode numbers
		data, err := os.ReadFile(path)
		expect.NoError(t, err)
		return fmt.Sprintf(" content %x", sha256.Sum256(data))
	}
	return ""
}

// fresh describes a tree that no one has used.
func fresh(t testing.TB, options Options) map[string]string {
	t.Helper()
	options.CacheDir = filepath.Join(gittest.DiskDir(t), "other")
	return describe(t, acquire(t, options).Dir())
}

// wantFresh compares a tree with a fresh one.
func wantFresh(t rapid.TB, want, got map[string]string, after string) {
	t.Helper()
	for name, text := range want {
		if got[name] != text {
			t.Errorf("after %s: %q is\n%q, of a fresh tree\n%q", after, name, got[name], text)
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("after %s: %q is left", after, name)
		}
	}
}

// acl is the raw value of a POSIX access control list: what setfacl writes.
func acl(user, group, other uint16) []byte {
	data := binary.LittleEndian.AppendUint32(nil, 2) // version
	for _, e := range []struct {
		tag, perm uint16
		id        uint32
	}{{1, user, ^uint32(0)}, {2, 7, 4711}, {4, group, ^uint32(0)}, {0x10, 7, ^uint32(0)}, {0x20, other, ^uint32(0)}} {
		data = binary.LittleEndian.AppendUint16(data, e.tag)
		data = binary.LittleEndian.AppendUint16(data, e.perm)
		data = binary.LittleEndian.AppendUint32(data, e.id)
	}
	return data
}

// setFlags adds inode flags, where the file system has them.
func setFlags(path string, add int) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if flags, err := unix.IoctlGetInt(fd, unix.FS_IOC_GETFLAGS); err == nil {
		_ = unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, flags|add)
	}
}

// A harm is something that a run does to its tree. What fails fails: the file
// system may lack it, an ordinary user may not do it, or a harm before prevents it.
type harm struct {
	name string
	do   func(path, other string, number int)
}

// renaming are the harms that make or change names. None does it to the top, which
// is mounted in a container, nor to what is outside of it.
var renaming = []string{"same name", "hard link", "new hard link", "swapped", "moved", "pipe", "removed", "link for it"}

// to does the harm within dir.
func (h harm) to(dir, path, other string, number int) {
	if slices.Contains(renaming, h.name) && (path == "." || other == ".") {
		return
	}
	h.do(filepath.Join(dir, path), filepath.Join(dir, other), number)
}

var harms = []harm{
	{"mode", func(path, _ string, n int) { _ = unix.Fchmodat(unix.AT_FDCWD, path, uint32(n)&0o7777, 0) }},
	{"closed", func(path, _ string, _ int) { _ = os.Chmod(path, 0) }},
	{"default list", func(path, _ string, n int) {
		_ = unix.Setxattr(path, "system.posix_acl_default", acl(uint16(n)&7, 0, 0), 0)
	}},
	{"access list", func(path, _ string, n int) {
		_ = unix.Setxattr(path, "system.posix_acl_access", acl(7, uint16(n)&7, 0), 0)
	}},
	{"attribute", func(path, _ string, _ int) { _ = unix.Lsetxattr(path, "user.holon", []byte("x"), 0) }},
	{"trusted attribute", func(path, _ string, _ int) { _ = unix.Lsetxattr(path, "trusted.holon", []byte("x"), 0) }},
	{"flags", func(path, _ string, n int) { // sync, no dump, no access times, synchronous directory, DAX
		setFlags(path, []int{0x8, 0x40, 0x80, 0x10000, 0x2000000, 0x20000000}[n%6])
	}},
	{"frozen", func(path, _ string, n int) { setFlags(path, []int{0x10, 0x20}[n%2]) }},
	{"times", func(path, _ string, n int) {
		times := []unix.Timespec{{Sec: int64(n)}, {Sec: int64(n)}}
		_ = unix.UtimesNanoAt(unix.AT_FDCWD, path, times, unix.AT_SYMLINK_NOFOLLOW)
	}},
	{"same content, same times", func(path, _ string, _ int) {
		info, err := os.Lstat(path)
		data, readErr := os.ReadFile(path)
		if err == nil && readErr == nil {
			_ = os.WriteFile(path, data, 0o600)
			_ = os.Chtimes(path, info.ModTime(), info.ModTime())
		}
	}},
	{"same name", func(path, _ string, _ int) { _, _ = os.Rename(path, path+"~"), os.Rename(path+"~", path) }},
	{"other content", func(path, _ string, n int) { _ = os.WriteFile(path, fmt.Append(nil, n), 0o600) }},
	{"hard link", func(path, other string, _ int) { _, _ = os.Remove(other), os.Link(path, other) }},
	{"new hard link", func(path, other string, n int) { _ = os.Link(path, fmt.Sprint(other, n)) }},
	{"swapped", func(path, other string, _ int) {
		_ = unix.Renameat2(unix.AT_FDCWD, path, unix.AT_FDCWD, other, unix.RENAME_EXCHANGE)
	}},
	{"moved", func(path, other string, n int) { _ = os.Rename(path, fmt.Sprint(other, n)) }},
	{"empty directory", func(path, _ string, n int) {
		_ = os.MkdirAll(filepath.Join(path, fmt.Sprint("new", n), "n"), 0o700)
	}},
	{"pipe", func(path, _ string, n int) { _ = syscall.Mkfifo(fmt.Sprint(path, n), 0) }},
	{"removed", func(path, _ string, _ int) {
		_ = os.RemoveAll(path)
	}},
	{"link for it", func(path, other string, _ int) {
		_, _ = os.RemoveAll(path), os.Symlink(other, path)
	}},
}

var harmed = []string{".", ".git", ".git/config", "a", "run.sh", "link", "d", "d/b", "d/e", "d/e/c", "d/e/same", "f",
	"f/g", "f/g/h", "f/g/h/i"}

// Each kind of harm alone, to each path of the tree, with the strictest umask.
func TestUserRecycledTree(t *testing.T) {
	old := syscall.Umask(0o077)
	t.Cleanup(func() { syscall.Umask(old) })
	options := Options{Dir: gittest.NewRepo(t, recycleBase), CacheDir: filepath.Join(gittest.DiskDir(t), "cache")}
	want := fresh(t, options)
	for name, mode := range map[string]string{".": "40755", "d": "40755", "a": "100644", "run.sh": "100755",
		".git": "40755", ".git/config": "100644"} {
		if !strings.HasPrefix(want[name], "mode "+mode+" ") {
			t.Errorf("%q of a fresh tree: %s", name, want[name])
		}
	}
	source := openSource(t, options)
	tree := acquireFrom(t, source)
	numbers := 6
	if testing.Short() {
		numbers = 2
	}
	for _, h := range harms {
		for n := range numbers {
			for i, name := range harmed {
				other := harmed[(i+n+1)%len(harmed)]
				h.to(tree.Dir(), name, other, 1000+n)
			}
			if err := tree.Release(t.Context()); err != nil {
				t.Fatalf("after %s: %v", h.name, err)
			}
			tree = acquireFrom(t, source)
			wantFresh(t, want, describe(t, tree.Dir()), h.name)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(options.CacheDir, "trees", "*", "*", "dead-*")); len(left) > 0 {
		t.Errorf("trees were given up: %v", left)
	}
}

// Any sequence of harms, in several runs one after the other, one of which may have been killed.
func TestUserRecycledTreeAtRandom(t *testing.T) {
	t.Parallel()
	options := Options{Dir: gittest.NewRepo(t, recycleBase), CacheDir: filepath.Join(gittest.DiskDir(t), "cache")}
	want := fresh(t, options)
	patch := filepath.Join(t.TempDir(), "patch")
	source := openSource(t, options)
	rapid.Check(t, func(r *rapid.T) {
		tree, err := source.Acquire(t.Context())
		expect.NoError(r, err)
		wantFresh(r, want, describe(t, tree.Dir()), "an earlier check")
		var done []string
		for range rapid.IntRange(1, 12).Draw(r, "steps") {
			h := rapid.SampledFrom(harms).Draw(r, "harm")
			path, other := rapid.SampledFrom(harmed).Draw(r, "path"), rapid.SampledFrom(harmed).Draw(r, "other")
			n := rapid.IntRange(0, 0o7777).Draw(r, "number")
			h.to(tree.Dir(), path, other, n)
			done = append(done, fmt.Sprintf("%s %s (%s, %o)", h.name, path, other, n))
		}
		if rapid.Bool().Draw(r, "compared") {
			if _, err := tree.Diff(t.Context(), DiffOptions{Patch: patch}); err != nil {
				r.Fatalf("diff after %q: %v", done, err)
			}
		}
		if rapid.Bool().Draw(r, "killed") {
			err, tree.slot.lock = tree.slot.unlock(), nil
		} else {
			err = tree.Release(t.Context())
		}
		if err != nil {
			r.Fatalf("release after %q: %v", done, err)
		}
		again, err := source.Acquire(t.Context())
		if err != nil {
			r.Fatalf("acquire after %q: %v", done, err)
		}
		wantFresh(r, want, describe(t, again.Dir()), fmt.Sprintf("%q", slices.Clip(done)))
		expect.NoError(r, again.Release(t.Context()))
	})
}
