package scheduler

import (
	"context"
	"fmt"

	"holon/state"
	"holon/state/ledger"
)

// Remember records a command that was carried out, with its answer, and returns what the record has: the answer of an
// earlier one with the same id is the one that counts. An id that was used for something else is CodeKeyConflict.
func (m *Scheduler) Remember(ctx context.Context, c ledger.Command) (kept ledger.Command, err error) {
	err = m.step(ctx, c.AgentID, func(s *step) (err error) {
		kept, err = s.remember(c)
		return err
	})
	return kept, err
}

func (s *step) remember(c ledger.Command) (ledger.Command, error) {
	if before, known := s.command(c); known {
		return before, matches(before, c)
	}
	c.At = s.now
	s.insert(&c)
	return c, nil
}

// command is the one that was carried out under the id of c.
func (s *step) command(c ledger.Command) (before ledger.Command, known bool) {
	before = ask(s, func(v ledger.View) (r ledger.Command, err error) {
		r, known, err = v.Command(c.AgentID, c.ID)
		return r, err
	})
	return before, known
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
func (m *Scheduler) Resume(ctx context.Context, c ledger.Command, by string) (kept ledger.Command, err error) {
	err = m.step(ctx, c.AgentID, func(s *step) (err error) {
		before, known := s.command(c)
		if known {
			kept = before
			return matches(before, c)
		}
		if err := s.checkLive(); err != nil {
			return err
		}
		s.startAgent(by)
		done := c
		done.Through, done.NoOp = s.state.EventSeq+int64(len(s.events)), len(s.events) == 0
		outcome := Resumed
		if done.NoOp {
			outcome = AlreadyActive
		}
		done.Result = mustJSON(map[string]string{"outcome": outcome})
		kept, err = s.remember(done)
		return err
	})
	return kept, err
}
