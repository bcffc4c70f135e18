package load

import (
	"context"
	"fmt"
	"sync"

	"holon/runner/control/client"
)

// Listener follows the events of an agent from the first one, across restarts and
// crashes of the daemon.
type Listener struct {
	agent  string
	cancel context.CancelFunc
	done   chan struct{}

	mu    sync.Mutex
	last  int64
	moved chan struct{} // closed by the next event
	err   error
}

// Listen follows the events of an agent until Stop.
func (s *Server) Listen(ctx context.Context, agent string) *Listener {
	ctx, cancel := context.WithCancel(ctx)
	l := &Listener{agent: agent, cancel: cancel, done: make(chan struct{}), moved: make(chan struct{})}
	go func() {
		defer close(l.done)
		for item, err := range s.Client.Follow(ctx, agent, client.Follow{Patience: Patience}) {
			if ctx.Err() != nil {
				return
			}
			if !l.take(item, err) {
				return
			}
		}
	}()
	return l
}

// take notes an event; false when something is wrong.
func (l *Listener) take(item client.Item, err error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err != nil:
		l.err = fmt.Errorf("the events of %s cannot be followed after number %d: %w", l.agent, l.last, err)
	case item.Reset != nil:
		l.err = fmt.Errorf("the events of %s were reset after number %d: %s", l.agent, l.last, item.Reset.Reason)
	case item.Event.EventSeq != l.last+1:
		l.err = fmt.Errorf("of %s, event %d came after %d", l.agent, item.Event.EventSeq, l.last)
	default:
		l.last++
	}
	close(l.moved)
	l.moved = make(chan struct{})
	return l.err == nil
}

// Through waits until the event with a number came, after all before it.
func (l *Listener) Through(ctx context.Context, seq int64) error {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	for {
		l.mu.Lock()
		last, moved, err := l.last, l.moved, l.err
		l.mu.Unlock()
		if err != nil || last >= seq {
			return err
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return fmt.Errorf("the events of %s have come to number %d, and there are %d", l.agent, last, seq)
		}
	}
}

func (l *Listener) Stop() {
	l.cancel()
	<-l.done
}
