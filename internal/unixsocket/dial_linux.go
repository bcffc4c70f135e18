package unixsocket

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Dial connects to the Unix socket at path, and to nothing else: the file there has
// to be a socket, not a link to one. Otherwise a container that can write to the
// directory could point the caller at a socket that only the caller may use. Errors
// are *net.OpError with Op "dial".
func Dial(ctx context.Context, path string) (net.Conn, error) {
	failed := func(err error) error {
		return &net.OpError{Op: "dial", Net: "unix", Addr: &net.UnixAddr{Name: path, Net: "unix"}, Err: err}
	}
	if len(path) > MaxPath {
		return nil, failed(fmt.Errorf("the socket path has %d bytes and the system allows %d; use a shorter directory",
			len(path), MaxPath))
	}
	// The descriptor stays on the very file that is looked at.
	fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, failed(os.NewSyscallError("connect", err))
	}
	defer unix.Close(fd)
	var found unix.Stat_t
	if err := unix.Fstat(fd, &found); err != nil {
		return nil, failed(os.NewSyscallError("connect", err))
	}
	if found.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return nil, failed(errors.New("it is a link or a file, not a socket"))
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", "/proc/self/fd/"+strconv.Itoa(fd))
	if op, ok := errors.AsType[*net.OpError](err); ok {
		err = failed(op.Err)
	}
	return conn, err
}
