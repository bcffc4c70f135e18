// Package order puts the items of an answer one after the other. Providers mix
// them, a piece of this and a piece of that; a model.Transport must not.
//
// The invariant: the oldest item that has not ended is passed on as it comes,
// later ones wait for it, and what waits is bounded.
package order

import (
	"fmt"

	"holon/agentd/model"
	"holon/agentd/model/endpoint"
	"holon/responses"
)

const (
	maxWaiting = 32 << 20 // bytes that wait for an earlier item to end
	eventSize  = 256      // about what a waiting event costs beside its text
)

// Item is the place of an item in a Queue. The zero value is ready for Begin.
type Item struct {
	begin   model.Event
	waiting []model.Event
	ended   bool
}

// Ended reports whether the item has ended.
func (it *Item) Ended() bool { return it.ended }

// Kind is the kind of event that began the item, 0 before.
func (it *Item) Kind() model.EventKind { return it.begin.Kind }

// Queue orders the events of one answer. Its errors are *model.Error values, or
// endpoint.ErrStopped when the reader wants no more. Use it from one goroutine.
type Queue struct {
	yield   func(model.Event) bool
	open    []*Item // not yet passed on to their end, in order of their beginning
	waiting int     // bytes
}

// New returns a queue that passes events on to yield.
func New(yield func(model.Event) bool) *Queue { return &Queue{yield: yield} }

// Begin begins an item with its event, behind all others.
func (q *Queue) Begin(it *Item, begin model.Event) error {
	it.begin = begin
	q.open = append(q.open, it)
	if len(q.open) == 1 {
		return q.Emit(begin)
	}
	return nil
}

// Push passes an event of an item on, or keeps it until the items before have
// ended. The item must have begun and not ended.
func (q *Queue) Push(it *Item, ev model.Event) error {
	if q.open[0] == it {
		return q.Emit(ev)
	}
	if q.waiting += sizeOf(ev); q.waiting > maxWaiting {
		return &model.Error{Kind: model.KindProtocol, Code: responses.CodeModelError,
			Message: fmt.Sprintf("the provider mixes its items too much: more than %d MiB wait", maxWaiting>>20)}
	}
	it.waiting = append(it.waiting, ev)
	return nil
}

// End ends an item, and passes on what the next has gathered when it was the
// oldest.
func (q *Queue) End(it *Item) error {
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

// Emit passes on an event of no item, such as the answer's end.
func (q *Queue) Emit(ev model.Event) error {
	if !q.yield(ev) {
		return endpoint.ErrStopped
	}
	return nil
}

// sizeOf returns about how much memory a waiting event takes.
func sizeOf(ev model.Event) int {
	n := eventSize + len(ev.Text)
	for _, p := range ev.Logprobs {
		n += eventSize * (1 + len(p.TopLogprobs))
	}
	return n
}
