package docker

import (
	"context"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"

	"holon/runner/engine"
)

var _ engine.Pauser = (*Engine)(nil)

// Pause implements engine.Pauser.
func (e *Engine) Pause(ctx context.Context, h engine.Handle) error {
	return e.hold(ctx, h, "pause", e.api.ContainerPause, func(s *container.State) bool {
		return s.Status == container.StatePaused
	})
}

// Resume implements engine.Pauser.
func (e *Engine) Resume(ctx context.Context, h engine.Handle) error {
	return e.hold(ctx, h, "resume", e.api.ContainerUnpause, func(s *container.State) bool {
		return s.Status != container.StatePaused
	})
}

const (
	holdPause = 20 * time.Millisecond
	holdTries = 100 // two seconds of a busy daemon
)

// hold makes a call at whose refusal the state of the container decides: the
// daemon has the same words for what is so already and for what cannot be. The
// inspection is the exception, so that the call costs one round trip. For a moment
// after a change the daemon may still be told of the one before it and then refuse
// what its state allows; that passes.
func (e *Engine) hold(ctx context.Context, h engine.Handle, doing string, call func(context.Context, string) error,
	done func(*container.State) bool) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	for try := 1; ; try++ {
		err := call(ctx, h.ID)
		if err == nil {
			return nil
		}
		if errdefs.IsNotFound(err) || ctx.Err() != nil {
			return wrap(doing+" container "+h.Name, err)
		}
		found, inspectErr := e.api.ContainerInspect(ctx, h.ID)
		switch {
		case inspectErr != nil:
			return wrap(doing+" container "+h.Name, inspectErr)
		case done(found.State):
			return nil
		case !found.State.Running:
			return &engine.Error{Code: engine.CodeConflict,
				Message: "cannot " + doing + " container " + h.Name + ": it does not run"}
		case try == holdTries:
			return wrap(doing+" container "+h.Name, err)
		}
		select {
		case <-ctx.Done():
			return wrap(doing+" container "+h.Name, ctx.Err())
		case <-time.After(holdPause):
		}
	}
}
