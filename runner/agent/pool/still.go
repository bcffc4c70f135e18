package pool

import (
	"context"

	"holon/internal/folder"
)

// Still runs fn while nothing in the agent's container runs, also while a turn is made there, and none is made for it
// meanwhile. owner is to whom has to be given what the container is to write: nil where that is theirs from the start,
// or where there is no container, since the next one is given what is there. An error of fn is returned as it is.
func (k *Pool) Still(ctx context.Context, agentID string,
	fn func(ctx context.Context, owner *folder.Owner) error) error {
	a, session, err := k.share(ctx, agentID)
	if err != nil {
		return err
	}
	if session == nil {
		defer k.unlock(a, false)
		k.mu.Lock()
		closed := k.closed
		k.mu.Unlock()
		if closed {
			return errClosed()
		}
		if err := k.takeLeft(ctx, a); err != nil {
			return k.typed(ctx, err)
		}
		if a.session == nil && a.left { // a turn may have taken it up
			return &Error{Code: codeBusy, Param: "agent_id", Hint: "try again once the daemon's log says that it is taken up",
				Message: "the container that an earlier process left agent " + agentID + " cannot be taken up yet"}
		}
		if session = a.session; session == nil {
			return fn(ctx, nil)
		}
	}
	return session.Still(ctx, func(ctx context.Context) error { return fn(ctx, session.TreeOwner()) })
}
