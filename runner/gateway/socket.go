package gateway

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// maxSocketPath is the size of sun_path on Linux, less its NUL.
const maxSocketPath = 107

// socket is a listening Unix socket and the file that stands for it.
type socket struct {
	path     string
	listener *net.UnixListener
	file     fs.FileInfo
}

// listen serves on a Unix socket at path. The container can write to the
// directory, so nothing here follows a link in it: a socket is not bound
// beside and renamed, nor given its mode by name.
func listen(ctx context.Context, path string, owner *Owner) (*socket, error) {
	unusable := func(hint string, err error) error {
		return &Error{Code: CodeSocketUnusable, Param: "socket", Message: fmt.Sprintf("can't serve the model gateway on %.200q", path), Hint: hint, Err: err}
	}
	if !filepath.IsAbs(path) || len(path) > maxSocketPath {
		return nil, unusable("choose a shorter state directory", fmt.Errorf("the path must be absolute and have at most %d bytes", maxSocketPath))
	}
	if err := prepareDir(filepath.Dir(path)); err != nil {
		return nil, unusable("give a directory that only its owner can write to", err)
	}
	if err := removeStale(ctx, path); err != nil {
		return nil, unusable("stop the other server, or remove what is there", err)
	}
	listener, err := bind(ctx, path)
	if err != nil {
		return nil, unusable("look at the directory's permissions", err)
	}
	s := &socket{path: path, listener: listener}
	if s.file, err = os.Lstat(path); err == nil && owner != nil {
		err = os.Lchown(path, owner.UID, owner.GID)
	}
	if err != nil {
		return nil, unusable("run as root, or as the container's user", errors.Join(err, listener.Close(), s.remove()))
	}
	return s, nil
}

// prepareDir makes dir, or checks that nobody but its owner can put another
// socket in it.
func prepareDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the socket's directory: %w", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("look at the socket's directory: %w", err)
	}
	if info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("directory %s has mode %04o", dir, info.Mode().Perm())
	}
	return nil
}

// removeStale removes the socket at path if nobody listens on it.
func removeStale(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at the socket: %w", err)
	}
	if info.Mode().Type() != fs.ModeSocket {
		return errors.New("something that is not a socket is there")
	}
	dialer := net.Dialer{Timeout: time.Second}
	conn, err := dialer.DialContext(ctx, "unix", path)
	if err == nil {
		return errors.Join(errors.New("another server answers there"), conn.Close())
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	// Only a refused connection proves that nobody listens; a full queue,
	// for one, does not.
	if !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("ask who serves the socket: %w", err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the stale socket: %w", err)
	}
	return nil
}

// bind binds to path. The mode is set on the descriptor before, which Linux
// gives to the file it makes: the file is never open to others, and no name
// has to be looked up again.
func bind(ctx context.Context, path string) (*net.UnixListener, error) {
	config := net.ListenConfig{Control: func(_, _ string, conn syscall.RawConn) error {
		var chmodErr error
		err := conn.Control(func(fd uintptr) { chmodErr = unix.Fchmod(int(fd), 0o600) })
		return errors.Join(err, chmodErr)
	}}
	l, err := config.Listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	listener := l.(*net.UnixListener) // what Listen returns for this network
	listener.SetUnlinkOnClose(false)  // remove looks first
	return listener, nil
}

// remove removes the socket's file if it is still the one that was made.
func (s *socket) remove() error {
	found, err := os.Lstat(s.path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(found, s.file) {
		return nil
	}
	if err == nil {
		err = os.Remove(s.path)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the gateway's socket: %w", err)
	}
	return nil
}

// boundedListener accepts no more than a number of connections at a time; the
// others wait in the kernel's queue, which is bounded too.
type boundedListener struct {
	net.Listener
	slots  chan struct{}
	closed chan struct{}
	once   sync.Once
}

func newBoundedListener(l net.Listener, limit int) *boundedListener {
	return &boundedListener{Listener: l, slots: make(chan struct{}, limit), closed: make(chan struct{})}
}

// Accept waits for a free slot, then for a connection.
func (l *boundedListener) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	conn, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &boundedConn{Conn: conn, release: sync.OnceFunc(func() { <-l.slots })}, nil
}

// Close ends Accept.
func (l *boundedListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

type boundedConn struct {
	net.Conn
	release func()
}

// Close frees the connection's slot.
func (c *boundedConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}
