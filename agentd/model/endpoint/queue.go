package endpoint

import "holon/agentd/model"

const (
	maxWaiting = 32 << 20 // bytes that wait for an earlier item to end
	eventSize  = 256      // estimated memory of a waiting event without its text
)

// QueuedItem is the state of one item in an [ItemQueue]. The zero value is ready
// for Begin.
type QueuedItem struct {
	begin   model.Event
	waiting []model.Event
	ended   bool
}

// Ended reports whether the item has ended.
func (it *QueuedItem) Ended() bool { return it.ended }

// Kind is the kind of the event that began the item, 0 before that.
func (it *QueuedItem) Kind() model.EventKind { return it.begin.Kind }

// ItemQueue puts the items of one answer one after the other. Providers may
// interleave them; a model.Transport must not. The oldest item that has not ended
// is passed on as it arrives, later items wait for it, and the waiting events are
// bounded. Use it from one goroutine.
//
// It keeps the first failure of reading the answer, its own or one that Fail reports, and passes nothing on after it:
// so what reads an answer need not look for a failure before its end.
type ItemQueue struct {
	yield   func(model.Event) bool
	open    []*QueuedItem // not yet passed on to their end, in order of their beginning
	waiting int           // bytes
	err     error
}

// NewItemQueue returns a queue that passes events on to yield.
func NewItemQueue(yield func(model.Event) bool) *ItemQueue { return &ItemQueue{yield: yield} }

// Err returns the first failure: a *model.Error, ErrStopped when the reader wants no more events, or nil.
func (q *ItemQueue) Err() error { return q.err }

// Fail reports a failure. nil is none.
func (q *ItemQueue) Fail(err error) {
	if q.err == nil {
		q.err = err
	}
}

// Begin adds an item, with its first event, behind all others.
func (q *ItemQueue) Begin(it *QueuedItem, begin model.Event) {
	it.begin = begin
	q.open = append(q.open, it)
	if len(q.open) == 1 {
		q.Emit(begin)
	}
}

// Push passes an event of an item on, or keeps it until the earlier items have
// ended. The item must have begun and not ended.
func (q *ItemQueue) Push(it *QueuedItem, ev model.Event) {
	switch {
	case q.err != nil:
		return
	case q.open[0] == it:
		q.Emit(ev)
		return
	}
	if q.waiting += sizeOf(ev); q.waiting > maxWaiting {
		q.Fail(Malformed("the provider mixes its items too much: more than %d MiB wait", maxWaiting>>20))
		return
	}
	it.waiting = append(it.waiting, ev)
}

// End ends an item. If it was the oldest, the waiting events of the next items
// are passed on.
func (q *ItemQueue) End(it *QueuedItem) {
	it.ended = true
	for len(q.open) > 0 && q.open[0].ended {
		q.open = q.open[1:]
		if len(q.open) == 0 {
			return
		}
		next := q.open[0]
		q.Emit(next.begin)
		for _, ev := range next.waiting {
			q.waiting -= sizeOf(ev)
			q.Emit(ev)
		}
		next.waiting = nil
	}
}

// Emit passes on an event that belongs to no item, such as the end of the answer.
func (q *ItemQueue) Emit(ev model.Event) {
	if q.err == nil && !q.yield(ev) {
		q.err = ErrStopped
	}
}

// sizeOf estimates the memory that a waiting event takes.
func sizeOf(ev model.Event) int {
	n := eventSize + len(ev.Text)
	for _, p := range ev.Logprobs {
		n += eventSize * (1 + len(p.TopLogprobs))
	}
	return n
}
