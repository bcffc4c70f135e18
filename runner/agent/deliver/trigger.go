package deliver

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"holon/runner/agent/scheduler"
	"holon/runner/agent/signature"
	"holon/state"
	"holon/state/ledger"
)

// triggerPrefix begins the names under which the secrets of triggers are kept; the id of the trigger follows.
const triggerPrefix = "trigger."

// CreateTrigger makes a trigger of an agent that takes only deliveries that are signed with a secret. The secret is
// stored first, so that a trigger in the ledger can be used, and is in no answer. It returns the token of the URL.
// Errors: those of scheduler.CreateTrigger and of the store of secrets.
func (d *Deliverer) CreateTrigger(ctx context.Context, agentID, scheme, secret string) (ledger.Trigger, string, error) {
	d.binding.Lock()
	defer d.binding.Unlock()
	if err := signature.Check(scheme, secret); err != nil {
		param, hint := "signature", "choose that of the sender"
		if signature.Known(scheme) {
			param, hint = "secret", "give the secret that the sender has"
		}
		return ledger.Trigger{}, "", &state.Error{Code: scheduler.CodeInvalidMessage, Param: param, Message: err.Error(),
			Hint: hint}
	}
	n := scheduler.NewTrigger{ID: scheduler.NewTriggerID(), AgentID: agentID, Signature: scheme}
	if err := d.keep("secret", triggerPrefix+n.ID, secret); err != nil {
		return ledger.Trigger{}, "", err
	}
	t, token, err := d.Steps.CreateTrigger(ctx, n)
	if err != nil {
		err = errors.Join(err, d.remove(triggerPrefix+n.ID))
	}
	return t, token, err
}

// Verify verifies a delivery to a trigger.
func (d *Deliverer) Verify(t ledger.Trigger, h http.Header, body []byte) (signature.Delivery, error) {
	secret, err := d.Secrets.Get(triggerPrefix + t.ID)
	if err != nil {
		return signature.Delivery{}, fmt.Errorf("find the secret of trigger %s: %w", t.ID, err)
	}
	return signature.Verify(t.Signature, secret.Reveal(), h, body, d.Now())
}

// forgetTrigger removes the secret of a trigger that does not take anything any more.
func (d *Deliverer) forgetTrigger(v ledger.View, id string) error {
	t, err := v.Trigger(id)
	if err != nil && !state.IsCode(err, ledger.CodeNotFound) {
		return nil // it cannot be read: it may be active
	}
	if err == nil && t.Status == ledger.TriggerActive {
		return nil
	}
	return d.remove(triggerPrefix + id)
}
