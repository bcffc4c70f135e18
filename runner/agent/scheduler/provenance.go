package scheduler

import (
	"cmp"
	"context"

	"holon/state/ledger"
)

// operatorKey is the key of the operator who causes the steps of a context.
type operatorKey struct{}

// Operating returns a context for the steps that an operator takes by a surface: their events say so where no message
// and no call is their origin.
func Operating(ctx context.Context, actor string, by ledger.Surface, via ledger.AdmissionContext) context.Context {
	return context.WithValue(ctx, operatorKey{}, ofOperator(actor, by, via))
}

// ofOperator is where what an operator does comes from.
func ofOperator(actor string, by ledger.Surface, via ledger.AdmissionContext) ledger.Provenance {
	return ledger.Provenance{Origin: ledger.Origin{Kind: ledger.OriginOperator, ActorID: actor},
		Trust: ledger.TrustedOperator, Authority: ledger.OperatorInstruction, Surface: by, AdmissionContext: via}
}

// provenance says where a message came from, nil where retention let go of it.
func (s *step) provenance(messageID string) *ledger.Provenance {
	if from, ok := s.from[messageID]; ok {
		return from
	}
	if m, ok := find(s, ledger.View.Message, messageID); ok {
		return s.came(m)
	}
	return nil // an event is written without it
}

// fromOf is where an event came from: its message, or what it says itself, or else the operator who takes the step.
func (s *step) fromOf(e ledger.Event) *ledger.Provenance {
	switch {
	case e.ProducerSeq != 0:
		return e.From
	case e.MessageID != "":
		return s.provenance(e.MessageID)
	case e.From == nil && s.by != (ledger.Provenance{}):
		return new(s.by)
	}
	return e.From
}

// workFrom is where a change of a work item came from: the message of the turn that made it by a call, or the operator.
// Of what the runtime does by itself the item alone is known.
func (s *step) workFrom(id string) *ledger.Provenance {
	from := s.by
	if s.called {
		a, _ := ifAny(s, func(v ledger.View) (ledger.Attempt, bool, error) { return v.OpenAttempt(s.state.AgentID) })
		if known := s.provenance(a.MessageID); known != nil {
			from = *known
		}
	}
	from.WorkItemID = id
	return &from
}

// taskFrom is where a task came from: the message of the turn that began it, or the operator.
func (s *step) taskFrom(t ledger.Task) *ledger.Provenance {
	from := ledger.Provenance{}
	if known := s.provenance(t.Owner.MessageID); known != nil {
		from = *known
	} else if t.Owner.TurnID == "" {
		from = cmp.Or(s.by, ofOperator("", "", ""))
	}
	from.TaskID, from.WorkItemID = t.ID, t.Owner.WorkItemID
	return &from
}

// noticeFrom is where a notification came from: the message of the turn that it was made in, or the operator. The
// runtime makes others by itself.
func (s *step) noticeFrom(n ledger.Notification) *ledger.Provenance {
	from := cmp.Or(s.by, ledger.Provenance{Origin: ledger.Origin{Kind: ledger.OriginSystem}})
	if known := s.provenance(n.CausationID); known != nil {
		from = *known
	}
	from.WorkItemID, from.CausationID = n.WorkItemID, cmp.Or(n.CausationID, from.CausationID)
	return &from
}

// came notes where a message came from.
func (s *step) came(m ledger.Message) *ledger.Provenance {
	if s.from == nil {
		s.from = make(map[string]*ledger.Provenance)
	}
	s.from[m.ID] = &ledger.Provenance{Origin: m.Origin, Trust: m.Trust, Authority: m.Authority, Surface: m.Surface,
		AdmissionContext: m.AdmissionContext, TaskID: m.TaskID, WorkItemID: m.WorkItemID,
		CorrelationID: m.CorrelationID, CausationID: m.CausationID}
	return s.from[m.ID]
}
