package conversation

import (
	"context"
	"sync"
	"time"

	"holon/runner"
)

// Run watches the turns that an earlier process left, closes sessions that are idle for too long, removes closed ones
// and has Options.Files save what changes, until ctx ends. Turns that go on then are left to go on.
func (s *Sessions) Run(ctx context.Context) error {
	going, leave := context.WithCancelCause(context.WithoutCancel(ctx))
	var group sync.WaitGroup
	defer group.Wait()
	defer leave(runner.ErrLeft)
	for x, ids := range s.leftTurns() {
		for _, id := range ids {
			group.Go(func() { x.recoverUntil(going, id) })
		}
	}
	group.Go(func() { s.keepSaving(ctx) })
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.changed:
		case <-timer.C:
		}
		if next := s.sweep(ctx); next.IsZero() {
			timer.Stop()
		} else {
			timer.Reset(max(next.Sub(s.opts.Now()), 0))
		}
	}
}

// recoverUntil watches a turn, also where the engine answers only later.
func (x *Session) recoverUntil(ctx context.Context, turnID string) {
	for {
		err := x.recover(ctx, turnID)
		if err == nil || ctx.Err() != nil {
			return
		}
		x.sessions.opts.Log.Warn("what became of a turn cannot be found out yet", "session", x.id, "turn", turnID,
			"err", err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(retryAfter):
		}
	}
}

// sweep does what is due, and returns when more will be; zero for never.
func (s *Sessions) sweep(ctx context.Context) (next time.Time) {
	now := s.opts.Now()
	s.mu.Lock()
	list := make([]*Session, 0, len(s.all))
	for _, x := range s.all {
		list = append(list, x)
	}
	s.mu.Unlock()
	for _, x := range list {
		at, do := x.due()
		if do == nil {
			continue
		}
		if !at.After(now) {
			if err := do(ctx); err != nil && ctx.Err() == nil {
				s.opts.Log.Warn("a session could not be looked after", "session", x.id, "err", err)
				at = now.Add(retryAfter)
			} else if at, do = x.due(); do == nil {
				continue
			}
		}
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	return next
}

// due is what comes next of a session, and when; nil for nothing.
func (x *Session) due() (time.Time, func(context.Context) error) {
	s := x.sessions
	s.mu.Lock()
	defer s.mu.Unlock()
	switch r := &x.record; {
	case s.all[r.ID] != x || len(x.calls) > 0 || r.open() && len(x.log.going) > 0:
		return time.Time{}, nil // its end wakes Run
	case r.open() && s.opts.TTL > 0:
		return x.expiry(), x.expire
	case !r.open() && !r.Finished: // the process that closed it was killed
		return r.ClosedAt.Time(), x.expire
	case r.Finished && r.Tree == nil && s.opts.Keep > 0:
		return r.ClosedAt.Time().Add(s.opts.Keep), x.remove
	}
	return time.Time{}, nil
}

// earlyTTL is after how long a session is closed that nothing continues: one for a single request, or whose first turn
// could not begin.
const earlyTTL = time.Minute

// expiry is when the session is closed if it stays idle. The caller holds mu.
func (x *Session) expiry() time.Time {
	ttl := x.sessions.opts.TTL
	if x.early() {
		ttl = min(ttl, earlyTTL)
	}
	return x.log.last.Time().Add(ttl)
}

// early reports whether nothing continues a session. The caller holds mu.
func (x *Session) early() bool { return x.record.Once || x.log.turns == 0 && x.log.failed > 0 }
