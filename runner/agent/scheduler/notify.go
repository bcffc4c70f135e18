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
		s.notify(s.notification(ledger.NoticeGeneral, "", message))
		return nil
	})
}

// Acknowledge resolves a notification that the operator has seen. The error is ledger.CodeNotFound when the agent has
// none with the id.
func (m *Scheduler) Acknowledge(ctx context.Context, agentID, id string) (n ledger.Notification, err error) {
	err = m.step(ctx, agentID, func(s *step) error {
		var known bool
		if n, known = find(s, ledger.View.Notification, id); !known || n.AgentID != agentID {
			return refused(ledger.CodeNotFound, "notification_id", "holon notify log --agent "+agentID,
				"agent %s has no notification %.80q", agentID, id)
		}
		s.resolve(&n, "operator")
		return nil
	})
	return n, err
}

// resolve ends a notification unless it has ended.
func (s *step) resolve(n *ledger.Notification, by string) {
	if n.ResolvedAt != nil {
		return
	}
	n.ResolvedAt, n.ResolvedBy = &s.now, by
	s.update(n)
	s.emit(record.NotificationResolved, ledger.Event{Ref: n.ID}, fields{"notification_id": n.ID, "by": by})
}

// settleMatter resolves the notifications of a matter, also those of the agents above that it was escalated to.
func (s *step) settleMatter(kind ledger.NoticeKind, subject string) {
	open := s.about(kind, subject)
	for i := range open {
		s.resolve(&open[i], "runtime")
	}
	if len(open) == 0 || open[0].ParentID == "" {
		return
	}
	parent, err := s.agent(open[0].ParentID)
	if s.err = cmp.Or(s.err, err); s.err == nil {
		parent.settleMatter(kind, subject)
	}
}

// about are the open notifications of a matter.
func (s *step) about(kind ledger.NoticeKind, subject string) []ledger.Notification {
	return ask(s, func(v ledger.View) ([]ledger.Notification, error) {
		return v.OpenNotifications(s.state.AgentID, kind, subject)
	})
}

// notification makes one about the agent, for its operator. In a turn, and at its settlement, it has the work item and
// the correlation of the turn.
func (s *step) notification(kind ledger.NoticeKind, subject, message string) ledger.Notification {
	a := s.agentRow()
	n := ledger.Notification{
		ID: responses.NewID(prefixNotification), AgentID: a.ID, RequestedBy: a.ID, Boundary: "primary_operator",
		Message: message, Summary: rules.Summary(message), CreatedAt: s.now, Kind: kind, SubjectID: subject,
	}
	turn, open := s.openAttempt()
	if !open {
		turn = s.settles
	}
	s.relate(&n, turn)
	if a.Ownership == ledger.ParentSupervised {
		n.Boundary, n.ParentID = "parent_supervisor", a.ParentID
	}
	return n
}

// relate gives a notification what is known of the turn of an attempt.
func (s *step) relate(n *ledger.Notification, of ledger.Attempt) {
	msg, _ := find(s, ledger.View.Message, of.MessageID)
	n.WorkItemID, n.CausationID, n.CorrelationID = of.WorkItemID, of.MessageID, msg.CorrelationID
}

// notify records a notification, and puts its deliveries in the outbox: to the bindings that are given, else to those
// that follow from the agent and its turn. A matter of which one is open is not notified of again.
func (s *step) notify(n ledger.Notification, only ...ledger.OperatorBinding) {
	if n.SubjectID != "" && len(s.about(n.Kind, n.SubjectID)) > 0 {
		return
	}
	s.insert(&n)
	text := n.Message
	event, f := ledger.Event{Ref: n.ID, From: s.noticeFrom(n)}, fields{"notification_id": n.ID,
		"boundary": n.Boundary, "summary": cut(n.Summary, maxBriefSummary)}
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
func (s *step) escalate(by string, kind ledger.NoticeKind, subject, message string) {
	n := s.notification(kind, subject, message)
	n.RequestedBy = by
	s.notify(n)
	if n.ParentID == "" || s.err != nil {
		return
	}
	parent, err := s.agent(n.ParentID)
	if s.err = cmp.Or(s.err, err); s.err == nil {
		parent.escalate(by, kind, subject, message)
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
