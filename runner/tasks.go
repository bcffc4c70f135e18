package runner

import (
	"context"

	"holon/responses/client"
)

// Client returns the client of the session's agentd. It may be used by other goroutines while a turn runs.
func (s *Session) Client() *client.Client { return s.client }

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
