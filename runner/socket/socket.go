// Package socket serves Unix sockets in directories that a container can write to.
//
// The invariant: only its owner can ever connect to a socket, even if the directory
// holds; see package unixsocket. The package that listens decides what is served.
package socket

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"

	"holon/internal/unixsocket"
	"holon/state"
)

// CodeUnusable is the code of the errors of Listen.
const CodeUnusable state.Code = "socket_unusable"

// Owner is the user that may connect to a socket.
type Owner struct{ UID, GID int }

// Socket is a listening Unix socket and the file that stands for it.
type Socket struct {
	path     string
	listener *unixsocket.Listener
}

// Listen listens on a Unix socket at path, mode 0600. Its directory is made with
// mode 0700 if it is missing; a socket on which no server answers is replaced. what
// names the service in errors. A nil owner leaves the socket with this process's
// user; only root can give it away. Errors are *state.Error with CodeUnusable.
func Listen(ctx context.Context, path, what string, owner *Owner) (*Socket, error) {
	unusable := func(hint string, err error) error {
		return &state.Error{Code: CodeUnusable, Param: "socket",
			Message: fmt.Sprintf("can't serve the %s on %.200q", what, path), Hint: hint, Err: err}
	}
	if !filepath.IsAbs(path) || len(path) > unixsocket.MaxPath {
		return nil, unusable("choose a shorter state directory",
			fmt.Errorf("the path must be absolute and have at most %d bytes", unixsocket.MaxPath))
	}
	if err := prepareDir(filepath.Dir(path)); err != nil {
		return nil, unusable("give a directory that only its owner can write to", err)
	}
	listener, err := unixsocket.Listen(ctx, path)
	if errors.Is(err, unixsocket.ErrOccupied) {
		return nil, unusable("stop the other server, or remove what is there", err)
	}
	if err != nil {
		return nil, unusable("look at the directory's permissions", err)
	}
	s := &Socket{path: path, listener: listener}
	if owner != nil {
		err = os.Lchown(path, owner.UID, owner.GID)
	}
	if err != nil {
		return nil, unusable("run as root, or as the container's user", errors.Join(err, listener.Close(), s.Remove()))
	}
	return s, nil
}

// prepareDir makes dir, or checks that only its owner can put another socket in it.
func prepareDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the socket's directory: %w", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("look at the socket's directory: %w", err)
	}
	if info.Mode().Perm()&0o002 != 0 {
		return fmt.Errorf("directory %s has mode %04o", dir, info.Mode().Perm())
	}
	return nil
}

// Path returns the socket's path.
func (s *Socket) Path() string { return s.path }

// Remove removes the socket's file if it is still the one that was made. The
// listener is closed on its own.
func (s *Socket) Remove() error { return s.listener.Remove() }

// Bounded returns the socket's listener, which accepts no more than limit
// connections at a time.
func (s *Socket) Bounded(limit int) net.Listener { return bounded(s.listener, nil, limit) }

// BoundedBehind is Bounded for connections that wait until barrier is opened; nil is open.
func (s *Socket) BoundedBehind(barrier *Barrier, limit int) net.Listener {
	return bounded(s.listener, barrier, limit)
}

// Bounded returns a listener that accepts no more than limit connections of l at
// a time.
func Bounded(l net.Listener, limit int) net.Listener { return bounded(l, nil, limit) }

func bounded(l net.Listener, barrier *Barrier, limit int) *boundedListener {
	return &boundedListener{Listener: l, barrier: barrier, slots: make(chan struct{}, limit), closed: make(chan struct{})}
}

// boundedListener accepts no more than a number of connections at a time; the
// others wait in the kernel's queue, which is bounded too.
type boundedListener struct {
	net.Listener
	barrier *Barrier // nil: open
	slots   chan struct{}
	closed  chan struct{}
	once    sync.Once
}

// Accept waits for the barrier, a free slot, then for a connection.
func (l *boundedListener) Accept() (net.Conn, error) {
	if l.barrier != nil {
		select {
		case <-l.barrier.open:
		case <-l.closed:
			return nil, net.ErrClosed
		}
	}
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

// CloseWrite ends what is sent and leaves the other direction open.
func (c *boundedConn) CloseWrite() error {
	half, ok := c.Conn.(interface{ CloseWrite() error }) // sockets of both kinds have it
	if !ok {
		return errors.ErrUnsupported
	}
	return half.CloseWrite()
}
