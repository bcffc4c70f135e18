package pool

import (
	"context"
	"errors"
	"slices"

	"holon/responses"
	"holon/responses/tasks"
	"holon/responses/turns"
	"holon/runner"
	"holon/runner/sessions"
	"holon/state"
)

// Attend makes sure that the container of an agent runs and that its tasks are followed: one that has ended is
// replaced, and the new one reports how they ended. An agent that is in use is left to its user.
func (k *Pool) Attend(ctx context.Context, t Turn) error {
	if err := k.check(ctx, t.AgentID); err != nil {
		return err
	}
	a := k.agent(t.AgentID)
	if !a.tryLock() {
		return nil
	}
	if a.session != nil && !a.session.Ended() {
		k.unlock(a, false)
		return nil
	}
	return k.useLocked(ctx, a, t, func(*sessions.Session) error { return nil })
}

// StartTask starts a command as a task in the container of an agent, once for its id, also while a turn runs there. It
// works where t would. The error has CodeUnclear if it may have been started all the same.
func (k *Pool) StartTask(ctx context.Context, t Turn, start tasks.Start) error {
	asked := false
	err := k.inContainer(ctx, t, func(s *sessions.Session) error {
		asked = true
		// A caller that leaves now would leave it unclear whether the command runs.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), healthTimeout)
		defer cancel()
		start.SessionID = state.SessionID(t.AgentID)
		if t.WorkDir != "" {
			start.WorkspaceDir = s.WorkspaceDir(t.WorkDir)
		}
		_, err := s.Client().StartTask(ctx, start)
		if err == nil { // until the container is asked again: it is not given to another agent from now on
			a := k.agent(t.AgentID)
			k.mu.Lock()
			defer k.mu.Unlock()
			a.tasks++
		}
		return err
	})
	if e, ok := errors.AsType[*Error](err); ok && asked && slices.Contains(unanswered, string(e.Code)) {
		return &Error{Code: CodeUnclear, Message: e.Message, Param: e.Param, Hint: e.Hint}
	}
	return err
}

// unanswered are the codes of errors of requests that may have been carried out.
var unanswered = []string{responses.CodeCancelled, responses.CodeServerDisconnected, responses.CodeServerError}

// TaskInput writes to a task of an agent.
func (k *Pool) TaskInput(ctx context.Context, t Turn, id string, in tasks.Input) (*tasks.InputResult, error) {
	return answer(ctx, k, t, func(s *sessions.Session) (*tasks.InputResult, error) {
		return s.Client().TaskInput(ctx, id,
			in)
	})
}

// StopTask ends a task of an agent, by force or after asking.
func (k *Pool) StopTask(ctx context.Context, t Turn, id string, force bool) (*tasks.StopResult, error) {
	return answer(ctx, k, t, func(s *sessions.Session) (*tasks.StopResult, error) {
		return s.Client().StopTask(ctx, id,
			force)
	})
}

// TaskOutput returns a preview of what a task of an agent has printed, of about so many tokens; 0 for agentd's default.
func (k *Pool) TaskOutput(ctx context.Context, t Turn, id string, tokens int) (*tasks.OutputResult, error) {
	return answer(ctx, k, t, func(s *sessions.Session) (*tasks.OutputResult, error) {
		return s.Client().TaskOutput(ctx, id, tokens)
	})
}

// Preview returns what a model would be asked first in a turn, which is not made. The agent gets a container for it as
// for a turn; while a turn runs, its container is asked, and the turn goes on. The error is an *Error.
func (k *Pool) Preview(ctx context.Context, t Turn) (turns.Preview, error) {
	return answer(ctx, k, t, func(s *sessions.Session) (turns.Preview, error) { return s.Preview(ctx, k.request(t)) })
}

// answer is what the container of an agent answers to ask.
func answer[T any](ctx context.Context, k *Pool, t Turn, ask func(*sessions.Session) (T, error)) (answer T, err error) {
	err = k.inContainer(ctx, t, func(s *sessions.Session) (err error) {
		answer, err = ask(s)
		return err
	})
	return answer, err
}

// inContainer uses the container of an agent, which is made if there is none. While a turn runs there it shares it.
func (k *Pool) inContainer(ctx context.Context, t Turn, use func(*sessions.Session) error) error {
	if k.opts.AtOnce {
		return k.counted(ctx, t, use)
	}
	a, live, err := k.share(ctx, t.AgentID)
	switch {
	case err != nil:
		return err
	case live != nil:
		return k.typed(ctx, use(live))
	}
	return k.useLocked(ctx, a, t, use)
}

// share returns the session of an agent while a turn runs in it, and locks the agent where none does.
func (k *Pool) share(ctx context.Context, agentID string) (a *agent, live *sessions.Session, err error) {
	if err := k.check(ctx, agentID); err != nil {
		return nil, nil, err
	}
	k.tidyOnce()
	a = k.agent(agentID)
	for {
		k.mu.Lock()
		live, changed := a.live, k.changed
		k.mu.Unlock()
		if live != nil {
			return a, live, nil
		}
		select {
		case a.lock <- struct{}{}:
			return a, nil, nil
		case <-changed:
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
	}
}

// useLocked unlocks the agent.
func (k *Pool) useLocked(ctx context.Context, a *agent, t Turn, use func(*sessions.Session) error) error {
	defer k.unlock(a, true)
	k.mu.Lock()
	closed := k.closed
	k.mu.Unlock()
	if closed {
		return errClosed()
	}
	if _, err := k.ready(ctx, a, t); err != nil {
		return k.typed(ctx, err)
	}
	return k.typed(ctx, use(a.session))
}

func errClosed() error {
	return &Error{Code: CodeClosed, Message: "the runtime is shutting down", Hint: "try again when it is up"}
}

// noteTasks counts the tasks after a turn that may have begun some.
func (k *Pool) noteTasks(ctx context.Context, a *agent, s *sessions.Session, r runner.End) {
	if (r.Record == nil || r.Record.ToolCalls.Total == 0) && k.Tasks(a.id) == 0 {
		return
	}
	// the turn may have been ended
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), healthTimeout)
	defer cancel()
	n, err := s.Tasks(ctx)
	if err != nil {
		k.opts.Log.Debug("the tasks of an agent cannot be counted", "agent", a.id, "err", err)
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	a.tasks = n
}

// Tasks returns how many tasks of an agent ran when its container was last asked, after
// its newest turn or by the newest sweep. It asks nothing.
func (k *Pool) Tasks(agentID string) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	if a := k.agents[agentID]; a != nil {
		return a.tasks
	}
	return 0
}
