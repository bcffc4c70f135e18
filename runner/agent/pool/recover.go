package pool

import (
	"context"
	"errors"
	"io/fs"

	"holon/responses"
	"holon/runner"
	"holon/runner/turnfiles"
)

// How is the state in which a turn was found that another process began, or was about to begin.
type How string

// What Recover can find (docs/explanation/runtime.md, "Recovery").
const (
	Live       How = "live"        // agentd made or reported its end
	Lost       How = "lost"        // its container is gone, and nobody saw its end
	NeverBegun How = "never_begun" // agentd has never accepted it
)

// Found is what became of a turn. Result is not set for NeverBegun.
type Found struct {
	How    How
	Result Result
}

// Recover takes up a turn that another process asked for before it died, as t
// described it there. A running container is taken up even if it was made from other
// values, and its turn is watched to the end: began is called once when there is such a
// turn, and watch is told of all that it did from its begin on. Nothing is asked
// for. The error, an *Error, is for what could not be looked at (no engine answers)
// and for CodeLeft: nothing is decided then.
func (k *Pool) Recover(ctx context.Context, t Turn, began func(), watch runner.Observer) (Found, error) {
	a, err := k.lock(ctx, t.AgentID)
	if err != nil {
		return Found{}, k.typed(ctx, err)
	}
	defer k.unlock(a, true)
	trusted := k.separated(a)
	if a.session == nil {
		if err := k.adopt(ctx, a, t); err != nil {
			return Found{}, k.typed(ctx, err)
		}
	}
	if a.session == nil {
		if err := k.removeStray(ctx, a); err != nil { // it could still write
			return Found{}, k.typed(ctx, err)
		}
		if !trusted || !k.hasEnd(a, t) {
			return k.found(ctx, a, t, errors.New("its container is gone"), watch)
		}
		if _, err := k.ready(ctx, a, t); err != nil { // agentd reports the end from its own files
			return Found{}, k.typed(ctx, err)
		}
	}
	if err := k.wake(ctx, a); err != nil {
		if ctx.Err() != nil {
			return Found{}, k.typed(ctx, err)
		}
		k.opts.Log.Warn("an agent's container is given up", "agent", a.id, "err", err)
		k.closeLogged(ctx, a)
		return k.found(ctx, a, t, err, watch)
	}
	return k.rejoin(ctx, a, t, began, watch)
}

// rejoin watches the turn in the agent's container, if that knows it.
func (k *Pool) rejoin(ctx context.Context, a *agent, t Turn, began func(), watch runner.Observer) (Found, error) {
	result, err := k.follow(ctx, a, t, began, watch, func(ctx context.Context, w runner.Observer) runner.TurnResult {
		return a.session.Rejoin(ctx, k.request(t), w)
	})
	switch e, _ := errors.AsType[*Error](err); {
	case err == nil:
		return Found{How: Live, Result: result}, nil
	case e != nil && e.Code == responses.CodeTurnNotFound:
		return Found{How: NeverBegun}, nil
	case e != nil && e.Code == CodeLeft, ctx.Err() != nil:
		return Found{}, err
	}
	return k.found(ctx, a, t, err, watch)
}

// separated reports whether the files of the agent's container are agentd's alone: its commands could not write them.
func (k *Pool) separated(a *agent) bool {
	rec := k.readRecord(a)
	return rec != nil && rec.Server != nil
}

// hasEnd reports whether the turn has an end in the files of its container, which is asked for only then.
func (k *Pool) hasEnd(a *agent, t Turn) bool {
	_, end, err := turnfiles.Read(k.private(a, sessionDir), t.ID)
	return err == nil && end != nil
}

// found looks up in what is on the disk what became of a turn that no container
// makes.
func (k *Pool) found(ctx context.Context, a *agent, t Turn, why error, watch runner.Observer) (Found, error) {
	k.replay(ctx, a, t, watch)
	result, err := k.lookUp(a, t, runner.TurnResult{TurnID: t.ID, Err: why})
	if errors.Is(err, fs.ErrNotExist) {
		return Found{How: NeverBegun}, nil
	}
	return Found{How: Lost, Result: result}, nil
}
