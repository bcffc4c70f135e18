package pool

import (
	"context"
	"errors"
	"time"

	"holon/responses/tasks"
	"holon/runner/sessions"
	"holon/state"
	"holon/state/ledger"
)

// taskLog receives the reports of tasks in the containers of agents: *scheduler.Scheduler.
type taskLog interface {
	// ReportTask takes what a container says of a task. ledger.CodeInvalidTask and ledger.CodeNotFound are about the
	// report itself; any other error may pass.
	ReportTask(ctx context.Context, agentID string, r tasks.Report) error
	// SettleTasks receives which tasks a container that is followed knew at a time; why is for those that it does not
	// know.
	SettleTasks(ctx context.Context, agentID string, known []string, at time.Time, why string) error
}

// Times of a follower: between two tries, and until the stream of a container that was stopped has ended.
const (
	followRetry = time.Second
	followEnd   = 5 * time.Second
)

// unknownTask is why a task has failed that the container of its agent does not know.
const unknownTask = "the task is lost: the container of its agent does not know it"

// follower reports the tasks of one container for as long as it is held. It takes no lock of the agent.
type follower struct {
	stop  context.CancelFunc
	ended chan struct{} // closed when the container was stopped: its stream comes to an end and is the last
	done  chan struct{}
}

// startFollowing follows the tasks of an agent's container, unless that ended before it was taken up.
func (k *Pool) startFollowing(a *agent) {
	if k.opts.Tasks == nil || a.session.Gone() != nil {
		return
	}
	// The container outlives the call in which it was made or taken up; close and leave end the follower.
	ctx, stop := context.WithCancel(context.Background())
	f := &follower{stop: stop, ended: make(chan struct{}), done: make(chan struct{})}
	a.follow = f
	id, session := a.id, a.session
	go func() {
		defer close(f.done)
		k.followTasks(ctx, f.ended, id, session)
	}()
}

// followTasks begins anew when the stream breaks off, until the container has ended or ctx ends.
func (k *Pool) followTasks(ctx context.Context, ended <-chan struct{}, agentID string, session *sessions.Session) {
	for {
		var listed []string
		began, trusted := time.Now(), session.Trusted()
		var err error
		for r, broken := range session.Client().FollowTasks(ctx) {
			switch err = broken; {
			case err != nil:
			case r.Task == nil:
				trusted = true // from here on agentd reports what it sees
				err = k.untilRecorded(ctx, func() error {
					return k.opts.Tasks.SettleTasks(ctx, agentID, listed, began, unknownTask)
				})
			case trusted:
				listed = append(listed, r.Task.TaskID)
				err = k.untilRecorded(ctx, func() error { return k.opts.Tasks.ReportTask(ctx, agentID, r) })
			}
			if err != nil {
				break
			}
		}
		k.opts.Log.Debug("the stream of the tasks of a container has ended", "agent", agentID, "err", err)
		select { // a sweep looks whether the container has
		case k.broken <- struct{}{}:
		default:
		}
		select {
		case <-ctx.Done():
			return
		case <-ended:
			return
		case <-time.After(followRetry):
		}
	}
}

// untilRecorded records what a container reports, and tries again while that fails: what is not recorded is not read
// past.
func (k *Pool) untilRecorded(ctx context.Context, record func() error) error {
	for {
		err := record()
		if err == nil || ctx.Err() != nil {
			return errors.Join(err, context.Cause(ctx))
		}
		if state.IsCode(err, ledger.CodeInvalidTask) || state.IsCode(err, ledger.CodeNotFound) {
			k.opts.Log.Warn("what a container says of a task is left out", "err", err)
			return nil
		}
		k.opts.Log.Warn("what a container says of a task cannot be recorded; trying again", "err", err)
		select {
		case <-ctx.Done():
		case <-time.After(followRetry):
		}
	}
}

// stopFollowing ends the follower of an agent. One whose container was stopped receives first how its tasks ended.
func (a *agent) stopFollowing(stopped bool) {
	f := a.follow
	if f == nil {
		return
	}
	if stopped {
		close(f.ended)
		select {
		case <-f.done:
		case <-time.After(followEnd):
		}
	}
	f.stop()
	<-f.done
	a.follow = nil
}

// changesLog receives what becomes of the containers of agents: *scheduler.Scheduler.
type changesLog interface {
	ContainerChanged(ctx context.Context, agentID string, c state.ContainerChange) error
}

// changeTime bounds how long it may take to record a change. What could not be recorded is made up for when the
// container is taken up, or the agent gets another one.
const changeTime = 10 * time.Second

// recordChange records what became of the container of an agent.
func (k *Pool) recordChange(agentID string, c state.ContainerChange) {
	if k.opts.Changes == nil {
		return
	}
	// what happened to a container is recorded however the call ends in which it did
	ctx, cancel := context.WithTimeout(context.Background(), changeTime)
	defer cancel()
	if err := k.opts.Changes.ContainerChanged(ctx, agentID, c); err != nil {
		k.opts.Log.Warn("what became of a container is not recorded", "agent", agentID, "container", c.ID,
			"phase", c.Phase, "err", err)
	}
}

// removeLeft removes a container of an agent that no session holds.
func (k *Pool) removeLeft(l sessions.Leftover, remove func() error) error {
	err := remove()
	if err == nil {
		k.recordChange(l.Owner, state.ContainerChange{
			HeldContainer: state.HeldContainer{ID: l.ID, Phase: state.ContainerRemoved},
			Engine:        k.opts.Engine.Name(), Reason: "no process held it"})
	}
	return err
}
