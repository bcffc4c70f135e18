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
		Trace: k.trace, Now: func() time.Time { return now }}
	var ofTasks []turns.RuntimeEvent
	noted := func() {}
	if s.untold != nil {
		ofTasks, noted = s.untold(scope, k.known)
	}
	if !k.ended {
		for _, ev := range s.missing(stored, k, scope, resp, ofTasks) {
			if err := k.append(ev); err != nil {
				return err
			}
		}
		if err := k.append(closingFact(scope, stored, resp, k.totals)); err != nil {
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
		facts = stored.Header.opening(scope, kept.seq == 0)
	}
	if !kept.started && resp.Status == responses.StatusCompleted { // only a turn that started can
		facts = append(facts, scope.TurnStarted(turns.Started{Model: resp.Model}))
	}
	begun := append(kept.client.missing(s.answered(scope, stored)), ofTasks...) // a call that began has its end among them
	for _, ev := range begun {
		kept.open.take(ev)
	}
	facts = append(facts, begun...)
	facts = append(facts, kept.open.closing(scope, beyond(resp.Usage, kept.totals.Attempts.AggregatedTokenUsage))...)
	return append(facts, kept.client.missing(required(scope, stored))...)
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

// beyond is what a response used beyond what is known of its attempts, nil for nothing.
func beyond(whole *responses.Usage, known *turns.TokenUsage) *turns.TokenUsage {
	if whole == nil {
		return nil
	}
	rest := *whole
	if known != nil {
		rest.InputTokens, rest.OutputTokens = rest.InputTokens-known.InputTokens, rest.OutputTokens-known.OutputTokens
	}
	if rest.InputTokens <= 0 && rest.OutputTokens <= 0 {
		return nil
	}
	rest.TotalTokens, rest.Estimated = rest.InputTokens+rest.OutputTokens, true
	return turns.Tokens(rest)
}

// closingFact says how a settled turn ended. A turn with a complete stream ended as the stream says; the process was
// lost only afterwards.
func closingFact(scope turns.Scope, stored *Stored, resp responses.Response, totals Totals) turns.RuntimeEvent {
	end := turns.End{DurationMS: lasted(turns.At(stored.Header.CreatedAt), turns.At(scope.Now())), Rounds: totals.Rounds,
		ToolCalls: totals.ToolCalls.Total, OpenActions: turns.ActionIDs(stored.Items), Phase: "recovery"}
	switch u, known := resp.Usage, totals.Attempts.AggregatedTokenUsage; {
	case known == nil: // no request of the log has a cost
	case u != nil && u.InputTokens == known.InputTokens && u.OutputTokens == known.OutputTokens:
		end.Usage = new(turns.UsageOf(*u))
	default: // the readers got an end without it, or requests of the response are not in the log
		end.Usage = new(turns.UsageOf(responses.Usage{InputTokens: known.InputTokens,
			OutputTokens: known.OutputTokens, TotalTokens: known.TotalTokens, Estimated: known.Estimated}))
	}
	if resp.Error != nil && resp.Error.Code == interrupted.Code {
		end.Lost = "process_end"
	}
	return scope.TurnEnded(&resp, end)
}
