package runner

import (
	"context"

	"holon/responses/tasks"
)

// Tasks asks agentd how many managed tasks run.
func (s *Session) Tasks(ctx context.Context) (n int, err error) {
	list, err := s.client.Tasks(ctx)
	if err != nil {
		return 0, err
	}
	for _, task := range list.Tasks {
		if !task.Status.Terminal() {
			n++
		}
	}
	return n, nil
}

// FollowTasks tells of every task of the container, and then of each that changes, until the container ends, ctx does,
// or tell fails. It is not a use of the container: one without a running task may be paused meanwhile.
func (s *Session) FollowTasks(ctx context.Context, tell func(tasks.Report) error) error {
	for report, err := range s.client.FollowTasks(ctx) {
		if err == nil {
			err = tell(report)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// StartTask starts a command as a task in the container, once for its id.
func (s *Session) StartTask(ctx context.Context, start tasks.Start) (*tasks.StatusResult, error) {
	start.SessionID = s.id
	return s.client.StartTask(ctx, start)
}

// TaskOutput returns a preview of what a task has printed, of about so many tokens; 0 for agentd's default.
func (s *Session) TaskOutput(ctx context.Context, taskID string, tokens int) (*tasks.OutputResult, error) {
	return s.client.TaskOutput(ctx, taskID, tokens)
}

// TaskInput writes to a task.
func (s *Session) TaskInput(ctx context.Context, taskID string, in tasks.Input) (*tasks.InputResult, error) {
	return s.client.TaskInput(ctx, taskID, in)
}

// StopTask ends a task.
func (s *Session) StopTask(ctx context.Context, taskID string, force bool) (*tasks.StopResult, error) {
	return s.client.StopTask(ctx, taskID, force)
}
