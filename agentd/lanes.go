package agentd

import (
	"context"
	"slices"
	"sync"

	"holon/responses"
)

// lanes decides when a turn may run: at most limit turns at once, at most one
// of each session, the others in the order they came. A turn that must wait
// for its own session does not hold up those of other sessions.
type lanes struct {
	limit    int // turns at once
	maxQueue int // turns that may wait

	mu      sync.Mutex
	busy    map[string]bool // sessions with a running turn
	queue   []*ticket
	running int
}

// ticket is a turn's place in the queue. start is closed when it may run.
type ticket struct {
	session string
	start   chan struct{}
}

func newLanes(limit, maxQueue int) *lanes {
	return &lanes{limit: limit, maxQueue: maxQueue, busy: make(map[string]bool)}
}

// admit takes a turn of session in. The ticket's start is closed at once when
// the turn need not wait. It refuses with queue_full.
func (l *lanes) admit(session string) (*ticket, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := &ticket{session: session, start: make(chan struct{})}
	l.queue = append(l.queue, t)
	l.dispatch()
	if t.started() || len(l.queue) <= l.maxQueue {
		return t, nil
	}
	l.queue = l.queue[:len(l.queue)-1]
	return nil, &responses.Error{Type: responses.TypeTooManyRequests, Code: responses.CodeQueueFull,
		Message: "the queue of turns is full",
		Hint:    "try again when a running turn has ended, or raise --queue-limit or --concurrency"}
}

// wait returns nil when t may run, or ctx's cause when ctx ended first; t has
// then left the queue.
func (l *lanes) wait(ctx context.Context, t *ticket) error {
	select {
	case <-t.start:
		return nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.started() {
		return nil // both happened; the turn runs and sees its context
	}
	l.queue = slices.DeleteFunc(l.queue, func(q *ticket) bool { return q == t })
	return context.Cause(ctx)
}

// leave ends a turn that was started and lets others in.
func (l *lanes) leave(t *ticket) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.busy, t.session)
	l.running--
	l.dispatch()
}

// load returns how many turns run and wait.
func (l *lanes) load() (running, queued int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.running, len(l.queue)
}

// dispatch starts every turn that may start. The caller holds mu.
func (l *lanes) dispatch() {
	l.queue = slices.DeleteFunc(l.queue, func(t *ticket) bool {
		if l.running >= l.limit || l.busy[t.session] {
			return false
		}
		l.busy[t.session] = true
		l.running++
		close(t.start)
		return true
	})
}

func (t *ticket) started() bool {
	select {
	case <-t.start:
		return true
	default:
		return false
	}
}
