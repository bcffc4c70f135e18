package socket_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"holon/internal/unixsocket"
	"holon/runner/socket"
	"holon/state"
	"holon/test/expect"
	"holon/test/memory"
)

func TestListen(t *testing.T) {
	path := filepath.Join(memory.Dir(t), "sub", "s")
	s, err := socket.Listen(t.Context(), path, "test", nil)
	expect.NoError(t, err)
	l := s.Bounded(1)
	for name, mode := range map[string]os.FileMode{path: os.ModeSocket | 0o600,
		filepath.Dir(path): os.ModeDir | 0o700} {
		if info, err := os.Lstat(name); err != nil || info.Mode() != mode {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	client, err := net.Dial("unix", path)
	expect.NoError(t, err)
	defer client.Close()
	server, err := l.Accept()
	expect.NoError(t, err)
	defer server.Close()
	// The name of the socket, which a connected container can read.
	if names, err := os.ReadFile("/proc/net/unix"); err != nil || strings.Contains(string(names), path) {
		t.Errorf("the socket's name tells where it lies (%v)", err)
	}
	if _, err := socket.Listen(t.Context(), path, "test", nil); !state.IsCode(err, socket.CodeUnusable) ||
		!strings.Contains(err.Error(), "another server") {
		t.Errorf("a second server: %v", err)
	}
	expect.NoError(t, errors.Join(l.Close(), s.Remove(), s.Remove()))
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is left: %v", err)
	}
}

// A file where a socket is to be is replaced only if it is a socket without a
// server. No link is followed.
func TestListenInPlaceOf(t *testing.T) {
	for name, tc := range map[string]struct {
		put func(t *testing.T, path string) error
		ok  bool
	}{
		"nothing": {func(*testing.T, string) error { return nil }, true},
		"a dead socket": {func(t *testing.T, path string) error {
			l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
			if err == nil {
				l.SetUnlinkOnClose(false)
				err = l.Close()
			}
			return err
		}, true},
		"a live socket": {func(t *testing.T, path string) error {
			l, err := net.Listen("unix", path)
			if err == nil {
				t.Cleanup(func() { _ = l.Close() }) // the test is over
			}
			return err
		}, false},
		"a file":      {func(_ *testing.T, path string) error { return os.WriteFile(path, nil, 0o600) }, false},
		"a pipe":      {func(_ *testing.T, path string) error { return syscall.Mkfifo(path, 0o600) }, false},
		"a folder":    {func(_ *testing.T, path string) error { return os.Mkdir(path, 0o700) }, false},
		"a link":      {func(_ *testing.T, path string) error { return os.Symlink("elsewhere", path) }, false},
		"its like":    {func(_ *testing.T, path string) error { return os.Symlink(filepath.Base(path), path) }, false},
		"dir is open": {func(_ *testing.T, path string) error { return os.Chmod(filepath.Dir(path), 0o777) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(memory.Dir(t), "s")
			expect.NoError(t, tc.put(t, path))
			before, _ := os.Lstat(path)
			s, err := socket.Listen(t.Context(), path, "test", nil)
			if (err == nil) != tc.ok {
				t.Fatal(err)
			}
			if err == nil {
				expect.NoError(t, errors.Join(s.Bounded(1).Close(), s.Remove()))
				return
			}
			if e, ok := errors.AsType[*state.Error](err); !ok || e.Code != socket.CodeUnusable || e.Hint == "" {
				t.Errorf("%#v", err)
			}
			if after, _ := os.Lstat(path); before != nil && (after == nil || !os.SameFile(before, after)) {
				t.Error("what was there is gone")
			}
		})
	}
}

func TestListenPath(t *testing.T) {
	for _, path := range []string{"relative", "/" + strings.Repeat("x", unixsocket.MaxPath)} {
		if _, err := socket.Listen(t.Context(), path, "test", nil); !state.IsCode(err, socket.CodeUnusable) {
			t.Errorf("%.20s: %v", path, err)
		}
	}
}
