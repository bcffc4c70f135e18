package model

import (
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"holon/internal/providers"
)

// Policy bounds retries.
type Policy struct {
	Retries  int           // attempts beyond the first
	Base     time.Duration // pause before the first retry; it doubles with each
	MaxPause time.Duration // longest pause; a provider that asks for more is not retried
	Total    time.Duration // longest time of one attempt; 0 for no bound
}

// DefaultPolicy returns the retry policy of the runtime specification.
func DefaultPolicy() Policy {
	return Policy{Retries: providers.Retries, Base: providers.RetryBase, MaxPause: providers.RetryMaxPause}
}

// waits are the pauses between groups of attempts.
var waits = Policy{Base: 2 * time.Second, MaxPause: 2 * time.Minute}

// Candidate is one model of a chain.
type Candidate struct {
	Ref       string // provider/model, for the record
	Name      string // the model's name as Transport knows it; "" takes that of the request
	Transport Transport
	Policy    Policy
}

// Retry is a Chain of one model.
func Retry(t Transport, ref string, policy Policy) Transport {
	return Chain(Candidate{Ref: ref, Transport: t, Policy: policy})
}

// Chain returns a transport that repeats failed attempts and falls back to other models.
//
// It repeats retryable errors (see [Error.Retryable]), and only before anything of the answer was yielded, or once
// that was retracted: a turn never sees the beginning of two answers. The pause before a retry grows and is jittered;
// the provider's own Retry-After is a lower bound.
//
// Then it asks the next candidate (runtime specification, "Fallback rules"). Errors that no other model would cure end
// the chain: the conversation is too long, a scenario diverged, a budget is used up, the attempt was cancelled.
//
// When the last of them failed for a reason that passes, an outage or a rate limit, it begins again with the first, for
// as long as Request.RetryFor after the first failure. The pauses grow from seconds to minutes and are not shorter than
// the provider's wish. It gives up at once where no attempt could begin in time: before that limit, and before the
// deadline of ctx. An answer that was begun is not asked for again. The last attempt before such a pause stays one
// whose retries are exhausted; its Backoff is that pause.
//
// A candidate that failed fast is out: it is not asked again after a pause, and where another one answered, by no later
// Stream of the chain, which is that of a turn.
func Chain(candidates ...Candidate) Transport {
	return &chain{candidates: slices.Clone(candidates), out: make([]atomic.Bool, len(candidates))}
}

type chain struct {
	candidates []Candidate
	out        []atomic.Bool // candidates that failed fast where another one answered
}

// Stream implements Transport.
func (c *chain) Stream(ctx context.Context, req Request) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		w := &walk{req: req, yield: yield, out: make([]bool, len(c.out))}
		for i := range w.out {
			w.out[i] = c.out[i].Load()
		}
		for i, n := w.next(0), 1; ; n++ {
			a := w.attempt(ctx, &c.candidates[i], n, i == len(c.candidates)-1)
			switch {
			case a.Advanced:
				w.out[i] = a.Outcome == outcomeFailFast
				i, n = w.next(i+1), 0
				continue
			case a.Outcome == outcomeExhausted && a.Backoff > 0:
				i, n, w.before = w.next(0), 0, w.made
			case a.Outcome != outcomeRetrying:
				for j := 0; a.Err == nil && j < len(w.out); j++ {
					c.out[j].Store(w.out[j])
				}
				if a.Err != nil && !errors.Is(a.Err, errStopped) {
					yield(Event{}, a.Err)
				}
				return
			}
			if err := pause(ctx, a.Backoff); err != nil {
				yield(Event{}, err)
				return
			}
		}
	}
}

// walk is the state of one call of Stream of a chain.
type walk struct {
	req    Request
	yield  func(Event, error) bool
	made   int       // attempts
	before int       // attempts before the present group, which begins with the first candidate
	groups int       // that failed
	until  time.Time // no later attempt begins; from the failure of the first group on
	out    []bool    // candidates that are not asked any more; never the last
}

// next is the first candidate from i on that is asked.
func (w *walk) next(i int) int {
	for w.out[i] {
		i++
	}
	return i
}

// attempt makes the n-th attempt at a candidate and decides what follows.
func (w *walk) attempt(ctx context.Context, c *Candidate, n int, last bool) Attempt {
	w.made++
	if w.req.Attempt = w.before + n; c.Name != "" {
		w.req.Model = c.Name
	}
	a := Attempt{Ref: c.Ref, Number: n, Max: c.Policy.Retries + 1, Started: time.Now()}
	if w.req.Observer != nil {
		w.req.Observer.AttemptStarted(a)
	}
	c.attempt(ctx, w.req, w.yield, &a)
	a.Ended = time.Now()
	w.judge(ctx, &c.Policy, &a, last)
	if w.req.Observer != nil {
		w.req.Observer.AttemptEnded(a)
	}
	return a
}

// judge decides whether another attempt follows.
func (w *walk) judge(ctx context.Context, p *Policy, a *Attempt, last bool) {
	if a.Err == nil {
		a.Outcome = outcomeSucceeded
		return
	}
	final := w.req.Retract == nil || a.Err.Kind == KindTimeout // what took too long would do so again
	p.judge(ctx, a, final)
	retrying, exhausted := a.Outcome == outcomeRetrying, a.Outcome == outcomeExhausted
	if a.Begun && (retrying || exhausted && !last) {
		if a.Begun = !w.req.Retract(*a); a.Begun && retrying {
			a.Outcome, a.Backoff = outcomeFailFast, 0
		}
	}
	switch {
	case a.Begun || retrying:
	case !last && curable(a.Err):
		a.Advanced = true
	case exhausted:
		a.Backoff = w.wait(ctx, a)
	}
}

// judge decides whether another attempt at the same model may follow one that failed. final says that an answer which
// has begun cannot be repeated.
func (p *Policy) judge(ctx context.Context, a *Attempt, final bool) {
	switch {
	case !a.Err.Retryable() || ctx.Err() != nil || a.Begun && final:
		a.Outcome = outcomeFailFast
	case a.Number >= a.Max || a.Err.RetryAfter > p.MaxPause:
		a.Outcome = outcomeExhausted
	default:
		a.Outcome, a.Backoff = outcomeRetrying, p.backoff(a.Number, a.Err.RetryAfter)
	}
}

// curable reports whether another model may succeed where one failed with e.
func curable(e *Error) bool {
	switch e.Kind {
	case KindContextLength, KindScenario, KindCancelled, KindBudget:
		return false
	}
	return true
}

// wait returns the pause after the last attempt of a group, 0 where no other group follows.
func (w *walk) wait(ctx context.Context, a *Attempt) time.Duration {
	if w.groups++; w.groups == 1 {
		w.until = a.Ended.Add(w.req.RetryFor)
	}
	left := w.until.Sub(a.Ended)
	d := min(waits.backoff(w.groups, a.Err.RetryAfter), left)
	deadline, bounded := ctx.Deadline()
	if d <= 0 || a.Err.RetryAfter > left || bounded && !a.Ended.Add(d).Before(deadline) {
		return 0
	}
	return d
}

// backoff returns the pause after the n-th attempt: Base doubled n-1 times,
// give or take a quarter so that many clients do not return at once, at most
// MaxPause, and not less than the provider's Retry-After.
func (p Policy) backoff(n int, wish time.Duration) time.Duration {
	d := p.Base
	for range n - 1 {
		d = min(2*d, p.MaxPause)
	}
	d += time.Duration((rand.Float64() - 0.5) / 2 * float64(d))
	return max(min(d, p.MaxPause), wish)
}

// pause waits for d or the end of ctx.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return Cancelled(ctx)
	}
}
