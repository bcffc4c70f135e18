package agent

import (
	"cmp"
	"context"

	"holon/responses/tasks"
	"holon/runner/agent/scheduler"
	"holon/runner/agent/view"
	"holon/runner/gateway"
	"holon/state"
	"holon/state/ledger"
)

// SpawnAgent makes an agent for another one that makes a turn. It is recorded before it has a home and a tree, which
// its first turn gets otherwise. The same call makes it once.
func (r *Runtime) SpawnAgent(ctx context.Context, n scheduler.Spawn) (scheduler.Spawned, error) {
	if n.Template == "" && n.Named == "" {
		n.Template = r.cfg.ChildTemplate
	}
	n.Template = cmp.Or(n.Template, r.cfg.Template)
	if err := r.cfg.Homes.CheckTemplate(n.Template); err != nil {
		return scheduler.Spawned{}, err
	}
	if n.Mode == ledger.ChildWorktree {
		if err := r.checkWorktree(ctx, n.ParentID); err != nil {
			return scheduler.Spawned{}, err
		}
	}
	if n.Check != "" {
		if err := r.admitCheck(n); err != nil {
			return scheduler.Spawned{}, err
		}
	}
	made, err := r.scheduler.Spawn(ctx, n)
	if err != nil {
		return made, err
	}
	if err := r.prepare(ctx, made.Agent); err != nil {
		r.log.Warn("a new agent is not complete; its first turn tries again", "agent", made.Agent.ID, "err", err)
	} else if made.Task.ID != "" {
		made.Task, err = r.task(ctx, n.ParentID, made.Task.ID)
		return made, err
	}
	return made, nil
}

func (r *Runtime) admitCheck(n scheduler.Spawn) error {
	if r.cfg.Checks == nil {
		return &state.Error{Code: scheduler.CodeInvalidSpawn, Param: "check", Message: "this runtime makes no checks",
			Hint: "leave it out"}
	}
	return r.cfg.Checks.Admit(n.Paths)
}

// prepare makes what an agent that another one made needs before its first turn, and is missing.
func (r *Runtime) prepare(ctx context.Context, a ledger.Agent) error {
	if a.SpawnedBy == "" {
		return nil
	}
	if err := r.cfg.Homes.Create(ctx, a.ID, a.Template); err != nil && !state.IsCode(err, ledger.CodeExists) {
		return err
	}
	if a.ParentID == "" || r.cfg.Trees == nil {
		return nil
	}
	t, err := r.task(ctx, a.ParentID, a.DelegatedFromTask)
	if err != nil {
		return err
	}
	err = r.cfg.Trees.ForChild(ctx, a.ParentID, a.ID, t.ID, t.Child().Mode)
	old := t.Child().Worktree
	if err != nil || old != nil && old.Path != "" {
		return err
	}
	w, err := r.worktree(ctx, t, false)
	if err == nil && (old != nil || w.Path != "") {
		err = r.scheduler.WorktreeOf(ctx, t.AgentID, t.ID, w)
	}
	return err
}

// sharedOf is the account from which the turns of an agent's tree draw while they run, as the record has it now.
func (r *Runtime) sharedOf(ctx context.Context, agentID string) (*gateway.Shared, int, error) {
	root := state.RootAgent(agentID)
	l, err := ledger.Read(ctx, r.store, func(v ledger.View) (ledger.AgentState, error) { return v.AgentState(root) })
	if err != nil {
		return nil, 0, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.shared == nil {
		r.shared = make(map[string]*gateway.Shared)
	}
	s := r.shared[root]
	if s == nil {
		s = new(gateway.Shared)
		r.shared[root] = s
	}
	a := r.scheduler.Bounded(l.Tree)
	s.Set(gateway.Budget{MaxTokens: a.MaxTokens, MaxCost: a.MaxCost}, a.Tokens, a.Cost)
	return s, l.Tree.MaxContainers, nil
}

// LookAtBudgets lets agents go on that were paused for a bound that is not reached any more, and pauses those for which
// one is reached by other settings. host is the bound of the host that is reached, "" for none.
func (r *Runtime) LookAtBudgets(ctx context.Context, host string) error {
	return r.eachAgent(ctx, r.cfg.Leases.Held, func(ctx context.Context, id string) error {
		if state.IsChild(id) {
			return nil
		}
		err := r.scheduler.LookAtBudget(ctx, id, host)
		if err == nil {
			_, _, err = r.sharedOf(ctx, id)
		}
		return err
	})
}

// SetBudget bounds what an agent and its children may take together, also for turns that run.
func (r *Runtime) SetBudget(ctx context.Context, agentID string, b scheduler.Budget) (ledger.TreeAccount, error) {
	a, err := r.scheduler.SetBudget(ctx, agentID, "operator", b)
	if err == nil {
		_, _, err = r.sharedOf(ctx, agentID)
	}
	return a, err
}

// FollowUp gives a child a further message of its parent, once for a key.
func (r *Runtime) FollowUp(ctx context.Context, parentID, taskID, key, text string, byOperator bool) (tasks.InputResult,
	error) {
	t, accepted, err := r.scheduler.FollowUp(ctx, parentID, taskID, key, text, byOperator)
	if err != nil {
		return tasks.InputResult{}, err
	}
	out := tasks.InputResult{Task: view.SnapshotOf(t), AcceptedInput: accepted}
	switch {
	case accepted:
		out.InputTarget, out.BytesWritten = tasks.TargetChild, len(text)
		out.SummaryText = "the child has it in its queue"
	case t.Status.Terminal():
		out.SummaryText = "the child has ended; it takes no messages"
	case t.Checking():
		out.SummaryText = t.Result.Summary + "; it takes no messages"
	default:
		out.SummaryText = "the child is stopped; it takes no messages"
	}
	return out, nil
}

// StopChild ends the task of a child, and the child with all below it.
func (r *Runtime) StopChild(ctx context.Context, parentID, taskID, by string) (tasks.StopResult, error) {
	below, err := r.below(ctx, parentID, taskID)
	if err != nil {
		return tasks.StopResult{}, err
	}
	t, stopped, err := r.scheduler.StopChild(ctx, parentID, taskID, by)
	if err != nil {
		return tasks.StopResult{}, err
	}
	out := tasks.StopResult{Task: view.SnapshotOf(t), StopRequested: stopped, SummaryText: t.Result.Summary}
	if !stopped {
		out.SummaryText = "the task had ended before: " + t.Result.Summary
	}
	if w := t.Child().Worktree; !stopped && w != nil && w.Cleanup == ledger.WorktreeRetained {
		if err := r.discardTree(ctx, t); err != nil {
			return out, err
		}
		out.SummaryText += "; its tree is discarded, the patch stays"
	}
	r.retireAll(below)
	return out, nil
}

// below are the child of a task and all agents below it.
func (r *Runtime) below(ctx context.Context, parentID, taskID string) (ids []string, err error) {
	err = r.store.View(ctx, func(v ledger.View) error {
		t, err := v.Task(parentID, taskID)
		if err == nil && t.Child() != nil {
			ids, err = descend(v, t.Child().AgentID)
		}
		return err
	})
	return ids, err
}

// descend lists an agent and those below it that go on.
func descend(v ledger.View, id string) ([]string, error) {
	ids := []string{id}
	open, err := v.OpenChildren(id)
	for _, t := range open {
		more, err := descend(v, t.Child().AgentID)
		if err != nil {
			return nil, err
		}
		ids = append(ids, more...)
	}
	return ids, err
}

// retireAll ends what agents that were removed have running. It does not wait: a turn may need a while to end.
func (r *Runtime) retireAll(ids []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closing {
		return // the sweep of the next process does it
	}
	for _, id := range ids {
		r.workers.Go(func() { r.Retire(context.WithoutCancel(r.turns), id) })
	}
}

// takeUpChildren lets this process supervise the children again that another one supervised, but for those whose turn
// is not settled and not followed yet: they follow when it is.
func (r *Runtime) takeUpChildren(ctx context.Context, is func(id string) bool) error {
	return r.eachAgent(ctx, is, func(ctx context.Context, id string) error {
		if !state.IsChild(id) {
			return nil
		}
		_, open, err := r.openAttempt(ctx, id)
		if err != nil || open {
			return err
		}
		return r.scheduler.Reattached(ctx, id)
	})
}

func (r *Runtime) openAttempt(ctx context.Context, id string) (a ledger.Attempt, open bool, err error) {
	err = r.store.View(ctx, func(v ledger.View) (err error) {
		a, open, err = v.OpenAttempt(id)
		return err
	})
	return a, open, err
}

// reattached records that a child is supervised again, whose turn was settled or is followed.
func (r *Runtime) reattached(id string) {
	if !state.IsChild(id) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.turns), settleGrace)
	defer cancel()
	if err := r.scheduler.Reattached(ctx, id); err != nil {
		r.log.Warn("that a child is supervised again cannot be recorded", "agent", id, "err", err)
	}
}

// childEnded ends the container of a child whose turn, or check, ended it, and has one checked that waits for it.
func (r *Runtime) childEnded(id string) {
	select {
	case r.checkable <- struct{}{}:
	default:
	}
	if !state.IsChild(id) || r.cfg.Containers == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.turns), retireTime)
	defer cancel()
	removed, err := r.scheduler.Removed(ctx, id)
	if err != nil || !removed {
		return // the sweep of containers looks too
	}
	if err := r.endContainer(ctx, id); err != nil {
		r.log.Warn("what a child leaves cannot be cleaned up yet", "agent", id, "err", err)
	}
}
