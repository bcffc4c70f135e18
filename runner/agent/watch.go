package agent

import (
	"context"
	"errors"

	"holon/runner/agent/prompt"
	"holon/state/ledger"
)

// watchTurn cancels the turn when an abort is recorded, and delivers what the
// operator interjects. The returned channel is closed after the watcher ended,
// which cancelling ctx causes.
func (r *Runtime) watchTurn(ctx context.Context, attempt ledger.Attempt, stop context.CancelCauseFunc) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for delivered := false; ctx.Err() == nil; {
			changed := r.store.Changed(attempt.AgentID)
			did, err := r.checkTurn(ctx, attempt, stop, !delivered)
			if delivered = delivered || did; err != nil && ctx.Err() == nil {
				r.log.Warn("a running turn cannot be watched", "agent", attempt.AgentID, "turn", attempt.TurnID,
					"err", err)
			}
			select {
			case <-ctx.Done():
			case <-changed:
			}
		}
	}()
	return done
}

// checkTurn does what the ledger asks for now, and reports whether it tried to deliver interjections. It does when one
// waits, and when it is to: another process may have bound some before it was killed.
func (r *Runtime) checkTurn(ctx context.Context, attempt ledger.Attempt, stop context.CancelCauseFunc,
	deliver bool) (delivered bool, err error) {
	var now ledger.Attempt
	err = r.store.View(ctx, func(v ledger.View) (err error) {
		if now, err = v.Attempt(attempt.ID); err != nil {
			return err
		}
		head, ok, err := v.Head(attempt.AgentID) // a message of the operator waits
		deliver = deliver || ok && head.Sender == ledger.FromOperator && head.Priority == ledger.Interject
		return err
	})
	switch {
	case err != nil:
		return false, err
	case now.AbortedBy != "":
		stop(errAborted)
		return false, nil
	case now.Suspended != "":
		stop(errPaused)
		return false, nil
	case now.BegunAt == nil || !deliver:
		return false, nil
	}
	messages, err := r.scheduler.Offer(ctx, attempt.AgentID)
	for _, m := range messages { // agentd knows by its id which it has; what the turn did not take comes back
		text := prompt.Interjection(m, r.changed(m))
		err = errors.Join(err, r.cfg.Turns.Interject(ctx, m.AgentID, attempt.TurnID, m.ID, text))
	}
	return true, err
}
