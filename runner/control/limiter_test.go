package control

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"holon/runner/control/wire"
	"holon/state"
	"holon/test/expect"
)

// A request that cannot be served in time is refused, and one whose client goes away waits no longer.
func TestExpensiveAnswersAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := limiter{make(chan struct{}, 1), time.Second}
		release, err := l.enter(t.Context())
		expect.NoError(t, err)
		if _, err := l.enter(t.Context()); !state.IsCode(err, wire.CodeBusy) {
			t.Errorf("got %v, want %s", err, wire.CodeBusy)
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := l.enter(gone); !errors.Is(err, context.Canceled) {
			t.Errorf("a client that went away got %v, want %v", err, context.Canceled)
		}
		waiting := make(chan error)
		go func() { _, err := l.enter(t.Context()); waiting <- err }()
		synctest.Wait()
		release()
		expect.NoError(t, <-waiting)
	})
}
