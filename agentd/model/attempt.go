package model

import (
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
	Backoff   time.Duration // the pause before the next attempt, 0 when none follows; for one of another group see Persist
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

// noObserver replaces an absent observer.
type noObserver struct{}

func (noObserver) AttemptStarted(Attempt) {}
func (noObserver) AttemptEnded(Attempt)   {}

func observer(req Request) Observer {
	if req.Observer == nil {
		return noObserver{}
	}
	return req.Observer
}
