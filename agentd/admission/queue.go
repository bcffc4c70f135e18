// Package admission decides when a turn may run: a bounded number at once, one of
// each session, and the others in the order in which they came. A turn that must
// wait for its own session does not hold up those of other sessions.
package admission

import (
	"context"
	"slices"
	"sync"

	"holon/responses"
)

// Queue admits turns. It is safe for concurrent use.
type Queue struct {
	limit    int // turns at once
	maxQueue int // turns that may wait

	mu      sync.Mutex
	busy    map[string]bool // sessions with a running turn
	queue   []*Ticket
	running int
}

// Ticket is a turn's place in a Queue.
type Ticket struct {
	session string
	start   chan struct{} // closed when the turn may run
}

// NewQueue returns a queue that runs limit turns at once while maxQueue may wait.
func NewQueue(limit, maxQueue int) *Queue {
	return &Queue{limit: limit, maxQueue: maxQueue, busy: make(map[string]bool)}
}

// Admit takes a turn of session in. Its ticket is started when the turn need not
// wait. Admit refuses with queue_full.
func (q *Queue) Admit(session string) (*Ticket, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	t := &Ticket{session: session, start: make(chan struct{})}
	q.queue = append(q.queue, t)
	q.dispatch()
	if t.Started() || len(q.queue) <= q.maxQueue {
		return t, nil
	}
	q.queue = q.queue[:len(q.queue)-1]
	return nil, &responses.Error{Type: responses.TypeTooManyRequests, Code: responses.CodeQueueFull,
		Message: "the queue of turns is full",
		Hint:    "try again when a running turn has ended, or raise --queue-limit or --concurrency"}
}

// Wait returns nil when t may run, or ctx's cause when ctx ended first; t has
// then left the queue.
func (q *Queue) Wait(ctx context.Context, t *Ticket) error {
	select {
	case <-t.start:
		return nil
	case <-ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if t.Started() {
		return nil // both happened; the turn runs and sees its context
	}
	q.remove(t)
	return context.Cause(ctx)
}

// Leave ends a turn, whether it was started or waits, and lets others in.
func (q *Queue) Leave(t *Ticket) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !t.Started() {
		q.remove(t)
		return
	}
	delete(q.busy, t.session)
	q.running--
	q.dispatch()
}

// Load returns how many turns run and wait.
func (q *Queue) Load() (running, queued int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.running, len(q.queue)
}

// remove takes t out of those that wait. The caller holds mu.
func (q *Queue) remove(t *Ticket) {
	q.queue = slices.DeleteFunc(q.queue, func(other *Ticket) bool { return other == t })
}

// dispatch starts every turn that may start. The caller holds mu.
func (q *Queue) dispatch() {
	q.queue = slices.DeleteFunc(q.queue, func(t *Ticket) bool {
		if q.running >= q.limit || q.busy[t.session] {
			return false
		}
		q.busy[t.session] = true
		q.running++
		close(t.start)
		return true
	})
}

// Started reports whether the turn may run.
func (t *Ticket) Started() bool {
	select {
	case <-t.start:
		return true
	default:
		return false
	}
}
