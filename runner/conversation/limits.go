package conversation

import (
	"fmt"
	"time"

	"holon/state"
)

// Limits bound what clients may take. A bound of 0 means none.
type Limits struct {
	Sessions int   // of an owner, open at once
	Session  Usage // of one session
	Owner    Usage // of all sessions of an owner that were not removed
}

// Usage is what turns take, or may take.
type Usage struct {
	Turns  int          `json:"turns"`
	Tokens int64        `json:"tokens"`
	Cost   state.Amount `json:"cost_micros"`
}

// Limited is the error of what a limit refuses: 429.
type Limited struct {
	err   *state.Error
	after time.Duration
}

func (l *Limited) Error() string { return l.err.Error() }

// Unwrap returns the typed error, of CodeLimit.
func (l *Limited) Unwrap() error { return l.err }

// RetryAfter is when to ask again.
func (l *Limited) RetryAfter() time.Duration { return l.after }

// admit refuses a session beyond the bounds. The caller holds starting.
func (s *Sessions) admit(owner string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	open, own := 0, 0
	for _, x := range s.all {
		if x.record.open() {
			open++
			if x.record.Owner == owner {
				own++
			}
		}
	}
	message := ""
	switch most := s.opts.Limits.Sessions; {
	case most > 0 && own >= most:
		message = fmt.Sprintf("you have %d open sessions, which is the limit", own)
	case s.opts.Max > 0 && open >= s.opts.Max:
		message = "too many sessions are open"
	default:
		return nil
	}
	return limited(message, "close one: holon session close ID")
}

// retryAfter is when to try again what cannot be done now: sessions end, and engines come back.
const retryAfter = time.Minute

func limited(message, hint string) error {
	return &Limited{&state.Error{Code: CodeLimit, Message: message, Hint: hint}, retryAfter}
}

// left is what a session and its owner may still take. The caller holds mu. The error is a *Limited.
func (x *Session) left() (left Usage, err error) {
	s := x.sessions
	used, owner := x.log.usage(), Usage{}
	used.Turns += len(x.log.going)
	for _, other := range s.all {
		if other.record.Owner == x.record.Owner {
			u := other.log.usage()
			owner.Turns += u.Turns + len(other.log.going)
			owner.Tokens, owner.Cost = owner.Tokens+u.Tokens, owner.Cost+u.Cost
		}
	}
	for _, b := range []struct {
		of   string
		most Usage
		used Usage
		hint string
	}{
		{"this session has", s.opts.Limits.Session, used, "open another session"},
		{"your sessions have", s.opts.Limits.Owner, owner, "try again when one of them was removed"},
	} {
		what := ""
		switch {
		case reached(b.most.Turns, b.used.Turns, &left.Turns):
			what = fmt.Sprintf("made %d turns", b.used.Turns)
		case reached(b.most.Tokens, b.used.Tokens, &left.Tokens):
			what = fmt.Sprintf("taken %d tokens", b.used.Tokens)
		case reached(b.most.Cost, b.used.Cost, &left.Cost):
			what = "cost " + b.used.Cost.String()
		default:
			continue
		}
		return left, limited(b.of+" "+what+", which is the limit", b.hint)
	}
	return left, nil
}

// reached reports whether a bound is reached, and else what of it and of those before is left.
func reached[T int | int64 | state.Amount](most, used T, left *T) bool {
	if most <= 0 {
		return false
	}
	if rest := most - used; *left == 0 || rest < *left {
		*left = rest
	}
	return used >= most
}
