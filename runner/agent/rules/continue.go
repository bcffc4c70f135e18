package rules

import (
	"fmt"
	"slices"

	"holon/state/ledger"
)

// Continue says what a message means for an agent in the situation that was
// there before the message is taken (runtime specification, "Continuation
// Resolution"). Only operator input overrides a wait that it does not end. again
// says that a turn was begun for the message before and was lost.
func Continue(s Situation, m ledger.Message, again bool) ledger.Continuation {
	c := ledger.Continuation{TriggerKind: m.TriggerKind}
	before := s.before()
	if prior := before.Closure(); prior != nil {
		c.PriorOutcome, c.PriorWaiting = prior.Outcome, prior.WaitingReason
	}
	addEvidence(&c.Evidence, "message %s of kind %s", m.ID, m.Kind)
	ends := slices.DeleteFunc(s.unresolved(), func(w ledger.Wait) bool { return !Ends(&w, m) })
	for _, w := range ends {
		if w.Owner == ledger.OwnerAgent {
			addEvidence(&c.Evidence, "it ends wait %s", w.ID)
		} else {
			addEvidence(&c.Evidence, "it ends wait %s of %s", w.ID, w.Owner)
		}
	}
	c.MatchedWait = continues(m.Kind) && expected(c.PriorWaiting, before.Wait, ends, m)
	for _, row := range []struct {
		is      bool
		class   ledger.Class
		visible bool // to the model
		why     string
	}{
		{!continues(m.Kind), ledger.LivenessOnly, false, "messages of this kind are only looked at"},
		{c.MatchedWait, ledger.ResumeExpectedWait, true, ""},
		{again, ledger.LocalContinuation, true, "its turn was interrupted before"},
		{m.Kind == ledger.KindSystemTick && !contentful(m) && len(ends) == 0, ledger.LivenessOnly, false,
			"the tick brings nothing and ends no wait"},
		{m.TriggerKind == ledger.TriggerOperatorInput && c.PriorOutcome == ledger.OutcomeWaiting, ledger.ResumeOverride,
			true, "the operator comes before what it waits for"},
		{true, ledger.LocalContinuation, true, ""},
	} {
		if !row.is {
			continue
		}
		if c.Class, c.ModelVisible = row.class, row.visible; row.why != "" {
			addEvidence(&c.Evidence, "%s", row.why)
		}
		break
	}
	return c
}

// expected reports whether a message, which ends waits, is what the agent waited for with a reason and a wait of its
// own. Where it is a work item that waits, what matters is what that needs.
func expected(why ledger.WaitingReason, own *ledger.Wait, ends []ledger.Wait, m ledger.Message) bool {
	ofWork := why != "" && !Rests(own)
	return ofWork && why == ledger.AwaitingOperator && (m.TriggerKind == ledger.TriggerOperatorInput || OfParent(m)) ||
		slices.ContainsFunc(ends, func(w ledger.Wait) bool {
			return Expected(w, m) && ofWork != (w.Owner == ledger.OwnerAgent) && (!ofWork || waitReasons[w.Kind] == why)
		})
}

// unresolved are the waits of the agent and of what it works on.
func (s Situation) unresolved() []ledger.Wait {
	if s.Wait == nil {
		return slices.Clone(s.Others)
	}
	return append([]ledger.Wait{*s.Wait}, s.Others...)
}

// before is the situation before a message came that is in the queue.
func (s Situation) before() Situation {
	waits := Before(s.unresolved())
	s.Wait, s.Others = nil, nil
	s.Waits(waits)
	return s
}

// Before are waits before messages came that are in the queue: what those triggered waited still.
func Before(waits []ledger.Wait) []ledger.Wait {
	waits = slices.Clone(waits)
	for i := range waits {
		if waits[i].Status == ledger.WaitTriggered {
			waits[i].Status = ledger.WaitActive
		}
	}
	return waits
}

// addEvidence adds a sentence to the evidence of a decision.
func addEvidence(evidence *[]string, format string, args ...any) {
	*evidence = append(*evidence, fmt.Sprintf(format, args...))
}

// continues reports whether messages of a kind may lead to a turn. The others
// are observed.
func continues(k ledger.MessageKind) bool {
	switch k {
	case ledger.KindTaskStatus, ledger.KindControl, ledger.KindBriefAck, ledger.KindBriefResult:
		return false
	}
	return true
}

// Ends reports whether a message ends a wait, nil for none: the one that triggered it,
// or one that would.
func Ends(w *ledger.Wait, m ledger.Message) bool {
	switch {
	case w == nil || !continues(m.Kind):
		return false
	case w.Status == ledger.WaitTriggered:
		return w.MessageID == m.ID
	}
	return w.Status == ledger.WaitActive && Triggers(*w, m)
}

// Expected reports whether a message that ends a wait is what was waited for: a wait for
// one thing may be one that anything ends.
func Expected(w ledger.Wait, m ledger.Message) bool {
	switch w.Kind {
	case ledger.WaitTask:
		return m.TriggerKind == ledger.TriggerTaskResult
	case ledger.WaitExternal:
		return m.TriggerKind == ledger.TriggerExternalEvent || m.SourceRefs["external_trigger_id"] != ""
	case ledger.WaitOperator:
		return m.TriggerKind == ledger.TriggerOperatorInput || OfParent(m)
	case ledger.WaitTimer:
		return m.TriggerKind == ledger.TriggerTimerFire && m.SourceRefs["timer_id"] == w.ID // its own time
	}
	return true
}

// Triggers reports whether a message is one of the things that an active wait
// waits for.
func Triggers(w ledger.Wait, m ledger.Message) bool {
	if !continues(m.Kind) {
		return false
	}
	return slices.ContainsFunc(w.Wakes, func(src ledger.WakeSource) bool { return fits(src, m) })
}

// Kinds of a WakeSource.
const (
	WakeTaskResult = "task_result"
	WakeExternal   = "external_ingress"
	WakeTimer      = "timer"
	WakeOperator   = "operator_input"
	wakeSystem     = "system_tick"
)

// fits reports whether a message is what a wake source stands for. What the
// agent itself put in its queue counts as the runtime's: its follow-up must not
// wait for somebody else.
func fits(src ledger.WakeSource, m ledger.Message) bool {
	switch m.TriggerKind {
	case ledger.TriggerOperatorInput:
		return src.Kind == WakeOperator
	case ledger.TriggerTaskResult:
		return src.Kind == WakeTaskResult && (src.TaskID == "" || src.TaskID == m.TaskID)
	case ledger.TriggerTimerFire:
		return src.Kind == WakeTimer
	case ledger.TriggerExternalEvent:
		return src.Kind == WakeExternal && src.ExternalTriggerID == ""
	case ledger.TriggerInternalFollowup:
		return src.Kind == wakeSystem || src.Kind == WakeOperator && OfParent(m)
	case ledger.TriggerSystemTick:
		return src.Kind == wakeSystem || cameThrough(src, m.SourceRefs["external_trigger_id"])
	}
	return false
}

// cameThrough reports whether a wake through an external trigger is one of the source.
func cameThrough(src ledger.WakeSource, trigger string) bool {
	return src.Kind == WakeExternal && trigger != "" && (src.ExternalTriggerID == "" || src.ExternalTriggerID == trigger)
}

// AnyWake are the sources of a wait that everything ends.
func AnyWake() []ledger.WakeSource {
	return []ledger.WakeSource{{Kind: WakeOperator}, {Kind: WakeExternal}, {Kind: WakeTaskResult}, {Kind: WakeTimer},
		{Kind: wakeSystem}}
}

// Stranded reports whether nothing ends a wait any more: every source names an
// external trigger for which alive says no, and it does not expire.
func Stranded(w ledger.Wait, alive func(triggerID string) bool) bool {
	if w.ExpiresAt != nil || w.WakeAt != nil {
		return false
	}
	return !slices.ContainsFunc(w.Wakes, func(src ledger.WakeSource) bool {
		return src.Kind != WakeExternal || src.ExternalTriggerID == "" || alive(src.ExternalTriggerID)
	})
}

// contentful reports whether a system tick brings something to look at: the
// hint it was made of is its body.
func contentful(m ledger.Message) bool { return m.Body.Type == "json" }
