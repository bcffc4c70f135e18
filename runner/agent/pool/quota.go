package pool

import (
	"context"
)

// reserve counts the agent, which the caller has locked, among those that may have a container. When MaxContainers have
// one, the agent that has been idle for longest loses its own, and when none is idle the caller waits.
// Callers are served in the order in which they came.
func (k *Pool) reserve(ctx context.Context, a *agent) error {
	select {
	case k.admission <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-k.admission }()
	for {
		k.mu.Lock()
		if a.holds || k.held < k.opts.MaxContainers {
			k.take(a)
			k.crowded = false
			k.mu.Unlock()
			return nil
		}
		victim, changed := k.idlest(), k.changed
		k.crowded = victim == nil
		k.mu.Unlock()
		if victim != nil {
			k.opts.Log.Debug("an idle agent's container makes room", "agent", victim.id, "for", a.id)
			k.closeLogged(context.WithoutCancel(ctx), victim)
			k.unlock(victim, false)
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
			k.mu.Lock()
			k.crowded = false
			k.mu.Unlock()
			return context.Cause(ctx)
		}
	}
}

// take counts the agent's container. The caller holds mu.
func (k *Pool) take(a *agent) {
	if !a.holds {
		a.holds = true
		k.held++
	}
}

// release counts it no more.
func (k *Pool) release(a *agent) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if a.holds {
		a.holds, a.tasks, a.inForce = false, 0, nil
		k.held--
		k.announce()
	}
}

// idlest locks the agent whose container has been idle for longest; nil when all are
// in use. One in which a task runs is in use. The caller holds mu.
func (k *Pool) idlest() (found *agent) {
	for _, a := range k.agents {
		if !a.holds || a.tasks > 0 || !a.tryLock() {
			continue
		}
		if found == nil || a.idle.Before(found.idle) {
			a, found = found, a
		}
		if a != nil {
			<-a.lock
		}
	}
	return found
}

// gives reports whether another agent waits for a container, so that one with
// more work does not keep its own for ever.
func (k *Pool) gives() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.crowded
}
