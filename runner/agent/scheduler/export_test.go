package scheduler

import (
	"context"

	"holon/state"
	"holon/state/ledger"
)

// SettleTogether settles attempts of several agents in one step of the first one's.
func (m *Scheduler) SettleTogether(ctx context.Context, e End, first string, others ...string) error {
	return m.attemptStep(ctx, first, func(s *step, a ledger.Attempt) error {
		if _, err := s.settle(a, e); err != nil {
			return err
		}
		for _, id := range others {
			a, err := s.Attempt(id)
			if err != nil {
				return err
			}
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
