package agent

import (
	"context"
	"slices"

	"holon/runner/agent/scheduler"
	"holon/state/ledger"
)

// secretTrigger is what a person knows the token of an external trigger by.
const secretTrigger = "the URL of an agent's trigger"

// hideTrigger makes the token known that an agent was shown: no record may have it. Damage of a trigger is found again
// when it is used.
func (r *Runtime) hideTrigger(ctx context.Context, id string) error {
	triggers, err := ledger.Read(ctx, r.store, func(v ledger.View) ([]ledger.Trigger, error) { return v.Triggers(id) })
	if slices.ContainsFunc(triggers, func(t ledger.Trigger) bool { return t.Revealed }) {
		_, _, err = r.RevealTrigger(ctx, id)
	}
	if scheduler.Damaged(err) {
		return nil
	}
	return err
}

// RevealTrigger is the step of that name. The token is known as a secret from then on,
// so that no record of the agent's turns shows it.
func (r *Runtime) RevealTrigger(ctx context.Context, agentID string) (ledger.Trigger, string, error) {
	t, token, err := r.scheduler.RevealTrigger(ctx, agentID)
	if err == nil {
		r.cfg.Secrets.Add(secretTrigger, token)
	}
	return t, token, err
}
