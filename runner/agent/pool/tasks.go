package pool

import (
	"context"
	"errors"
	"slices"

	"holon/responses"
	"holon/responses/tasks"
	"holon/runner/sessions"
	"holon/state"
)

// Attend makes sure that the container of an agent runs and that its tasks are followed: one that has ended is
// replaced, and the new one tells how they ended. An agent that is in use is left to who uses it.
func (k *Pool) Attend(ctx context.Context, t Turn) error {
	if err := state.CheckAgentID(t.AgentID); err != nil {
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

// StartTask starts a command as a task in the container of an agent, once for its id, also while a turn runs there. The
// error has CodeUnclear if it may have been started all the same.
func (k *Pool) StartTask(ctx context.Context, t Turn, start tasks.Start) error {
	asked := false
	err := k.inContainer(ctx, t, func(s *sessions.Session) error {
		asked = true
		// A caller that leaves now would leave it unclear whether the command runs.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), healthTimeout)
		defer cancel()
		_, err := s.StartTask(ctx, start)
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
func (k *Pool) TaskInput(ctx context.Context, t Turn, id string, in tasks.Input) (res *tasks.InputResult, err error) {
	err = k.inContainer(ctx, t, func(s *sessions.Session) (err error) {
		res, err = s.TaskInput(ctx, id, in)
		return err
	})
	return res, err
}

// StopTask ends a task of an agent, by force or after asking.
func (k *Pool) StopTask(ctx context.Context, t Turn, id string, force bool) (res *tasks.StopResult, err error) {
	err = k.inContainer(ctx, t, func(s *sessions.Session) (err error) {
		res, err = s.StopTask(ctx, id, force)
		return err
	})
	return res, err
}

// TaskOutput returns a preview of what a task of an agent has printed, of about so many tokens; 0 for agentd's default.
func (k *Pool) TaskOutput(ctx context.Context, t Turn, id string, tokens int) (res *tasks.OutputResult, err error) {
	err = k.inContainer(ctx, t, func(s *sessions.Session) (err error) {
		res, err = s.TaskOutput(ctx, id, tokens)
		return err
	})
	return res, err
}
