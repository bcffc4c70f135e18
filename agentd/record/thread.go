package record

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"holon/responses"
	"holon/responses/turns"
)

// Thread is a line of turns, each of which continues the one before. The facts of its turns have one sequence, in
// which the next turn goes on.
type Thread struct {
	ID    string
	Facts int64 // that its turns have
}

// last is the last turn of a thread, as far as a response of it says.
type last struct {
	Thread
	session, turn string
	continued     bool // by a response that was removed since
}

// pin registers a running turn. The response that it continues must exist and may not be removed from now on, unless
// the new one is not to be stored: that needs its history no more. first says that no stored response continues it yet.
func (s *Store) pin(h Header) (first bool, err error) {
	parent := h.PreviousResponseID
	if !h.Response.Store {
		parent = ""
	}
	if parent != "" {
		if err := s.catalogueAfter(parent); err != nil {
			return false, err
		}
	}
	c := s.catalog
	c.mu.Lock()
	defer c.mu.Unlock()
	if parent != "" {
		if c.hidden[parent] {
			return false, ErrNotFound
		}
		if _, err := os.Lstat(s.donePath(parent)); err != nil {
			return false, ErrNotFound
		}
		c.children[parent]++
	}
	c.running[h.ResponseID] = parent
	return c.children[parent] == 1, nil
}

// unpin takes a pin back.
func (s *Store) unpin(h Header) {
	c := s.catalog
	c.mu.Lock()
	defer c.mu.Unlock()
	if parent, ok := c.running[h.ResponseID]; ok {
		delete(c.running, h.ResponseID)
		if parent != "" {
			c.unlink(parent)
		}
	}
}

// join finds the thread of a turn that has none yet. That is the thread of the response that it continues, if the turn
// is the first to do so, is of the same session and is stored. Any other turn begins a thread of its own: two that
// continue one response must not give the same numbers, also when the response of the first was deleted since.
func (s *Store) join(h *Header, first bool) error {
	if h.ThreadID != "" {
		return nil
	}
	if h.PreviousResponseID != "" {
		was, err := s.lastOf(h.PreviousResponseID)
		if err != nil && !errors.Is(err, ErrNotFound) { // an unstored turn has the history of one that was deleted
			return err
		}
		if first && !was.continued && h.Response.Store && was.ID != "" && was.session == h.SessionID {
			h.ThreadID, h.Facts = was.ID, was.Facts
			return nil
		}
		if was.ID != "" {
			h.Fork = &turns.Fork{ThreadID: was.ID, TurnID: was.turn, ResponseID: h.PreviousResponseID}
		}
	}
	h.ThreadID = responses.NewID(responses.PrefixThread)
	return nil
}

// lastOf returns where the response id is in its thread. It was read for its conversation a moment ago.
func (s *Store) lastOf(id string) (last, error) {
	if was, ok := s.cache.last(id); ok {
		return was, nil
	}
	stored := &Stored{}
	_, err := stored.read(s.donePath(id))
	return stored.last(), err
}

func (s *Stored) last() last {
	return last{Thread{s.Header.ThreadID, s.Facts}, s.Header.SessionID, s.Header.TurnID, s.Continued}
}

// catalogueAfter takes in what may continue the response id while the catalog is not whole: ids begin with their
// time.
func (s *Store) catalogueAfter(id string) error {
	if s.catalog.whole.Load() {
		return nil
	}
	var items int64 // none
	for _, sub := range []string{"responses", "deleted"} {
		ids, err := s.list(sub)
		if err != nil {
			return err
		}
		for _, later := range ids {
			if later <= id || s.catalog.knows(later) {
				continue
			}
			if err := s.catalogue(filepath.Join(s.dir, sub, later+".ndjson"), later, false, &items); err != nil {
				return err
			}
		}
	}
	return nil
}

// RuntimeID names the installation that the state directory belongs to. It is made once.
func (s *Store) RuntimeID() string { return s.runtime }

// identify reads the id of the installation from the file that locks the store, or makes it.
func (s *Store) identify() error {
	data := make([]byte, 128)
	n, err := s.lock.ReadAt(data, 0)
	if n == 0 && err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the id of the installation: %w", err)
	}
	id, _, whole := strings.Cut(string(data[:n]), "\n")
	if whole && responses.CheckID("runtime_id", id) == nil {
		s.runtime = id
		return nil
	}
	s.runtime = responses.NewID(responses.PrefixRuntime)
	if _, err = s.lock.WriteAt([]byte(s.runtime+"\n"), 0); err == nil {
		err = s.lock.Sync()
	}
	if err != nil {
		return fmt.Errorf("write the id of the installation: %w", err)
	}
	return nil
}
