package control

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"holon/runner/control/wire"
	"holon/state"
)

// Bounds of snapshots.
const (
	snapshotTTL     = 500 * time.Millisecond // how long one is served again, if its revision is new enough
	maxSnapshots    = 64                     // kept at a time
	snapshotTimeout = 15 * time.Second       // to compute one
)

// limiter bounds how many expensive answers are computed at a time, and how long
// a request waits for its turn.
type limiter struct {
	slots    chan struct{}
	patience time.Duration
}

// enter waits for a slot.
func (l limiter) enter(ctx context.Context) (release func(), err error) {
	release = func() { <-l.slots }
	select {
	case l.slots <- struct{}{}:
		return release, nil
	default:
	}
	t := time.NewTimer(l.patience)
	defer t.Stop()
	select {
	case l.slots <- struct{}{}:
		return release, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-t.C:
		return nil, &state.Error{Code: wire.CodeBusy, Message: "too many snapshots are asked for at once",
			Hint: "come back in a second, and follow the events instead of asking again"}
	}
}

// snapshots computes an expensive snapshot once for all clients that ask for it
// at a time. The revision that a client has seen is part of the key, so that no
// client gets a snapshot from before it.
type snapshots[T any] struct {
	limiter limiter
	group   singleflight.Group

	mu   sync.Mutex
	kept map[string]snapshot[T]
}

// snapshot is a value that was read at a revision.
type snapshot[T any] struct {
	value    T
	revision int64
	at       time.Time
}

// panicked carries a panic of compute to the requests that wait for it.
type panicked struct {
	value any
	stack []byte
}

func (p *panicked) Error() string { return fmt.Sprintf("%v\n%s", p.value, p.stack) }

// do returns the value for a key that was read at revision or later. compute
// returns it with its revision; it runs once for all requests that wait, and is
// not cancelled when one of them ends. shared reports that another request's
// value was returned.
func (s *snapshots[T]) do(ctx context.Context, key string, revision int64,
	compute func(ctx context.Context) (T, int64, error)) (value T, shared bool, err error) {
	if value, ok := s.recent(key, revision); ok {
		return value, true, nil
	}
	shared = true
	done := s.group.DoChan(key+"@"+strconv.FormatInt(revision, 10), func() (_ any, err error) {
		shared = false
		defer func() { // it would end the process
			if p := recover(); p != nil {
				err = &panicked{p, debug.Stack()}
			}
		}()
		ctx := context.WithoutCancel(ctx) // others wait for the value
		release, err := s.limiter.enter(ctx)
		if err != nil {
			return nil, err
		}
		defer release()
		ctx, cancel := context.WithTimeout(ctx, snapshotTimeout)
		defer cancel()
		value, read, err := compute(ctx)
		if err == nil {
			s.keep(key, snapshot[T]{value, read, time.Now()})
		}
		return value, err
	})
	select {
	case r := <-done:
		if p, ok := errors.AsType[*panicked](r.Err); ok {
			panic(p.Error())
		}
		value, _ = r.Val.(T)
		return value, shared, r.Err
	case <-ctx.Done():
		return value, false, ctx.Err()
	}
}

// recent returns a value that was computed a moment ago.
func (s *snapshots[T]) recent(key string, revision int64) (value T, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found, ok := s.kept[key]
	if !ok || found.revision < revision || time.Since(found.at) >= snapshotTTL {
		return value, false
	}
	return found.value, true
}

func (s *snapshots[T]) keep(key string, one snapshot[T]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept == nil || len(s.kept) >= maxSnapshots {
		s.kept = make(map[string]snapshot[T])
	}
	s.kept[key] = one
}
