package record

import (
	"container/list"
	"sync"

	"holon/responses"
)

// maxCached bounds the conversations in memory, in bytes of their JSON and
// itemOverhead for each item: some ten that fill a large model's context.
const (
	maxCached    = 32 << 20
	itemOverhead = 256
)

// conversations caches the conversations that were used last, so that a turn does not read its history from disk again.
// The items it returns are shared and must not be changed; its slices have no spare capacity.
//
// A conversation without forks is one thread, in which every response has its place; a fork begins a new thread.
// Threads are dropped as a whole, least recently used first.
type conversations struct {
	limit int64

	mu     sync.Mutex
	places map[string]place // by response id
	recent list.List        // of *thread, the last used in front
	bytes  int64
}

// thread is the longest conversation of a line of responses.
type thread struct {
	items []responses.Item
	bytes int64
	ids   []string
	at    *list.Element
}

// place is where the conversation up to one response ends in its thread.
type place struct {
	thread *thread
	items  int
	bytes  int64
	last
}

// link is one response of a conversation: its input and what it produced.
type link struct {
	id string
	last
	items []responses.Item
	bytes int64
}

func newConversations(limit int64) *conversations {
	return &conversations{limit: limit, places: make(map[string]place)}
}

// get returns the conversation up to the response id, its last output included.
func (c *conversations) get(id string) (items []responses.Item, session string, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, ok := c.places[id]
	if !ok {
		return nil, "", false
	}
	c.recent.MoveToFront(p.thread.at)
	return p.thread.items[:p.items:p.items], p.session, true
}

// last returns where the response id is in its thread.
func (c *conversations) last(id string) (last, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, ok := c.places[id]
	return p.last, ok
}

// extend adds the response l, which continues the response previous, or begins a conversation if that is "". If
// previous is unknown, nothing is kept: the conversation is read from disk on demand.
func (c *conversations) extend(previous string, l link) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.places[l.id]; ok {
		return
	}
	p, ok := c.places[previous]
	switch {
	case previous == "":
		p.thread = c.begin(nil, 0)
	case !ok:
		return
	case p.items < len(p.thread.items): // another response continued it already
		p.thread = c.begin(p.thread.items[:p.items:p.items], p.bytes)
	default:
		c.recent.MoveToFront(p.thread.at)
	}
	t := p.thread
	t.items = append(t.items, l.items...)
	t.bytes += l.bytes
	t.ids = append(t.ids, l.id)
	c.bytes += l.bytes
	c.places[l.id] = place{thread: t, items: len(t.items), bytes: t.bytes, last: l.last}
	if t.bytes > c.limit { // it must not push everything else out
		c.drop(t)
	}
	for c.bytes > c.limit {
		c.drop(c.recent.Back().Value.(*thread))
	}
}

// begin starts a thread with a copy of items. The caller holds mu.
func (c *conversations) begin(items []responses.Item, bytes int64) *thread {
	t := &thread{items: append([]responses.Item(nil), items...), bytes: bytes}
	t.at = c.recent.PushFront(t)
	c.bytes += bytes
	return t
}

// drop forgets a thread. The caller holds mu.
func (c *conversations) drop(t *thread) {
	for _, id := range t.ids {
		delete(c.places, id)
	}
	c.recent.Remove(t.at)
	c.bytes -= t.bytes
}

// forget makes a response unknown. The responses after it stay.
func (c *conversations) forget(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.places, id)
}
