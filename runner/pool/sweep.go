package pool

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"holon/runner"
	"holon/runner/engine"
	"holon/runner/sessions"
	"holon/state"
	"holon/state/files"
)

// How often Run sweeps, within the idle times, and how often a sweep looks for
// orphaned containers.
const (
	longestRest = 15 * time.Second
	orphanEvery = time.Minute
)

// Run sweeps from time to time until ctx ends. Begin it when every open attempt
// was recovered, or is being recovered.
func (k *Pool) Run(ctx context.Context) {
	rest := longestRest
	for _, d := range []time.Duration{k.opts.IdlePause, k.opts.IdleStop} {
		if d > 0 {
			rest = min(rest, max(d/4, 100*time.Millisecond))
		}
	}
	tick := time.NewTicker(rest)
	defer tick.Stop()
	for {
		if err := k.Sweep(ctx); err != nil && ctx.Err() == nil {
			k.opts.Log.Warn("the containers of agents could not be looked after", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-k.broken:
		case <-tick.C:
		}
	}
}

// Sweep looks once at every container that is not in use: one that is idle is paused
// and later stopped, one that ended or whose agent was removed is given up. One in which a command works is
// not idle. Now and then containers are looked for that another process left: the
// agent gets it back if it still can, else it is removed.
func (k *Pool) Sweep(ctx context.Context) error {
	k.sweeper.Lock()
	defer k.sweeper.Unlock()
	k.tidyOnce()
	var errs []error
	for _, a := range k.all() {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if a.tryLock() {
			errs = append(errs, k.tend(ctx, a), k.closeRemoved(ctx, a))
			k.unlock(a, false)
		}
	}
	if now := k.opts.Now(); now.Sub(k.swept) >= orphanEvery { // what records name was taken up by now
		k.swept = now
		errs = append(errs, k.leftovers(k.orphan).Containers(ctx, k.opts.Engine))
		if k.ofAgents() { // and of sessions
			errs = append(errs, k.opts.Claim.Sweep(ctx, k.opts.Engine))
		}
	}
	return errors.Join(errs...)
}

// tend looks after the container of an agent that the caller has locked.
func (k *Pool) tend(ctx context.Context, a *agent) error {
	if a.session == nil {
		if err := k.takeLeft(ctx, a); err != nil || a.session == nil {
			return err
		}
	}
	if a.session.Ended() {
		return k.close(ctx, a)
	}
	if k.inUse(a) {
		return nil
	}
	tasks, pause, stop := k.idleness(a)
	if tasks || a.checked.IsZero() || !a.paused && (pause || stop) {
		if works, err := k.works(ctx, a); works || err != nil || a.session == nil {
			return err
		}
	}
	if pause || stop {
		return k.rest(ctx, a, stop)
	}
	return nil
}

// idleness reports whether tasks ran in a container when it was last asked, and whether it is idle for so long that it
// is to be paused, or stopped.
func (k *Pool) idleness(a *agent) (tasks, pause, stop bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	idle := k.opts.Now().Sub(a.idle)
	return a.tasks > 0, k.opts.IdlePause > 0 && idle >= k.opts.IdlePause, k.opts.IdleStop > 0 && idle >= k.opts.IdleStop
}

// rest pauses an idle container, or stops it. Old turns go before.
func (k *Pool) rest(ctx context.Context, a *agent, stop bool) error {
	if !a.paused {
		if err := k.prune(ctx, a); err != nil {
			k.opts.Log.Warn("old turns of an agent could not be removed", "agent", a.id, "err", err)
		}
	}
	if stop {
		k.opts.Log.Debug("an idle agent's container is stopped", "agent", a.id)
		return k.close(ctx, a)
	}
	if a.paused {
		return nil
	}
	held, err := a.session.Pause(ctx)
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return errors.Join(err, k.close(ctx, a))
	}
	a.paused = held
	return nil
}

// closeRemoved ends the container of an agent that was removed. Whatever removed the agent stops it at once: this is
// for a process that was killed in between, and for an engine that did not answer.
func (k *Pool) closeRemoved(ctx context.Context, a *agent) error {
	if a.session == nil && !a.left {
		return nil
	}
	removed, err := k.removed(ctx, a.id)
	if err != nil || !removed {
		return err
	}
	k.opts.Log.Info("the container of an agent that was removed is stopped", "agent", a.id)
	if a.session == nil { // it cannot be taken up
		return k.giveUp(ctx, a)
	}
	return k.close(ctx, a)
}

func (k *Pool) removed(ctx context.Context, agentID string) (bool, error) {
	if k.opts.Removed == nil {
		return false, nil
	}
	return k.opts.Removed(ctx, agentID)
}

// takeUpTries is how often a container that does not answer is tried to be taken up before it is stopped.
const takeUpTries = 3

// takeLeft takes up what the record of an earlier process says that the agent has: its container may be gone. One that
// cannot be taken up is removed, unless only its configuration or its engine is missing, its record cannot be read, or
// it does not answer now: the next turn takes it up, or another sweep. One that does not answer is stopped at last,
// which lets its files be fetched.
func (k *Pool) takeLeft(ctx context.Context, a *agent) error {
	if !a.left || a.session != nil {
		return nil
	}
	err := k.adopt(ctx, a, Turn{AgentID: a.id})
	if state.IsCode(err, engine.CodeUnreachable) && ctx.Err() == nil {
		if a.tries++; a.tries >= takeUpTries {
			k.opts.Log.Info("a container does not answer and is stopped", "agent", a.id, "err", err)
			err = k.stopLeft(ctx, a)
		}
	}
	switch {
	case err == nil:
		a.left, a.tries = false, 0
		return nil
	case errors.Is(err, errUnconfigured), errors.Is(err, runner.ErrOtherEngine), state.IsCode(err, sessions.CodeDamaged),
		state.IsCode(err, engine.CodeUnreachable):
		k.opts.Log.Warn("a container cannot be taken up yet", "agent", a.id, "err", err)
		a.unready = err
		return nil
	case ctx.Err() != nil: // which says nothing of the container
		return context.Cause(ctx)
	}
	k.opts.Log.Info("a container cannot be taken up", "agent", a.id, "err", err)
	return k.giveUp(ctx, a)
}

// stopLeft stops the container on record, and takes up what is left of it.
func (k *Pool) stopLeft(ctx context.Context, a *agent) error {
	rec, err := k.readRecord(a)
	if err == nil && rec != nil && rec.Handle != nil {
		err = k.opts.Engine.Stop(ctx, *rec.Handle, runner.StopGrace)
	}
	if err != nil {
		return err
	}
	return k.adopt(ctx, a, Turn{AgentID: a.id})
}

// giveUp removes a container that no session holds, its sockets and its record.
func (k *Pool) giveUp(ctx context.Context, a *agent) error {
	if err := k.removeStray(ctx, a); err != nil {
		return err
	}
	if rec, _ := k.readRecord(a); rec != nil { // else a start removes sockets that no record names
		if err := files.RemoveAll(rec.Sockets); err != nil {
			return err
		}
	}
	a.left, a.tries = false, 0
	return k.sessions.RemoveRecord(a.key)
}

// works asks the container whether something goes on in it, which begins its idle time anew. One that does not answer
// is given up: the agent has none then. That ctx ended says nothing of the container, nor does it for a while that the
// way to it is broken.
func (k *Pool) works(ctx context.Context, a *agent) (bool, error) {
	works, err := k.working(ctx, a)
	if err != nil && ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	if err != nil && k.mayAnswer(a) {
		k.opts.Log.Debug("an agent's container does not answer now", "agent", a.id, "err", err)
		return true, nil
	}
	if err != nil {
		k.opts.Log.Info("an agent's container does not answer and is given up", "agent", a.id, "err", err)
		return false, k.close(ctx, a)
	}
	return works, nil
}

// unheardTime is how long an agentd that is reached by a link may not answer: longer than a link takes to see that it
// stalls.
const unheardTime = 2 * time.Minute

// mayAnswer reports whether a container that did not answer may do so once its engine does: what goes on there goes on.
func (k *Pool) mayAnswer(a *agent) bool {
	linked, broken := a.session.Linked()
	if !linked || a.session.Ended() {
		return false
	}
	now := k.opts.Now()
	if a.unheard.IsZero() {
		a.unheard = now
	}
	return broken || now.Sub(a.unheard) < unheardTime
}

// working is works for a caller that decides itself about a container that does not answer.
func (k *Pool) working(ctx context.Context, a *agent) (works bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	if err := a.session.Resume(ctx); err != nil { // another process may have paused it
		return false, err
	}
	a.paused = false
	works, tasks, err := a.session.Working(ctx)
	if err != nil {
		return false, err
	}
	a.checked, a.unheard = k.opts.Now(), time.Time{}
	k.mu.Lock()
	defer k.mu.Unlock()
	a.silent = false
	if a.tasks = tasks; works {
		a.idle = k.opts.Now()
	}
	return works, nil
}

// leftovers removes what sessions of agents left, if unowned lets it.
func (k *Pool) leftovers(unowned func(context.Context, sessions.Leftover, func() error) (bool,
	error)) sessions.Sweeper {
	return sessions.Sweeper{Home: k.opts.Home, Kind: k.kind(), Unowned: unowned}
}

// orphan removes a container, under the lock of its agent, that neither the agent nor its record has.
func (k *Pool) orphan(_ context.Context, l sessions.Leftover, remove func() error) (bool, error) {
	if k.opts.Key(l.Owner).Check() != nil {
		return true, remove() // its label names no agent
	}
	if k.opts.Elsewhere != nil && k.opts.Elsewhere(l.Owner) {
		return true, k.removeLeft(l, remove)
	}
	if !k.ours(l.Owner) {
		return false, nil
	}
	a := k.agent(l.Owner)
	if !a.tryLock() { // the holder of the lock sees to it
		return false, nil
	}
	defer k.unlock(a, false)
	if a.session != nil && a.session.ID() == l.Session || a.session == nil && k.isHeld(a, l) {
		return false, nil
	}
	return true, k.removeLeft(l, remove)
}

// Isolation returns what is in force for the container of an agent, nil when it has none.
func (k *Pool) Isolation(agentID string) *state.Isolation {
	k.mu.Lock()
	defer k.mu.Unlock()
	if a := k.agents[agentID]; a != nil && a.inForce != nil {
		return new(*a.inForce)
	}
	return nil
}

// Stop ends the container of an agent, once its turns are over, and keeps its state.
// Without a container it is success.
func (k *Pool) Stop(ctx context.Context, agentID string) error {
	a, err := k.lock(ctx, agentID)
	if err != nil {
		return err
	}
	defer k.unlock(a, false)
	if err := k.drain(ctx, a); err != nil {
		return err
	}
	return errors.Join(k.close(ctx, a), k.removeStray(ctx, a))
}

// Discard removes the containers that an earlier process left an agent of this host, and their record: another host had
// the agent meanwhile.
func (k *Pool) Discard(ctx context.Context, agentID string) error {
	a := k.agent(agentID)
	select {
	case a.lock <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer k.unlock(a, false)
	return errors.Join(k.close(ctx, a), k.giveUp(ctx, a))
}

// WithoutContainers calls job while an agent and those below it have no container and can get none, or does nothing.
func (k *Pool) WithoutContainers(root string, job func() error) error {
	var locked []*agent
	defer func() {
		for _, a := range locked {
			k.unlock(a, false)
		}
	}()
	for _, a := range k.all() {
		if state.RootAgent(a.id) != root {
			continue
		}
		if !a.tryLock() {
			return nil
		}
		if locked = append(locked, a); a.session != nil || a.left {
			return nil
		}
	}
	return job()
}

// isHeld reports whether a container is, or may be, the one that its agent has on record.
func (k *Pool) isHeld(a *agent, l sessions.Leftover) bool {
	rec, err := k.readRecord(a)
	return err != nil || rec != nil && rec.ID == l.Session
}

// Close ends every container of an agent of this home and begins no more turns. A
// container in which a task runs is left, for the next process to take up. Turns that
// go on are waited for until ctx ends: end them before.
func (k *Pool) Close(ctx context.Context) error {
	k.tidyOnce()
	err := k.finish(ctx, func(ctx context.Context, a *agent) error {
		if err := k.takeLeft(ctx, a); err != nil || a.session == nil {
			return err
		}
		works, err := k.working(ctx, a)
		// Programs of the local engine end with this process, and other hosts see none of its containers.
		local := k.opts.Engine.Name() == "local" || k.opts.Elsewhere != nil
		switch {
		case err != nil && k.Tasks(a.id) > 0 && !local: // a slow machine ends no task
			k.opts.Log.Info("an agent's container does not answer and is left with its tasks", "agent", a.id, "err", err)
			return k.leave(ctx, a)
		case err != nil || !works:
			return k.close(ctx, a)
		case local:
			k.opts.Log.Info("the tasks of an agent end with the daemon: no other process could take up their container",
				"agent", a.id, "tasks", k.Tasks(a.id))
			return k.close(ctx, a)
		}
		k.opts.Log.Info("the tasks of an agent go on in its container", "agent", a.id, "tasks", k.Tasks(a.id))
		return k.leave(ctx, a)
	})
	if err != nil {
		return err
	}
	return k.leftovers(k.orphan).Containers(ctx, k.opts.Engine)
}

// Leave lets go of every container, without ending any, for another process to
// take up, and begins no more turns. Turns that go on are waited for until ctx
// ends: end them with runner.ErrLeft before.
func (k *Pool) Leave(ctx context.Context) error {
	return k.finish(ctx, k.leave)
}

func (k *Pool) leave(ctx context.Context, a *agent) error {
	if a.session == nil {
		return nil
	}
	a.stopFollowing(false)
	err := errors.Join(a.session.Leave(ctx), closeAccess(a.access))
	a.session, a.access = nil, nil
	k.release(a)
	return err
}

// finish does the last thing with every agent, several at once.
func (k *Pool) finish(ctx context.Context, last func(context.Context, *agent) error) error {
	k.mu.Lock()
	k.closed = true
	k.mu.Unlock()
	var group errgroup.Group
	group.SetLimit(8)
	var mu sync.Mutex
	var errs []error
	for _, a := range k.all() {
		group.Go(func() error {
			select {
			case a.lock <- struct{}{}:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			defer k.unlock(a, false)
			if err := k.drain(ctx, a); err != nil {
				return err
			}
			if err := last(ctx, a); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			}
			return nil
		})
	}
	return errors.Join(append([]error{group.Wait()}, errs...)...)
}
