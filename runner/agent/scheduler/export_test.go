package scheduler

import (
	"context"

	"holon/state/ledger"
)

// WaitFor registers a wait of something that an agent works on, once.
func (m *Scheduler) WaitFor(ctx context.Context, w ledger.Wait) (ledger.Wait, error) {
	err := m.step(ctx, w.AgentID, func(s *step) error {
		if old, ok := find(s, ledger.View.Wait, w.ID); ok {
			w = old
			return nil
		}
		w.Status, w.CreatedAt, w.UpdatedAt = ledger.WaitActive, s.now, s.now
		w = s.register(w, "", false)
		return nil
	})
	return w, err
}
