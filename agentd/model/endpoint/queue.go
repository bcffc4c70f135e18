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
// bounded.
//
// Errors are *model.Error values, or ErrStopped when the reader wants no more
// events. Use it from one goroutine.
type ItemQueue struct {
	yield   func(model.Event) bool
	open    []*QueuedItem // not yet passed on to their end, in order of their beginning
	waiting int           // bytes
}

// NewItemQueue returns a queue that passes events on to yield.
func NewItemQueue(yield func(model.Event) bool) *ItemQueue { return &ItemQueue{yield: yield} }

// Begin adds an item, with its first event, behind all others.
func (q *ItemQueue) Begin(it *QueuedItem, begin model.Event) error {
	it.begin = begin
	q.open = append(q.open, it)
	if len(q.open) == 1 {
		return q.Emit(begin)
	}
	return nil
}

// Push passes an event of an item on, or keeps it until the earlier items have
// ended. The item must have begun and not ended.
func (q *ItemQueue) Push(it *QueuedItem, ev model.Event) error {
	if q.open[0] == it {
		return q.Emit(ev)
	}
	if q.waiting += sizeOf(ev); q.waiting > maxWaiting {
		return Malformed("the provider mixes its items too much: more than %d MiB wait", maxWaiting>>20)
	}
	it.waiting = append(it.waiting, ev)
	return nil
}

// End ends an item. If it was the oldest, the waiting events of the next items
// are passed on.
func (q *ItemQueue) End(it *QueuedItem) error {
	it.ended = true
	for len(q.open) > 0 && q.open[0].ended {
		q.open = q.open[1:]
		if len(q.open) == 0 {
			return nil
		}
		next := q.open[0]
		if err := q.Emit(next.begin); err != nil {
			return err
		}
		for _, ev := range next.waiting {
			q.waiting -= sizeOf(ev)
			if err := q.Emit(ev); err != nil {
				return err
			}
		}
		next.waiting = nil
	}
	return nil
}

// Emit passes on an event that belongs to no item, such as the end of the answer.
func (q *ItemQueue) Emit(ev model.Event) error {
	if !q.yield(ev) {
		return ErrStopped
	}
	return nil
}

// sizeOf estimates the memory that a waiting event takes.
func sizeOf(ev model.Event) int {
	n := eventSize + len(ev.Text)
	for _, p := range ev.Logprobs {
		n += eventSize * (1 + len(p.TopLogprobs))
	}
	return n
}
