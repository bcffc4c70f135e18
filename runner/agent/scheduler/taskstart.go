package scheduler

import (
	"context"

	"holon/responses/tasks"
	"holon/state/ledger"
)

// taskOf finds the newest task that was made under a key. Those before it could not be started. Without one, the error
// is ledger.CodeNotFound, and id that of the one to be made.
func (s *step) taskOf(agentID, key string) (id string, t ledger.Task, err error) {
	id = derivedID(tasks.Prefix, agentID, key)
	for {
		t, err = s.Task(agentID, id)
		if err != nil || t.Result.Failure != ledger.TaskNotStarted {
			return id, t, err
		}
		id = derivedID(tasks.Prefix, agentID, key, id)
	}
}

// madeOf reports whether a task was made by a request for the same. Older ones know their command only.
func madeOf(t ledger.Task, n NewTask) bool {
	if t.Made == "" {
		return t.Command().Cmd == cut(n.Start.Cmd, maxCommand)
	}
	return t.Made == n.digest()
}

// digest is one of all that a task is made of.
func (n NewTask) digest() string { return derivedID("", n.Purpose, string(mustJSON(n.Start))) }

// FailTask ends a task that could not be started. Its caller is told, and its agent is not. A task that has ended stays
// as it is.
func (m *Scheduler) FailTask(ctx context.Context, agentID, taskID, why string) error {
	return m.endUnreported(ctx, agentID, taskID, ledger.TaskNotStarted, why)
}

// LoseTask ends a task of which is not known whether it was started: its key starts no other one.
func (m *Scheduler) LoseTask(ctx context.Context, agentID, taskID, why string) error {
	return m.endUnreported(ctx, agentID, taskID, tasks.FailureLost, why)
}

func (m *Scheduler) endUnreported(ctx context.Context, agentID, taskID, failure, why string) error {
	return m.step(ctx, agentID, func(s *step) error {
		t, err := s.Task(agentID, taskID)
		if err != nil || t.Status.Terminal() {
			return err
		}
		return s.loseTask(t, failure, why)
	})
}
