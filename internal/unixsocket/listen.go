// Package unixsocket listens on Unix sockets and connects to them, in directories
// that other programs may write to.
//
// The invariant: a socket that it makes has mode 0600 from the first moment and
// accepts connections from the moment it is at its path; only a socket on which
// no process listens is replaced; only the socket's own file is removed; and no
// link at a socket's path is followed.
package unixsocket

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ErrOccupied reports that a path can't be taken: another server answers there, or
// may do so, or it is not a socket.
var ErrOccupied = errors.New("the path is occupied")

// Listener is a listener on a Unix socket and the file that stands for it. Close
// leaves the file in place, Remove removes it.
type Listener struct {
	*net.UnixListener
	path     string
	dev, ino uint64
}

// Remove removes the socket's file, unless another server has put its own there.
func (l *Listener) Remove() error {
	var now unix.Stat_t
	err := unix.Lstat(l.path, &now)
	if err == nil && (uint64(now.Dev) != l.dev || now.Ino != l.ino) {
		return nil
	}
	if err == nil {
		err = unix.Unlink(l.path)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the socket: %w", err)
	}
	return nil
}

// removeStale removes the socket at path if no process listens on it.
func removeStale(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at the socket: %w", err)
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%w: something that is not a socket is there", ErrOccupied)
	}
	dialing, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	conn, err := Dial(dialing, path)
	if err == nil {
		return errors.Join(fmt.Errorf("%w: another server answers there", ErrOccupied), conn.Close())
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	// Only a refused connection proves that no process listens. The full queue of a
	// busy server, for one, gives another error.
	if !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: ask which process serves the socket: %w", ErrOccupied, err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the stale socket: %w", err)
	}
	return nil
}
