package model

import (
	"context"
	"iter"
	"slices"
)

// Candidate is one model of a fallback chain.
type Candidate struct {
	Ref       string // provider/model, for the record
	Name      string // the model's name as Transport knows it
	Transport Transport
}

// Fallback returns a transport that asks the first candidate and, when that
// fails before it yielded anything, or what it yielded was retracted, the next (runtime specification, "Fallback
// rules"). Errors that no other model would cure end the chain: the conversation
// is too long, a scenario diverged, a budget is used up, the attempt was
// cancelled. The model named in the request is ignored. candidates must not be
// empty.
func Fallback(candidates ...Candidate) Transport {
	return &fallback{candidates: slices.Clone(candidates)}
}

type fallback struct{ candidates []Candidate }

// Stream implements Transport.
func (f *fallback) Stream(ctx context.Context, req Request) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		watch := observer(req)
		for i, c := range f.candidates {
			last := i == len(f.candidates)-1
			w := &advancing{Observer: watch, last: last, retract: req.Retract}
			req.Model, req.Observer = c.Name, w
			advance := false
			for ev, err := range c.Transport.Stream(ctx, req) {
				if advance = err != nil && !w.begun && !last && curable(AsError(err)); advance {
					break
				}
				w.begun = true
				if !yield(ev, err) {
					return
				}
			}
			if !advance {
				return
			}
		}
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

// advancing marks the last attempt at a candidate that is given up for the next.
type advancing struct {
	Observer
	last    bool // no other follows
	begun   bool // part of an answer was yielded and not retracted
	retract func(Attempt) bool
}

// AttemptStarted implements Observer. What the attempt before it yielded was retracted.
func (o *advancing) AttemptStarted(a Attempt) {
	o.begun = false
	o.Observer.AttemptStarted(a)
}

// AttemptEnded implements Observer.
func (o *advancing) AttemptEnded(a Attempt) {
	if a.Begun && !o.last && a.Outcome == outcomeExhausted { // so it could be retracted, if another attempt was left
		a.Begun = !o.retract(a)
	}
	o.begun = a.Begun
	a.Advanced = !o.last && a.Err != nil && !a.Begun && a.Outcome != outcomeRetrying && curable(a.Err)
	o.Observer.AttemptEnded(a)
}
