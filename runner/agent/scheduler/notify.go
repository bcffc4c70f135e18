package scheduler

import (
	"cmp"
	"context"
	"time"

	"holon/responses"
	"holon/runner/agent/record"
	"holon/runner/agent/rules"
	"holon/state/ledger"
)

// lookBack is how many notifications a brief is compared with.
const lookBack = 20

// Notify records something that the operator should see. It neither ends a turn nor
// makes the agent wait. A text that the newest brief already contains is recorded with
// an event of level trace that names the brief, so that the operator does not see it
// twice.
func (m *Scheduler) Notify(ctx context.Context, agentID, message string) error {
	return m.step(ctx, agentID, func(s *step) error {
		s.notify(s.notification(message))
		return nil
	})
}

// notification makes one about the agent, for its operator.
func (s *step) notification(message string) ledger.Notification {
	a := s.agentRow()
	n := ledger.Notification{
		ID: responses.NewID(prefixNotification), AgentID: a.ID, RequestedBy: a.ID, Boundary: "primary_operator",
		Message: message, Summary: rules.Summary(message), CreatedAt: s.now,
	}
	if a.Ownership == ledger.ParentSupervised {
		n.Boundary, n.ParentID = "parent_supervisor", a.ParentID
	}
	return n
}

// notify records a notification, and puts its deliveries in the outbox: to the bindings that are given, else to those
// that follow from the agent and its turn.
func (s *step) notify(n ledger.Notification, only ...ledger.OperatorBinding) {
	s.insert(&n)
	text := n.Message
	event, f := ledger.Event{Ref: n.ID}, fields{"notification_id": n.ID, "boundary": n.Boundary,
		"summary": cut(n.Summary, maxBriefSummary)}
	n.Message, n.Summary = f.short("operator_notification.message", n.Message), cut(n.Summary, maxBriefSummary)
	f.with(record.RecordNotification, n)
	if same := s.briefed(text); same != "" {
		event.Level, f["duplicate_of"] = record.LevelTrace, same
	}
	s.emit(record.NotificationRequested, event, f)
	s.post(n, s.newest(), only...)
	if n.ParentID != "" {
		s.mirror(n)
	}
}

// escalate notifies the operator of what an agent cannot change: of a child by its parents, up to the public one.
func (s *step) escalate(by, message string) {
	n := s.notification(message)
	n.RequestedBy = by
	s.notify(n)
	if n.ParentID == "" || s.err != nil {
		return
	}
	parent, err := s.agent(n.ParentID)
	if s.err = cmp.Or(s.err, err); s.err == nil {
		parent.escalate(by, message)
	}
}

// briefed is the id of the newest brief if it says a text and no turn has begun
// since, else "".
func (s *step) briefed(text string) string {
	if s.busy() {
		return ""
	}
	list := newest(s, ledger.View.Briefs, 1)
	if len(list) == 0 || !rules.SameText(list[0].Text, text) {
		return ""
	}
	return list[0].ID
}

// notified is the id of a notification since a time that says a text, else "".
func (s *step) notified(text string, since time.Time) string {
	for _, n := range newest(s, ledger.View.Notifications, lookBack) {
		if !n.CreatedAt.Before(since) && rules.SameText(n.Message, text) {
			return n.ID
		}
	}
	return ""
}
