package scheduler

import (
	"cmp"
	"context"
	"crypto/subtle"
	"fmt"
	"regexp"
	"slices"

	"holon/responses"
	"holon/runner/agent/record"
	"holon/runner/agent/rules"
	"holon/state"
	"holon/state/ledger"
)

// Codes of errors about bindings of the operator's transports.
const (
	CodeInvalidBinding state.Code = "invalid_binding" // Param names the field
	CodeUnauthorized   state.Code = "unauthorized"    // the error does not say what is wrong
	CodeForbidden      state.Code = "forbidden"       // an actor that is not the binding's
)

// Bounds of bindings.
const (
	maxBindings    = 32 // of one agent
	maxBindingText = 256
)

var bindingID = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,39}$`)

// NewBinding is a binding that is to be made or replaced, with its secrets, which no record has.
type NewBinding struct {
	ledger.OperatorBinding
	URL    string // "": the one that it has
	Secret string // that signs deliveries, or their bearer token; "": the one that it has, else a new one is made
}

// Bound is a binding that was made, with the secrets that were made for it. They are shown this once.
type Bound struct {
	ledger.OperatorBinding
	SigningSecret string
	IngressToken  string
}

// Bind makes a binding, or puts it in the place of the one with its id. Without a TokenHash it keeps the one that it
// has. Errors: CodeInvalidBinding, CodeAgentPrivate, ledger.CodeExists for the id of another agent's.
func (m *Scheduler) Bind(ctx context.Context, b ledger.OperatorBinding) (ledger.OperatorBinding, error) {
	b.ActorID, b.RouteID = cmp.Or(b.ActorID, "operator"), cmp.Or(b.RouteID, b.ID)
	if err := CheckBinding(b); err != nil {
		return b, err
	}
	err := m.liveStep(ctx, b.AgentID, func(s *step) error {
		if s.agentRow().Ownership == ledger.ParentSupervised {
			return refused(CodeAgentPrivate, "agent_id", "bind the transport to "+state.RootAgent(b.AgentID),
				"agent %s has no operator but its parent", b.AgentID)
		}
		old, known := ifAny(s, func(v ledger.View) (ledger.OperatorBinding, bool, error) { return v.OperatorBinding(b.ID) })
		b.Status, b.CreatedAt, b.UpdatedAt, b.LastSeenAt = ledger.BindingActive, s.now, s.now, nil
		switch {
		case known && old.AgentID != b.AgentID:
			return refused(ledger.CodeExists, "binding_id", "choose another name", "binding %s is one of agent %s", b.ID,
				old.AgentID)
		case known:
			b.CreatedAt, b.LastSeenAt = old.CreatedAt, old.LastSeenAt
			if b.TokenHash = cmp.Or(b.TokenHash, old.TokenHash); !b.Ingress {
				b.TokenHash = ""
			}
			s.update(&b)
		case len(read(s, ledger.View.OperatorBindings, b.AgentID)) >= maxBindings:
			return refused(CodeInvalidBinding, "binding_id", "take the name of one that was revoked",
				"agent %s has %d bindings, and no more are kept", b.AgentID, maxBindings)
		default:
			s.insert(&b)
		}
		s.emitBinding(b, "bind")
		return nil
	})
	return b, err
}

// CheckBinding says which field of a binding is wrong, as a *state.Error with CodeInvalidBinding.
func CheckBinding(b ledger.OperatorBinding) error {
	if !bindingID.MatchString(b.ID) {
		return refused(CodeInvalidBinding, "binding_id", "use a lower-case letter, then letters, digits, _ and -, 40 at most",
			"%.80q cannot name a binding", b.ID)
	}
	transports := []string{ledger.TransportWebhook, ledger.TransportCommand, ledger.TransportDesktop}
	if !slices.Contains(transports, b.Transport) {
		return refused(CodeInvalidBinding, "transport", "use webhook", "%.40q is not a transport", b.Transport)
	}
	for _, f := range [][2]string{{"operator_actor_id", b.ActorID}, {"default_route_id", b.RouteID},
		{"provider", b.Provider}, {"provider_identity_ref", b.ProviderIdentity}, {"delivery_auth.key_id", b.Auth.KeyID}} {
		if len(f[1]) > maxBindingText || !validText(f[1]) {
			return refused(CodeInvalidBinding, f[0], "", "it is text of at most %d bytes", maxBindingText)
		}
	}
	if len(b.Metadata) > 4<<10 || len(b.Metadata) > 0 && !jsonObject(b.Metadata) {
		return refused(CodeInvalidBinding, "metadata", "", "it is a JSON object of at most 4 KiB")
	}
	return nil
}

// RevokeBinding ends a binding: nothing is delivered to it any more, and no message comes by it.
func (m *Scheduler) RevokeBinding(ctx context.Context, agentID, id string) (b ledger.OperatorBinding, err error) {
	err = m.step(ctx, agentID, func(s *step) error {
		if b, err = s.binding(id); err != nil || b.Status == ledger.BindingRevoked {
			return err
		}
		s.revokeBinding(&b)
		return nil
	})
	return b, err
}

func (s *step) revokeBinding(b *ledger.OperatorBinding) {
	b.Status, b.Ingress, b.TokenHash, b.UpdatedAt = ledger.BindingRevoked, false, "", s.now
	s.update(b)
	s.emitBinding(*b, "revoke")
}

// binding is a binding of the agent.
func (s *step) binding(id string) (ledger.OperatorBinding, error) {
	b, ok := ifAny(s, func(v ledger.View) (ledger.OperatorBinding, bool, error) { return v.OperatorBinding(id) })
	if !ok || b.AgentID != s.state.AgentID {
		return b, refused(ledger.CodeNotFound, "binding_id", "holon notify list --agent "+s.state.AgentID,
			"agent %s has no binding %.80q", s.state.AgentID, id)
	}
	return b, nil
}

func (s *step) emitBinding(b ledger.OperatorBinding, op string) {
	s.emit(record.TransportBound, ledger.Event{Ref: b.ID}, fields{"op": op, "binding_id": b.ID, "status": b.Status,
		"transport": b.Transport, "operator_actor_id": b.ActorID, "delivery_callback_url": clip(b.CallbackURL),
		"ingress": b.Ingress, "allow_private_addresses": b.AllowPrivate})
}

// AdmitOperator queues what the operator sends by a transport, as Admit does. token authenticates the transport; the
// draft names the operator as the actor of its origin. The check and the admission are one step. Errors in addition:
// CodeUnauthorized, CodeForbidden.
func (m *Scheduler) AdmitOperator(ctx context.Context, bindingID, token, replyRoute string, draft ledger.Message) (
	Admission, error) {
	draft.Kind, draft.Origin.Kind = ledger.KindOperatorPrompt, ledger.OriginOperator
	draft.Surface, draft.AdmissionContext = ledger.SurfaceRemote, ledger.OperatorTransport
	unauthorized := refused(CodeUnauthorized, "binding_id", "send Authorization: Bearer with the token that was printed "+
		"when the ingress was made", "there is no active binding with this id and this token")
	a, err := m.admitDraft(ctx, draft, func(s *step, msg *ledger.Message) error {
		b, ok := ifAny(s, func(v ledger.View) (ledger.OperatorBinding, bool, error) { return v.OperatorBinding(bindingID) })
		switch {
		case !ok || b.AgentID != draft.AgentID || b.Status != ledger.BindingActive || !Authenticates(b, token):
			return unauthorized
		case draft.Origin.ActorID == "" || draft.Origin.ActorID != b.ActorID:
			return refused(CodeForbidden, "actor_id", "send operator_actor_id of the binding",
				"the binding admits messages of its own operator alone")
		}
		msg.SourceRefs = map[string]string{rules.RefBinding: b.ID}
		if replyRoute != "" {
			msg.SourceRefs[rules.RefReplyRoute] = replyRoute
		}
		b.LastSeenAt = &s.now
		s.update(&b)
		return nil
	})
	if state.IsCode(err, ledger.CodeNotFound) || state.IsCode(err, CodeAgentArchived) {
		err = unauthorized // who cannot say the token does not learn which agents there are
	}
	return a, err
}

// Authenticates reports whether a token is that of the ingress of a binding.
func Authenticates(b ledger.OperatorBinding, token string) bool {
	return b.TokenHash != "" && subtle.ConstantTimeCompare([]byte(TokenHash(token)), []byte(b.TokenHash)) == 1
}

// post puts deliveries of a notification of the operator in the outbox, with the notification itself: to the binding
// by which the prompt of the turn came, else to each of the agent's, else to each of the default agent's.
func (s *step) post(n ledger.Notification, eventID string, only ...ledger.OperatorBinding) {
	if n.ParentID != "" {
		return // a child has no route of its own
	}
	reply := ""
	if len(only) == 0 {
		only, reply = s.replyRoute()
	}
	if len(only) == 0 {
		only = s.defaultRoutes()
	}
	for _, b := range only {
		s.insert(&ledger.Delivery{ID: responses.NewID(prefixIntent), EventID: eventID, NotificationID: n.ID,
			AgentID: n.AgentID, RouteID: cmp.Or(reply, b.RouteID), BindingID: b.ID, TriggerKind: ledger.OperatorNotification,
			Status: ledger.DeliveryPending, NextAt: &s.now, CreatedAt: s.now, UpdatedAt: s.now})
	}
}

// replyRoute is the binding by which the message of the open turn came while it is active, and the route back.
func (s *step) replyRoute() ([]ledger.OperatorBinding, string) {
	a, open := s.openAttempt()
	if !open {
		return nil, ""
	}
	msg, known := find(s, ledger.View.Message, a.MessageID)
	if !known || msg.Surface != ledger.SurfaceRemote {
		return nil, ""
	}
	b, err := s.binding(msg.SourceRefs[rules.RefBinding])
	if err != nil || b.Status != ledger.BindingActive {
		return nil, ""
	}
	return []ledger.OperatorBinding{b}, msg.SourceRefs[rules.RefReplyRoute]
}

// defaultRoutes are the bindings of the agent, else those of default agents.
func (s *step) defaultRoutes() []ledger.OperatorBinding {
	routes := s.activeBindings(s.state.AgentID)
	if len(routes) > 0 {
		return routes
	}
	for _, a := range ask(s, ledger.View.Agents) {
		if a.Kind == ledger.KindDefault {
			routes = append(routes, s.activeBindings(a.ID)...)
		}
	}
	return routes
}

func (s *step) activeBindings(agentID string) []ledger.OperatorBinding {
	return slices.DeleteFunc(read(s, ledger.View.OperatorBindings, agentID), func(b ledger.OperatorBinding) bool {
		return b.Status != ledger.BindingActive
	})
}

// TestBinding notifies the operator by one binding, to see whether that works.
func (m *Scheduler) TestBinding(ctx context.Context, agentID, id string) (n ledger.Notification, err error) {
	err = m.step(ctx, agentID, func(s *step) error {
		b, err := s.binding(id)
		if err == nil && b.Status != ledger.BindingActive {
			err = refused(ledger.CodeConflict, "binding_id", "bind it again", "binding %s is %s", id, b.Status)
		}
		if err != nil {
			return err
		}
		n = s.notification(ledger.NoticeTest, "", fmt.Sprintf("This is a test of the binding %s of agent %s.", id, agentID))
		n.ResolvedAt, n.ResolvedBy = &s.now, "runtime"
		s.notify(n, b)
		return nil
	})
	return n, err
}

// Submission is an attempt to deliver a notification.
type Submission struct {
	Delivery     ledger.Delivery
	Notification ledger.Notification
	Binding      ledger.OperatorBinding
}

// Submit records that an attempt to deliver begins, before it does: when nothing is recorded of its end, it is made
// again. ok is false when there is nothing to deliver any more.
func (m *Scheduler) Submit(ctx context.Context, deliveryID string) (sub Submission, ok bool, err error) {
	err = m.deliveryStep(ctx, deliveryID, func(s *step, d ledger.Delivery) error {
		sub, ok = Submission{}, false
		b, bound := ifAny(s, func(v ledger.View) (ledger.OperatorBinding, bool,
			error) {
			return v.OperatorBinding(d.BindingID)
		})
		n, kept := find(s, ledger.View.Notification, d.NotificationID)
		switch {
		case !bound || b.Status != ledger.BindingActive:
			s.endDelivery(d, ledger.DeliveryFailed, revoked)
		case !kept:
			s.endDelivery(d, ledger.DeliveryFailed, "the notification is not kept any more")
		case d.Attempts >= rules.MaxTries:
			s.endDelivery(d, ledger.DeliveryFailed, "holon ended in the last attempt")
		default:
			d.Attempts++
			s.retry(&d)
			s.emitOutbox(record.DeliverySubmitted, d, ledger.Event{})
			sub, ok = Submission{d, n, b}, true
		}
		return nil
	})
	return sub, ok, err
}

// Submitted records how an attempt ended: the transport took the notification, under an id of its own if it gave one,
// or failure says why not.
func (m *Scheduler) Submitted(ctx context.Context, deliveryID, transportID, failure string) error {
	return m.deliveryStep(ctx, deliveryID, func(s *step, d ledger.Delivery) error {
		switch {
		case failure == "":
			d.TransportID = clip(transportID)
			s.endDelivery(d, ledger.DeliveryAccepted, "")
		case d.Attempts >= rules.MaxTries:
			s.endDelivery(d, ledger.DeliveryFailed, failure)
		default:
			d.Failure = clip(failure)
			s.retry(&d)
			s.emitOutbox(record.DeliverySubmitted, d, ledger.Event{})
		}
		return nil
	})
}

// retry says when the next attempt is made unless this one is the last.
func (s *step) retry(d *ledger.Delivery) {
	at := s.now.Add(rules.Backoff(d.Attempts, s.m.opts.Rand()))
	d.NextAt, d.UpdatedAt = &at, s.now
	s.update(d)
}

// revoked is why a delivery failed that does not concern the operator, who ended its binding.
const revoked = "the binding was revoked"

func (s *step) endDelivery(d ledger.Delivery, status, failure string) {
	d.Status, d.Failure, d.NextAt, d.UpdatedAt = status, clip(failure), nil, s.now
	s.update(&d)
	e := ledger.Event{}
	switch {
	case failure == revoked:
		e.Level = record.LevelTrace
	case status == ledger.DeliveryFailed:
		e.Level = record.LevelActionRequired
	}
	s.emitOutbox(record.DeliveryCompleted, d, e)
}

func (s *step) emitOutbox(label string, d ledger.Delivery, e ledger.Event) {
	e.Ref, e.Cause = d.ID, d.EventID
	s.emit(label, e, fields{"delivery_intent_id": d.ID, "notification_id": d.NotificationID, "binding_id": d.BindingID,
		"route_id": d.RouteID, "status": d.Status, "attempts": d.Attempts, "next_attempt_at": d.NextAt,
		"transport_delivery_id": d.TransportID, "summary": d.Failure})
}

// deliveryStep makes a step of the agent whose delivery it is, while that is pending.
func (m *Scheduler) deliveryStep(ctx context.Context, id string, fn func(*step, ledger.Delivery) error) error {
	return m.store.Update(ctx, func(tx ledger.Tx) error {
		d, err := tx.Delivery(id)
		if err != nil || d.Status != ledger.DeliveryPending {
			return err
		}
		return m.run(tx, m.now(), d.AgentID, func(s *step) error { return fn(s, d) })
	})
}
