package scheduler

import (
	"context"
	"fmt"

	"holon/state"
	"holon/state/ledger"
)

// Remember records a command that was carried out, with its answer, and returns what the record has: the answer of an
// earlier one with the same id is the one that counts. An id that was used for something else is CodeKeyConflict.
func (m *Scheduler) Remember(ctx context.Context, c ledger.Command) (ledger.Command, error) {
	return m.once(ctx, c, func(*step) (ledger.Command, error) { return c, nil })
}

// once carries a command out and records it, in one step, unless that was done.
func (m *Scheduler) once(ctx context.Context, c ledger.Command, do func(*step) (ledger.Command, error)) (
	kept ledger.Command, err error) {
	err = m.step(ctx, c.AgentID, func(s *step) (err error) {
		before, known := ifAny(s, func(v ledger.View) (ledger.Command, bool, error) { return v.Command(c.AgentID, c.ID) })
		if kept = before; known {
			return matches(before, c)
		}
		if kept, err = do(s); err == nil {
			kept.At = s.now
			s.insert(&kept)
		}
		return err
	})
	return kept, err
}

// Recall finds the command that was carried out under the id of c. An id that was used for something else is
// CodeKeyConflict.
func (m *Scheduler) Recall(ctx context.Context, c ledger.Command) (before ledger.Command, ok bool, err error) {
	err = m.store.View(ctx, func(v ledger.View) error {
		before, ok, err = v.Command(c.AgentID, c.ID)
		if !ok || err != nil {
			return err
		}
		return matches(before, c)
	})
	return before, ok, err
}

// matches refuses a command whose id was used for another one.
func matches(before, c ledger.Command) error {
	if before.Name == c.Name && before.Digest == c.Digest {
		return nil
	}
	what := before.Name
	if before.Name == c.Name {
		what += " with other input"
	}
	return &state.Error{Code: CodeKeyConflict, Param: "command_id",
		Message: fmt.Sprintf("command_id %q was used for %s", before.ID, what),
		Hint:    "use a new command_id for each command; send the same input again to get its answer"}
}

// What Resume did.
const (
	Resumed       = "resumed"
	AlreadyActive = "already_active"
)

// Resume is Start as a command, which is carried out once: it is recorded in the step that starts the agent.
func (m *Scheduler) Resume(ctx context.Context, c ledger.Command, by string) (ledger.Command, error) {
	return m.once(ctx, c, func(s *step) (ledger.Command, error) {
		if err := s.checkLive(); err != nil {
			return c, err
		}
		s.startAgent(by)
		done, outcome := c, Resumed
		done.Through, done.NoOp = s.state.EventSeq+int64(len(s.events)), len(s.events) == 0
		if done.NoOp {
			outcome = AlreadyActive
		}
		done.Result = mustJSON(map[string]string{"outcome": outcome})
		return done, nil
	})
}
