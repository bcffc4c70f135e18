package agent

import (
	"context"
	"errors"
	"time"

	"holon/state"
	"holon/state/ledger"
)

// retireTime bounds how long the turn of a removed agent may take to end, and its container to stop.
const retireTime = time.Minute

// Retire ends what an agent that was removed has running: its tasks, and its container once its turn is over. What it
// does not bring about, because the engine does not answer or this process ends first, is done by the sweeps of the
// containers and of the tasks, of the next process too.
func (r *Runtime) Retire(ctx context.Context, agentID string) {
	if r.cfg.Containers == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, retireTime)
	defer cancel()
	if err := r.StopTasks(ctx, agentID); err != nil { // they end with the container
		r.log.Info("tasks of an agent that was removed cannot be stopped", "agent", agentID, "err", err)
	}
	if err := r.endContainer(ctx, agentID); err != nil {
		r.log.Warn("the container of an agent that was removed cannot be stopped yet", "agent", agentID, "err", err)
	}
	for _, id := range r.removedWith(ctx, agentID) {
		r.Retire(ctx, id)
	}
	left, err := ledger.Read(ctx, r.store, removedWithTrees)
	for _, id := range left {
		if id != agentID && state.RootAgent(id) == agentID { // of a child that had ended before
			err = errors.Join(err, r.endContainer(ctx, id))
		}
	}
	if err != nil {
		r.log.Warn("the trees of the children of an agent that was removed stay for now", "agent", agentID, "err", err)
	}
}

// removedWith are the children that were removed with an agent.
func (r *Runtime) removedWith(ctx context.Context, agentID string) (ids []string) {
	err := r.store.View(ctx, func(v ledger.View) error {
		a, err := v.Agent(agentID)
		if err != nil || a.ArchivedAt == nil {
			return err
		}
		list, err := v.Tasks(agentID, 0)
		for _, t := range list {
			if c := t.Child(); c != nil && t.EndedAt != nil && !t.EndedAt.Before(*a.ArchivedAt) {
				ids = append(ids, c.AgentID)
			}
		}
		return err
	})
	if err != nil {
		r.log.Warn("the children of an agent that was removed cannot be read", "agent", agentID, "err", err)
	}
	return ids
}

// endContainer ends the container of an agent that was removed, and the tasks whose end it did not report.
func (r *Runtime) endContainer(ctx context.Context, agentID string) error {
	if err := r.cfg.Containers.Stop(ctx, agentID); err != nil {
		return err
	}
	err := r.scheduler.SettleTasks(ctx, agentID, nil, time.Now(), "the agent was removed, and its container with it")
	r.ending.Lock()
	defer r.ending.Unlock()
	if err == nil && state.IsChild(agentID) {
		err = errors.Join(r.endTree(ctx, agentID), r.discardWithRoot(ctx, agentID)) // before what is left of its trees
	}
	if err == nil && r.cfg.Workspaces != nil {
		err = r.cfg.Workspaces.Retire(ctx, agentID)
	}
	return err
}
