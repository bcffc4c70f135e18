package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// socketHost is the made-up host of requests over a socket.
const socketHost = "agentd"

// maxSocketPath is what fits into sockaddr_un on Linux, with its final NUL.
const maxSocketPath = 107

// Unix returns a client for the server that listens on the Unix socket at path.
// Nothing is dialled until the first call. The client can reach nothing else:
// its dialer refuses every other address, and it uses no proxy.
func Unix(path string) *Client { return UnixPeer(path, nil) }

// UnixPeer is Unix for a directory in which others could put a server of their own:
// check is asked about each connection before anything is sent on it, and its error
// is that no server answers.
func UnixPeer(path string, check func(net.Conn) error) *Client {
	transport := &http.Transport{
		DialContext:            dialSocket(path, check),
		DisableCompression:     true,
		MaxIdleConnsPerHost:    8,
		MaxResponseHeaderBytes: 64 << 10,
	}
	return newClient("http://"+socketHost, path, "start it with agentd serve --socket "+path,
		http.Client{Transport: transport})
}

type dialer func(ctx context.Context, network, addr string) (net.Conn, error)

func dialSocket(path string, check func(net.Conn) error) dialer {
	return func(ctx context.Context, _, addr string) (net.Conn, error) {
		if addr != socketHost+":80" {
			return nil, &net.OpError{Op: "dial", Net: "unix",
				Err: fmt.Errorf("this client reaches the socket %s only, not %.100q", path, addr)}
		}
		conn, err := DialSocket(ctx, path)
		if err != nil || check == nil {
			return conn, err
		}
		if err := check(conn); err != nil {
			at := &net.UnixAddr{Name: path, Net: "unix"}
			return nil, errors.Join(&net.OpError{Op: "dial", Net: "unix", Addr: at, Err: err}, conn.Close())
		}
		return conn, nil
	}
}

// DialSocket connects to the Unix socket at path, and to nothing else: what lies
// there has to be a socket, not a link to one. Who can write to the directory, a
// container for one, could otherwise point the caller at a socket that only the
// caller may use. Errors are *net.OpError with Op "dial".
func DialSocket(ctx context.Context, path string) (net.Conn, error) {
	failed := func(err error) error {
		return &net.OpError{Op: "dial", Net: "unix", Addr: &net.UnixAddr{Name: path, Net: "unix"}, Err: err}
	}
	if len(path) > maxSocketPath {
		return nil, failed(fmt.Errorf("the socket path has %d bytes and the system allows %d; use a shorter directory",
			len(path), maxSocketPath))
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

// isDial reports whether err arose before there was a connection.
func isDial(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}
