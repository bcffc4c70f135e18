package pool

import (
	"context"

	"holon/runner/sessions"
	"holon/state"
)

// inContainer uses the container of an agent, which is made if there is none. While a turn runs there it shares it.
func (k *Pool) inContainer(ctx context.Context, t Turn, use func(*sessions.Session) error) error {
	if err := state.CheckAgentID(t.AgentID); err != nil {
		return err
	}
	k.tidyOnce()
	a := k.agent(t.AgentID)
	for {
		k.mu.Lock()
		live, changed := a.live, k.changed
		k.mu.Unlock()
		if live != nil {
			return k.typed(ctx, use(live))
		}
		select {
		case a.lock <- struct{}{}:
			return k.useLocked(ctx, a, t, use)
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// useLocked unlocks the agent.
func (k *Pool) useLocked(ctx context.Context, a *agent, t Turn, use func(*sessions.Session) error) error {
	defer k.unlock(a, true)
	k.mu.Lock()
	closed := k.closed
	k.mu.Unlock()
	if closed {
		return errClosed()
	}
	if _, err := k.ready(ctx, a, t); err != nil {
		return k.typed(ctx, err)
	}
	return k.typed(ctx, use(a.session))
}

func errClosed() error {
	return &Error{Code: CodeClosed, Message: "the runtime is shutting down", Hint: "try again when it is up"}
}
