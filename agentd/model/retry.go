package model

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"time"

	"holon/responses"
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
	return Policy{Retries: 2, Base: 500 * time.Millisecond, MaxPause: 30 * time.Second}
}

// Retry returns a transport that repeats failed attempts of t, which is known to
// the user as ref. It repeats retryable errors (see [Error.Retryable]), and only
// before anything of the answer was yielded, or once that was retracted: a turn never
// sees the beginning of two answers. The pause before a retry grows and is jittered; the provider's own
// Retry-After is a lower bound.
func Retry(t Transport, ref string, policy Policy) Transport {
	return &retry{next: t, ref: ref, policy: policy}
}

type retry struct {
	next   Transport
	ref    string
	policy Policy
}

// Stream implements Transport.
func (r *retry) Stream(ctx context.Context, req Request) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		watch, before := observer(req), req.Attempt
		for n := 1; ; n++ {
			req.Attempt = before + n
			a := Attempt{Ref: r.ref, Number: n, Max: r.policy.Retries + 1, Started: time.Now()}
			watch.AttemptStarted(a)
			r.attempt(ctx, &req, yield, &a)
			a.Ended = time.Now()
			r.judge(ctx, &req, &a)
			watch.AttemptEnded(a)
			switch {
			case a.Outcome == outcomeRetrying:
				if err := pause(ctx, a.Backoff); err != nil {
					yield(Event{}, err)
					return
				}
				continue
			case a.Err != nil && !errors.Is(a.Err, errStopped):
				yield(Event{}, a.Err)
			}
			return
		}
	}
}

// errStopped marks an attempt whose consumer did not want more.
var errStopped = errors.New("the caller stopped reading")

// attempt makes one attempt and fills in its result. It yields all events but not
// the error.
func (r *retry) attempt(parent context.Context, req *Request, yield func(Event, error) bool, a *Attempt) {
	if a.Err = CapabilitiesOf(r.next, req.Model).unsupported(req); a.Err != nil {
		return
	}
	ctx, cancel := parent, context.CancelFunc(func() {})
	if r.policy.Total > 0 {
		ctx, cancel = context.WithTimeoutCause(parent, r.policy.Total, errTotal)
	}
	defer cancel()
	sent := parent.Err() == nil
	var counted Counted
	req.Lowering, req.Counted = &a.Lowering, &counted
	said := meter{}
	defer func() {
		if a.Err != nil {
			a.Usage = spent(req, counted, &said, a.Begun || sent && givenUp(a.Err))
		}
		if a.Err != nil && parent.Err() == nil && errors.Is(context.Cause(ctx), errTotal) {
			a.Err = r.late(a.Err)
		}
	}()
	limit := 0
	if req.MaxOutputTokens != nil {
		limit = *req.MaxOutputTokens
	}
	for ev, err := range r.next.Stream(ctx, *req) {
		if err != nil {
			a.Err = AsError(err)
			return
		}
		a.Begun = true
		if fits := said.take(ev, limit); fits < len(ev.Text) {
			r.cut(req, ev, fits, counted, yield, a)
			return
		}
		if ev.Kind == Done {
			ev.Usage = settled(req, ev.Usage, &said)
			if limit > 0 && ev.Usage.OutputTokens > int64(limit) && ev.Stop == StopEnd {
				ev.Stop = StopMaxTokens
			}
		}
		more := yield(ev, nil)
		switch {
		case ev.Kind == Done:
			a.Usage, a.Stop, a.RequestID = ev.Usage, ev.Stop, ev.RequestID
			return
		case !more:
			a.Err = &Error{Kind: KindCancelled, Message: errStopped.Error(), Err: errStopped}
			return
		}
	}
	a.Err = &Error{Kind: KindProtocol, Message: "the model's answer has no end"}
}

// cut ends the answer of a provider that says more than it may, after the part of
// ev that fits.
func (r *retry) cut(req *Request, ev Event, fits int, counted Counted, yield func(Event, error) bool, a *Attempt) {
	done := Event{Kind: Done, Stop: StopMaxTokens, Usage: counted.Usage}
	done.Usage.Estimated = true
	if done.Usage.InputTokens == 0 {
		done.Usage.InputTokens = int64(Estimate(*req))
	}
	done.Usage.OutputTokens = max(done.Usage.OutputTokens, int64(*req.MaxOutputTokens))
	done.Usage.TotalTokens = done.Usage.InputTokens + done.Usage.OutputTokens
	a.Usage, a.Stop = done.Usage, done.Stop
	if ev.Text, ev.Logprobs = ev.Text[:fits], nil; fits > 0 && ev.Kind != CallEnd && !yield(ev, nil) {
		a.Err = &Error{Kind: KindCancelled, Message: errStopped.Error(), Err: errStopped}
		return
	}
	yield(done, nil)
}

// maxTokens is more than the input or the output of any model.
const maxTokens = 1 << 26

// plausible reports whether a provider's usage is possible. Budgets depend on these
// counts, so an impossible one is replaced by an estimate.
func plausible(u responses.Usage) bool {
	for _, n := range []int64{u.InputTokens, u.OutputTokens, u.TotalTokens, u.InputTokenDetails.CachedTokens,
		u.OutputTokenDetails.ReasoningTokens} {
		if n < 0 || n > 2*maxTokens {
			return false
		}
	}
	return u.InputTokens <= maxTokens && u.OutputTokens <= maxTokens
}

// settled is the usage of an answer that ended: what the provider says, or an
// estimate when it says nothing, or what cannot be. A total alone stands as input,
// which is most of it and has no limit.
func settled(req *Request, claimed responses.Usage, said *meter) responses.Usage {
	if plausible(claimed) && claimed != (responses.Usage{}) {
		if claimed.InputTokens == 0 && claimed.OutputTokens == 0 { // how the total divides is not known
			claimed.InputTokens, claimed.Estimated = min(claimed.TotalTokens, maxTokens), true
		}
		claimed.TotalTokens = claimed.InputTokens + claimed.OutputTokens // whatever the provider counts as the total
		return claimed
	}
	return spent(req, Counted{}, said, true)
}

// givenUp reports whether an attempt was ended from here while the provider worked at its answer, as far as is known.
func givenUp(err *Error) bool {
	return err.Kind == KindCancelled && (err.Diagnostics == nil || !err.Diagnostics.Connect)
}

// spent is the usage of an attempt that did not end: what the provider counted, and
// an estimate of what it did not. An attempt that the provider did not begin to answer cost nothing.
func spent(req *Request, counted Counted, said *meter, begun bool) responses.Usage {
	u := counted.Usage
	if !plausible(u) {
		u, counted.Final = responses.Usage{}, false
	}
	if counted.Final || !begun && u == (responses.Usage{}) {
		u.TotalTokens = u.InputTokens + u.OutputTokens
		return u
	}
	u.Estimated = true
	if u.InputTokens == 0 {
		u.InputTokens = int64(Estimate(*req))
	}
	u.OutputTokens = max(u.OutputTokens, said.output())
	u.TotalTokens = u.InputTokens + u.OutputTokens
	return u
}

// errTotal ends an attempt that takes too long.
var errTotal = errors.New("the attempt took too long")

// late returns the error of an attempt that took too long.
func (r *retry) late(cause *Error) *Error {
	d := Diagnostics{}
	if cause.Diagnostics != nil {
		d = *cause.Diagnostics
	}
	d.Timeout = true
	return &Error{
		Kind: KindTimeout, Code: responses.CodeProviderUnavailable, Err: errTotal, Diagnostics: &d,
		Message: fmt.Sprintf("the model did not end its answer within %s", r.policy.Total),
	}
}

// judge decides whether another attempt follows.
func (r *retry) judge(ctx context.Context, req *Request, a *Attempt) {
	final := req.Retract == nil || a.Err != nil && a.Err.Kind == KindTimeout // what took too long would do so again
	switch {
	case a.Err == nil:
		a.Outcome = outcomeSucceeded
	case !a.Err.Retryable() || ctx.Err() != nil || a.Begun && final:
		a.Outcome = outcomeFailFast
	case a.Number >= a.Max || a.Err.RetryAfter > r.policy.MaxPause:
		a.Outcome = outcomeExhausted
	default:
		a.Outcome, a.Backoff = outcomeRetrying, r.policy.backoff(a.Number, a.Err.RetryAfter)
	}
	if a.Begun && a.Outcome == outcomeRetrying {
		if a.Begun = !req.Retract(*a); a.Begun {
			a.Outcome, a.Backoff = outcomeFailFast, 0
		}
	}
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

// Cancelled returns the error of an attempt that the end of ctx cut short.
func Cancelled(ctx context.Context) *Error {
	return &Error{Kind: KindCancelled, Message: "the attempt was cancelled", Err: context.Cause(ctx)}
}

// AsError returns the *Error within err; anything else is a defect of a
// transport and becomes a protocol error.
func AsError(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return &Error{Kind: KindProtocol, Message: "the model's transport failed unexpectedly", Err: err}
}
