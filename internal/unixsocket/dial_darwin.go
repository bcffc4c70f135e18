package unixsocket

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
)

// Dial connects to the Unix socket at path, which has to be a socket and not a link to one. macOS has no descriptor
// that stays on the file that was looked at, so this holds only in a directory that no one else may write to. No
// container can: none shares a directory with this system. Errors are *net.OpError with Op "dial".
func Dial(ctx context.Context, path string) (net.Conn, error) {
	info, err := os.Lstat(path)
	if err == nil && info.Mode().Type() != fs.ModeSocket {
		err = errors.New("it is a link or a file, not a socket")
	}
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: "unix", Addr: &net.UnixAddr{Name: path, Net: "unix"}, Err: err}
	}
	var d net.Dialer
	return d.DialContext(ctx, "unix", path)
}
