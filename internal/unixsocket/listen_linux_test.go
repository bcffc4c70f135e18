package unixsocket_test

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"holon/internal/unixsocket"
	"holon/test/expect"
)

type listenFunc = func(context.Context, string) (*unixsocket.Listener, error)

// both runs a test with the Listen of each system.
func both(t *testing.T, test func(*testing.T, listenFunc)) {
	t.Run("Linux", func(t *testing.T) { test(t, unixsocket.Listen) })
	t.Run("macOS", func(t *testing.T) { test(t, unixsocket.ListenPrivately) })
}

func TestListen(t *testing.T) { both(t, testListen) }

func testListen(t *testing.T, listen listenFunc) {
	for name, base := range map[string]string{"short": "s", "as long as fits": strings.Repeat("x", 80)} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(shortDir(t), base)
			l, err := listen(t.Context(), path)
			expect.NoError(t, err)
			entries, err := os.ReadDir(filepath.Dir(path))
			if err != nil || len(entries) != 1 {
				t.Errorf("the directory holds %v, %v, want the socket alone", entries, err)
			}
			if info, err := os.Lstat(path); err != nil || info.Mode() != fs.ModeSocket|0o600 {
				t.Errorf("mode: got %v, %v, want %v", info.Mode(), err, fs.ModeSocket|0o600)
			}
			conn, err := unixsocket.Dial(t.Context(), path)
			expect.NoError(t, err)
			defer conn.Close()
			if names, err := os.ReadFile("/proc/net/unix"); err != nil || strings.Contains(string(names), path) {
				t.Errorf("the names of connected sockets tell where this one lies (%v)", err)
			}
			if _, err := listen(t.Context(), path); !errors.Is(err, unixsocket.ErrOccupied) {
				t.Errorf("a second server: got %v, want %v", err, unixsocket.ErrOccupied)
			}
			expect.NoError(t, errors.Join(l.Close(), l.Remove(), l.Remove()))
			if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the socket is left: %v", err)
			}
		})
	}
}

// A socket that another server has put in place of ours is not ours to remove.
func TestRemoveOnlyOwnFile(t *testing.T) { both(t, testRemoveOnlyOwnFile) }

func testRemoveOnlyOwnFile(t *testing.T, listen listenFunc) {
	path := filepath.Join(shortDir(t), "s")
	first, err := listen(t.Context(), path)
	expect.NoError(t, err)
	if err := os.Rename(path, path+".old"); err != nil { // keeps its inode from being used again
		t.Fatal(err)
	}
	second, err := listen(t.Context(), path)
	expect.NoError(t, err)
	expect.NoError(t, errors.Join(first.Close(), first.Remove()))
	if conn, err := unixsocket.Dial(t.Context(), path); err != nil {
		t.Errorf("the second server's socket: %v", err)
	} else {
		_ = conn.Close()
	}
	expect.NoError(t, errors.Join(second.Close(), second.Remove()))
}

// Only a socket on which no process listens is replaced, and no link is followed.
func TestListenInPlaceOf(t *testing.T) { both(t, testListenInPlaceOf) }

func testListenInPlaceOf(t *testing.T, listen listenFunc) {
	dead := func(t *testing.T, path string) {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
		expect.NoError(t, err)
		l.SetUnlinkOnClose(false)
		expect.NoError(t, l.Close())
	}
	check := func(t *testing.T, err error) {
		expect.NoError(t, err)
	}
	for name, tc := range map[string]struct {
		put func(t *testing.T, path string)
		ok  bool
	}{
		"nothing":       {func(*testing.T, string) {}, true},
		"a dead socket": {dead, true},
		"a live socket": {func(t *testing.T, path string) {
			l, err := net.Listen("unix", path)
			check(t, err)
			t.Cleanup(func() { _ = l.Close() })
		}, false},
		"a socket that does not answer": {func(t *testing.T, path string) { // its queue is full
			fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
			check(t, err)
			t.Cleanup(func() { _ = syscall.Close(fd) })
			check(t, errors.Join(syscall.Bind(fd, &syscall.SockaddrUnix{Name: path}), syscall.Listen(fd, 0)))
			conn, err := net.Dial("unix", path)
			check(t, err)
			t.Cleanup(func() { _ = conn.Close() })
		}, false},
		"a file": {func(t *testing.T, path string) { check(t, os.WriteFile(path, nil, 0o600)) }, false},
		"a pipe": {func(t *testing.T, path string) { check(t, syscall.Mkfifo(path, 0o600)) }, false},
		"a link": {func(t *testing.T, path string) { check(t, os.Symlink("elsewhere", path)) }, false},
		"a link to a dead socket": {func(t *testing.T, path string) {
			dead(t, path+".dead")
			check(t, os.Symlink(path+".dead", path))
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(shortDir(t), "s")
			tc.put(t, path)
			before, _ := os.Lstat(path) // nil where nothing is
			l, err := listen(t.Context(), path)
			if tc.ok {
				expect.NoError(t, err)
				check(t, errors.Join(l.Close(), l.Remove()))
				return
			}
			expect.ErrorIs(t, "the error", err, unixsocket.ErrOccupied)
			if after, err := os.Lstat(path); err != nil || !os.SameFile(before, after) {
				t.Errorf("the file that was there is gone (%v)", err)
			}
		})
	}
}

func TestListenRefuses(t *testing.T) { both(t, testListenRefuses) }

func testListenRefuses(t *testing.T, listen listenFunc) {
	if _, err := listen(t.Context(), "/"+strings.Repeat("x", unixsocket.MaxPath)); err == nil {
		t.Error("a path that is too long: got no error")
	}
	if _, err := listen(t.Context(), filepath.Join(shortDir(t), "missing", "s")); !errors.Is(err,
		fs.ErrNotExist) {
		t.Errorf("a missing directory: got %v, want %v", err, fs.ErrNotExist)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	path := filepath.Join(shortDir(t), "s")
	l, err := listen(t.Context(), path)
	expect.NoError(t, err)
	defer l.Close()
	if _, err := listen(ctx, path); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled context: got %v, want %v", err, context.Canceled)
	}
}
