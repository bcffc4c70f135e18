package control

import (
	"context"
	"time"

	"holon/runner/control/wire"
	"holon/state"
)

// limiter bounds how many expensive answers are computed at a time, and how long a request waits for its turn.
type limiter struct {
	slots    chan struct{}
	patience time.Duration
}

// enter waits for a slot.
func (l limiter) enter(ctx context.Context) (release func(), err error) {
	patience := time.NewTimer(l.patience)
	defer patience.Stop()
	select {
	case l.slots <- struct{}{}:
		return func() { <-l.slots }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-patience.C:
		return nil, &state.Error{Code: wire.CodeBusy, Message: "too many snapshots are asked for at once",
			Hint: "come back in a second, and follow the events instead of asking again"}
	}
}
