package socket

import (
	"fmt"
	"net"
	"sync"

	"holon/internal/unixsocket"
	"holon/state"
)

// codePeer is the code of the errors of Peer.Check.
const codePeer state.Code = "socket_peer_unexpected"

// Peer is the one process that a container's sockets are for: its first, agentd.
// The commands there are the same user, reach the same directories and can put a
// socket of their own where agentd's was; only the kernel's word tells them apart.
//
// Its number stays its own as long as anything in the container runs: the kernel
// ends the others with it. Methods are safe for concurrent use.
type Peer struct {
	mu     sync.Mutex
	pid    int           // 0: not known yet
	served chan struct{} // closed by Serve
}

// NewPeer returns a peer that is not known yet.
func NewPeer() *Peer { return &Peer{served: make(chan struct{})} }

// Identify says which process it is. The first call counts. No process has the number 0.
func (p *Peer) Identify(pid int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pid == 0 {
		p.pid = pid
	}
}

// Serve begins to accept the peer's connections, which wait until then. It may be called more than once.
func (p *Peer) Serve() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.served:
	default:
		close(p.served)
	}
}

// Check returns an error, with codePeer, unless the other end of conn is the
// process. Nothing may be sent to any other, and nothing of it is read.
func (p *Peer) Check(conn net.Conn) error {
	p.mu.Lock()
	want := p.pid
	p.mu.Unlock()
	if want == 0 {
		return &state.Error{Code: codePeer, Message: "the container's first process is not known yet"}
	}
	pid, err := unixsocket.PeerPID(conn)
	if err != nil {
		return &state.Error{Code: codePeer, Message: "the peer of a socket is not known", Err: err}
	}
	if pid != want {
		return &state.Error{
			Code:    codePeer,
			Message: fmt.Sprintf("the other end of the socket is process %d, not agentd, which is %d", pid, want),
			Hint:    "a command of the agent took its place, or holon runs in another PID namespace than its engine",
		}
	}
	return nil
}
