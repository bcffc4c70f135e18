package record

import (
	"time"

	"holon/responses"
	"holon/responses/turns"
)

// endFacts closes the journal of a turn that was cut off with what is known of the end.
func (s *Store) endFacts(k *kept, stored *Stored, resp responses.Response, now time.Time) error {
	h := stored.Header
	scope := turns.Scope{RuntimeID: s.runtime, SessionID: h.SessionID, ThreadID: h.ThreadID, TurnID: h.TurnID,
		Trace: k.Trace, Now: func() time.Time { return now }}
	var ofTasks []turns.RuntimeEvent
	noted := func() {}
	if s.taskFacts != nil {
		ofTasks, noted = s.taskFacts(scope, k.newest)
	}
	if !k.ended {
		for _, ev := range s.missing(stored, k, scope, resp, ofTasks) {
			if err := k.append(ev); err != nil {
				return err
			}
		}
		end := k.End(scope, turns.At(h.CreatedAt), &resp, "process_end", turns.ActionIDs(stored.Items))
		if err := k.append(end); err != nil {
			return err
		}
	}
	if err := k.journal.sync(); err != nil {
		return err
	}
	noted()
	return k.journal.restore(h.TurnDir)
}

// missing are the facts that a turn that was cut off lacks before its end.
func (s *Store) missing(stored *Stored, kept *kept, scope turns.Scope, resp responses.Response,
	ofTasks []turns.RuntimeEvent) (facts []turns.RuntimeEvent) {
	if !kept.submitted {
		facts = stored.Header.opening(scope, kept.Sequence == 0)
	}
	if !kept.started && resp.Status == responses.StatusCompleted { // only a turn that started can
		facts = append(facts, scope.Event(turns.TurnStarted, turns.Started{Attempt: 1, Model: resp.Model}))
	}
	begun := append(kept.missing(s.answered(scope, stored)), ofTasks...) // a call that began has its end among them
	facts = append(facts, begun...)
	facts = append(facts, kept.Closing(scope, &resp, begun...)...)
	return append(facts, kept.missing(required(scope, stored))...)
}

// opening are the facts with which a turn begins, for one whose process ended before it wrote them.
func (h *Header) opening(scope turns.Scope, thread bool) (facts []turns.RuntimeEvent) {
	if thread {
		facts = append(facts, scope.ThreadStarted(h.Fork))
	}
	return append(facts, scope.TurnSubmitted(turns.Submitted{Source: "recovery", ResponseID: h.ResponseID,
		PreviousResponseID: h.PreviousResponseID, RequestDigest: h.RequestDigest, Instance: h.Instance},
		h.Response.Status == responses.StatusQueued))
}
