package pool

import (
	"context"
	"slices"

	"holon/state"
)

// waiter is an agent that waits for a container.
type waiter struct {
	agent *agent
	first bool // it goes before those that do not say so
	tree  string
	most  int // containers that its tree may have; 0: no bound
}

// reserve counts the agent, which the caller has locked, among those that may have a container. When MaxContainers have
// one, or its tree has as many as it may, the agent that has been idle for longest loses its own, and when none is idle
// the caller waits. Callers are served in the order in which they came, those for operators before the others. One
// whose tree has all that it may holds up no other.
func (k *Pool) reserve(ctx context.Context, a *agent, t Turn) error {
	w := &waiter{a, t.First, state.RootAgent(a.id), t.TreeContainers}
	k.enqueue(w)
	defer k.leaveQueue(w)
	for {
		k.mu.Lock()
		if a.holds {
			k.mu.Unlock()
			return nil
		}
		next, victim := k.next()
		if next != w && victim != nil {
			<-victim.lock // it is the one of another waiter, which looks itself and must find it free
		}
		if next == w && victim == nil {
			k.take(a)
			k.mu.Unlock()
			return nil
		}
		k.crowded = next == nil && k.held >= k.opts.MaxContainers
		changed := k.changed
		k.mu.Unlock()
		if next == w {
			k.opts.Log.Debug("an idle agent's container makes room", "agent", victim.id, "for", a.id)
			k.closeLogged(context.WithoutCancel(ctx), victim)
			k.unlock(victim, false)
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// enqueue adds a waiter behind the others of its kind.
func (k *Pool) enqueue(w *waiter) {
	k.mu.Lock()
	defer k.mu.Unlock()
	at := len(k.waiting)
	if w.first {
		at = slices.IndexFunc(k.waiting, func(o *waiter) bool { return !o.first })
		if at < 0 {
			at = len(k.waiting)
		}
	}
	k.waiting = slices.Insert(k.waiting, at, w)
}

// leaveQueue removes a waiter, so that the next one looks.
func (k *Pool) leaveQueue(w *waiter) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.waiting = slices.DeleteFunc(k.waiting, func(o *waiter) bool { return o == w })
	k.crowded = k.crowded && len(k.waiting) > 0
	k.announce()
}

// next is the first waiter that can have a container now, and the idle agent, which it locks, that has to lose its own
// for it; nil when none has to. The caller holds mu.
func (k *Pool) next() (next *waiter, victim *agent) {
	for _, w := range k.waiting {
		full := w.most > 0 && k.heldBy(w.tree) >= w.most
		switch {
		case !full && k.held < k.opts.MaxContainers:
			return w, nil
		case full:
			victim = k.idlest(w.tree)
		default:
			victim = k.idlest("")
		}
		if victim != nil {
			return w, victim
		}
	}
	return nil, nil
}

// heldBy is how many containers the agents of a tree have. The caller holds mu.
func (k *Pool) heldBy(tree string) (n int) {
	for _, a := range k.agents {
		if a.holds && state.RootAgent(a.id) == tree {
			n++
		}
	}
	return n
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

// idlest locks the agent whose container has been idle for longest, of a tree or of all for ""; nil when all are in
// use. One in which a task runs is in use. The caller holds mu.
func (k *Pool) idlest(tree string) (found *agent) {
	for _, a := range k.agents {
		if !a.holds || a.tasks > 0 || a.users > 0 || tree != "" && state.RootAgent(a.id) != tree || !a.tryLock() {
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
