package model

import (
	"context"
	"errors"
	"fmt"
	"time"

	"holon/responses"
)

// Outcome is the result of an attempt (runtime specification, "Provider
// attempt timeline contract").
type Outcome string

// Outcomes of attempts.
const (
	outcomeSucceeded Outcome = "succeeded"
	outcomeRetrying  Outcome = "retrying"          // another attempt at the same model follows
	outcomeExhausted Outcome = "retries_exhausted" // it was worth another attempt, but none is left
	outcomeFailFast  Outcome = "fail_fast_aborted" // another attempt could not help, or would repeat output
)

// Attempt is one call of one transport. While it runs, only the first four
// fields are set.
type Attempt struct {
	Ref     string // provider/model
	Number  int    // from 1, for this model and sampling
	Max     int
	Started time.Time

	Ended     time.Time
	Outcome   Outcome
	Err       *Error        // nil when it succeeded
	Backoff   time.Duration // the pause before the next attempt, 0 when none follows; of another group see Chain
	Begun     bool          // part of an answer was yielded and not retracted, so that no attempt can follow
	Advanced  bool          // the next attempt is made at another model
	Usage     responses.Usage
	Stop      Stop
	RequestID string // the provider's
	Lowering  Lowering
}

// Observer is called when an attempt begins and when it ends, in order, on the
// goroutine that iterates over the stream. It must not block.
type Observer interface {
	AttemptStarted(a Attempt)
	AttemptEnded(a Attempt)
}

// errStopped marks an attempt whose consumer did not want more.
var errStopped = errors.New("the caller stopped reading")

// attempt makes one attempt and fills in its result. It yields all events but not
// the error.
func (c *Candidate) attempt(parent context.Context, req Request, yield func(Event, error) bool, a *Attempt) {
	if a.Err = CapabilitiesOf(c.Transport, req.Model).unsupported(&req); a.Err != nil {
		return
	}
	ctx, cancel := parent, context.CancelFunc(func() {})
	if c.Policy.Total > 0 {
		ctx, cancel = context.WithTimeoutCause(parent, c.Policy.Total, errTotal)
	}
	defer cancel()
	var counted Counted
	req.Lowering, req.Counted = &a.Lowering, &counted
	measured := meter{}
	c.read(ctx, req, &measured, yield, a)
	if a.Err == nil {
		return
	}
	a.Usage = spent(&req, counted, &measured, a.Begun)
	if parent.Err() == nil && errors.Is(context.Cause(ctx), errTotal) {
		a.Err = late(a.Err, c.Policy.Total)
	}
}

// read streams the answer of an attempt up to its end, its limit or its error, which it fills in.
func (c *Candidate) read(ctx context.Context, req Request, measured *meter, yield func(Event, error) bool, a *Attempt) {
	limit := 0
	if req.MaxOutputTokens != nil {
		limit = *req.MaxOutputTokens
	}
	for ev, err := range c.Transport.Stream(ctx, req) {
		if err != nil {
			a.Err = AsError(err)
			return
		}
		a.Begun = true
		if fits := measured.take(ev, limit); fits < len(ev.Text) {
			cut(&req, ev, fits, *req.Counted, yield, a)
			return
		}
		if ev.Kind == Done {
			ev.Usage = settled(&req, ev.Usage, measured)
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
func cut(req *Request, ev Event, fits int, counted Counted, yield func(Event, error) bool, a *Attempt) {
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
func settled(req *Request, claimed responses.Usage, measured *meter) responses.Usage {
	if plausible(claimed) && claimed != (responses.Usage{}) {
		if claimed.InputTokens == 0 && claimed.OutputTokens == 0 { // how the total divides is not known
			claimed.InputTokens, claimed.Estimated = min(claimed.TotalTokens, maxTokens), true
		}
		claimed.TotalTokens = claimed.InputTokens + claimed.OutputTokens // whatever the provider counts as the total
		return claimed
	}
	return spent(req, Counted{}, measured, true)
}

// spent is the usage of an attempt that did not end: what the provider counted, and
// an estimate of what it did not. An attempt that the provider did not begin to answer cost nothing.
func spent(req *Request, counted Counted, measured *meter, begun bool) responses.Usage {
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
	u.OutputTokens = max(u.OutputTokens, measured.output())
	u.TotalTokens = u.InputTokens + u.OutputTokens
	return u
}

// errTotal ends an attempt that takes too long.
var errTotal = errors.New("the attempt took too long")

// late returns the error of an attempt that took too long.
func late(cause *Error, limit time.Duration) *Error {
	d := Diagnostics{}
	if cause.Diagnostics != nil {
		d = *cause.Diagnostics
	}
	d.Timeout = true
	return &Error{
		Kind: KindTimeout, Code: responses.CodeProviderUnavailable, Err: errTotal, Diagnostics: &d,
		Message: fmt.Sprintf("the model did not end its answer within %s", limit),
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
