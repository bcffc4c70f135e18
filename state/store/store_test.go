package store

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"holon/state"
	"holon/test/buckettest"
	"holon/test/expect"
)

// host is one of several with the files of a unit.
type host struct {
	*Files
	t     *testing.T
	unit  Unit
	fence int64
	gone  int // times that something was discarded
}

func newHost(t *testing.T, b Bucket, fence int64) *host {
	t.Helper()
	h := &host{t: t, fence: fence, unit: Unit{Key: "agents/main", Dir: t.TempDir(), Private: ".holon",
		Skip: func(name string) bool { return name == "cache" }}}
	h.Files = New(Options{Bucket: b, Notes: t.TempDir(), Fence: func(string) int64 { return h.fence },
		Log: slog.New(slog.DiscardHandler), Now: time.Now})
	return h
}

// again is the host after a restart with another lease.
func (h *host) again(fence int64) *host {
	next := *h
	next.fence = fence
	next.Files = New(Options{Bucket: h.opts.Bucket, Notes: h.opts.Notes, Fence: func(string) int64 { return next.fence },
		Log: h.opts.Log, Now: time.Now})
	return &next
}

func (h *host) load() error {
	return h.Load(h.t.Context(), h.unit, func(context.Context) error { h.gone++; return nil })
}

func (h *host) save() error { return h.Save(h.t.Context(), h.unit) }

func (h *host) write(name, text string) {
	h.t.Helper()
	path := filepath.Join(h.unit.Dir, name)
	expect.NoError(h.t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o640)))
}

func (h *host) read(name string) string {
	h.t.Helper()
	text, err := os.ReadFile(filepath.Join(h.unit.Dir, name))
	expect.NoError(h.t, err)
	return string(text)
}

// bucket is one of a real server, with what its test needs of it.
func bucket(t *testing.T) (*buckettest.Server, Bucket) {
	t.Helper()
	if testing.Short() {
		t.Skip("full tier: a server of buckets is built and started")
	}
	server := buckettest.New(t)
	b, err := OpenS3(server.URL(), Keys{ID: buckettest.ID, Secret: buckettest.Secret})
	expect.NoError(t, err)
	return server, b
}

func code(t *testing.T, err error, want state.Code) {
	t.Helper()
	if !state.IsCode(err, want) {
		t.Errorf("got %v, want the code %s", err, want)
	}
}

// What one host saved is what another one loads, which has the files alone from then on.
func TestAnotherHost(t *testing.T) {
	_, b := bucket(t)
	one, two := newHost(t, b, 1), newHost(t, b, 2)
	expect.NoError(t, one.load())
	large := strings.Repeat("x", 3*inMemory)
	one.write("a/b/large", large)
	one.write("empty", "")
	one.write("d\xe9/caf\xe9", "a name that is not UTF-8")
	one.write("cache/left out", "x")
	expect.NoError(t, errors.Join(os.Symlink("/etc/passwd", filepath.Join(one.unit.Dir, "link")),
		os.Mkdir(filepath.Join(one.unit.Dir, "closed"), 0o500)))
	expect.NoError(t, one.save())
	two.write("newer", "never saved")
	two.write("a/b/large", "other")
	expect.NoError(t, two.load())
	expect.Equal(t, "large", two.read("a/b/large"), large)
	expect.Equal(t, "empty", two.read("empty"), "")
	expect.Equal(t, "bytes", two.read("d\xe9/caf\xe9"), "a name that is not UTF-8")
	target, err := os.Readlink(filepath.Join(two.unit.Dir, "link"))
	expect.NoError(t, err)
	expect.Equal(t, "target", target, "/etc/passwd")
	info, err := os.Stat(filepath.Join(two.unit.Dir, "closed"))
	expect.NoError(t, err)
	expect.Equal(t, "mode", info.Mode().Perm(), fs.FileMode(0o500))
	if _, err := os.Lstat(filepath.Join(two.unit.Dir, "cache")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what is left out came: %v", err)
	}
	kept, err := filepath.Glob(filepath.Join(two.unit.Dir, ".holon", "moved-aside", "*", "newer"))
	expect.NoError(t, err)
	expect.Equal(t, "files that were moved aside", len(kept), 1)
	expect.Equal(t, "times discarded", two.gone, 1)

	one.write("late", "of one that lost its lease")
	code(t, one.save(), CodeLost)
	two.write("empty", "no more")
	expect.NoError(t, two.save())
	f, err := one.Open(t.Context(), "agents/main", "empty")
	expect.NoError(t, err)
	text := make([]byte, 20)
	n, _ := f.Read(text)
	expect.Equal(t, "opened", string(text[:n]), "no more")
	expect.NoError(t, f.Close())
	if _, err = one.Open(t.Context(), "agents/main", "../main/empty"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a path that leads elsewhere: %v", err)
	}
}

// What is too large or too deep is left out, a file of zeros takes no room on another host either, and what is in the way
// of what was saved is moved aside.
func TestLargeFiles(t *testing.T) {
	_, b := bucket(t)
	one, two := newHost(t, b, 1), newHost(t, b, 2)
	path := func(h *host, name string) string { return filepath.Join(h.unit.Dir, name) }
	deep := strings.Repeat("d/", maxDepth+2)
	for _, name := range []string{"small", "huge", "zeros", deep + "f"} {
		one.write(name, "x")
	}
	expect.NoError(t, os.Truncate(path(one, "huge"), maxFile+1))
	const zeros = 200 << 20
	expect.NoError(t, os.Truncate(path(one, "zeros"), zeros))
	two.write("small", "not saved")
	expect.NoError(t, os.Truncate(path(two, "small"), maxFile+1))
	expect.NoError(t, errors.Join(one.load(), one.save(), two.load()))
	expect.Equal(t, "small", two.read("small"), "x")
	for _, name := range []string{"huge", deep + "f"} {
		if _, err := os.Lstat(path(two, name)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%.10s came: %v", name, err)
		}
	}
	info, err := os.Stat(path(two, "zeros"))
	expect.NoError(t, err)
	expect.Equal(t, "size", info.Size(), int64(zeros))
	if took := info.Sys().(*syscall.Stat_t).Blocks * 512; took > zeros/10 {
		t.Errorf("a file of zeros takes %d bytes of the disk", took)
	}
}

// A host that comes back goes on with what it has, unless another one had it in between.
func TestComesBack(t *testing.T) {
	_, b := bucket(t)
	one := newHost(t, b, 1)
	expect.NoError(t, one.load())
	one.write("a", "saved")
	expect.NoError(t, one.save())
	one.write("a", "after the last save")
	one = one.again(2)
	expect.NoError(t, one.load())
	expect.Equal(t, "a", one.read("a"), "after the last save")
	expect.Equal(t, "times discarded", one.gone, 0)
	expect.NoError(t, newHost(t, b, 3).load())
	one = one.again(4)
	expect.NoError(t, one.load())
	expect.Equal(t, "a", one.read("a"), "saved")
	expect.Equal(t, "times discarded", one.gone, 1)
}

// What is loaded into a directory that a container's user was given is theirs, too.
func TestOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root gives files away")
	}
	_, b := bucket(t)
	one, two := newHost(t, b, 1), newHost(t, b, 2)
	one.write("given/a", "one")
	expect.NoError(t, errors.Join(one.load(), one.save(), two.load()))
	two.write("given/a", "two")
	two.write("given/made/b", "two")
	expect.NoError(t, errors.Join(os.Symlink("a", filepath.Join(two.unit.Dir, "given", "link")), two.save()))
	expect.NoError(t, os.Chown(filepath.Join(one.unit.Dir, "given"), 4711, 4712))
	one = one.again(3)
	expect.NoError(t, one.load())
	for _, name := range []string{"given/a", "given/made", "given/made/b", "given/link"} {
		info, err := os.Lstat(filepath.Join(one.unit.Dir, name))
		expect.NoError(t, err)
		st := info.Sys().(*syscall.Stat_t)
		expect.Equal(t, "owner of "+name, [2]uint32{st.Uid, st.Gid}, [2]uint32{4711, 4712})
	}
}

// A bucket that is away, denies, or lies is told apart; afterwards the same save succeeds.
func TestTrouble(t *testing.T) {
	server, b := bucket(t)
	one := newHost(t, b, 1)
	expect.NoError(t, one.load())
	one.write("a", "text of a")
	server.Stop(t)
	code(t, one.save(), CodeAway)
	code(t, one.Problem(), CodeAway)
	server.Start(t)
	expect.NoError(t, one.save())
	expect.NoError(t, one.Problem())
	denied, err := OpenS3(server.URL(), Keys{ID: buckettest.ID, Secret: "wrong"})
	expect.NoError(t, err)
	code(t, newHost(t, denied, 2).load(), CodeDenied)
	gone, err := OpenS3(strings.Replace(server.URL(), "holon", "nobuckethere", 1), Keys{ID: buckettest.ID,
		Secret: buckettest.Secret})
	expect.NoError(t, err)
	code(t, newHost(t, gone, 2).load(), CodeURL)
	objects, err := filepath.Glob(filepath.Join(server.Bucket(), "files/agents/main/objects/*"))
	expect.NoError(t, err)
	expect.Equal(t, "objects", len(objects), 1)
	expect.NoError(t, os.WriteFile(objects[0], []byte("lie of it"), 0o600))
	code(t, newHost(t, b, 2).load(), CodeDamaged)
	expect.NoError(t, Bind(t.Context(), b, "one"))
	expect.NoError(t, Bind(t.Context(), b, "one"))
	code(t, Bind(t.Context(), b, "two"), CodeOther)
}

// Objects that no manifest names go once they are old, and no others.
func TestSweep(t *testing.T) {
	server, b := bucket(t)
	one := newHost(t, b, 1)
	expect.NoError(t, one.load())
	for _, text := range []string{"first", "second"} {
		one.write("a", text)
		expect.NoError(t, one.save())
	}
	count := func() int {
		objects, err := filepath.Glob(filepath.Join(server.Bucket(), "files/agents/main/objects/*"))
		expect.NoError(t, err)
		return len(objects)
	}
	expect.NoError(t, one.Sweep(t.Context()))
	expect.Equal(t, "objects", count(), 2)
	one.opts.Now = func() time.Time { return time.Now().Add(2 * keepFor) }
	expect.NoError(t, one.Sweep(t.Context()))
	expect.Equal(t, "objects", count(), 1)
	two := newHost(t, b, 2)
	expect.NoError(t, two.load())
	expect.Equal(t, "a", two.read("a"), "second")
	code(t, one.Sweep(t.Context()), CodeLost)
}
