package scheduler

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"holon/responses/turns"
	"holon/state/ledger"
)

// callWait bounds how long a call of a container waits for the fact that it began.
const callWait = 2 * time.Second

// causeKey is the key of the call that causes the steps of a context.
type causeKey struct{}

// calling is a call of an agent, and the event with which it began.
type calling struct{ agentID, event string }

// Calling returns a context for the steps of a call that the container of an agent makes. The id of the call is that of
// its turn, a slash, and the model's. The steps are caused by the event that the call began. The fact of that comes on
// another connection, so Calling waits for it: the record has no effect before its cause. Where it does not come in
// time, the beginning of the turn is the cause.
func (m *Scheduler) Calling(ctx context.Context, agentID, callID string) context.Context {
	turnID, call, ok := strings.Cut(callID, "/")
	if !ok {
		return ctx
	}
	late := time.NewTimer(callWait)
	defer late.Stop()
	for {
		changed := m.store.Changed(agentID)
		cause, begun, err := m.callEvent(ctx, agentID, turnID, call)
		if begun || cause == "" || err != nil {
			return context.WithValue(ctx, causeKey{}, calling{agentID, cause})
		}
		select {
		case <-changed:
		case <-late.C:
			return context.WithValue(ctx, causeKey{}, calling{agentID, cause})
		case <-ctx.Done():
			return ctx
		}
	}
}

// callEvent is the event with which a call of the open turn of an agent began, or that of the turn while the record
// does not have it; "" when another turn is open or none.
func (m *Scheduler) callEvent(ctx context.Context, agentID, turnID, call string) (event string, begun bool, err error) {
	err = m.store.View(ctx, func(v ledger.View) error {
		a, open, err := v.OpenAttempt(agentID)
		if err != nil || !open || a.TurnID != turnID {
			return err
		}
		at := slices.IndexFunc(a.Open, func(u ledger.Unfinished) bool {
			return u.Class == turns.ToolStarted && u.Call == call
		})
		if event = submittedEvent(a.ID); at >= 0 {
			event, begun = a.Open[at].Event, true
		}
		return nil
	})
	return event, begun, err
}

// causeOf is the event that causes the steps of an agent in a context, "" for none. A cause is in the log of the same
// agent.
func causeOf(ctx context.Context, agentID string) string {
	c, _ := ctx.Value(causeKey{}).(calling)
	if c.agentID != agentID {
		return ""
	}
	return c.event
}

// causeOf is the cause of the admission of a message: what the step acts on, or else what the message names. An agent
// names the message in whose turn it is.
func (s *step) causeOf(msg ledger.Message, from ledger.Sender) string {
	named := msg.CausationID
	if from == ledger.FromSelf && named != "" {
		named = admittedEvent(named)
	}
	return cmp.Or(s.cause, named)
}
