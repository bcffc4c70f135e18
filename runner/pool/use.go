package pool

import (
	"cmp"
	"context"
	"errors"
	"time"

	"holon/responses"
	"holon/responses/client"
	"holon/runner/sessions"
)

// use is what a call has of an agent: its lock, or, once it was shared, a count of its container's users.
type use struct {
	pool    *Pool
	agent   *agent            // nil: the call has nothing
	session *sessions.Session // that is used; nil: the lock is held
	kept    bool              // the turn was refused, and the container is as it was
}

// use locks an agent for a call.
func (k *Pool) use(ctx context.Context, id string) (*use, error) {
	a, err := k.lock(ctx, id)
	if err != nil {
		return nil, err
	}
	return &use{pool: k, agent: a}, nil
}

// share lets others use the container too, where the pool does that.
func (u *use) share() {
	k, a := u.pool, u.agent
	if !k.opts.AtOnce || u.session != nil {
		return
	}
	k.mu.Lock()
	a.users++
	k.mu.Unlock()
	u.session = a.session
	k.unlock(a, true)
}

// own locks the agent again, and reports whether it still has the container that was used.
func (u *use) own() bool {
	if u.session == nil {
		return true
	}
	used := u.session
	u.end() // before the lock, whose holder may wait for that
	u.agent.lock <- struct{}{}
	u.session = nil
	return u.agent.session == used
}

// end gives up the lock, or the count.
func (u *use) end() {
	k, a := u.pool, u.agent
	switch {
	case a == nil:
		return
	case u.session == nil:
		k.unlock(a, true)
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	a.users--
	a.idle = k.opts.Now()
	k.announce()
}

// inUse reports whether something uses the container of an agent in addition to the holder of its lock.
func (k *Pool) inUse(a *agent) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return a.users > 0
}

// drain waits until nothing uses the container of an agent but the holder of its lock.
func (k *Pool) drain(ctx context.Context, a *agent) error {
	for {
		k.mu.Lock()
		users, changed := a.users, k.changed
		k.mu.Unlock()
		if users == 0 {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// answeredFor is how long an agentd that several use is taken to answer after it was used.
const answeredFor = 10 * time.Second

// answered reports whether an agentd that several use was used just now, and its connection did not break since.
func (k *Pool) answered(a *agent) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.opts.AtOnce && !a.paused && !a.checked.IsZero() && !a.silent &&
		(a.users > 0 || k.opts.Now().Sub(a.idle) < answeredFor)
}

// noteSilent notes that the agentd that was used did not answer: the next one to use it asks whether it is there.
func (u *use) noteSilent(err error) {
	if err == nil || refused(err) {
		return
	}
	u.pool.mu.Lock()
	defer u.pool.mu.Unlock()
	u.agent.silent = true
}

// errInUse says that a turn needs the container changed, and others use it as it is.
var errInUse = errors.New("others use the container")

// wait waits until nothing uses the container, without holding up what can use it as it is. The lock is held before and
// after, unless ctx ends.
func (u *use) wait(ctx context.Context) error {
	k, a := u.pool, u.agent
	k.unlock(a, false)
	u.agent = nil
	if err := k.drain(ctx, a); err != nil {
		return err
	}
	if _, err := k.lock(ctx, a.id); err != nil {
		return err
	}
	u.agent = a
	return nil
}

// Do calls fn with the agentd of an agent, whose container is made if there is none, and stays while fn runs. No turn
// is made; t says what the container is made from. fn must not use the pool for that agent; it is called once more,
// with AtOnce, if no agentd could be reached. An error of fn is returned as it is.
func (k *Pool) Do(ctx context.Context, t Turn, fn func(ctx context.Context, agent *client.Client) error) error {
	var failed error
	err := k.inContainer(ctx, t, func(s *sessions.Session) error {
		failed = fn(ctx, s.Client())
		return failed
	})
	return cmp.Or(failed, err)
}

// counted uses the container of an agent as one of several users. One whose agentd cannot be reached, and so was asked
// for nothing, is looked at, and replaced if it is gone.
func (k *Pool) counted(ctx context.Context, t Turn, use func(*sessions.Session) error) error {
	err := k.countedOnce(ctx, t, use)
	if e, ok := errors.AsType[*responses.Error](err); ok && e.Code == responses.CodeServerUnreachable && ctx.Err() == nil {
		err = k.countedOnce(ctx, t, use)
	}
	return k.typed(ctx, err)
}

func (k *Pool) countedOnce(ctx context.Context, t Turn, use func(*sessions.Session) error) error {
	u, err := k.use(ctx, t.AgentID)
	if err != nil {
		return err
	}
	defer u.end()
	if _, err := k.readyFor(ctx, u.agent, t, false); err != nil {
		return err
	}
	u.share()
	err = use(u.session)
	u.noteSilent(err)
	return err
}
