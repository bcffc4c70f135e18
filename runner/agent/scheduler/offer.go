package scheduler

import (
	"context"
	"encoding/json"
	"strings"

	"holon/responses/turns"
	"holon/runner/agent/record"
	"holon/state/ledger"
)

// maxOffered is how many messages one call of Offer looks at.
const maxOffered = 32

// Offer binds the operator's prompts of priority interject that are in the queue
// to the turn that runs, and returns all that are bound to it, so that the caller
// can hand them to the container, as often as need be. There are none without a
// turn that has begun and is to go on.
func (m *Scheduler) Offer(ctx context.Context, agentID string) ([]ledger.Message, error) {
	var offered []ledger.Message
	err := m.step(ctx, agentID, func(s *step) error {
		offered = nil
		a, ok := s.openAttempt()
		if !ok || a.BegunAt == nil || a.AbortedBy != "" {
			return nil
		}
		for _, e := range s.queue() {
			if e.Sender != ledger.FromOperator || e.Priority != ledger.Interject {
				break // the operator's come first
			}
			s.offer(a, e)
		}
		offered = s.offered(a)
		return nil
	})
	return offered, err
}

// offer binds a queued entry to the turn that runs. The waits that it triggered are
// over: the agent has their message.
func (s *step) offer(a ledger.Attempt, e ledger.Entry) {
	s.fresh() // only the operator interjects
	e.Status, e.AttemptID, e.Interjects, e.NotBefore, e.UpdatedAt = ledger.Dequeued, a.ID, true, nil, s.now
	s.update(&e)
	msg := s.message(e.MessageID)
	s.emitQueue(record.OperatorInterjection, "interject", e,
		ledger.Event{ID: interjectedEvent(a.ID, e.MessageID), TurnID: a.TurnID, Status: "running",
			Cause: admittedEvent(e.MessageID)},
		fields{"attempt_id": a.ID, "merged_into_turn_id": a.TurnID}.withMessage(msg))
	for _, w := range s.waits() {
		if triggeredBy(w, e.MessageID) {
			s.resolveWait(w, a, e.MessageID)
		}
	}
}

func (s *step) offered(a ledger.Attempt) (list []ledger.Message) {
	for _, e := range read(s, ledger.View.Held, a.AgentID) {
		if e.Interjects {
			list = append(list, s.message(e.MessageID))
		}
	}
	return list
}

// interjection is the message, bound to the turn of an attempt, that an event of input is about; "" for none.
func (s *step) interjection(a ledger.Attempt, e ledger.Event) string {
	var receipt turns.Heard
	if !strings.HasPrefix(e.Class, "holon.input.") || json.Unmarshal(e.Data, &receipt) != nil {
		return ""
	}
	for _, entry := range read(s, ledger.View.Held, a.AgentID) {
		if entry.Interjects && entry.MessageID == receipt.InputID {
			return receipt.InputID
		}
	}
	return ""
}
