package unixsocket

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

	"golang.org/x/sys/unix"
)

// MaxPath is the longest path of a socket in bytes: sun_path of Linux, less its NUL.
const MaxPath = 107

// Listen listens on a Unix socket at path, in a directory that exists. A socket
// that a killed server left there is replaced. When it can't be, the error is
// ErrOccupied.
func Listen(ctx context.Context, path string) (*Listener, error) {
	if len(path) > MaxPath {
		return nil, fmt.Errorf("the socket path has %d bytes and the system allows %d", len(path), MaxPath)
	}
	if err := removeStale(ctx, path); err != nil {
		return nil, err
	}
	dir, err := unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open the socket's directory: %w", err)
	}
	defer unix.Close(dir)
	removeTemporary(path)
	temp := temporary(filepath.Base(path), os.Getpid())
	l, err := bind(ctx, dir, temp)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	err = unix.Fstatat(dir, temp, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err == nil {
		err = unix.Renameat(dir, temp, dir, filepath.Base(path))
	}
	if err != nil {
		return nil, fmt.Errorf("put the socket in place: %w", errors.Join(err, l.Close(), unix.Unlinkat(dir, temp, 0)))
	}
	return &Listener{UnixListener: l, path: path, dev: st.Dev, ino: st.Ino}, nil
}

// bind listens on a socket name in the directory dir. Linux gives the descriptor's
// mode to the file, so the file is never open to others. The socket's own name leads
// through a descriptor: every process that is connected sees it in /proc/net/unix,
// and a container must not learn where the host keeps its sockets.
func bind(ctx context.Context, dir int, name string) (*net.UnixListener, error) {
	config := net.ListenConfig{Control: func(_, _ string, conn syscall.RawConn) error {
		var chmodErr error
		err := conn.Control(func(fd uintptr) { chmodErr = unix.Fchmod(int(fd), 0o600) })
		return errors.Join(err, chmodErr)
	}}
	l, err := config.Listen(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d/%s", dir, name))
	if op, ok := errors.AsType[*net.OpError](err); ok {
		err = op.Err // the path that it names is none that somebody gave
	}
	if err != nil {
		return nil, err
	}
	listener := l.(*net.UnixListener) // Listen returns this type for this network
	listener.SetUnlinkOnClose(false)  // Remove checks first whose file it is
	return listener, nil
}

// temporary is the name of a socket of the process pid before it is at its path,
// where its name is base.
func temporary(base string, pid int) string {
	const longest = MaxPath - len("/proc/self/fd/1234567/")
	if name := base + "." + strconv.Itoa(pid); len(name) <= longest {
		return name
	}
	return strconv.Itoa(pid)
}

// removeTemporary removes the sockets of processes that were killed before they had
// put them at path. One that can't be removed does no harm.
func removeTemporary(path string) {
	entries, _ := os.ReadDir(filepath.Dir(path))
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name()[strings.LastIndexByte(e.Name(), '.')+1:])
		if err != nil || pid < 1 || e.Type() != fs.ModeSocket || temporary(filepath.Base(path), pid) != e.Name() {
			continue
		}
		if pid == os.Getpid() || errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			_ = os.Remove(filepath.Join(filepath.Dir(path), e.Name()))
		}
	}
}
