package record

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"holon/internal/durable"
	"holon/responses"
	"holon/responses/turns"
)

// ErrRunning is returned by Delete for a response whose turn is not over.
var ErrRunning = errors.New("the response is still being made")

// Retention says how long responses are stored. Zero means no bound.
//
// Conversations are removed from their ends: a response goes when no response
// that stays, and no running turn, continues it, those least recent first.
// The age of a conversation is thus that of its last response, and what is
// stored may exceed a bound by the history of what is kept.
type Retention struct {
	MaxAge   time.Duration
	MaxCount int
	MaxBytes int64
}

// What one step of a sweep removes at most, how long it rests until the next
// one, and how often a sweep is begun.
const (
	sweepStep  = 200
	sweepRest  = 100 * time.Millisecond
	sweepEvery = 10 * time.Minute
)

// Delete makes a response unknown, durably: it can neither be read nor
// continued. As long as a stored response or a running turn continues it, its
// content stays as their history; Sweep removes it afterwards. It returns
// ErrNotFound for what is not stored, also when it was deleted before, and
// ErrRunning while the turn is not over.
func (s *Store) Delete(id string) error {
	if responses.CheckID("response_id", id) != nil {
		return ErrNotFound
	}
	c := s.catalog
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, running := c.running[id]; running {
		return ErrRunning
	}
	if err := os.MkdirAll(filepath.Join(s.dir, "deleted"), 0o770); err != nil {
		return fmt.Errorf("delete response: %w", err)
	}
	switch err := os.Rename(s.donePath(id), s.deletedPath(id)); {
	case errors.Is(err, fs.ErrNotExist):
		if _, err := os.Lstat(s.openPath(id)); err == nil { // it broke off and is not settled yet
			return ErrRunning
		}
		return ErrNotFound
	case err != nil:
		return fmt.Errorf("delete response: %w", err)
	}
	c.hidden[id] = true
	select {
	case s.wake <- struct{}{}:
	default: // Maintain was woken before
	}
	return errors.Join(durable.SyncDir(filepath.Join(s.dir, "deleted")),
		durable.SyncDir(filepath.Join(s.dir, "responses")))
}

// Maintain sweeps at once and then from time to time, until ctx ends.
func (s *Store) Maintain(ctx context.Context, r Retention, now func() time.Time, log *slog.Logger) {
	for {
		more, err := s.Sweep(ctx, r, now())
		if err != nil && ctx.Err() == nil {
			log.Warn("stored responses could not be cleaned up", "err", err)
		}
		rest := sweepEvery
		if more && err == nil {
			rest = sweepRest
		}
		select {
		case <-time.After(rest):
		case <-s.wake:
		case <-ctx.Done():
			return
		}
	}
}

// StoredBytes returns the size of the stored responses, deleted ones included that
// others continue. It reads no disk: until the files were read once, it knows of
// those that this process read or stored.
func (s *Store) StoredBytes() int64 {
	s.catalog.mu.Lock()
	defer s.catalog.mu.Unlock()
	return s.catalog.bytes
}

// Sweep removes responses that were deleted or that r lets go, with the notes
// of their turns, at most a few hundred. more says whether there is more to
// do. The directories of turns are the caller's and stay.
func (s *Store) Sweep(ctx context.Context, r Retention, now time.Time) (more bool, err error) {
	if err := s.Catalog(ctx); err != nil {
		return false, err
	}
	ids := s.expired(r, now)
	var errs []error
	for _, id := range ids {
		errs = append(errs, s.remove(id))
	}
	if len(ids) < sweepStep && r.MaxAge > 0 {
		errs = append(errs, s.sweepNotes(now.Add(-r.MaxAge)))
	}
	return len(ids) == sweepStep, errors.Join(errs...)
}

// expired lists responses that may go now, at most sweepStep, the least recent
// first and each before the one that it continues.
func (s *Store) expired(r Retention, now time.Time) []string {
	c := s.catalog
	c.mu.Lock()
	defer c.mu.Unlock()
	var ends []string
	for id := range c.entries {
		if c.children[id] == 0 {
			ends = append(ends, id)
		}
	}
	slices.SortFunc(ends, func(a, b string) int {
		return cmp.Or(c.entries[a].created.Compare(c.entries[b].created), cmp.Compare(a, b))
	})
	count, bytes := len(c.entries), c.bytes
	freed := make(map[string]int) // children of a response that are on the list
	var ids []string
	for _, id := range ends {
		for len(ids) < sweepStep { // up to the first that stays: what a response continues is older than it
			e, stored := c.entries[id]
			old := r.MaxAge > 0 && now.Sub(e.created) > r.MaxAge
			over := r.MaxCount > 0 && count > r.MaxCount || r.MaxBytes > 0 && bytes > r.MaxBytes
			if !stored || freed[id] != c.children[id] || !c.hidden[id] && !old && !over {
				break
			}
			ids = append(ids, id)
			count, bytes, id = count-1, bytes-e.bytes, e.previous
			freed[id]++
		}
	}
	return ids
}

// remove removes a response's file and note, unless it got a child meanwhile.
func (s *Store) remove(id string) error {
	c := s.catalog
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries[id]
	if !ok || c.children[id] > 0 {
		return nil
	}
	path := s.donePath(id)
	if c.hidden[id] {
		path = s.deletedPath(id)
	}
	if err := s.noteContinued(e.previous, c.hidden[id]); err != nil {
		return fmt.Errorf("remove response: %w", err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove response: %w", err)
	}
	c.remove(id)
	s.cache.forget(id)
	if responses.CheckID("turn_id", e.turnID) != nil { // a damaged header
		return nil
	}
	if err := os.Remove(filepath.Join(s.dir, "turns", e.turnID)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the note of a turn: %w", err)
	}
	return nil
}

// noteContinued notes in the file of the response id that one which is removed now has continued it, unless nothing can
// continue it any more. It is made durable for one that was deleted; what retention removes is older than what stays,
// so the response itself goes next. The caller holds the catalog's mu.
func (s *Store) noteContinued(id string, deleted bool) error {
	if _, ok := s.catalog.entries[id]; !ok || s.catalog.hidden[id] {
		return nil
	}
	f, err := os.OpenFile(s.donePath(id), os.O_WRONLY|os.O_APPEND|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	if _, err = f.WriteString(turns.ContinuedMark); err == nil && deleted {
		err = f.Sync()
	}
	s.cache.forget(id) // it is read again
	return errors.Join(err, f.Close())
}

// sweepNotes removes notes of turns that were not stored and are older than
// before, a few hundred at most.
func (s *Store) sweepNotes(before time.Time) error {
	dir := filepath.Join(s.dir, "turns")
	notes, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list the notes of turns: %w", err)
	}
	stored := s.catalog.turns()
	removed := 0
	for _, note := range notes {
		info, err := note.Info()
		if err != nil || stored[note.Name()] || !info.Mode().IsRegular() || !info.ModTime().Before(before) {
			continue
		}
		if err := os.Remove(filepath.Join(dir, note.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove the note of a turn: %w", err)
		}
		if removed++; removed == sweepStep {
			return nil
		}
	}
	return nil
}
