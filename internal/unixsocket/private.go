package unixsocket

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// listenPrivately is Listen where only the name of a socket can be given a mode: until it has the mode, it is in a
// directory next to path that no other user may enter. A process that is killed meanwhile leaves that directory.
func listenPrivately(ctx context.Context, path string) (*Listener, error) {
	dir := filepath.Dir(path)
	if longest := max(len(path), len(dir)+len("/4294967295/s")); longest > MaxPath {
		return nil, fmt.Errorf("the socket path has %d bytes and the system allows %d", longest, MaxPath)
	}
	if err := removeStale(ctx, path); err != nil {
		return nil, err
	}
	private, err := os.MkdirTemp(dir, "") // with mode 0700
	if err != nil {
		return nil, fmt.Errorf("make a directory for the socket: %w", err)
	}
	defer os.RemoveAll(private) // one that is left does no harm
	temp := filepath.Join(private, "s")
	var config net.ListenConfig
	l, err := config.Listen(ctx, "unix", temp)
	if err != nil {
		return nil, err
	}
	listener := l.(*net.UnixListener) // Listen returns this type for this network
	listener.SetUnlinkOnClose(false)  // Remove checks first whose file it is
	var st unix.Stat_t
	if err = os.Chmod(temp, 0o600); err == nil {
		err = unix.Lstat(temp, &st)
	}
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		return nil, fmt.Errorf("put the socket in place: %w", errors.Join(err, l.Close()))
	}
	return &Listener{UnixListener: listener, path: path, dev: uint64(st.Dev), ino: st.Ino}, nil
}
