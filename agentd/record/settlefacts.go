package record

import (
	"cmp"
	"path/filepath"
	"time"

	"holon/internal/tracecontext"
	"holon/responses"
	"holon/responses/turns"
)

// endFacts counts rounds and tool calls from runtime.ndjson and closes it with
// what is known of the end. seq is the number of the last fact.
func (s *Store) endFacts(stored *Stored, resp responses.Response, now time.Time) (totals Totals, seq int64,
	err error) {
	h := stored.Header
	log, err := reopenLog(filepath.Join(h.TurnDir, turns.RuntimeFile))
	if err != nil {
		return totals, 0, err
	}
	defer log.Close()
	kept := keptFacts{seq: h.Facts, known: make(map[string]string)}
	if err := kept.read(log, resp.Status); err != nil {
		return kept.totals, kept.seq, err
	}
	scope := turns.Scope{RuntimeID: s.runtime, SessionID: h.SessionID, ThreadID: h.ThreadID, TurnID: h.TurnID,
		Trace: kept.trace, Now: func() time.Time { return now }}
	var ofTasks []turns.RuntimeEvent
	noted := func() {}
	if s.untold != nil {
		ofTasks, noted = s.untold(scope, kept.known)
	}
	if kept.ended {
		noted()
		return kept.totals, kept.seq, nil
	}
	for _, ev := range s.missing(stored, &kept, scope, resp, ofTasks) {
		if err := kept.append(log, ev); err != nil {
			return kept.totals, kept.seq, err
		}
	}
	if err := kept.append(log, closingFact(scope, stored, resp, kept.totals)); err != nil {
		return kept.totals, kept.seq, err
	}
	if err := log.Flush(); err != nil {
		return kept.totals, kept.seq, err
	}
	noted()
	return kept.totals, kept.seq, nil
}

// keptFacts is what the facts of a turn that was cut off say.
type keptFacts struct {
	totals         Totals
	open           openFacts
	caused         causes
	client         handed
	known          map[string]string // newest fact of each process and its task, by process
	submitted      bool
	started, ended bool
	trace          tracecontext.Span
	seq            int64 // of the newest
}

// read reads a log up to the first fact that cannot stay, and cuts it there. status is how the turn's response ended.
func (k *keptFacts) read(log *Log, status responses.Status) error {
	var good int64 // where the facts end that stay
	err := log.Lines(func(line []byte) error {
		ev, err := turns.DecodeRuntimeEvent(line)
		switch {
		case err != nil || ev.Sequence != k.seq+1 || k.ended:
			return errStop
		case ev.Type == turns.TurnCompleted && status != responses.StatusCompleted:
			return errStop // it was held back, as the end of the stream was
		}
		k.count(ev)
		k.open.take(ev)
		k.client.take(ev)
		switch ev.Type {
		case turns.TurnSubmitted:
			k.submitted, k.trace = true, ev.Span()
		case turns.TurnStarted:
			k.started = true
		case turns.ProcessStarted, turns.TaskCreated, turns.TaskAccepted, turns.TaskStarted, turns.TaskCancelAsked,
			turns.ProcessCompleted, turns.ProcessFailed, turns.ProcessTerminated, turns.TaskCompleted, turns.TaskFailed,
			turns.TaskTimedOut, turns.TaskCancelled, turns.TaskLost:
			k.known[ev.ProcessID] = ev.Type
		case turns.TurnCompleted, turns.TurnFailed:
			k.ended = true
		}
		good += int64(len(line)) + 1
		return nil
	})
	if err != nil && err != errStop {
		return err
	}
	return log.cut(good)
}

// append writes a fact behind those that a log has.
func (k *keptFacts) append(log *Log, ev turns.RuntimeEvent) error {
	ev.Sequence, ev.Correlation.CausationID = k.seq+1, k.caused.of(ev)
	k.count(ev)
	line, err := ev.AppendLine(nil)
	if err != nil {
		return err
	}
	return log.Append(line[:len(line)-1])
}

func (k *keptFacts) count(ev turns.RuntimeEvent) {
	k.totals.count(ev)
	k.caused.take(ev)
	k.seq = ev.Sequence
}

// missing are the facts that a turn that was cut off lacks before its end.
func (s *Store) missing(stored *Stored, kept *keptFacts, scope turns.Scope, resp responses.Response,
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
	actions := turns.ActionIDs(stored.Items)
	took := lasted(turns.At(stored.Header.CreatedAt), turns.At(scope.Now()))
	failure := turns.Failure{FailureCategory: "incomplete", Phase: "recovery", ResponseID: resp.ID, DurationMS: took,
		Rounds: totals.Rounds, ToolCalls: totals.ToolCalls.Total, OpenActions: actions}
	switch u, known := resp.Usage, totals.Attempts.AggregatedTokenUsage; {
	case known == nil: // no request of the log has a cost
	case u != nil && u.InputTokens == known.InputTokens && u.OutputTokens == known.OutputTokens:
		failure.Usage = new(turns.UsageOf(*u))
	default: // the readers were told an end without it, or requests of the response are not in the log
		failure.Usage = new(turns.UsageOf(responses.Usage{InputTokens: known.InputTokens,
			OutputTokens: known.OutputTokens, TotalTokens: known.TotalTokens, Estimated: known.Estimated}))
	}
	switch {
	case resp.Status == responses.StatusCompleted:
		ended := turns.Completed{ResponseID: resp.ID, DurationMS: took,
			Usage:  *cmp.Or(failure.Usage, &turns.Usage{}),
			Rounds: totals.Rounds, ToolCalls: totals.ToolCalls.Total, OpenActions: actions}
		if len(actions) > 0 {
			ended.TerminalKind = turns.KindClientTools
		}
		return scope.TurnCompleted(ended)
	case resp.IncompleteDetails != nil:
		failure.IncompleteReason = resp.IncompleteDetails.Reason
		failure.Message = "the turn ended early: " + failure.IncompleteReason
		if failure.IncompleteReason == responses.ReasonTimeout {
			return scope.TurnFailed(turns.StatusTimedOut, failure)
		}
	case resp.Error != nil:
		failure.FailureCategory, failure.Message = resp.Error.Code, resp.Error.Message
	}
	switch {
	case resp.Status == responses.StatusCancelled:
		return scope.TurnFailed(turns.StatusCancelled, failure)
	case failure.FailureCategory == interrupted.Code:
		failure.InterruptedBy = "process_end"
		return scope.TurnFailed(turns.StatusLost, failure)
	}
	return scope.TurnFailed(turns.StatusFailed, failure)
}
