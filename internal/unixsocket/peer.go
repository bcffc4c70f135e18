package unixsocket

import (
	"fmt"
	"net"
)

// PeerPID returns the number of the process at the other end of conn, as this
// process would see it: 0 for one outside this process's PID namespace. The kernel
// records it when the connection is made: of a client the process that called
// connect, of a server the one that called listen. Neither can change it later, nor
// does passing the descriptor on. Only Unix sockets have it; for TCP the kernel
// would answer 0 too, so any other connection is an error.
func PeerPID(conn net.Conn) (pid int, err error) {
	raw, ok := conn.(*net.UnixConn)
	if !ok {
		return 0, fmt.Errorf("a %T has no peer credentials", conn)
	}
	control, err := raw.SyscallConn()
	if err != nil {
		return 0, err
	}
	if ctlErr := control.Control(func(fd uintptr) { pid, err = peerPID(int(fd)) }); ctlErr != nil {
		return 0, ctlErr
	}
	if err != nil {
		return 0, fmt.Errorf("read the credentials of a socket's peer: %w", err)
	}
	return pid, nil
}
