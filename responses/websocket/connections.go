package websocket

import (
	"context"
	"errors"
	"sync"
	"time"
)

// ErrClosed says that no connection is taken any more.
var ErrClosed = errors.New("the WebSocket connections are closed")

// Connections are the open connections. The HTTP server knows nothing of a
// connection that was taken over, so they are counted and ended here.
type Connections struct {
	ctx     context.Context // of all connections
	stop    context.CancelFunc
	closing context.Context // ends when they shall end
	close   context.CancelFunc

	mu   sync.Mutex // orders enter and Close
	open sync.WaitGroup
}

// New returns an empty set of connections. Close it.
func New() *Connections {
	s := &Connections{}
	// both outlive requests and turns: connections send the ends of turns
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.closing, s.close = context.WithCancel(s.ctx)
	return s
}

// enter counts a connection; leave ends it.
func (s *Connections) enter() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing.Err() != nil {
		return ErrClosed
	}
	s.open.Add(1)
	return nil
}

func (s *Connections) leave() { s.open.Done() }

// Close ends all connections, after what they are sending at the moment but not
// later than after patience, and waits for them. No turn may be running.
func (s *Connections) Close(patience time.Duration) {
	s.mu.Lock()
	s.close()
	s.mu.Unlock()
	cut := time.AfterFunc(patience, s.stop)
	s.open.Wait()
	cut.Stop()
	s.stop()
}
