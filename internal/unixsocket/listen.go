// Package unixsocket listens on Unix sockets and connects to them, in directories
// that other programs may write to.
//
// The invariant: a socket that it makes has mode 0600 from the first moment and
// accepts connections from the moment it is at its path; only a socket on which
// no process listens is replaced; only the socket's own file is removed; and no
// link at a socket's path is followed.
package unixsocket

import (
	"errors"
	"fmt"
	"io/fs"
	"net"

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
