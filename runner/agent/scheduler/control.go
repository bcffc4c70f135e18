package scheduler

import (
	"context"
	"slices"
	"strings"

	"holon/runner/agent/record"
	"holon/runner/agent/rules"
	"holon/state/ledger"
)

// StopAfterAbort is the mode of an Abort that stops the agent when its turn has
// ended.
const StopAfterAbort = "stop_after_abort"

// Stop lets an agent admit and claim nothing until it is started. What is in its
// queue stays there; a turn that runs is to be aborted; its rest is over. by says
// who asked. A stopped agent is left as it is.
func (m *Scheduler) Stop(ctx context.Context, agentID, by string) error {
	return m.liveStep(ctx, agentID, func(s *step) error {
		if s.state.Stopped {
			return nil
		}
		s.state.Stopped = true
		if err := s.control("stop", by, rules.Stopped); err != nil {
			return err
		}
		if err := s.cancelActive("the agent was stopped"); err != nil {
			return err
		}
		a, ok, err := s.OpenAttempt(agentID)
		if err != nil || !ok {
			return err
		}
		_, err = s.abort(a, Abort{By: by})
		return err
	})
}

// Start lets a stopped agent go on with its queue, and any agent try again what is blocked. Otherwise one that is not
// stopped is left as it is.
func (m *Scheduler) Start(ctx context.Context, agentID, by string) error {
	return m.liveStep(ctx, agentID, func(s *step) error { return s.startAgent(by) })
}

func (s *step) startAgent(by string) error {
	if err := s.unblock(false); err != nil || !s.state.Stopped {
		return err
	}
	s.state.Stopped, s.state.WorkHeld = false, ""
	if err := s.control("start", by, rules.AwakeIdle); err != nil {
		return err
	}
	busy, err := s.busy()
	if err != nil || busy {
		return err
	}
	return s.free()
}

// Renew lets the conversation of an agent begin anew with its next turn; its record stays. A turn that runs is the last of
// the old one. Without a conversation it changes nothing.
func (m *Scheduler) Renew(ctx context.Context, agentID, by string) error {
	return m.liveStep(ctx, agentID, func(s *step) error {
		a, open, err := s.OpenAttempt(agentID)
		if err != nil || s.state.Chain == "" && (!open || a.Renewed) {
			return err
		}
		s.state.Chain, s.state.WorkShown = "", ""
		s.emit(record.ControlApplied, ledger.Event{}, facts{"action": "renew", "by": clip(by)})
		if !open {
			return nil
		}
		a.Renewed = true
		return s.Update(&a)
	})
}

func (s *step) control(action, by string, status rules.Status) error {
	s.emit(record.ControlApplied, ledger.Event{}, facts{"action": action, "by": clip(by)})
	return s.emitAgentState(string(status), by)
}

// emitAgentState tells that an agent was stopped or started. A turn that has begun runs until its end.
func (s *step) emitAgentState(status, by string) error {
	a, open, err := s.OpenAttempt(s.state.AgentID)
	e := ledger.Event{Status: record.AgentStatus(s.state.Stopped, open && a.BegunAt != nil)}
	s.emit(record.AgentStateChanged, e, facts{"status": status, "by": clip(by)})
	return err
}

// Abort marks the open attempt of an agent; its turn watcher ends the turn. A repeated call adds the mode; changed says
// whether this call did something. Errors: CodeNoRun, CodeRunMismatch when another turn runs than RunID,
// CodeInvalidMessage for an unknown mode.
func (m *Scheduler) Abort(ctx context.Context, ab Abort) (a ledger.Attempt, changed bool, err error) {
	if ab.Mode != "" && ab.Mode != StopAfterAbort {
		return ledger.Attempt{}, false, refused(CodeInvalidMessage, "mode", "leave it out, or use "+StopAfterAbort,
			"%.40q is not a mode of an abort", ab.Mode)
	}
	err = m.liveStep(ctx, ab.AgentID, func(s *step) (err error) {
		changed = false
		if a, err = s.openAttempt(); err != nil {
			return err
		}
		if ab.RunID != "" && ab.RunID != a.TurnID {
			return refused(CodeRunMismatch, "run_id", "leave it out to end the turn that runs",
				"turn %s of agent %s runs, and not %.128s", a.TurnID, a.AgentID, ab.RunID)
		}
		a, err = s.abort(a, ab)
		changed = len(s.events) > 0
		return err
	})
	return a, changed, err
}

func (s *step) abort(a ledger.Attempt, ab Abort) (ledger.Attempt, error) {
	if a.AbortedBy != "" && (ab.Mode == "" || a.AbortMode == ab.Mode) {
		return a, nil
	}
	if a.AbortedBy == "" {
		if a.AbortedBy = clip(ab.By); a.AbortedBy == "" {
			a.AbortedBy = "the operator"
		}
	}
	if ab.Mode != "" {
		a.AbortMode = ab.Mode
	}
	said := facts{"by": a.AbortedBy, "mode": a.AbortMode}
	if ab.Reason != "" {
		said["reason"] = clip(ab.Reason)
	}
	s.emit(record.CurrentRunAborted, ledger.Event{MessageID: a.MessageID, TurnID: a.TurnID, Status: "cancelling"}, said)
	a.AbortEvent = s.newest()
	return a, s.Update(&a)
}

// SetModel sets the model of an agent's next turns. The turn that runs keeps its
// own.
func (m *Scheduler) SetModel(ctx context.Context, agentID, model, effort string) (ledger.Agent, error) {
	for _, f := range []struct{ name, value string }{{"model", model}, {"reasoning_effort", effort}} {
		if bad := shortText(f.name, f.value); bad != nil {
			return ledger.Agent{}, refused(CodeInvalidAgent, bad.Param, "", "%s", bad.Message)
		}
	}
	if effort != "" && !slices.Contains(rules.Efforts, effort) {
		return ledger.Agent{}, refused(CodeInvalidAgent, "reasoning_effort", "use "+strings.Join(rules.Efforts, ", "),
			"%.40q is not a reasoning effort", effort)
	}
	if model == "" {
		return ledger.Agent{}, refused(CodeInvalidAgent, "model", "holon agent model clear "+agentID,
			"a model has a name: provider/model")
	}
	return m.agent(ctx, agentID, record.ModelOverrideRequested,
		facts{"scope": "session", "model": model, "reasoning_effort": effort},
		func(a *ledger.Agent) {
			a.Model, a.ReasoningEffort = model, effort
		})
}

// ClearModel lets an agent use the runtime's model again.
func (m *Scheduler) ClearModel(ctx context.Context, agentID string) (ledger.Agent, error) {
	return m.agent(ctx, agentID, record.ModelClearRequested, facts{"scope": "session"}, func(a *ledger.Agent) {
		a.Model, a.ReasoningEffort = "", ""
	})
}

// SetImage sets the image of an agent's next turns, "" the runtime's.
func (m *Scheduler) SetImage(ctx context.Context, agentID, image string) (ledger.Agent, error) {
	if bad := shortText("image", image); bad != nil {
		return ledger.Agent{}, refused(CodeInvalidAgent, bad.Param, "", "%s", bad.Message)
	}
	return m.agent(ctx, agentID, record.AgentStateChanged, facts{"image": image}, func(a *ledger.Agent) {
		a.Image = image
	})
}

// agent changes how an agent is set, and tells of it if it made a difference.
func (m *Scheduler) agent(ctx context.Context, agentID, event string, f facts, set func(*ledger.Agent)) (ledger.Agent,
	error) {
	var a ledger.Agent
	err := m.liveStep(ctx, agentID, func(s *step) error {
		old, err := s.Agent(agentID)
		if err != nil {
			return err
		}
		a = old
		if set(&a); a == old {
			return s.unblock(false)
		}
		a.UpdatedAt = s.now
		var e ledger.Event
		if record.Class(event) == "thread.updated" {
			if e.Status, err = s.statusNow(); err != nil {
				return err
			}
		}
		s.emit(event, e, f)
		if err := s.unblock(false); err != nil {
			return err
		}
		return s.Update(&a)
	})
	return a, err
}

// statusNow is the status of the agent's thread, which the event that needs it does not change.
func (s *step) statusNow() (string, error) {
	a, open, err := s.OpenAttempt(s.state.AgentID)
	var last ledger.Closure
	if s.state.LastClosure != nil {
		last = *s.state.LastClosure
	}
	return s.threadStatus(last, a, open), err
}
