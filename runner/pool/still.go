package pool

import (
	"context"

	"holon/internal/folder"
	"holon/internal/visible"
	"holon/runner"
)

// Still runs fn while nothing in the agent's container runs, also while a turn is made there, and none is made for it
// meanwhile. owner is to whom has to be given what the container is to write: nil where that is theirs from the start,
// or without a container, since the next one is given what is there. An error of fn is returned as it is.
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
		if session = a.session; session == nil && a.left {
			return k.errLeft(a)
		}
		if session == nil {
			return fn(ctx, nil)
		}
	}
	return session.Still(ctx, func(ctx context.Context) error { return fn(ctx, session.TreeOwner()) })
}

// errLeft says that an agent may have a container that this process does not hold, and why it does not.
func (k *Pool) errLeft(a *agent) error {
	why := runner.Describe(a.unready)
	param := "agent_id"
	if !k.ofAgents() {
		param = "session"
	}
	return &Error{Code: codeBusy, Param: param,
		Message: "the container that an earlier process left " + a.String() + " cannot be taken up: " +
			k.opts.Secrets.Text(visible.OneLine(why.Message, 300)),
		Hint: "put that right, then try again; the next turn would need it too"}
}
