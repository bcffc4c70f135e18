// Package peercred tells which process is at the other end of a Unix socket.
//
// The kernel notes it when the connection is made: of a client the process that
// called connect, of a server the one that called listen. Neither can change it
// later, and passing the descriptor on doesn't either.
package peercred

import (
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// PID returns the number of the process at the other end of conn, as this process
// would see it: 0 for one outside this process's PID namespace. Only Unix sockets
// have one; of TCP the kernel would say 0 too.
func PID(conn net.Conn) (pid int, err error) {
	raw, ok := conn.(*net.UnixConn)
	if !ok {
		return 0, fmt.Errorf("a %T has no peer credentials", conn)
	}
	control, err := raw.SyscallConn()
	if err != nil {
		return 0, err
	}
	if ctlErr := control.Control(func(fd uintptr) {
		var cred *unix.Ucred
		if cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			pid = int(cred.Pid)
		}
	}); ctlErr != nil {
		return 0, ctlErr
	}
	if err != nil {
		return 0, fmt.Errorf("ask who is at the other end of a socket: %w", err)
	}
	return pid, nil
}
