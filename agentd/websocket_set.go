package agentd

import (
	"context"
	"sync"
	"time"

	"holon/responses"
)

// sockets are the open WebSocket connections. The HTTP server knows nothing of
// a connection that was taken over, so they are counted and ended here.
type sockets struct {
	ctx     context.Context // of all connections
	stop    context.CancelFunc
	closing chan struct{} // closed when they shall end

	mu     sync.Mutex
	closed bool
	open   sync.WaitGroup
}

func newSockets() *sockets {
	s := &sockets{closing: make(chan struct{})}
	// outlives requests and the turns' own context: they tell the ends of turns
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s
}

// enter counts a connection; leave ends it.
func (s *sockets) enter() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return draining()
	}
	s.open.Add(1)
	return nil
}

func (s *sockets) leave() { s.open.Done() }

// close ends all connections, after what they are telling at the moment but not
// later than after patience, and waits for them. No turn may be running.
func (s *sockets) close(patience time.Duration) {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.closing)
	}
	s.mu.Unlock()
	cut := time.AfterFunc(patience, s.stop)
	s.open.Wait()
	cut.Stop()
	s.stop()
}

func draining() *responses.Error {
	return &responses.Error{Type: responses.TypeServerError, Code: responses.CodeDraining,
		Message: "the server is shutting down and takes no new turns", Hint: "send the request to a new instance"}
}
