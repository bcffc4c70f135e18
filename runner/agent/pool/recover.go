package pool

import (
	"context"
	"errors"

	"holon/responses"
	"holon/runner"
	"holon/runner/sessions"
)

// Recover takes up a turn that another process asked for before it died, as t
// described it there. A running container is taken up even if it was made from other
// values, and its turn is watched to the end: began is called once when there is such a
// turn, and watch receives all that it did from its begin on. Nothing is asked
// for. The error, an *Error, is for what could not be looked at (no engine answers)
// and for CodeLeft: nothing is decided then.
func (k *Pool) Recover(ctx context.Context, t Turn, began func(), watch runner.Observer) (sessions.Found, error) {
	a, err := k.lock(ctx, t.AgentID)
	if err != nil {
		return sessions.Found{}, k.typed(ctx, err)
	}
	defer k.unlock(a, true)
	trusted := k.separated(a)
	if a.session == nil {
		if err := k.adopt(ctx, a, t); err != nil {
			return sessions.Found{}, k.typed(ctx, err)
		}
	}
	if a.session == nil {
		if err := k.removeStray(ctx, a); err != nil { // it could still write
			return sessions.Found{}, k.typed(ctx, err)
		}
		if !trusted || !k.sessions.HasEnd(a.key(), t.ID()) {
			return k.found(ctx, a, t, errors.New("its container is gone"), watch), nil
		}
		if _, err := k.ready(ctx, a, t); err != nil { // agentd reports the end from its own files
			return sessions.Found{}, k.typed(ctx, err)
		}
	}
	if _, err := k.working(ctx, a); err != nil {
		if ctx.Err() != nil {
			return sessions.Found{}, k.typed(ctx, err)
		}
		k.opts.Log.Warn("an agent's container is given up", "agent", a.id, "err", err)
		k.closeLogged(ctx, a)
		return k.found(ctx, a, t, err, watch), nil
	}
	return k.rejoin(ctx, a, t, began, watch)
}

// rejoin watches the turn in the agent's container, if that knows it.
func (k *Pool) rejoin(ctx context.Context, a *agent, t Turn, began func(), watch runner.Observer) (sessions.Found, error) {
	end, err := k.follow(ctx, a, t, began, watch, func(ctx context.Context, w runner.Observer) runner.End {
		return a.session.Rejoin(ctx, k.request(t), w)
	})
	switch e, _ := errors.AsType[*Error](err); {
	case err == nil:
		return sessions.Found{How: sessions.Live, End: end}, nil
	case e != nil && e.Code == responses.CodeTurnNotFound:
		return sessions.Found{How: sessions.NeverBegun}, nil
	case e != nil && e.Code == CodeLeft, ctx.Err() != nil:
		return sessions.Found{}, err
	}
	return k.found(ctx, a, t, err, watch), nil
}

// separated reports whether the files of the agent's container are agentd's alone: its commands could not write them.
func (k *Pool) separated(a *agent) bool {
	rec, _ := k.readRecord(a) // adopt reports one that cannot be used
	return rec != nil && rec.Server != nil
}

// found looks up in what is on the disk what became of a turn that no container
// makes.
func (k *Pool) found(ctx context.Context, a *agent, t Turn, why error, watch runner.Observer) sessions.Found {
	k.sessions.Replay(ctx, a.key(), t.ID(), watch)
	return k.sessions.Unseen(ctx, a.key(), runner.End{TurnID: t.ID(), Err: why})
}
