package conversation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"holon/internal/visible"
	"holon/runner/workspace"
	"holon/state"
)

// Limits bound what clients may take. A bound of 0 means none.
type Limits struct {
	Sessions int   // of an owner, open at once
	Session  Usage // of one session
	Owner    Usage // of all sessions of an owner that were not removed
	Disk     int64 // bytes of the host's disk, likewise
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

// admit refuses a session beyond the bounds, unless one that nothing needs can be closed for it. The caller holds
// starting.
func (s *Sessions) admit(owner string) error {
	for {
		whose, refused := s.full(owner)
		if refused == nil {
			return nil
		}
		x, soon := s.dispensable(whose)
		if x == nil {
			if soon {
				refused.after = retrySoon
			}
			return refused
		}
		err := x.amend(func(r *record) error { // Run finishes it
			if !r.open() || !x.idle() {
				return errInUse
			}
			r.ClosedAt, r.ClosedBy = s.now(), byTime
			return nil
		})
		if err != nil && !errors.Is(err, errInUse) {
			return err
		}
		s.wake()
	}
}

// full says why there is no room for one more session, and whose sessions take it, "" for those of all.
func (s *Sessions) full(owner string) (whose string, refused *Limited) {
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
	const hint = "close one: POST /v1/holon/sessions/ID/close, or holon session close ID"
	switch most := s.opts.Limits.Sessions; {
	case most > 0 && own >= most:
		return owner, limited(fmt.Sprintf("you have %d open sessions, which is the limit", own), hint)
	case s.opts.Max > 0 && open >= s.opts.Max:
		return "", limited("too many sessions are open", hint)
	}
	return "", nil
}

// dispensable is the session that has been idle for the longest of those that were made for a single request, and of
// those without a name that made one turn and are idle for idleOnce; nil for none. Of both what was said can be read
// on. soon reports whether one is about to be.
func (s *Sessions) dispensable(owner string) (found *Session, soon bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.all {
		single := x.record.Name == "" && x.log.turns == 1 && s.opts.Now().Sub(x.log.last.Time()) >= idleOnce
		if x.record.open() && x.isOf(owner) && x.idle() && (x.early() || single) &&
			(found == nil || x.log.last.Time().Before(found.log.last.Time())) {
			found = x
		}
		soon = soon || x.record.open() && x.isOf(owner) && x.record.Once
	}
	return found, soon
}

// idleOnce is after how long without a second request a session may give its place to another.
const idleOnce = 15 * time.Minute

// idle reports whether nothing goes on in a session that had a turn. The caller holds mu.
func (x *Session) idle() bool {
	return len(x.calls) == 0 && len(x.log.going) == 0 && x.log.turns+x.log.failed > 0
}

// checkDisk refuses an owner whose sessions take more of the disk than they may.
func (s *Sessions) checkDisk(ctx context.Context, owner string) error {
	most := s.opts.Limits.Disk
	if most <= 0 {
		return nil
	}
	s.mu.Lock()
	var dirs []string
	for id, x := range s.all {
		if x.record.Owner == owner {
			dirs = append(dirs, s.opts.Home.SessionDir(id))
		}
	}
	s.mu.Unlock()
	used := int64(0)
	for _, dir := range dirs {
		n, err := workspace.Usage(ctx, dir)
		if err != nil {
			return err
		}
		used += n
	}
	if used < most {
		return nil
	}
	return limited("your sessions take "+visible.Size(used)+" of the disk, and may take "+visible.Size(most),
		"remove files in them, or try again when one of them was removed")
}

// retryAfter is when to try again what cannot be done now: sessions end, and engines come back.
const retryAfter = time.Minute

// retrySoon is when to try again where a session for a single request goes on, which gives its place with its turn.
const retrySoon = 5 * time.Second

func limited(message, hint string) *Limited {
	return &Limited{&state.Error{Code: CodeLimit, Param: fieldName, Message: message, Hint: hint}, retryAfter}
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
