package scheduler

import (
	"context"

	"holon/state/ledger"
)

// SettleTogether settles attempts of several agents in one step of the first one's.
func (m *Scheduler) SettleTogether(ctx context.Context, e End, first string, others ...string) error {
	return m.attemptStep(ctx, first, aheadOfEnd, func(s *step, a ledger.Attempt) error {
		if _, err := s.settle(a, e); err != nil {
			return err
		}
		for _, id := range others {
			a := read(s, ledger.View.Attempt, id)
			other, err := s.agent(a.AgentID)
			if err != nil {
				return err
			}
			if _, err := other.settle(a, e); err != nil {
				return err
			}
		}
		return nil
	})
}

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
