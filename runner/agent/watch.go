package agent

import (
	"context"
	"errors"

	"holon/runner/agent/prompt"
	"holon/state/ledger"
)

// turnWatcher watches the ledger while a turn runs. One goroutine uses it.
type turnWatcher struct {
	*Runtime
	attempt ledger.Attempt
	stop    context.CancelCauseFunc // of the turn
	handed  map[string]bool         // ids of messages that the turn has taken; nil before the first look
}

// watchTurn cancels the turn when an abort is recorded, and delivers what the
// operator interjects. The returned channel is closed after the watcher ended,
// which cancelling ctx causes.
func (r *Runtime) watchTurn(ctx context.Context, attempt ledger.Attempt, stop context.CancelCauseFunc) <-chan struct{} {
	w := &turnWatcher{Runtime: r, attempt: attempt, stop: stop}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			changed := r.store.Changed(attempt.AgentID)
			if err := w.check(ctx); err != nil && ctx.Err() == nil {
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

// check does what the ledger asks for now.
func (w *turnWatcher) check(ctx context.Context) error {
	var now ledger.Attempt
	waiting := false // a message of the operator waits
	err := w.store.View(ctx, func(v ledger.View) (err error) {
		if now, err = v.Attempt(w.attempt.ID); err != nil {
			return err
		}
		head, ok, err := v.Head(w.attempt.AgentID)
		waiting = ok && head.Sender == ledger.FromOperator && head.Priority == ledger.Interject
		return err
	})
	switch {
	case err != nil:
		return err
	case now.AbortedBy != "":
		w.stop(errAborted)
		return nil
	case now.BegunAt == nil || !waiting && w.handed != nil:
		return nil
	}
	return w.interject(ctx)
}

// interject hands over what is bound to the attempt. What another process bound
// before it was killed is among it, and is known to agentd by its id.
func (w *turnWatcher) interject(ctx context.Context) error {
	messages, err := w.scheduler.Offer(ctx, w.attempt.AgentID)
	if err != nil {
		return err
	}
	if w.handed == nil {
		w.handed = make(map[string]bool)
	}
	var errs []error
	for _, m := range messages {
		if w.handed[m.ID] {
			continue
		}
		if err := w.cfg.Turns.Interject(ctx, m.AgentID, w.attempt.TurnID, m.ID, prompt.Interjection(m)); err != nil {
			errs = append(errs, err) // the settlement puts back what the turn did not take
			continue
		}
		w.handed[m.ID] = true
	}
	return errors.Join(errs...)
}
