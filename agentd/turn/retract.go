package turn

import (
	"holon/agentd/model"
)

// retract takes back an answer that broke off, as model.Request.Retract: its round is asked for again. What was shown
// of it stays on the stream, closed with what it said. Nothing of it has run, and neither the conversation nor a later
// request has it. A function call that the client has seen, even in part, cannot be taken back.
func (s *sampler) retract(a model.Attempt) bool {
	if s.handing() {
		return false
	}
	if s.left != nil {
		if *s.left -= int(min(a.Usage.OutputTokens, int64(*s.left))); *s.left < 1 {
			return false
		}
	}
	if s.Emitter.Open() {
		if s.err = s.Emitter.CutItem(); s.err != nil {
			return false
		}
	}
	s.discard()
	s.partial, s.rules, s.callIDs = partial{}, s.before, nil // the ids of its calls are free again
	*s.round = round{from: len(s.Emitter.Response().Output)}
	return true
}

// handing reports whether the client has seen a function call of the answer, or a part of one.
func (s *sampler) handing() bool {
	return s.round.handedOver > 0 || s.open == model.CallBegin && s.call == nil && !s.drop
}

// discard keeps the items of the round out of the history, and notes which they are.
func (s *sampler) discard() {
	s.round.items = nil
	for _, item := range s.Emitter.Response().Output[s.round.from:] {
		s.discarded = append(s.discarded, item.ItemID())
	}
}
