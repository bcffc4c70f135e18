package runner

import (
	"context"

	"holon/responses/turns"
	"holon/runner/engine"
)

// Pause holds the container still, where the engine can: nothing in it runs, and
// what is asked of it waits. held is false where it cannot.
func (s *Session) Pause(ctx context.Context) (held bool, err error) {
	p, ok := s.cfg.Engine.(engine.Pauser)
	if !ok || !s.created {
		return false, nil
	}
	return true, p.Pause(ctx, s.handle)
}

// Resume lets a container go on that was paused. Another is success.
func (s *Session) Resume(ctx context.Context) error {
	p, ok := s.cfg.Engine.(engine.Pauser)
	if !ok || !s.created {
		return nil
	}
	return p.Resume(ctx, s.handle)
}

// Ended reports whether the session has no container that runs, as far as the
// engine has told.
func (s *Session) Ended() bool {
	if !s.created || s.stopped {
		return true
	}
	if s.exit == nil {
		select {
		case exit := <-s.exited:
			s.ended(exit)
		default:
		}
	}
	return s.exit != nil
}

// Working asks agentd whether something goes on in the container: a turn, or a
// command that outlives the turn that started it, of which it returns how many there are.
func (s *Session) Working(ctx context.Context) (works bool, commands int, err error) {
	health, err := s.client.Health(ctx)
	if err == nil && s.resumed { // the process before may have ended without telling it
		s.resumed = false
		s.tell(ContainerChange{Phase: Ready})
	}
	if err != nil {
		return false, 0, err
	}
	turn := health.ActiveTurns+health.QueuedTurns > 0
	if !turn && health.Status != turns.HealthReady {
		return false, 0, &Error{Code: CodeNotReady, Message: "agentd answers that it is " + health.Status}
	}
	n, err := s.Tasks(ctx)
	return turn || n > 0, n, err
}
