package agent

import (
	"context"
	"errors"
	"slices"

	"holon/runner/agent/scheduler"
	"holon/state"
	"holon/state/ledger"
)

// secretTrigger is what a person knows the token of an external trigger by.
const secretTrigger = "the URL of an agent's trigger"

// hideTriggers makes the tokens known that agents were shown: no record may have them.
func (r *Runtime) hideTriggers(ctx context.Context) error {
	var revealed []string
	err := r.store.View(ctx, func(v ledger.View) error {
		agents, err := v.Agents()
		for _, a := range agents {
			triggers, err := v.Triggers(a.ID)
			switch {
			case scheduler.Damaged(err): // which is found again when the agent is to run
			case err != nil:
				return err
			case slices.ContainsFunc(triggers, func(t ledger.Trigger) bool { return t.Revealed }):
				revealed = append(revealed, a.ID)
			}
		}
		return err
	})
	for _, id := range revealed {
		_, _, failed := r.RevealTrigger(ctx, id)
		if failed != nil && !scheduler.Damaged(failed) && !state.IsCode(failed, ledger.CodeNotFound) {
			err = errors.Join(err, failed)
		}
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
