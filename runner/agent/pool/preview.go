package pool

import (
	"context"

	"holon/responses"
	"holon/responses/turns"
	"holon/runner"
)

// Preview returns what a model would be asked first in a turn, which is not made. The agent gets a container for it as
// for a turn; while a turn runs, its container is asked, and the turn goes on. The error is an *Error.
func (k *Pool) Preview(ctx context.Context, t Turn) (turns.Preview, error) {
	if t.ID == "" {
		t.ID = responses.NewID(responses.PrefixTurn)
	}
	live, a, err := k.lockOrLive(ctx, t.AgentID)
	if err != nil {
		return turns.Preview{}, k.typed(ctx, err)
	}
	if a != nil {
		defer k.unlock(a, true)
		if _, err := k.ready(ctx, a, t); err != nil {
			return turns.Preview{}, k.typed(ctx, err)
		}
		live = a.session
	}
	p, err := live.Preview(ctx, k.request(t))
	if err != nil {
		return turns.Preview{}, k.typed(ctx, err)
	}
	return p, nil
}

// lockOrLive locks an agent, or returns the session that its present holder asks for a turn.
func (k *Pool) lockOrLive(ctx context.Context, id string) (*runner.Session, *agent, error) {
	locking, stop := context.WithCancel(ctx)
	defer stop()
	locked := make(chan error, 1)
	var a *agent
	go func() { // ends with locking
		var err error
		a, err = k.lock(locking, id)
		locked <- err
	}()
	for {
		k.mu.Lock()
		var live *runner.Session
		if known := k.agents[id]; known != nil {
			live = known.live
		}
		changed := k.changed
		k.mu.Unlock()
		if live != nil {
			stop()
			if err := <-locked; err == nil { // its holder is gone
				return nil, a, nil
			}
			return live, nil, nil
		}
		select {
		case err := <-locked:
			return nil, a, err
		case <-changed:
		}
	}
}
