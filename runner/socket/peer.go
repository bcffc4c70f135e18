package socket

import (
	"fmt"
	"net"
	"sync"

	"holon/internal/unixsocket"
	"holon/state"
)

// CodePeer is the code of the errors of Peer.Check.
const CodePeer state.Code = "socket_peer_unexpected"

// Peer is the one process that a container's sockets are for: its first, agentd.
// The commands there are the same user, reach the same directories and can put a
// socket of their own where agentd's was; only the kernel's word tells them apart.
//
// Its number stays its own as long as anything in the container runs: the kernel
// ends the others with it. Methods are safe for concurrent use.
type Peer struct {
	known chan struct{} // closed once pid is set
	once  sync.Once
	pid   int
}

// NewPeer returns a peer that is not known yet.
func NewPeer() *Peer { return &Peer{known: make(chan struct{})} }

// Expect makes known which process it is; of two calls the first counts. No process
// has the number 0.
func (p *Peer) Expect(pid int) {
	p.once.Do(func() {
		p.pid = pid
		close(p.known)
	})
}

// Check returns an error, with CodePeer, unless the other end of conn is the
// process. Nothing may be sent to any other, and nothing of it is read.
func (p *Peer) Check(conn net.Conn) error {
	select {
	case <-p.known:
	default:
		return &state.Error{Code: CodePeer, Message: "the container's first process is not known yet"}
	}
	pid, err := unixsocket.PeerPID(conn)
	if err != nil {
		return &state.Error{Code: CodePeer, Message: "the peer of a socket is not known", Err: err}
	}
	if pid != p.pid || pid == 0 {
		return &state.Error{
			Code:    CodePeer,
			Message: fmt.Sprintf("the other end of the socket is process %d, not agentd, which is %d", pid, p.pid),
			Hint:    "a command of the agent took its place, or holon runs in another PID namespace than its engine",
		}
	}
	return nil
}
