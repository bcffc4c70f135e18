package scheduler

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"holon/runner/agent/record"
	"holon/runner/agent/rules"
	"holon/state/ledger"
)

// Wake asks an agent to look. An agent that rests gets a system tick; for one
// that is busy, or has a tick already, the hint is kept. Errors:
// CodeInvalidMessage, CodeAgentStopped, CodeAgentPrivate, ledger.CodeNotFound.
func (m *Scheduler) Wake(ctx context.Context, w Wake) (Disposition, error) {
	if bad := checkWake(w); bad != nil {
		return wakeIgnored, invalid(bad)
	}
	d := wakeIgnored
	err := m.step(ctx, w.AgentID, func(s *step) (err error) {
		// a hint takes one place in the queue at most, so a full one does not refuse it
		if err := s.checkAccepts(w.Context); err != nil {
			return err
		}
		d = s.dispositionOfWake()
		s.wake(w, d)
		return nil
	})
	return d, err
}

func checkWake(w Wake) *rules.Refusal {
	if bad := shortTexts("reason", w.Reason, "source", w.Source, "resource", w.Resource, "content_type", w.ContentType,
		"correlation_id", w.CorrelationID, "causation_id", w.CausationID,
		"external_trigger_id", w.ExternalTriggerID); bad != nil {
		return bad
	}
	known := []ledger.AdmissionContext{ledger.ControlAuthenticated, ledger.LocalProcess, ledger.TriggerCapability,
		ledger.RuntimeOwned}
	switch {
	case !slices.Contains(known, w.Context):
		return &rules.Refusal{Param: "admission_context",
			Message: "a wake needs a credential, a local socket or an external trigger"}
	case len(w.Description)+len(w.Body) > maxBody || !validText(w.Description):
		return &rules.Refusal{Param: "body", Message: "a wake brings at most 1 MiB of text"}
	case len(w.Body) > 0 && !json.Valid(w.Body):
		return &rules.Refusal{Param: "body", Message: "the body of a wake is JSON; text is a JSON string"}
	}
	return nil
}

// dispositionOfWake says what becomes of a wake: a busy agent looks later, and one tick in the queue is enough.
func (s *step) dispositionOfWake() Disposition {
	if s.busy() || s.queuedNow(s.state.WakeMessage) {
		return wakeCoalesced
	}
	return wakeTriggered
}

// wake makes a tick of a wake, or keeps it.
func (s *step) wake(w Wake, d Disposition) {
	hint := w.WakeHint
	hint.Reason, hint.CreatedAt = cmp.Or(w.Reason, "wake"), s.now
	s.correlate(&hint)
	s.emit(record.WakeRequested, ledger.Event{Ref: w.ExternalTriggerID}, fields{"disposition": string(d),
		"reason": w.Reason, "description": clip(w.Description), "source": w.Source, "resource": w.Resource,
		"waiting_intent_ids": strings.Join(hint.WaitingIntentIDs, " "), "work_item_ids": strings.Join(hint.WorkItemIDs, " ")})
	hint.Event = s.newest()
	s.state.PendingWake = rules.MergeHint(s.state.PendingWake, hint)
	if d == wakeTriggered {
		s.tickPending()
		return
	}
	s.correlate(s.state.PendingWake)
}

// correlate names in a hint what waits for something outside and is ended by the tick of the hint as things are now.
func (s *step) correlate(h *ledger.WakeHint) {
	h.WaitingIntentIDs, h.WorkItemIDs = nil, nil
	tick := ledger.Message{Kind: ledger.KindSystemTick, TriggerKind: ledger.TriggerSystemTick,
		SourceRefs: map[string]string{"external_trigger_id": through(*h)}}
	for _, w := range s.waits() {
		if w.Kind != ledger.WaitExternal || w.Status != ledger.WaitActive || !rules.Triggers(w, tick) {
			continue
		}
		h.WaitingIntentIDs = append(h.WaitingIntentIDs, w.ID)
		if w.Owner != ledger.OwnerAgent {
			h.WorkItemIDs = append(h.WorkItemIDs, w.Owner)
		}
	}
}

// through is the external trigger that a hint, or one that became part of it, came through; "" for none.
func through(h ledger.WakeHint) string {
	id := h.ExternalTriggerID
	for _, n := range h.Also {
		id = cmp.Or(id, n.ExternalTriggerID)
	}
	return id
}

// freeHint makes a kept hint a tick. The agent has no open attempt.
func (s *step) freeHint() {
	if s.state.PendingWake != nil && !s.state.Stopped && !s.queuedNow(s.state.WakeMessage) {
		s.tickPending()
	}
}

// tickPending queues the system tick of the hint that is kept. One that brings content has the hint as
// its body, any other only the reason.
func (s *step) tickPending() {
	h := *s.state.PendingWake
	s.state.PendingWake = nil
	s.correlate(&h) // a wait may have begun since it came
	msg := ledger.Message{Kind: ledger.KindSystemTick, Surface: ledger.SurfaceSystem,
		Origin: ledger.Origin{Kind: ledger.OriginSystem, Subsystem: "wake_hint"},
		Body:   ledger.Body{Type: "text", Text: h.Reason}, CorrelationID: h.CorrelationID, CausationID: h.CausationID}
	if id := through(h); id != "" {
		msg.SourceRefs = map[string]string{"external_trigger_id": id}
	}
	if len(h.WorkItemIDs) == 1 {
		msg.WorkItemID = h.WorkItemIDs[0]
	}
	msg, from := s.own(msg), ledger.FromRuntime
	rules.Outside(&msg, h)
	if h.ExternalTriggerID != "" {
		from = ledger.FromOutside
		msg.Surface, msg.AdmissionContext = ledger.SurfaceCallbackWake, ledger.TriggerCapability
	}
	cause := h.Event
	h.Event = ""
	if rules.HintContent(h) {
		msg.Body = ledger.Body{Type: "json", Value: mustJSON(h)}
	}
	s.state.WakeMessage = msg.ID
	s.emit(record.SystemTickEmitted, ledger.Event{MessageID: msg.ID, Cause: cause},
		fields{"contentful": rules.HintContent(h), "coalesced": h.Coalesced})
	defer func(before string) { s.cause = before }(s.cause)
	s.cause = s.newest()
	s.admit(msg, from)
}
