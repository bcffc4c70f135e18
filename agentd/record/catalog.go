package record

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"holon/responses"
)

// Bounds of the index of items: how many ids it holds, and how many bytes of
// trajectories are read for it when a store is opened, newest first.
const (
	maxIndexedItems = 50_000
	maxIndexedBytes = 64 << 20
)

// catalog has every stored response and its continuations. It is built from
// the files once, newest first, and kept up to date by commits. Retention
// depends on it being whole; all else works without.
type catalog struct {
	building sync.Mutex // held while the files are read
	whole    atomic.Bool

	mu       sync.Mutex
	entries  map[string]entry
	bytes    int64             // of all entries
	children map[string]int    // stored and running responses that continue this one
	running  map[string]string // response id → the one it continues
	hidden   map[string]bool   // deleted, but a descendant's history
	items    map[string]owner  // item id → response
	order    []string          // ids of items, a ring once it is full
	next     int               // where the ring goes on
}

// entry is what is known of a stored response.
type entry struct {
	previous string
	turnID   string
	created  time.Time
	bytes    int64
}

// owner is the response in which an item is found.
type owner struct {
	response string
	output   bool // rather than input, which a client may have made up
	left     bool // out of the conversation: the response shows it, and no later request has it
}

func newCatalog() *catalog {
	return &catalog{
		entries: make(map[string]entry), children: make(map[string]int), running: make(map[string]string),
		hidden: make(map[string]bool), items: make(map[string]owner),
	}
}

// add takes in a stored response, whose file has so many bytes. The caller holds mu.
func (c *catalog) add(id string, h Header, bytes int64) {
	if _, ok := c.entries[id]; ok {
		return
	}
	e := entry{previous: h.PreviousResponseID, turnID: h.TurnID, created: h.CreatedAt, bytes: bytes}
	c.entries[id] = e
	c.bytes += e.bytes
	if e.previous != "" {
		c.children[e.previous]++
	}
}

// remove removes a response that no other continues. The caller holds mu.
func (c *catalog) remove(id string) {
	if e, ok := c.entries[id]; ok {
		c.unlink(e.previous)
		c.bytes -= e.bytes
	}
	delete(c.entries, id)
	delete(c.hidden, id)
}

// unlink takes back that a response continues previous. The caller holds mu.
func (c *catalog) unlink(previous string) {
	if c.children[previous]--; c.children[previous] <= 0 {
		delete(c.children, previous)
	}
}

// isHidden tells whether the response id was deleted and is kept as history only.
func (c *catalog) isHidden(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.hidden[id]
}

// knows tells whether the stored response id was taken in.
func (c *catalog) knows(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.entries[id]
	return ok
}

// turns returns the ids of the turns whose responses are stored.
func (c *catalog) turns() map[string]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	ids := make(map[string]bool, len(c.entries))
	for _, e := range c.entries {
		ids[e.turnID] = true
	}
	return ids
}

// index notes in which response an item is. What a response put out weighs more
// than what a client sent in under the same id; else the first stays. The
// caller holds mu.
func (c *catalog) index(item string, o owner) {
	if item == "" {
		return
	}
	if before, ok := c.items[item]; ok {
		if o.output && !before.output {
			c.items[item] = o
		}
		return
	}
	if len(c.order) < maxIndexedItems {
		c.order = append(c.order, item)
	} else {
		delete(c.items, c.order[c.next])
		c.order[c.next] = item
		c.next = (c.next + 1) % maxIndexedItems
	}
	c.items[item] = o
}

// canGrow reports whether the index of items can still grow.
func (c *catalog) canGrow() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.order) < maxIndexedItems
}

// Catalog reads what is stored, unless that was done already: afterwards every
// response is known to retention and the newest items to Item. It may take
// seconds when there are many, and is done in the background by Maintain.
// Responses that are committed meanwhile are not missed. When ctx ends it stops,
// and the next call begins anew.
func (s *Store) Catalog(ctx context.Context) error {
	c := s.catalog
	c.building.Lock()
	defer c.building.Unlock()
	if c.whole.Load() {
		return nil
	}
	budget := int64(maxIndexedBytes)
	for _, sub := range []string{"responses", "deleted"} {
		ids, err := s.list(sub)
		if err != nil {
			return err
		}
		slices.Sort(ids) // ids begin with their time
		slices.Reverse(ids)
		for _, id := range ids {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err := s.catalogue(filepath.Join(s.dir, sub, id+".ndjson"), id, sub == "responses",
				&budget); err != nil {
				return err
			}
		}
	}
	c.whole.Store(true)
	return nil
}

// list returns the ids of the trajectories in a folder of the store.
func (s *Store) list(sub string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(s.dir, sub))
	if errors.Is(err, fs.ErrNotExist) { // deleted/ is made with the first
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list %s responses: %w", sub, err)
	}
	var ids []string
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), ".ndjson")
		if ok && e.Type().IsRegular() && responses.CheckID("response_id", id) == nil {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// catalogue takes in one file, with its items while budget lasts. A damaged file is left out: no response can continue
// it, and nothing removes it.
func (s *Store) catalogue(path, id string, visible bool, budget *int64) error {
	c := s.catalog
	stored := &Stored{headOnly: !visible || *budget <= 0 || !c.canGrow()}
	read, err := stored.read(path)
	switch {
	case errors.Is(err, ErrNotFound), errors.Is(err, errDamaged):
		return nil
	case err != nil:
		return err
	}
	*budget -= read
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, err := os.Lstat(path); err != nil { // it was removed or deleted meanwhile
		return nil
	}
	c.add(id, stored.Header, stored.size)
	var shown []responses.Item
	if stored.Response != nil {
		shown = stored.Response.Output
	}
	c.indexAll(id, slices.Concat(stored.History, stored.Input), stored.Items, shown)
	return nil
}

// indexAll notes the items of a response: those that it was given and those that it made, which are the conversation,
// and those that it shows. The caller holds mu.
func (c *catalog) indexAll(response string, given, made, shown []responses.Item) {
	for _, item := range given {
		c.index(item.ItemID(), owner{response: response})
	}
	for _, item := range made {
		c.index(item.ItemID(), owner{response: response, output: true})
	}
	for _, item := range shown { // unless the conversation has it
		c.index(item.ItemID(), owner{response: response, output: true, left: true})
	}
}

// Item returns a stored item by its id, from whichever stored response holds
// it; that of a deleted response is not found. Known are the newest items, up
// to 50,000 and, of those stored by an earlier process, as many as the newest
// 64 MiB of responses hold. It returns ErrNotFound for any other, and nil for one that a
// response shows but its conversation leaves out: an answer that broke off and was made anew, or that was empty.
func (s *Store) Item(ctx context.Context, id string) (responses.Item, error) {
	o, ok, err := s.find(ctx, id)
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, ErrNotFound
	case o.left:
		return nil, nil //nolint:nilnil // there is nothing to find, and nothing wrong
	}
	// A client names several items of one response, so its conversation is kept;
	// of equal ids the last is that of this response.
	items, _, err := s.Chain(o.response)
	if err != nil {
		return nil, err
	}
	for _, item := range slices.Backward(items) {
		if item.ItemID() == id {
			return item, nil
		}
	}
	return nil, ErrNotFound
}

// Left reports whether Item has nothing of an item since its conversation leaves it out. It is false for unknown ones.
func (s *Store) Left(ctx context.Context, id string) (bool, error) {
	if id == "" {
		return false, nil
	}
	o, _, err := s.find(ctx, id)
	return o.left, err
}

// find returns the response in which an item is found.
func (s *Store) find(ctx context.Context, id string) (o owner, ok bool, err error) {
	if o, ok = s.catalog.owner(id); !ok {
		err = s.Catalog(ctx) // returns at once when it was read before
		o, ok = s.catalog.owner(id)
	}
	return o, ok, err
}

// owner is find among what was read.
func (c *catalog) owner(item string) (o owner, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o, ok = c.items[item]
	return o, ok
}
