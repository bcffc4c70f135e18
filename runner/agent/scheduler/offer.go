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
		a, ok, err := s.OpenAttempt(agentID)
		if err != nil || !ok || a.BegunAt == nil || a.AbortedBy != "" {
			return err
		}
		if err := s.offerQueued(a); err != nil {
			return err
		}
		offered, err = s.offered(a)
		return err
	})
	return offered, err
}

func (s *step) offerQueued(a ledger.Attempt) error {
	queued, err := s.Queued(a.AgentID, maxOffered)
	if err != nil {
		return err
	}
	for _, e := range queued {
		if e.Sender != ledger.FromOperator || e.Priority != ledger.Interject {
			return nil // the operator's come first
		}
		if err := s.offer(a, e); err != nil {
			return err
		}
	}
	return nil
}

// offer binds a queued entry to the turn that runs. The waits that it triggered are
// over: the agent has their message.
func (s *step) offer(a ledger.Attempt, e ledger.Entry) error {
	if err := s.fresh(); err != nil { // only the operator interjects
		return err
	}
	e.Status, e.AttemptID, e.Interjects, e.NotBefore, e.UpdatedAt = ledger.Dequeued, a.ID, true, nil, s.now
	if err := s.Update(&e); err != nil {
		return err
	}
	msg, err := s.Message(e.MessageID)
	if err != nil {
		return err
	}
	s.emitQueue(record.OperatorInterjection, "interject", e,
		ledger.Event{ID: interjectedEvent(a.ID, e.MessageID), TurnID: a.TurnID, Status: "running",
			Cause: admittedEvent(e.MessageID)},
		facts{"attempt_id": a.ID, "merged_into_turn_id": a.TurnID}.withMessage(msg))
	return s.eachWait(func(w ledger.Wait) error {
		if !triggeredBy(w, e.MessageID) {
			return nil
		}
		return s.resolveWait(w, a, e.MessageID)
	})
}

func (s *step) offered(a ledger.Attempt) ([]ledger.Message, error) {
	held, err := s.Held(a.ID)
	if err != nil {
		return nil, err
	}
	var list []ledger.Message
	for _, e := range held {
		if !e.Interjects {
			continue
		}
		msg, err := s.Message(e.MessageID)
		if err != nil {
			return nil, err
		}
		list = append(list, msg)
	}
	return list, nil
}

// interjection is the message, bound to the turn of an attempt, that an event of input is about; "" for none.
func (s *step) interjection(a ledger.Attempt, e ledger.Event) (string, error) {
	var heard turns.Heard
	if !strings.HasPrefix(e.Class, "holon.input.") || json.Unmarshal(e.Data, &heard) != nil {
		return "", nil
	}
	held, err := s.Held(a.ID)
	for _, entry := range held {
		if entry.Interjects && entry.MessageID == heard.InputID {
			return heard.InputID, nil
		}
	}
	return "", err
}
