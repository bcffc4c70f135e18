package model

import (
	"context"
	"iter"
	"time"
)

// Persist returns a transport that goes on asking t for as long as limit after all its attempts failed for a reason
// that passes: an outage, or a rate limit. The pauses grow from seconds to minutes and are not shorter than the
// provider's wish. It gives up at once where no attempt could begin in time: before the limit, and before the deadline
// of ctx. An answer that was begun is not asked for again.
//
// The last attempt before a pause stays one whose retries are exhausted; its Backoff is that pause.
func Persist(t Transport, limit time.Duration) Transport {
	if limit <= 0 {
		return t
	}
	return &persistent{next: t, limit: limit}
}

// waits are the pauses between groups of attempts.
var waits = Policy{Base: 2 * time.Second, MaxPause: 2 * time.Minute}

type persistent struct {
	next  Transport
	limit time.Duration
}

// Capabilities implements Capable.
func (p *persistent) Capabilities(name string) Capabilities { return CapabilitiesOf(p.next, name) }

// Stream implements Transport.
func (p *persistent) Stream(ctx context.Context, req Request) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		w := &waiting{Observer: observer(req), limit: p.limit}
		w.deadline, w.bounded = ctx.Deadline()
		req.Observer = w
		for {
			for ev, err := range p.next.Stream(ctx, req) {
				if err != nil && w.pause > 0 {
					break
				}
				if !yield(ev, err) {
					return
				}
			}
			if w.pause == 0 {
				return
			}
			if err := pause(ctx, w.pause); err != nil {
				yield(Event{}, err)
				return
			}
			req.Attempt = w.attempts
		}
	}
}

// waiting decides after each group of attempts how long to wait for the next.
type waiting struct {
	Observer
	limit    time.Duration
	until    time.Time // limit after the first group failed
	deadline time.Time // of the turn
	bounded  bool      // there is one
	groups   int
	attempts int
	pause    time.Duration // before the next group, 0 when none follows
}

// AttemptStarted implements Observer.
func (w *waiting) AttemptStarted(a Attempt) {
	w.attempts++
	w.Observer.AttemptStarted(a)
}

// AttemptEnded implements Observer.
func (w *waiting) AttemptEnded(a Attempt) {
	if w.pause = w.after(a); w.pause > 0 {
		a.Backoff = w.pause
	}
	w.Observer.AttemptEnded(a)
}

// after returns the pause that follows an attempt if it is the last of its group.
func (w *waiting) after(a Attempt) time.Duration {
	if a.Outcome != outcomeExhausted || a.Advanced || a.Begun {
		return 0
	}
	if w.groups++; w.groups == 1 {
		w.until = a.Ended.Add(w.limit)
	}
	left := w.until.Sub(a.Ended)
	d := min(waits.backoff(w.groups, a.Err.RetryAfter), left)
	if d <= 0 || a.Err.RetryAfter > left || w.bounded && !a.Ended.Add(d).Before(w.deadline) {
		return 0
	}
	return d
}
