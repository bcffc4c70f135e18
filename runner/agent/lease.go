package agent

import (
	"context"
	"errors"
	"time"

	"holon/state"
	"holon/state/ledger"
)

// Where several processes share a ledger, this one runs the agents whose leases it has:
//
//	ready, or left by a process that is gone ─▶ Take ─▶ taken ─▶ loaded ─▶ takeUpAll: as after a restart ─▶ run loops
//
// A lease stays until the process ends, or has more than its share and the agent is idle: Give. Any process fires
// what is due and admits messages: the first step counts, and the others find it done.

// takeFirst takes the leases of agents that were left with something to do.
func (r *Runtime) takeFirst(ctx context.Context) error {
	var wanted []string
	err := r.store.View(ctx, func(v ledger.View) error {
		open, err := v.OpenAttempts()
		for _, a := range open {
			wanted = append(wanted, state.RootAgent(a.AgentID))
		}
		tasks, taskErr := v.TaskAgents()
		for _, id := range tasks {
			wanted = append(wanted, state.RootAgent(id))
		}
		return errors.Join(err, taskErr)
	})
	if err != nil {
		return err
	}
	taken, err := r.cfg.Leases.Take(ctx, wanted)
	for _, id := range taken {
		if r.cfg.Files != nil { // which are loaded first, while others work
			r.taken[id] = true
		}
	}
	return err
}

// take takes the leases of agents that wait for a process, takes up what the process before left of them, and reports
// whether there are any.
func (r *Runtime) take(ctx context.Context, wanted []string) (more bool, err error) {
	taken, err := r.cfg.Leases.Take(ctx, wanted)
	for _, id := range taken {
		r.taken[id] = true
	}
	if err != nil || len(r.taken) == 0 {
		return false, err
	}
	ready, err := r.loaded(ctx)
	if err != nil || len(ready) == 0 {
		return false, err
	}
	is := func(id string) bool { return ready[state.RootAgent(id)] }
	if _, err = r.takeUpAll(ctx, is); err == nil {
		err = r.takeUpChildren(ctx, is)
	}
	if err == nil {
		err = r.eachAgent(ctx, is, r.scheduler.Unblock)
	}
	if err == nil {
		for id := range ready {
			delete(r.taken, id)
			delete(r.loading, id)
		}
	}
	return err == nil, err
}

// leaveWithin bounds what is saved of agents that are given up, which nothing waits for.
const leaveWithin = 10 * time.Second

// give lets other processes take idle agents of which this one has more than its share.
func (r *Runtime) give(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, leaveWithin)
	defer cancel()
	err := r.cfg.Leases.Give(ctx, func(root string, give func() error) error {
		if r.cfg.WithoutContainers == nil || r.taken[root] || r.runs(root) {
			return nil
		}
		return r.cfg.WithoutContainers(root, func() error {
			var err error
			if r.cfg.Files != nil {
				err = r.eachAgent(ctx, func(id string) bool { return state.RootAgent(id) == root }, r.cfg.Files.Save)
			}
			if err == nil {
				err = give()
			}
			return err
		})
	})
	if err != nil && ctx.Err() == nil {
		r.log.Warn("an idle agent cannot be left to another process now", "err", err)
	}
}

// runs reports whether an agent or one below it has a run loop.
func (r *Runtime) runs(root string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range r.loops {
		if state.RootAgent(id) == root {
			return true
		}
	}
	return false
}

// takeUpAll takes up what another process left of agents. settled waits until each turn that it left is settled, or
// followed.
func (r *Runtime) takeUpAll(ctx context.Context, is func(id string) bool) (settled func(context.Context) error,
	err error) {
	if r.cfg.Taken != nil {
		if err := r.cfg.Taken(ctx, is); err != nil {
			return nil, err
		}
	}
	for _, step := range []func(context.Context, string) error{r.scheduler.Restored, r.hideTrigger,
		r.scheduler.Interrupted} {
		if err := r.eachAgent(ctx, is, step); err != nil {
			return nil, err
		}
	}
	return r.recover(ctx, is)
}
