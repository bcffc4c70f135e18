package agentd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"holon/agentd/config"
	"holon/internal/peercred"
)

// listenTCP listens on a TCP address. Without a token that address must be
// loopback whatever its name resolved to. A peer that vanished without a word is
// noticed after a minute and a half.
func listenTCP(ctx context.Context, address string, hasToken bool) (net.Listener, error) {
	lc := net.ListenConfig{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second,
		Interval: 15 * time.Second, Count: 4}}
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	if at, ok := l.Addr().(*net.TCPAddr); !hasToken && (!ok || !at.IP.IsLoopback()) {
		return nil, errors.Join(config.Wrong("--listen",
			fmt.Sprintf("%s is %s here, which other machines can reach", address, l.Addr()),
			"listen on 127.0.0.1, or give --token-file"), l.Close())
	}
	return l, nil
}

// socket is a listener on a Unix socket that knows its file.
type socket struct {
	net.Listener
	path     string
	file     fs.FileInfo
	hostOnly bool // closes connections from within this PID namespace
}

// Accept waits for a connection, of the host if it may be no other.
func (s *socket) Accept() (net.Conn, error) {
	for {
		conn, err := s.Listener.Accept()
		if err != nil || !s.hostOnly {
			return conn, err
		}
		if pid, err := peercred.PID(conn); err == nil && pid == 0 {
			return conn, nil
		}
		_ = conn.Close() // it has said nothing that was read
	}
}

// listenUnix serves on a Unix socket at path, mode 0600, in a directory it
// creates with mode 0700 if need be. A socket that nobody answers on is a
// leftover of a crash and is replaced; one that answers, and anything that is
// not a socket, is refused.
func listenUnix(path string) (*socket, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("make the socket's directory: %w", err)
	}
	if err := removeStale(path); err != nil {
		return nil, err
	}
	// The mode must be right from the first moment. Creating under another
	// name and renaming does that without touching the process's umask.
	temp := unborn(path, os.Getpid())
	removeUnborn(path)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: temp, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	l.SetUnlinkOnClose(false)
	s := &socket{Listener: l, path: path}
	if err = os.Chmod(temp, 0o600); err == nil {
		s.file, err = os.Lstat(temp)
	}
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, errors.Join(err, l.Close(), os.Remove(temp)))
	}
	return s, nil
}

// maxSocketPath is the size of sun_path on Linux, less its NUL.
const maxSocketPath = 107

// unborn is the name of a socket of the process pid before it is at path.
func unborn(path string, pid int) string {
	if temp := fmt.Sprintf("%s.%d", path, pid); len(temp) <= maxSocketPath {
		return temp
	}
	return filepath.Join(filepath.Dir(path), strconv.Itoa(pid))
}

// removeUnborn removes the sockets of processes that were killed before they
// were at path. What cannot be removed hinders nobody.
func removeUnborn(path string) {
	entries, _ := os.ReadDir(filepath.Dir(path))
	for _, e := range entries {
		digits := e.Name()[strings.LastIndexByte(e.Name(), '.')+1:]
		pid, err := strconv.Atoi(digits)
		if err != nil || pid < 1 || e.Type() != fs.ModeSocket || filepath.Base(unborn(path, pid)) != e.Name() {
			continue
		}
		if pid == os.Getpid() || errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			_ = os.Remove(filepath.Join(filepath.Dir(path), e.Name()))
		}
	}
}

// remove closes the listener and removes its file, unless another server has
// put its own there.
func (s *socket) remove() {
	_ = s.Close() // the HTTP server has closed it already, as a rule
	if now, err := os.Lstat(s.path); err == nil && os.SameFile(now, s.file) {
		_ = os.Remove(s.path) // what remains is replaced as stale
	}
}

// removeStale removes the socket at path if nobody listens on it.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at the socket: %w", err)
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%s exists and is not a socket; remove it or choose another --socket", path)
	}
	conn, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		conn.Close()
		return fmt.Errorf("another server answers on %s; stop it or choose another --socket", path)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) { // only that says that nobody listens; a busy server gives other errors
		return fmt.Errorf("look at the socket: %w; stop the server or choose another --socket", err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the stale socket: %w", err)
	}
	return nil
}
