package pool

import (
	"context"
	"errors"

	"holon/responses"
	"holon/runner"
	"holon/state"
)

// Recover takes up a turn that another process asked for before it died, as t
// described it there. A running container is taken up even if it was made from other
// values, and its turn is watched to the end: began is called once when there is such a
// turn, and watch receives all that it did from its begin on. Nothing is asked
// for. The error, an *Error, is for what could not be looked at (no engine answers)
// and for CodeLeft: nothing is decided then. With Options.AtOnce each of the owner's turns
// that may go on has to be recovered, concurrently: none reaches its models before.
func (k *Pool) Recover(ctx context.Context, t Turn, began func(), watch runner.Observer) (runner.End, error) {
	u, err := k.use(ctx, t.AgentID)
	if err != nil {
		return runner.End{}, k.typed(ctx, err)
	}
	defer u.end()
	a := u.agent
	trusted := k.separated(a) || a.trusted
	if a.session == nil {
		if err := k.adopt(ctx, a, t); err != nil {
			return runner.End{}, k.typed(ctx, err)
		}
	}
	if a.session == nil {
		a.trusted = trusted && k.opts.AtOnce          // the next turn has no record any more
		if err := k.removeStray(ctx, a); err != nil { // it could still write
			return runner.End{}, k.typed(ctx, err)
		}
		gone := runner.End{TurnID: t.ID(), Err: errors.New("its container is gone")}
		return k.unseen(ctx, a, gone, trusted, began, watch), nil
	}
	if _, err := k.working(ctx, a); err != nil {
		if ctx.Err() != nil || k.mayAnswer(a) {
			return runner.End{}, k.typed(ctx, err)
		}
		k.opts.Log.Warn("an agent's container is given up", "agent", a.id, "err", err)
		k.closeLogged(ctx, a)
		return k.unseen(ctx, a, runner.End{TurnID: t.ID(), Err: err}, false, began, watch), nil
	}
	session, req := a.session, k.request(t)
	req.Admitted = u.share
	end, err := k.follow(ctx, u, t, began, watch, func(ctx context.Context, w runner.Observer) runner.End {
		return session.Rejoin(ctx, req, w)
	})
	switch {
	case err == nil:
		return end, nil
	case state.IsCode(err, responses.CodeTurnNotFound):
		return runner.End{TurnID: t.ID(), Err: err, NotBegun: true}, nil
	case state.IsCode(err, CodeLeft), ctx.Err() != nil:
		return runner.End{}, err
	}
	return k.unseen(ctx, a, runner.End{TurnID: t.ID(), Err: err}, false, began, watch), nil
}

// separated reports whether the files of the agent's container are agentd's alone: its commands could not write them.
func (k *Pool) separated(a *agent) bool {
	rec, _ := k.readRecord(a) // adopt reports one that cannot be used
	return rec != nil && rec.Server != nil
}

// unseen looks up on the disk what became of a turn that no container makes any more, and reports what it did.
func (k *Pool) unseen(ctx context.Context, a *agent, end runner.End, trusted bool, began func(),
	watch runner.Observer) runner.End {
	end = k.sessions.Unseen(ctx, a.key, end, trusted)
	if end.NotBegun {
		return end
	}
	if end.Err == nil && began != nil {
		began()
	}
	k.sessions.Replay(ctx, a.key, end.TurnID, watch)
	return end
}
