package scheduler

import (
	"context"

	"holon/state"
	"holon/state/ledger"
)

// WaitFor registers a wait of something that an agent works on, once.
func (m *Scheduler) WaitFor(ctx context.Context, w ledger.Wait) (ledger.Wait, error) {
	err := m.step(ctx, w.AgentID, func(s *step) error {
		old, err := s.Wait(w.ID)
		if err == nil || !state.IsCode(err, ledger.CodeNotFound) {
			w = old
			return err
		}
		w.Status, w.CreatedAt, w.UpdatedAt = ledger.WaitActive, s.now, s.now
		w, err = s.register(w, "", false)
		return err
	})
	return w, err
}
