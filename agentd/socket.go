package agentd

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"
)

// listenUnix serves on a Unix socket at path, mode 0600, in a directory it
// creates with mode 0700 if need be. A socket that nobody answers on is a
// leftover of a crash and is replaced; one that answers, and anything that is
// not a socket, is refused.
func listenUnix(path string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("make the socket's directory: %w", err)
	}
	if err := removeStale(path); err != nil {
		return nil, err
	}
	// The mode must be right from the first moment. Creating under another
	// name and renaming does that without touching the process's umask.
	temp := fmt.Sprintf("%s.%d", path, os.Getpid())
	if len(temp) > maxSocketPath {
		temp = filepath.Join(filepath.Dir(path), fmt.Sprint(os.Getpid()))
	}
	_ = os.Remove(temp)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: temp, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	l.SetUnlinkOnClose(false)
	if err = os.Chmod(temp, 0o600); err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, errors.Join(err, l.Close(), os.Remove(temp)))
	}
	return l, nil
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
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the stale socket: %w", err)
	}
	return nil
}
