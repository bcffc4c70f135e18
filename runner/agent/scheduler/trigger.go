package scheduler

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"holon/runner/agent/record"
	"holon/runner/agent/rules"
	"holon/runner/agent/signature"
	"holon/state/ledger"
)

// Bounds of triggers.
const (
	maxSigned = 16  // active ones of an agent that take signed deliveries
	maxSeen   = 256 // keys of deliveries that one of them remembers
)

// Deliver takes what came to the URL of an external trigger: it is a wake of the
// trigger's agent. A token that is unknown, revoked or of a former URL costs one
// look-up and takes no writer; the error is CodeTokenUnknown and says no more. A
// signature is verified before anything is written, with CodeSignature, and a
// delivery that came before changes nothing. Other errors are those of Wake.
func (m *Scheduler) Deliver(ctx context.Context, d Delivery) (Receipt, error) {
	hash := TokenHash(d.Token)
	t, err := ledger.Read(ctx, m.store, func(v ledger.View) (ledger.Trigger, error) { return liveTrigger(v, hash) })
	if err != nil {
		return Receipt{}, err
	}
	signed, err := d.verified(t)
	if err != nil {
		return Receipt{}, err
	}
	w := Wake{AgentID: t.AgentID, Context: ledger.TriggerCapability, WakeHint: d.WakeHint}
	w.Headers, w.Source = signed.Headers, cmp.Or(w.Source, t.Signature)
	w.Reason, w.ExternalTriggerID = "external trigger", t.ID
	if bad := checkWake(w); bad != nil {
		return Receipt{}, invalid(bad)
	}
	r := Receipt{AgentID: t.AgentID, TriggerID: t.ID, Disposition: wakeIgnored, Challenge: signed.Challenge}
	if r.Challenge != "" {
		return r, nil
	}
	err = m.step(ctx, t.AgentID, func(s *step) error { return s.deliver(&r, hash, w, d, signed.Keys) })
	return r, err
}

// verified verifies a delivery as its trigger asks for.
func (d Delivery) verified(t ledger.Trigger) (signed signature.Delivery, err error) {
	if t.Signature == "" {
		return signed, nil
	}
	if d.Verify == nil {
		return signed, refused(CodeSignature, "", "", "deliveries to trigger %s cannot be verified here", t.ID)
	}
	signed, err = d.Verify(t)
	if bad, ok := errors.AsType[*signature.Error](err); ok {
		return signed, refused(CodeSignature, bad.Header, "set the same secret at the sender and here: holon agent "+
			"trigger create --signature "+t.Signature, "the delivery is not verified: %s", bad.Message)
	}
	return signed, err
}

func (s *step) deliver(r *Receipt, hash string, w Wake, d Delivery, keys []string) error {
	t, err := liveTrigger(s.tx.View, hash)
	if err != nil {
		return err
	}
	if err := s.checkRunning(); err != nil {
		return err
	}
	if r.Replayed = slices.ContainsFunc(keys, func(k string) bool { return slices.Contains(t.Seen, k) }); r.Replayed {
		return nil
	}
	t.Seen = append(t.Seen, keys...)
	t.Seen = t.Seen[max(0, len(t.Seen)-maxSeen):]
	t.DeliveryCount++
	t.LastDeliveredAt = &s.now
	s.update(&t)
	disposition := s.dispositionOfWake()
	f := fields{"disposition": string(disposition), "source": d.Source, "resource": d.Resource,
		"content_type": d.ContentType}
	if d.LegacyMode {
		f["deprecated_mode"] = "enqueue_message"
	}
	s.emitTrigger(record.CallbackDelivered, t, f)
	s.wake(w, disposition)
	r.Disposition = disposition
	return nil
}

func liveTrigger(v ledger.View, hash string) (ledger.Trigger, error) {
	t, ok, err := v.TriggerByHash(hash)
	if err != nil {
		return t, err
	}
	if !ok || t.Status != ledger.TriggerActive {
		return ledger.Trigger{}, refused(CodeTokenUnknown, "token", "", "no external trigger has this URL")
	}
	return t, nil
}

// CreateTrigger makes a trigger that takes only signed deliveries. An agent may have
// several, next to the one without signatures. The error is CodeTriggerLimit when it has
// as many as it may.
func (m *Scheduler) CreateTrigger(ctx context.Context, n NewTrigger) (ledger.Trigger, string, error) {
	return m.withTrigger(ctx, n.AgentID, func(s *step) (ledger.Trigger, error) {
		if have := len(s.activeTriggers()); have >= maxSigned {
			return ledger.Trigger{}, refused(CodeTriggerLimit, "agent_id", "end one: holon agent trigger revoke --id",
				"agent %s has %d triggers", n.AgentID, have)
		}
		return s.newTrigger(n.ID, n.Signature), nil
	})
}

// EnsureTrigger returns the active trigger of an agent with its token, and makes one if
// there is none. It is the one without signatures. The token is "" when it was made under another key: it is valid, and
// only RotateTrigger gives one that can be shown.
func (m *Scheduler) EnsureTrigger(ctx context.Context, agentID string) (ledger.Trigger, string, error) {
	return m.withTrigger(ctx, agentID, func(s *step) (ledger.Trigger, error) {
		t, ok := s.activeTrigger("")
		if !ok {
			t = s.newTrigger(NewTriggerID(), "")
		}
		return t, nil
	})
}

// withTrigger makes a step about the trigger of an agent, and returns that with its token.
func (m *Scheduler) withTrigger(ctx context.Context, agentID string, do func(*step) (ledger.Trigger, error)) (
	t ledger.Trigger, token string, err error) {
	err = m.liveStep(ctx, agentID, func(s *step) (err error) {
		t, err = do(s)
		return err
	})
	if err != nil {
		return ledger.Trigger{}, "", err
	}
	return t, m.tokenOf(t), nil
}

// RevealTrigger returns the active trigger of an agent with its token, to show the
// agent. The trigger is marked as shown before. The error is ledger.CodeNotFound when
// the agent has none, or one whose token cannot be derived.
func (m *Scheduler) RevealTrigger(ctx context.Context, agentID string) (ledger.Trigger, string, error) {
	return m.withTrigger(ctx, agentID, func(s *step) (ledger.Trigger, error) {
		t, ok := s.activeTrigger("")
		if !ok || m.tokenOf(t) == "" {
			return t, refused(ledger.CodeNotFound, "trigger", "holon agent trigger rotate "+agentID,
				"agent %s has no external trigger whose URL can be shown", agentID)
		}
		if a, _ := s.openAttempt(); !t.Revealed || t.RevealedIn != a.ID {
			t.Revealed, t.RevealedIn = true, a.ID
			s.update(&t)
		}
		return t, nil
	})
}

// RotateTrigger gives an active trigger of an agent a new token and forgets the
// old one. id "" is the one without signatures, which it makes if there is none.
func (m *Scheduler) RotateTrigger(ctx context.Context, agentID, id string) (ledger.Trigger, string, error) {
	return m.withTrigger(ctx, agentID, func(s *step) (ledger.Trigger, error) {
		t, ok := s.activeTrigger(id)
		if !ok && id == "" {
			return s.newTrigger(NewTriggerID(), ""), nil
		} else if !ok {
			return t, s.noTrigger(id)
		}
		t.RotatedAt = rotation(s.now, t)
		t.TokenHash = TokenHash(m.token(t))
		s.emitTrigger(record.ExternalTriggerRotated, t, nil)
		s.update(&t)
		return t, nil
	})
}

// RevokeTrigger ends an active trigger of an agent, and reports a wait that nothing ends
// without it. id "" is the one without signatures. The error is ledger.CodeNotFound when
// there is none.
func (m *Scheduler) RevokeTrigger(ctx context.Context, agentID, id string) (ledger.Trigger, error) {
	var t ledger.Trigger
	err := m.liveStep(ctx, agentID, func(s *step) error {
		active, ok := s.activeTrigger(id)
		if !ok {
			return s.noTrigger(id)
		}
		t = active
		s.revoke(&t)
		for _, w := range s.waits() { // those that only the trigger would have ended are reported
			if w.Status == ledger.WaitActive && rules.Stranded(w, func(id string) bool { return id != t.ID }) {
				s.emitWait(record.WaitWithoutRecovery, w, ledger.Event{}, fields{"trigger": t.ID})
				n := s.notification(ledger.NoticeTrigger, w.ID, fmt.Sprintf("Agent %s waits for something outside, "+
					"and the trigger that would have ended that is revoked. Send it a prompt, or give its sender the URL of "+
					"a new one. It waits for: %s",
					agentID, w.WaitingFor))
				of, _ := find(s, ledger.View.Attempt, w.Registered)
				s.relate(&n, of)
				s.notify(n)
			}
		}
		return nil
	})
	return t, err
}

func (s *step) revoke(t *ledger.Trigger) {
	t.Status, t.RevokedAt = ledger.TriggerRevoked, &s.now
	s.emitTrigger(record.ExternalTriggerRevoked, *t, nil)
	s.update(t)
}

// activeTrigger returns the active trigger of an id, or with "" the one without signatures.
func (s *step) activeTrigger(id string) (ledger.Trigger, bool) {
	for _, t := range s.activeTriggers() {
		if t.ID == id || id == "" && t.Signature == "" {
			return t, true
		}
	}
	return ledger.Trigger{}, false
}

func (s *step) activeTriggers() []ledger.Trigger {
	return slices.DeleteFunc(read(s, ledger.View.Triggers, s.state.AgentID), func(t ledger.Trigger) bool {
		return t.Status != ledger.TriggerActive
	})
}

func (s *step) noTrigger(id string) error {
	agent := s.state.AgentID
	if id == "" {
		return refused(ledger.CodeNotFound, "trigger", "holon agent trigger show "+agent,
			"agent %s has no active external trigger", agent)
	}
	return refused(ledger.CodeNotFound, "external_trigger_id", "holon agent status "+agent,
		"agent %s has no active external trigger %.80q", agent, id)
}

func (s *step) newTrigger(id, signature string) ledger.Trigger {
	t := ledger.Trigger{
		ID: id, AgentID: s.state.AgentID, DeliveryMode: ledger.DeliverWakeHint, Signature: signature,
		Status: ledger.TriggerActive, CreatedAt: s.now,
	}
	t.TokenHash = TokenHash(s.m.token(t))
	s.emitTrigger(record.ExternalTriggerCreated, t, nil)
	s.insert(&t)
	return t
}

// rotation is the time of a rotation. It is later than that of the one before, whatever
// the clock does: no token comes back.
func rotation(now time.Time, t ledger.Trigger) *time.Time {
	if t.RotatedAt != nil && !now.After(*t.RotatedAt) {
		now = t.RotatedAt.Add(time.Millisecond)
	}
	return &now
}

// token derives the token of a trigger from the key: 256 bits that fit in a URL, and
// that no record has.
func (m *Scheduler) token(t ledger.Trigger) string {
	var rotated int64
	if t.RotatedAt != nil {
		rotated = t.RotatedAt.UnixMilli()
	}
	mac := hmac.New(sha256.New, m.opts.TriggerKey)
	fmt.Fprintf(mac, "%s %d", t.ID, rotated)
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// tokenOf is the token of a trigger, "" when it was made under another key.
func (m *Scheduler) tokenOf(t ledger.Trigger) string {
	if token := m.token(t); TokenHash(token) == t.TokenHash {
		return token
	}
	return ""
}

// TokenHash is what the ledger has of the token of a trigger.
func TokenHash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}
