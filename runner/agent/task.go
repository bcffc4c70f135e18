package agent

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"holon/responses"
	"holon/responses/tasks"
	"holon/runner"
	"holon/runner/agent/scheduler"
	"holon/runner/agent/view"
	"holon/runner/pool"
	"holon/state"
	"holon/state/ledger"
)

// Containers are those in which the tasks of agents run: *pool.Pool. Each makes a container if there is none, and
// shares it with a turn that runs there.
type Containers interface {
	// Attend makes sure that the container of an agent runs and is followed.
	Attend(ctx context.Context, t pool.Turn) error
	StartTask(ctx context.Context, t pool.Turn, start tasks.Start) error
	TaskInput(ctx context.Context, t pool.Turn, id string, in tasks.Input) (*tasks.InputResult, error)
	StopTask(ctx context.Context, t pool.Turn, id string, force bool) (*tasks.StopResult, error)
	TaskOutput(ctx context.Context, t pool.Turn, id string, tokens int) (*tasks.OutputResult, error)
	// Stop ends and removes the container of an agent, once its turn is over.
	Stop(ctx context.Context, agentID string) error
}

// How often containers in which tasks run are looked after, and how often one that is gone is tried to be replaced
// before its tasks have failed. A failure that waiting does not heal is not tried again.
const (
	attendEvery = 5 * time.Second
	maxAttends  = 5
)

// attendTasks makes sure that what has a task running has a container, which alone knows how the task ended.
func (r *Runtime) attendTasks(ctx context.Context) {
	failures := make(map[string]int)
	for {
		agents, err := ledger.Read(ctx, r.store, func(v ledger.View) ([]string, error) {
			agents, err := v.TaskAgents()
			left, leftErr := removedWithTrees(v)
			return append(agents, left...), errors.Join(err, leftErr)
		})
		for _, id := range agents {
			if !r.cfg.Leases.Held(id) {
				continue
			}
			err = errors.Join(err, r.attend(ctx, id, failures))
		}
		if err != nil && ctx.Err() == nil {
			r.log.Warn("the tasks of agents cannot be looked after; trying again", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(attendEvery):
		}
	}
}

// removedWithTrees are the agents that were removed and whose trees were not seen to: by a step after which nothing
// did, or that failed. A tree that was kept for a task goes once the public agent above it was removed.
func removedWithTrees(v ledger.View) (ids []string, err error) {
	trees, err := v.AllTrees()
	for _, t := range trees {
		owner := t.AgentID
		switch {
		case slices.Contains(ids, t.AgentID):
			continue
		case t.Status == ledger.TreeRetained && len(t.Held) > 0 && t.TaskID != "":
			owner = state.RootAgent(t.AgentID)
		case t.Status != ledger.TreeActive:
			continue
		}
		a, err := v.Agent(owner)
		if err != nil {
			return ids, err
		}
		if a.ArchivedAt != nil {
			ids = append(ids, t.AgentID)
		}
	}
	return ids, err
}

// attend looks after the tasks of one agent. Those of one that was removed end with its container.
func (r *Runtime) attend(ctx context.Context, agentID string, failures map[string]int) error {
	removed, err := r.scheduler.Removed(ctx, agentID)
	if err != nil {
		return err
	}
	if removed {
		return r.endContainer(ctx, agentID)
	}
	t, err := r.containerOf(ctx, agentID)
	if err == nil {
		err = r.cfg.Containers.Attend(ctx, t)
	}
	if err == nil || ctx.Err() != nil {
		delete(failures, agentID)
		return err
	}
	if failures[agentID]++; failures[agentID] < maxAttends && !permanent(err) {
		return err
	}
	delete(failures, agentID)
	why := "the task is lost: its container is gone, and another one cannot be started: "
	return errors.Join(err, r.scheduler.SettleTasks(ctx, agentID, nil, time.Now(),
		why+r.failure(phaseStartup, err).Summary))
}

// containerOf is what the container of an agent is made from.
func (r *Runtime) containerOf(ctx context.Context, agentID string) (pool.Turn, error) {
	a, err := ledger.Read(ctx, r.store, func(v ledger.View) (ledger.Agent, error) { return v.Agent(agentID) })
	t := r.turnOf(a, ledger.Attempt{AgentID: agentID, Model: a.Model})
	if err == nil {
		err = r.placeTurn(ctx, &t)
	}
	return t, err
}

// StartTask gives the container of an agent a command. The task is recorded before it is started; one that cannot be
// started has failed, and the error says why: the same key tries it anew. What was started under a key is not started
// again.
func (r *Runtime) StartTask(ctx context.Context, n scheduler.NewTask) (ledger.Task, error) {
	t, made, err := r.scheduler.CreateTask(ctx, n)
	if err != nil {
		return t, err
	}
	if !made { // another caller may be about to start it
		t, err = r.taskWhen(ctx, t, func(t ledger.Task) bool { return t.Status != tasks.Queued })
		if err == nil && t.Result.Failure == ledger.TaskNotStarted {
			err = &pool.Error{Code: runner.CodeNotReady, Message: t.Result.Summary}
		}
		return t, err
	}
	n.Start.TaskID = t.ID
	container, err := r.containerOf(ctx, n.AgentID)
	if err == nil {
		err = r.cfg.Containers.StartTask(ctx, container, n.Start)
	}
	if e, ok := errors.AsType[*pool.Error](err); ok && e.Code == responses.CodeQueueFull {
		e.Code = scheduler.CodeTaskLimit
	}
	if err != nil {
		// a caller that is gone does not undo the record
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleGrace)
		defer cancel()
		failure, what := ledger.TaskNotStarted, "the command was not started: "
		if state.IsCode(err, pool.CodeUnclear) {
			failure, what = tasks.FailureLost, "it is not known whether the command was started: "
		}
		return t, errors.Join(err,
			r.scheduler.EndTask(ctx, n.AgentID, t.ID, failure, what+r.failure(phaseStartup, err).Summary))
	}
	return r.taskWhen(ctx, t, func(t ledger.Task) bool { return t.Status != tasks.Queued })
}

// taskWhen waits until a task is as wanted, and returns it; when ctx ends, it returns it as it is, without an error.
func (r *Runtime) taskWhen(ctx context.Context, t ledger.Task, wanted func(ledger.Task) bool) (ledger.Task, error) {
	for {
		changed := r.store.Changed(t.AgentID)
		// the newest state is read even when the wait is over
		t, err := ledger.Read(context.WithoutCancel(ctx), r.store, func(v ledger.View) (ledger.Task, error) {
			return v.Task(t.AgentID, t.ID)
		})
		if err != nil || wanted(t) {
			return t, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return t, nil
		}
	}
}

// task returns a task of an agent.
func (r *Runtime) task(ctx context.Context, agentID, id string) (t ledger.Task, err error) {
	t, err = ledger.Read(ctx, r.store, func(v ledger.View) (ledger.Task, error) { return v.Task(agentID, id) })
	if state.IsCode(err, ledger.CodeNotFound) {
		err = view.NoTask(agentID, id)
	}
	return t, err
}

// TaskOutput returns what a task has printed, in about so many tokens; 0 for a default. It waits for the end of the
// task, but not longer than wait. Of one that has ended and has no container, the record has a short preview.
func (r *Runtime) TaskOutput(ctx context.Context, agentID, id string, wait time.Duration, budget int) (
	view.TaskOutput, error) {
	t, err := r.task(ctx, agentID, id)
	if err != nil {
		return view.TaskOutput{}, err
	}
	if !t.Status.Terminal() && wait > 0 {
		waiting, cancel := context.WithTimeout(ctx, wait)
		defer cancel()
		if t, err = r.taskWhen(waiting, t, func(t ledger.Task) bool { return t.Status.Terminal() }); err != nil {
			return view.TaskOutput{}, err
		}
	}
	out := view.OutputOf(t, wait > 0)
	if t.Status.Terminal() && budget == 0 || t.Status == tasks.Queued || t.Child() != nil {
		return out, nil
	}
	// an agent that was removed gets no container any more
	if removed, err := r.scheduler.Removed(ctx, agentID); err != nil || removed {
		return out, err
	}
	container, err := r.containerOf(ctx, agentID)
	if err != nil {
		return out, err
	}
	asking, cancel := context.WithTimeoutCause(ctx, previewTime, errSlow)
	defer cancel()
	live, err := r.cfg.Containers.TaskOutput(asking, container, id, budget)
	if err != nil {
		if t.Status.Terminal() {
			return out, nil // the record has what is stable
		}
		return out, err
	}
	return out.With(live.Task), nil
}

// TaskInput writes to a task. One that has ended takes none: the receipt says so.
func (r *Runtime) TaskInput(ctx context.Context, agentID, id string, in tasks.Input) (tasks.InputResult, error) {
	t, err := r.task(ctx, agentID, id)
	if err != nil {
		return tasks.InputResult{}, err
	}
	if t.Child() != nil {
		return r.FollowUp(ctx, agentID, id, responses.NewID("key_"), in.Input, true)
	}
	if t.Status.Terminal() {
		return tasks.InputResult{Task: view.SnapshotOf(t), SummaryText: "the task has ended; it takes no input"}, nil
	}
	container, err := r.containerOf(ctx, agentID)
	if err != nil {
		return tasks.InputResult{}, err
	}
	res, err := r.cfg.Containers.TaskInput(ctx, container, id, in)
	if err != nil {
		return tasks.InputResult{}, err
	}
	return *res, nil
}

// StopTask ends a task, and returns when its record says so, or has not for a while. Stopping what has ended changes
// nothing.
func (r *Runtime) StopTask(ctx context.Context, agentID, id string, force bool) (tasks.StopResult, error) {
	t, err := r.task(ctx, agentID, id)
	if err != nil {
		return tasks.StopResult{}, err
	}
	if t.Child() != nil {
		return r.StopChild(ctx, agentID, id, "the operator")
	}
	if t.Status.Terminal() {
		return tasks.StopResult{Task: view.SnapshotOf(t), SummaryText: "the task had ended before: " + t.Result.Summary}, nil
	}
	container, err := r.containerOf(ctx, agentID)
	if err != nil {
		return tasks.StopResult{}, err
	}
	res, err := r.cfg.Containers.StopTask(ctx, container, id, force)
	if err != nil {
		return tasks.StopResult{}, err
	}
	if res.Task.Status.Terminal() { // the record follows
		waiting, cancel := context.WithTimeout(ctx, settleGrace)
		defer cancel()
		if t, err = r.taskWhen(waiting, t, func(t ledger.Task) bool { return t.Status.Terminal() }); err != nil {
			return tasks.StopResult{}, err
		}
		res.Task, res.SummaryText = view.SnapshotOf(t), cmp.Or(t.Result.Summary, res.SummaryText)
	}
	return *res, nil
}

// StopTasks ends all tasks of an agent.
func (r *Runtime) StopTasks(ctx context.Context, agentID string) error {
	open, err := ledger.Read(ctx, r.store, func(v ledger.View) ([]ledger.Task, error) { return v.OpenTasks(agentID) })
	var group errgroup.Group
	for _, t := range open {
		group.Go(func() error {
			_, err := r.StopTask(ctx, agentID, t.ID, false)
			return err
		})
	}
	return errors.Join(err, group.Wait())
}
