package agent

import (
	"context"
	"fmt"
	"time"

	"holon/runner/agent/rules"
	"holon/runner/agent/scheduler"
	"holon/state"
	"holon/state/ledger"
)

// Intervals of the dispatcher, at the longest and after a failure of the store, and of
// retention. The clock that ends a pause stands still while the machine is suspended,
// so the time of day is looked at every longest.
const (
	longest       = 30 * time.Second
	storeRetry    = time.Second
	shortest      = time.Millisecond // between two rounds
	retainEvery   = 10 * time.Minute
	retainRows    = 1000 // removed in one transaction
	retainBetween = 50 * time.Millisecond
)

// dispatch starts a run loop for every agent that has work, fires what is due, and
// sleeps until a commit or the clock says that there may be more.
func (r *Runtime) dispatch(ctx context.Context) error {
	for ctx.Err() == nil {
		changed := r.store.Changed("")
		wake, err := r.round(ctx)
		if err != nil && ctx.Err() == nil {
			r.log.Error("the queue cannot be read; trying again", "err", err)
			wake = storeRetry
		}
		clock := time.NewTimer(wake)
		select {
		case <-ctx.Done():
		case <-changed:
		case <-r.idle:
		case <-clock.C:
		}
		clock.Stop()
	}
	return nil
}

// round fires what is due, starts run loops, and returns how long there is nothing
// to do but for a commit.
func (r *Runtime) round(ctx context.Context) (time.Duration, error) {
	now := r.cfg.Now()
	next, ok, err := r.scheduler.FireDue(ctx, now)
	if err != nil {
		return 0, err
	}
	wake := longest
	if ok {
		wake = min(wake, next.Sub(now))
	}
	broken := make(map[string]error)
	var wanted []string // of which this process has no lease
	err = r.store.View(ctx, func(v ledger.View) error {
		ready, err := v.Ready()
		for _, id := range ready {
			if !r.cfg.Leases.Held(id) {
				wanted = append(wanted, state.RootAgent(id))
				continue
			}
			if r.taken[state.RootAgent(id)] {
				continue
			}
			at, err := due(v, id)
			switch {
			case scheduler.Damaged(err):
				broken[id] = err
			case err != nil:
				return err
			case at.After(now):
				wake = min(wake, at.Sub(now))
			default:
				r.startLoop(id)
			}
		}
		return err
	})
	for id, err := range broken {
		r.damaged(id, err)
	}
	if err == nil {
		if r.cfg.Files != nil && !r.cfg.Leases.Held(r.cfg.Default) { // its files may not have been loaded
			wanted = append(wanted, r.cfg.Default)
		}
		var more bool
		if more, err = r.take(ctx, wanted); more {
			wake = 0
		}
		r.give(ctx)
	}
	return max(wake, shortest), err
}

// due is when the head of an agent's queue may be taken.
func due(v ledger.View, id string) (time.Time, error) {
	head, ok, err := v.Head(id)
	if err != nil || !ok {
		return time.Time{}, err
	}
	l, err := v.AgentState(id)
	return rules.Due(l.Progress, head), err
}

// damaged leaves an agent alone whose records or home cannot be used, and notifies
// the operator: by the agent's own events, or else by those of the default agent.
func (r *Runtime) damaged(id string, err error) {
	r.mu.Lock()
	known := r.broken[id]
	r.broken[id] = true
	r.mu.Unlock()
	if known {
		return
	}
	r.log.Error("an agent is left alone until the next start", "agent", id, "err", err)
	// it is notified even if the runtime ends
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.turns), settleGrace)
	defer cancel()
	text := fmt.Sprintf("Agent %s is left alone, the others go on: %s", id, r.failure(phaseStartup, err).Summary)
	if err = r.scheduler.Notify(ctx, id, text); err != nil {
		err = r.scheduler.Notify(ctx, r.cfg.Default, text)
	}
	if err != nil {
		r.log.Error("the operator cannot be notified", "agent", id, "err", err)
	}
}

// startLoop starts the run loop of an agent unless it has one.
func (r *Runtime) startLoop(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.loops[id] || r.broken[id] || r.closing {
		return
	}
	r.loops[id] = true
	r.workers.Go(func() {
		defer r.loopEnded(id)
		r.runLoop(id)
	})
}

// loopEnded forgets the run loop of an agent and lets the dispatcher check for work
// that arrived meanwhile.
func (r *Runtime) loopEnded(id string) {
	r.mu.Lock()
	delete(r.loops, id)
	r.mu.Unlock()
	r.wake()
}

// retain lets go of what is old, a little at a time.
func (r *Runtime) retain(ctx context.Context) {
	pause := time.Duration(0)
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		more, err := r.store.Prune(ctx, r.cfg.Retention, r.cfg.Now(), retainRows)
		if err != nil && ctx.Err() == nil {
			r.log.Warn("what is older than the retention was not removed", "err", err)
		}
		pause = retainEvery
		if more && err == nil {
			pause = retainBetween
		}
	}
}
