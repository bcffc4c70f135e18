package agent

import (
	"context"
	"errors"

	"holon/runner/agent/prompt"
	"holon/state/ledger"
)

// attendant watches the ledger while a turn runs. It belongs to one goroutine.
type attendant struct {
	*Runtime
	attempt ledger.Attempt
	stop    context.CancelCauseFunc // of the turn
	handed  map[string]bool         // ids of messages that the turn has taken; nil before the first look
}

// attend ends the turn when it was asked to abort it, and hands it what the
// operator interjects. The channel that it returns is closed when it has ended,
// which ctx makes it do.
func (r *Runtime) attend(ctx context.Context, attempt ledger.Attempt, stop context.CancelCauseFunc) <-chan struct{} {
	at := &attendant{Runtime: r, attempt: attempt, stop: stop}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			changed := r.store.Changed(attempt.AgentID)
			if err := at.look(ctx); err != nil && ctx.Err() == nil {
				r.log.Warn("a running turn cannot be attended to", "agent", attempt.AgentID, "turn", attempt.TurnID,
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

// look does what the ledger asks for now.
func (at *attendant) look(ctx context.Context) error {
	var now ledger.Attempt
	waiting := false // an operator wants to be heard
	err := at.store.View(ctx, func(v ledger.View) (err error) {
		if now, err = v.Attempt(at.attempt.ID); err != nil {
			return err
		}
		head, ok, err := v.Head(at.attempt.AgentID)
		waiting = ok && head.Priority == ledger.Interject
		return err
	})
	switch {
	case err != nil:
		return err
	case now.AbortedBy != "":
		at.stop(errAborted)
		return nil
	case now.BegunAt == nil || !waiting && at.handed != nil:
		return nil
	}
	return at.interject(ctx)
}

// interject hands over what is bound to the attempt. What another process bound
// before it was killed is among it, and is known to agentd by its id.
func (at *attendant) interject(ctx context.Context) error {
	messages, err := at.lane.Offer(ctx, at.attempt.AgentID)
	if err != nil {
		return err
	}
	if at.handed == nil {
		at.handed = make(map[string]bool)
	}
	var errs []error
	for _, m := range messages {
		if at.handed[m.ID] {
			continue
		}
		if err := at.cfg.Turns.Interject(ctx, m.AgentID, at.attempt.TurnID, m.ID, prompt.Interjection(m)); err != nil {
			errs = append(errs, err) // the settlement puts back what the turn did not take
			continue
		}
		at.handed[m.ID] = true
	}
	return errors.Join(errs...)
}
