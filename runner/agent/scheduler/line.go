package scheduler

import "holon/state/ledger"

// line is how many messages an agent has in its queue, and which is taken next, whenever that is.
type line struct {
	count int
	head  ledger.Entry // the zero value for none
}

// inLine is the agent's queue as the step has left it.
func (s *step) inLine() line {
	if s.line == nil {
		l := line{count: read(s, ledger.View.CountQueued, s.state.AgentID)}
		l.head, _ = ifAny(s, func(v ledger.View) (ledger.Entry, bool, error) { return v.Head(s.state.AgentID) })
		s.line = &l
	}
	return *s.line
}

// with is the queue after an entry came.
func (l line) with(e ledger.Entry) *line {
	if l.count++; l.count == 1 || e.Band() < l.head.Band() || e.Band() == l.head.Band() && e.Number < l.head.Number {
		l.head = e
	}
	return &l
}

// without is the queue after an entry left it, nil when that is not known.
func (l line) without(e ledger.Entry) *line {
	if l.count--; l.count == 0 {
		return new(line)
	}
	if e.MessageID == l.head.MessageID {
		return nil
	}
	return &l
}

// takeOut replaces an entry that leaves the queue.
func (s *step) takeOut(e ledger.Entry) {
	before := s.line
	if s.update(&e); before != nil {
		s.line = before.without(e)
	}
}

// queueHead is the entry that is taken next, whenever that is.
func (s *step) queueHead() (e ledger.Entry, ok bool) {
	l := s.inLine()
	return l.head, l.count > 0
}

// queue is what is taken next, as far as a step looks.
func (s *step) queue() []ledger.Entry {
	if s.countQueued() == 0 {
		return nil
	}
	return newest(s, ledger.View.Queued, maxOffered)
}

func (s *step) countQueued() int { return s.inLine().count }
