package pool

import (
	"context"

	"holon/responses/turns"
	"holon/runner/sessions"
)

// Preview returns what a model would be asked first in a turn, which is not made. The agent gets a container for it as
// for a turn; while a turn runs, its container is asked, and the turn goes on. The error is an *Error.
func (k *Pool) Preview(ctx context.Context, t Turn) (p turns.Preview, err error) {
	err = k.inContainer(ctx, t, func(s *sessions.Session) (err error) {
		p, err = s.Preview(ctx, k.request(t))
		return err
	})
	return p, err
}
