package link

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holon/internal/bridge"
	"holon/internal/transfer"
	"holon/runner/engine"
	"holon/test/expect"
)

// inside is an engine whose program is this process: its bridge moves files of directories here.
type inside struct {
	Engine
	serve func(ctx context.Context, stream io.ReadWriter)
}

func (e inside) Exec(ctx context.Context, _ engine.Handle, _ engine.User, _ []string) (io.ReadWriteCloser, error) {
	here, there := net.Pipe()
	b, err := bridge.New(there, bridge.Side{Serve: map[string]func(context.Context, io.ReadWriter){transfer.Service: e.serve}},
		false)
	go func() { _ = b.Run(context.WithoutCancel(ctx)) }()
	return here, err
}

func (inside) Inspect(context.Context, engine.Handle) (engine.State, error) {
	return engine.State{}, nil
}

func serveHere(ctx context.Context, stream io.ReadWriter) { _ = transfer.Serve(ctx, stream) }

// join returns a link to this process, which is closed after the test.
func join(t *testing.T, eng Engine, spec engine.Spec) *Joined {
	t.Helper()
	l, err := Join(t.Context(), eng, engine.Handle{Name: "x"}, spec)
	expect.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// sides are a directory of the host and its copy in the program.
type sides struct {
	t          *testing.T
	ours, them string
	spec       engine.Spec
	link       *Joined
	files      *Files
	path       string
	program    string // the ID of its handle
	going      string // a file that is removed when files are asked for
}

func newSides(t *testing.T, shared bool) *sides {
	s := &sides{t: t, ours: t.TempDir(), them: t.TempDir(), path: filepath.Join(t.TempDir(), "same")}
	s.spec = engine.Spec{Mounts: []engine.Mount{{Source: s.ours, Target: s.them}}}
	s.open(shared)
	t.Cleanup(func() { s.files.Close() })
	return s
}

func (s *sides) open(shared bool) {
	eng := inside{serve: func(ctx context.Context, stream io.ReadWriter) {
		serveHere(ctx, struct {
			io.Reader
			io.Writer
		}{asked{stream, s}, stream})
	}}
	s.link = join(s.t, eng, s.spec)
	s.files = Open(eng, engine.Handle{Name: "x", ID: s.program}, s.link, shared, s.path)
}

// asked are requests, of which one for files lets a file go.
type asked struct {
	io.Reader
	s *sides
}

func (a asked) Read(p []byte) (int, error) {
	n, err := a.Reader.Read(p)
	if a.s.going != "" && strings.Contains(string(p[:n]), `"get"`) {
		_ = os.Remove(a.s.going)
	}
	return n, err
}

func (s *sides) sync() {
	s.t.Helper()
	_, err := s.files.Sync(s.t.Context(), s.spec, transfer.Limits{})
	expect.NoError(s.t, err)
}

// changed checks whether the host seems to have changed something.
func (s *sides) changed(want bool) {
	s.t.Helper()
	got, err := s.files.Changed(s.t.Context(), s.spec)
	expect.NoError(s.t, err)
	expect.Equal(s.t, "changed", got, want)
}

func (s *sides) write(dir string, files ...string) {
	s.t.Helper()
	for _, f := range files {
		name, content, _ := strings.Cut(f, "=")
		path := filepath.Join(dir, name)
		expect.NoError(s.t, os.MkdirAll(filepath.Dir(path), 0o755))
		expect.NoError(s.t, os.WriteFile(path, []byte(content), 0o644))
	}
}

// has checks the files of both sides.
func (s *sides) has(want ...string) {
	s.t.Helper()
	for _, dir := range []string{s.ours, s.them} {
		var got []string
		expect.NoError(s.t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			data, err := os.ReadFile(path)
			rel, _ := filepath.Rel(dir, path)
			got = append(got, rel+"="+string(data))
			return err
		}))
		expect.Equal(s.t, "files of "+filepath.Base(filepath.Dir(dir))+"/"+filepath.Base(dir), strings.Join(got, " "),
			strings.Join(want, " "))
	}
}

// What either side changed comes to the other, also in a process that goes on with the program.
func TestSync(t *testing.T) {
	s := newSides(t, true)
	s.write(s.ours, "a=1", "d/b=2", "gone/c=3", "theirs=4")
	s.sync()
	s.has("a=1", "d/b=2", "gone/c=3", "theirs=4")
	s.write(s.them, "d/b=two", "new/e=5")
	s.write(s.ours, "a=one", "f=6")
	expect.NoError(t, os.RemoveAll(filepath.Join(s.ours, "gone")))
	expect.NoError(t, os.Remove(filepath.Join(s.them, "theirs")))
	s.files.Close()
	s.open(true)
	s.sync()
	s.has("a=one", "d/b=two", "f=6", "new/e=5")
	s.changed(false)
	s.write(s.them, "a=theirs")
	s.changed(false)
	s.write(s.ours, "a=ours")
	s.changed(true)
	s.sync()
	s.changed(false)
	s.has("a=theirs", "d/b=two", "f=6", "new/e=5")
}

// What another program had in the same place is not known of this one: what it lacks was not removed there. A process
// that was killed may not have given it all files.
func TestSyncOfAnotherProgram(t *testing.T) {
	s := newSides(t, true)
	s.write(s.ours, "a=1", "d/b=2", "c=3")
	s.sync()
	s.files.Close()
	expect.NoError(t, errors.Join(os.RemoveAll(filepath.Join(s.them, "a")), os.RemoveAll(filepath.Join(s.them, "d"))))
	s.program = "another"
	s.open(true)
	s.sync()
	s.has("a=1", "c=3", "d/b=2")
}

// A file that goes while it is copied is gone: what the host has of it does not come back.
func TestSyncOfWhatGoes(t *testing.T) {
	s := newSides(t, true)
	s.write(s.them, "a=1", "b=1")
	s.sync()
	s.write(s.them, "a=22")
	s.going = filepath.Join(s.them, "a")
	s.sync()
	s.sync()
	s.has("b=1")
}

// What came before a copy broke off is the program's: it does not come back when the program removes it, and what the
// host removed or changed stays so.
func TestSyncThatBreaksOff(t *testing.T) {
	s := newSides(t, true)
	s.write(s.ours, "changed=1", "gone=1")
	s.sync()
	s.write(s.them, "a=1", "b="+strings.Repeat("x", 100))
	s.write(s.ours, "changed=22")
	expect.NoError(t, os.Remove(filepath.Join(s.ours, "gone")))
	if _, err := s.files.Sync(t.Context(), s.spec, transfer.Limits{Bytes: 50}); err == nil {
		t.Fatal("more was taken than the limit allows")
	}
	expect.NoError(t, os.Remove(filepath.Join(s.them, "a")))
	s.sync()
	s.has("b="+strings.Repeat("x", 100), "changed=22")
}

// A stream that broke while it was not used is made anew, and so is the link.
func TestSyncOverAnotherConnection(t *testing.T) {
	s := newSides(t, true)
	s.write(s.ours, "a=1")
	s.sync()
	expect.NoError(t, s.files.client.Close())
	s.write(s.them, "b=2")
	s.sync()
	s.has("a=1", "b=2")
	expect.NoError(t, s.link.bridge.Close())
	s.write(s.them, "c=3")
	s.sync()
	s.has("a=1", "b=2", "c=3")
	s.files.disconnect() // so that the link's end is met first when files are asked for
	expect.NoError(t, s.link.bridge.Close())
	s.write(s.them, "d=4")
	s.sync()
	s.has("a=1", "b=2", "c=3", "d=4")
}

// A change that keeps size and time of a file is seen.
func TestSyncHiddenChange(t *testing.T) {
	s := newSides(t, false)
	s.write(s.them, "a=1")
	s.sync()
	at := time.Unix(1, 0)
	s.write(s.them, "a=2")
	expect.NoError(t, os.Chtimes(filepath.Join(s.them, "a"), at, at))
	s.sync()
	s.write(s.them, "a=3")
	expect.NoError(t, os.Chtimes(filepath.Join(s.them, "a"), at, at))
	s.sync()
	s.has("a=3")
}

// Where the host writes nothing, its copy is the program's.
func TestSyncOfTheirs(t *testing.T) {
	s := newSides(t, false)
	s.write(s.ours, "a=1", "b/c=2")
	s.write(s.them, "a=one", "d=3")
	s.sync()
	s.has("a=one", "d=3")
}

// What the program may only read becomes what the host has, and is not read.
func TestSyncOfOurs(t *testing.T) {
	s := newSides(t, true)
	s.spec.Mounts[0].ReadOnly, s.spec.Mounts[0].Updated = true, true
	s.write(s.ours, "a=1", "b/c=2")
	s.write(s.them, "a=one", "d=3")
	s.sync()
	s.has("a=1", "b/c=2")
}

// What one side changes in a directory that the other one removed stays, with the directory. Where one side has a file
// in its place, the program's counts.
func TestSyncRemovedDirectory(t *testing.T) {
	remove := func(paths ...string) {
		for _, p := range paths {
			expect.NoError(t, os.RemoveAll(p))
		}
	}
	s := newSides(t, true)
	s.write(s.ours, "a/b/c=1", "d/e/f=2", "g/h=3", "i/j=4", "k/l=5")
	s.sync()
	remove(filepath.Join(s.ours, "a"), filepath.Join(s.them, "d"), filepath.Join(s.them, "g"), filepath.Join(s.ours, "i"),
		filepath.Join(s.ours, "k"))
	s.write(s.them, "a/b/new=theirs", "g=file", "i/m/n=theirs")
	s.write(s.ours, "d/e/new=ours", "g/new=lost", "i=file", "other=ours")
	s.sync()
	s.has("a/b/new=theirs", "d/e/new=ours", "g=file", "i/m/n=theirs", "other=ours")
	s.sync()
	s.has("a/b/new=theirs", "d/e/new=ours", "g=file", "i/m/n=theirs", "other=ours")
}

// Kinds of files change, and links stay links.
func TestSyncKinds(t *testing.T) {
	s := newSides(t, true)
	s.write(s.ours, "a=1", "b/c=2", "d/e/f=3")
	s.sync()
	expect.NoError(t, os.RemoveAll(filepath.Join(s.them, "b")))
	s.write(s.them, "b=file")
	expect.NoError(t, os.RemoveAll(filepath.Join(s.them, "d")))
	expect.NoError(t, os.Symlink("/etc", filepath.Join(s.them, "d")))
	expect.NoError(t, os.Remove(filepath.Join(s.them, "a")))
	expect.NoError(t, os.Symlink("/etc/passwd", filepath.Join(s.them, "a")))
	s.sync()
	target, err := os.Readlink(filepath.Join(s.ours, "a"))
	expect.NoError(t, err)
	expect.Equal(t, "the target", target, "/etc/passwd")
	expect.NoError(t, errors.Join(os.Remove(filepath.Join(s.ours, "a")), os.Remove(filepath.Join(s.ours, "d"))))
	s.sync()
	s.has("b=file")
}
