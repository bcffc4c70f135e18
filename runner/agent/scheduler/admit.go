package scheduler

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"

	"holon/responses"
	"holon/runner/agent/record"
	"holon/runner/agent/rules"
	"holon/state"
	"holon/state/ledger"
)

// Create makes an agent with an empty queue and, unless it is private, the trigger by which others wake it. The error
// has CodeInvalidAgent for an id that can't name one, ledger.CodeExists when there is an agent with it.
func (m *Scheduler) Create(ctx context.Context, n NewAgent) (ledger.Agent, error) {
	if err := state.CheckNewAgentID(n.ID); err != nil {
		return ledger.Agent{}, err
	}
	now := m.now()
	a := ledger.Agent{
		ID: n.ID, Kind: ledger.KindNamed, Visibility: ledger.Public, Ownership: ledger.SelfOwned,
		Preset:   ledger.PresetPublicNamed,
		Template: n.Template, Image: n.Image, Model: n.Model, CreatedAt: now, UpdatedAt: now,
	}
	if n.Default {
		a.Kind = ledger.KindDefault
	}
	if n.Private {
		a.Visibility, a.Preset = ledger.Private, ""
	}
	err := m.store.Update(ctx, func(tx ledger.Tx) error {
		s := m.transaction(tx, now).newAgent(a, "")
		if !n.Private {
			s.newTrigger(NewTriggerID(), "")
		}
		return s.transaction.close(nil)
	})
	return a, err
}

// Admit queues a message for its agent and triggers the wait that it ends. Its
// authority follows from its kind, origin and admission context, and not from what the draft says of it. A draft with
// the key of an earlier one returns that admission: Replayed is set. Errors: CodeInvalidMessage,
// CodeAgentStopped, CodeAgentPrivate, CodeQueueFull, CodeSelfLimit, CodeKeyConflict,
// ledger.CodeNotFound.
func (m *Scheduler) Admit(ctx context.Context, draft ledger.Message) (Admission, error) {
	if draft.AdmissionContext == ledger.OperatorTransport {
		return Admission{}, invalid(&rules.Refusal{Param: "admission_context", Message: "it needs a binding"})
	}
	return m.admitDraft(ctx, draft, func(*step, *ledger.Message) error { return nil })
}

// admitDraft is Admit for a message that check, which may add references to it, lets in.
func (m *Scheduler) admitDraft(ctx context.Context, draft ledger.Message,
	check func(*step, *ledger.Message) error) (Admission, error) {
	admitted, bad := rules.Admit(draft)
	if bad == nil {
		bad = checkMessage(draft)
	}
	if bad != nil {
		return Admission{}, invalid(bad)
	}
	var adm Admission
	err := m.stepReading(ctx, draft.AgentID, aheadOfAdmission, func(s *step) error {
		msg, from := admitted, rules.Sender(draft.Origin)
		msg.ID = responses.NewID(responses.PrefixMessage)
		s.inherit(&msg, from)
		if err := check(s, &msg); err != nil {
			return err
		}
		if earlier, ok, err := s.earlier(msg); ok {
			adm = Admission{MessageID: earlier.ID, EventSeq: earlier.AdmittedSeq, Replayed: true}
			return err
		}
		if err := s.checkAccepts(msg.AdmissionContext); err != nil {
			return err
		}
		if err := errors.Join(s.checkContinues(msg.Previous), s.checkQueueQuota(from)); err != nil {
			return err
		}
		adm = Admission{MessageID: msg.ID, EventSeq: s.admit(msg, from)}
		return nil
	})
	return adm, err
}

// inherit bounds the authority of what an agent makes for itself by that of the message
// in whose turn it is made, its cause.
func (s *step) inherit(msg *ledger.Message, from ledger.Sender) {
	if from != ledger.FromSelf || msg.CausationID == "" {
		return
	}
	if cause, ok := find(s, ledger.View.Message, msg.CausationID); ok {
		rules.Inherit(msg, cause)
	}
}

// own is a message that the runtime itself puts in the agent's queue.
func (s *step) own(draft ledger.Message) ledger.Message {
	draft.ID, draft.AgentID, draft.AdmissionContext = responses.NewID(responses.PrefixMessage), s.state.AgentID,
		ledger.RuntimeOwned
	m, bad := rules.Admit(draft)
	if bad != nil { // its table allows what the runtime sends
		s.fail(invalid(bad))
	}
	return m
}

func invalid(r *rules.Refusal) *state.Error {
	return &state.Error{Code: CodeInvalidMessage, Param: r.Param, Message: r.Message}
}

// earlier finds the message that was admitted under the same key.
func (s *step) earlier(msg ledger.Message) (ledger.Message, bool, error) {
	if msg.Key == "" {
		return ledger.Message{}, false, nil
	}
	old, ok := ifAny(s, func(v ledger.View) (ledger.Message, bool, error) { return v.MessageByKey(msg.AgentID, msg.Key) })
	if !ok {
		return old, false, nil
	}
	if !sameMessage(old, msg) {
		return old, true, refused(CodeKeyConflict, "idempotency_key", "use another key for another message",
			"the key was used for message %s, which says something else", old.ID)
	}
	return old, true, nil
}

// sameMessage reports whether two messages say the same, whenever they came.
func sameMessage(a, b ledger.Message) bool {
	a.ID, a.Number, a.CreatedAt, a.AdmittedSeq = b.ID, b.Number, b.CreatedAt, b.AdmittedSeq
	return bytes.Equal(mustJSON(a), mustJSON(b))
}

// checkAccepts refuses messages that the agent does not accept now, or not from this
// context.
func (s *step) checkAccepts(via ledger.AdmissionContext) error {
	if err := s.checkRunning(); err != nil {
		return err
	}
	a := s.agentRow()
	if a.Ownership == ledger.ParentSupervised && via != ledger.RuntimeOwned {
		return refused(CodeAgentPrivate, "agent_id", "", "agent %s takes messages of its parent alone", a.ID)
	}
	if a.Visibility == ledger.Private && (via == ledger.PublicUnauthenticated || via == ledger.TriggerCapability) {
		return refused(CodeAgentPrivate, "agent_id", "", "agent %s takes no messages from outside", a.ID)
	}
	return nil
}

// checkContinues refuses the message of a client that goes on from another response than the agent's last one.
func (s *step) checkContinues(previous string) error {
	if previous == "" {
		return nil
	}
	id, why := s.state.AgentID, ""
	switch _, running := s.openAttempt(); {
	case running:
		why = "a turn runs after it"
	case s.countQueued() > 0:
		why = "other messages are in the queue"
	case previous != s.state.LastResponse():
		why = "the agent has had turns since, or began its conversation anew"
	default:
		return nil
	}
	return refused(CodeNotLast, "previous_response_id",
		"leave it out: an agent has one conversation and goes on with it, and it can't go back",
		"%.64s is not the last response of agent %s: %s", previous, id, why)
}

// checkQueueQuota refuses a message for which the queue has no room. A tenth of it is
// the operator's alone, and what an agent makes for itself takes next to nothing.
func (s *step) checkQueueQuota(from ledger.Sender) error {
	id, most := s.state.AgentID, s.m.opts.MaxQueued
	n := s.countQueued()
	switch from {
	case ledger.FromSelf:
		if err := s.checkSelf(); err != nil {
			return err
		}
	case ledger.FromOperator, ledger.FromParent:
		if n >= most {
			return queueFull(id, n)
		}
		return nil
	}
	if n-s.countQueuedFrom(ledger.FromOperator) >= most-max(most/10, 1) {
		return queueFull(id, n)
	}
	return nil
}

func queueFull(id string, n int) error {
	return refused(CodeQueueFull, "agent_id",
		"wait until the agent has worked through its queue: holon agent status "+id,
		"the queue of agent %s is full: %d messages", id, n)
}

// checkSelf refuses an agent one more message to itself when too many wait, or
// when it has gone on by itself for as long as it may.
func (s *step) checkSelf() error {
	waiting := s.countQueuedFrom(ledger.FromSelf)
	soon := s.state.Progress.Turns + 1 + waiting // with the turn that runs
	switch {
	case waiting >= rules.MaxSelfQueued:
		return refused(CodeSelfLimit, "agent_id", "end the turn; they are taken one after another",
			"%d messages of your own wait in your queue, and no more than %d may", waiting, rules.MaxSelfQueued)
	case soon >= rules.MaxSelfTurns:
		return refused(CodeSelfLimit, "agent_id",
			"end the turn and tell your operator what is left; the next message from anyone else lets you go on",
			"%d turns of your own making follow one another, with what waits in your queue, and no more than %d may",
			soon, rules.MaxSelfTurns)
	}
	return nil
}

// admit queues a message and triggers the agent's wait if it ends it. It returns
// the number of the event of its admission.
func (s *step) admit(msg ledger.Message, from ledger.Sender) int64 {
	s.state.Admitted++
	s.state.Totals.Messages++
	msg.Number, msg.CreatedAt = s.state.Admitted, s.now
	e := ledger.Entry{
		MessageID: msg.ID, AgentID: msg.AgentID, Sender: from, Priority: msg.Priority, Number: msg.Number,
		Status: ledger.Queued, CreatedAt: s.now, UpdatedAt: s.now,
	}
	s.came(msg)
	msg.AdmittedSeq = s.state.EventSeq + int64(len(s.events)) + 1
	s.emitQueue(record.MessageAdmitted, "enqueue", e,
		ledger.Event{ID: admittedEvent(msg.ID), Status: "queued", Cause: s.causeOf(msg, from)},
		fields{"kind": string(msg.Kind), "priority": string(msg.Priority), "sender": string(from)}.withMessage(msg))
	line := s.inLine()
	s.insert(&msg, &e)
	s.line = line.with(e)
	s.trigger(msg)
	return msg.AdmittedSeq
}

// Bounds of what comes from outside, in bytes.
const (
	maxBody        = 1 << 20
	maxMetadata    = 64 << 10
	maxRequest     = 32 << 20 // of a client, with its images and files
	maxShortText   = 512
	maxAttachments = 32
)

// checkMessage bounds the texts of a message.
func checkMessage(in ledger.Message) *rules.Refusal {
	if bad := shortTexts("idempotency_key", in.Key, "correlation_id", in.CorrelationID, "causation_id", in.CausationID,
		"delivery_surface", string(in.Surface)); bad != nil {
		return bad
	}
	if len(in.Metadata) > maxMetadata {
		return &rules.Refusal{Param: "metadata", Message: "metadata is at most 64 KiB"}
	}
	if len(in.Metadata) > 0 && !jsonObject(in.Metadata) {
		return &rules.Refusal{Param: "metadata", Message: "metadata is a JSON object"}
	}
	if len(in.Request) > maxRequest {
		return &rules.Refusal{Param: "input", Message: "a request to an agent is at most 32 MiB"}
	}
	return checkBody(in.Body)
}

func checkBody(b ledger.Body) *rules.Refusal {
	switch err := bodyError(b); {
	case err != nil:
		return &rules.Refusal{Param: "body", Message: err.Error()}
	case len(b.Attachments) > maxAttachments:
		return &rules.Refusal{Param: "body.attachments", Message: "a message has at most 32 attachments"}
	}
	for _, a := range b.Attachments {
		if len(a.Value) > 0 && !json.Valid(a.Value) {
			return &rules.Refusal{Param: "body.attachments", Message: "the value of an attachment is JSON"}
		}
	}
	return nil
}

func bodyError(b ledger.Body) error {
	size := len(b.Text) + len(b.Title) + len(b.Value)
	for _, a := range b.Attachments {
		size += len(a.Kind) + len(a.Name) + len(a.URI) + len(a.Value)
	}
	if size > maxBody {
		return errors.New("a message is at most 1 MiB")
	}
	switch b.Type {
	case "json":
		if b.Text != "" || b.Title != "" || !json.Valid(b.Value) {
			return errors.New("a body of type json has a value that is JSON, and no text")
		}
		return nil
	case "text":
		if b.Title != "" || len(b.Attachments) > 0 {
			return errors.New("only a body of type brief has a title and attachments")
		}
	case "brief":
	default:
		return errors.New("the type of a body is text, json or brief")
	}
	if len(b.Value) > 0 || !isText(b.Text) || !validText(b.Title) {
		return errors.New("a body of type text or brief has a text that is UTF-8 and not empty, and no value")
	}
	return nil
}
