package scheduler

import (
	"cmp"
	"slices"
	"strings"

	"holon/runner/agent/record"
	"holon/runner/agent/rules"
	"holon/state/ledger"
)

// closure is what the end of the newest turn, t, means with everything that this step did; a is the open attempt, which
// may be none.
func (s *step) closure(t ledger.Turn, a ledger.Attempt) ledger.Closure {
	waits, open := s.waits(), read(s, ledger.View.OpenWork, s.state.AgentID)
	sit := rules.Situation{AgentID: s.state.AgentID, Stopped: s.state.Stopped, RunID: a.TurnID, Queued: s.countQueued(),
		Work: rules.WorkSignal(s.state, open, waits), Held: rules.Held(open, waits), Ended: true, Failed: t.Failed(),
		Aborted: t.Stopped()}
	sit.Waits(waits)
	if head, ok := s.queueHead(); ok {
		sit.Head(s.state.Progress, head)
	}
	c := sit.Closure()
	s.state.LastClosure = c
	return *c
}

// refreshClosure records what the end of the newest turn means after a step that changed it: a wait began or ended, the
// agent was stopped, or other work goes on. So the newest thread.updated is true, whatever happens between turns.
func (s *step) refreshClosure() {
	last := s.state.LastClosure
	if last == nil || !slices.ContainsFunc(s.events[s.covered:], moves) {
		return
	}
	a, open := s.openAttempt()
	ended := newest(s, ledger.View.Turns, 1)
	if len(ended) == 0 {
		return
	}
	if now := s.closure(ended[0], a); !sameClosure(*last, now) {
		s.emitClosure(now, ledger.Event{Status: s.threadStatus(now, a, open)})
	}
}

// threadStatus is the status of the agent's thread after a closure; a is the open attempt, if one is open.
func (s *step) threadStatus(now ledger.Closure, a ledger.Attempt, open bool) string {
	switch {
	case open && a.BegunAt != nil:
		return "running"
	case open && !s.state.Stopped:
		return "queued"
	}
	return record.ThreadStatus(now, s.state.Stopped)
}

// moves reports whether a closure may be another one after an event.
func moves(e ledger.Event) bool {
	return e.Class == "queue.changed" || e.Class == "thread.updated" || strings.HasPrefix(e.Class, "holon.wait.") ||
		strings.HasPrefix(record.Of(e).Name, "work_item_")
}

// sameClosure reports whether two closures differ in their evidence at most.
func sameClosure(a, b ledger.Closure) bool {
	work := func(c ledger.Closure) ledger.WorkSignal { return *cmp.Or(c.WorkSignal, &ledger.WorkSignal{}) }
	return a.Outcome == b.Outcome && a.WaitingReason == b.WaitingReason && a.Posture == b.Posture && work(a) == work(b)
}

func (s *step) emitClosure(c ledger.Closure, e ledger.Event) {
	f := fields{"outcome": string(c.Outcome), "waiting_reason": string(c.WaitingReason),
		"runtime_posture": string(c.Posture), "evidence": bounded(c.Evidence)}
	if c.WorkSignal != nil {
		f["work_signal"] = c.WorkSignal
	}
	s.emit(record.ClosureDecided, e, f)
	s.covered = len(s.events)
}

// bounded is evidence as an event has room for it.
func bounded(evidence []string) []string {
	const most = 8
	out := make([]string, 0, min(len(evidence), most))
	for _, sentence := range evidence[:min(len(evidence), most)] {
		out = append(out, clip(sentence))
	}
	return out
}
