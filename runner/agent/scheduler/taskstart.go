package scheduler

import (
	"context"

	"holon/responses/tasks"
	"holon/state/ledger"
)

// taskOf finds the newest task that was made under a key. Those before it could not be started. Without one, id is that
// of the one to be made.
func (s *step) taskOf(key string) (id string, t ledger.Task, known bool) {
	id = derivedID(tasks.Prefix, s.state.AgentID, key)
	for {
		t, known = s.task(id)
		if !known || t.Result.Failure != ledger.TaskNotStarted {
			return id, t, known
		}
		id = derivedID(tasks.Prefix, s.state.AgentID, key, id)
	}
}

// digest is one of all that a task is made of.
func (n NewTask) digest() string { return derivedID("", n.Purpose, string(mustJSON(n.Start))) }

// EndTask ends a task that its container did not report, because it could not be started (ledger.TaskNotStarted: its
// caller gets the error, and its agent no message), or because that is not known (tasks.FailureLost: its key starts no
// other one). A task that has ended stays as it is.
func (m *Scheduler) EndTask(ctx context.Context, agentID, taskID, failure, why string) error {
	return m.step(ctx, agentID, func(s *step) error {
		t := read(s, func(v ledger.View, id string) (ledger.Task, error) { return v.Task(agentID, id) }, taskID)
		if s.err == nil && !t.Status.Terminal() {
			s.loseTask(t, failure, why)
		}
		return nil
	})
}
