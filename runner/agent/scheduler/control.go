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
// queue stays there; a turn that runs is to be aborted; its rest is over. by names
// the requester. A stopped agent is left as it is.
func (m *Scheduler) Stop(ctx context.Context, agentID, by string) error {
	return m.liveStep(ctx, agentID, func(s *step) error {
		if s.state.Stopped {
			return nil
		}
		s.state.Stopped = true
		s.control("stop", by, rules.Stopped)
		s.cancelActive("the agent was stopped")
		s.stopTree(by)
		return nil
	})
}

// stopTree ends the turn of an agent that is being stopped, and stops all private agents below it.
func (s *step) stopTree(by string) {
	if a, ok := s.openAttempt(); ok {
		s.abort(a, Abort{By: by})
	}
	s.stopChildren(by)
}

// stopChildren stops the private agents below an agent. Nobody asked for the end of their turns: they go on with them,
// and with what they wait for, when they are started.
func (s *step) stopChildren(by string) {
	s.eachChild(func(child *step, _ ledger.Task) {
		if !child.state.Stopped {
			child.state.Stopped = true
			child.control("stop", by, rules.Stopped)
		}
		if a, ok := child.openAttempt(); ok {
			child.suspend(a, "stopped")
		}
		child.stopChildren(by)
	})
}

// Start lets a stopped agent go on with its queue, and any agent try again what is blocked. Otherwise one that is not
// stopped is left as it is.
func (m *Scheduler) Start(ctx context.Context, agentID, by string) error {
	return m.liveStep(ctx, agentID, func(s *step) error {
		s.startAgent(by)
		return nil
	})
}

func (s *step) startAgent(by string) {
	s.unblock(false)
	if !s.state.Stopped {
		return
	}
	s.state.Stopped, s.state.WorkHeld = false, ""
	s.control("start", by, rules.AwakeIdle)
	s.freeIdle()
	s.eachChild(func(child *step, _ ledger.Task) { child.startAgent(by) })
}

// Renew lets the conversation of an agent begin anew with its next turn; its record stays. A turn that runs is the last
// of the old one. Without a conversation it changes nothing.
func (m *Scheduler) Renew(ctx context.Context, agentID, by string) error {
	return m.liveStep(ctx, agentID, func(s *step) error {
		a, open := s.openAttempt()
		if s.state.LastResponse() == "" && (!open || a.Renewed) {
			return nil
		}
		s.beginAnew()
		s.emit(record.ControlApplied, ledger.Event{}, fields{"action": "renew", "by": clip(by)})
		if !open {
			return nil
		}
		a.Renewed = true
		s.update(&a)
		return nil
	})
}

// beginAnew lets the next turn begin another conversation.
func (s *step) beginAnew() {
	s.state.Chain, s.state.Renewed, s.state.ClientCalls, s.state.WorkShown = "", "", nil, ""
}

func (s *step) control(action, by string, status rules.Status) {
	s.emit(record.ControlApplied, ledger.Event{}, fields{"action": action, "by": clip(by)})
	s.emitAgentState(string(status), by)
}

// emitAgentState records that an agent was stopped or started. A turn that has begun runs until its end.
func (s *step) emitAgentState(status, by string) {
	a, open := s.openAttempt()
	e := ledger.Event{Status: record.AgentStatus(s.state.Stopped, open && a.BegunAt != nil)}
	s.emit(record.AgentStateChanged, e, fields{"status": status, "by": clip(by)})
}

// Abort marks the open attempt of an agent; its turn watcher ends the turn. A repeated call adds the mode; changed says
// whether this call did something. Errors: CodeNoRun, CodeRunMismatch when another turn runs than RunID,
// CodeInvalidMessage for an unknown mode.
func (m *Scheduler) Abort(ctx context.Context, ab Abort) (a ledger.Attempt, changed bool, err error) {
	if ab.Mode != "" && ab.Mode != StopAfterAbort {
		return ledger.Attempt{}, false, refused(CodeInvalidMessage, "mode", "leave it out, or use "+StopAfterAbort,
			"%.40q is not a mode of an abort", ab.Mode)
	}
	err = m.liveStep(ctx, ab.AgentID, func(s *step) error {
		open := false
		if a, open = s.openAttempt(); !open {
			return refused(CodeNoRun, "agent_id", "holon agent status "+ab.AgentID, "no turn of agent %s runs", ab.AgentID)
		}
		if ab.RunID != "" && ab.RunID != a.TurnID {
			return refused(CodeRunMismatch, "run_id", "leave it out to end the turn that runs",
				"turn %s of agent %s runs, and not %.128s", a.TurnID, a.AgentID, ab.RunID)
		}
		a = s.abort(a, ab)
		changed = len(s.events) > 0
		return nil
	})
	return a, changed, err
}

func (s *step) abort(a ledger.Attempt, ab Abort) ledger.Attempt {
	if a.AbortedBy != "" && (ab.Mode == "" || a.AbortMode == ab.Mode) {
		return a
	}
	if a.AbortedBy == "" {
		if a.AbortedBy = clip(ab.By); a.AbortedBy == "" {
			a.AbortedBy = "the operator"
		}
	}
	if ab.Mode != "" {
		a.AbortMode = ab.Mode
	}
	f := fields{"by": a.AbortedBy, "mode": a.AbortMode}
	if ab.Reason != "" {
		f["reason"] = clip(ab.Reason)
	}
	s.emit(record.CurrentRunAborted, ledger.Event{MessageID: a.MessageID, TurnID: a.TurnID, Status: "cancelling"}, f)
	a.AbortEvent = s.newest()
	s.update(&a)
	return a
}

// suspend has the turn of an attempt ended as a shutdown ends it: its message comes back, and is not to blame.
func (s *step) suspend(a ledger.Attempt, why string) {
	if a.AbortedBy != "" || a.Suspended != "" {
		return
	}
	a.Suspended = why
	s.emit(record.SchedulerDiagnostic, ledger.Event{MessageID: a.MessageID, TurnID: a.TurnID},
		fields{"code": "turn_suspended", "reason": why})
	s.update(&a)
}

// SetModel sets the model of an agent's next turns. The turn that runs keeps its
// own.
func (m *Scheduler) SetModel(ctx context.Context, agentID, model, effort string) (ledger.Agent, error) {
	if bad := shortTexts("model", model, "reasoning_effort", effort); bad != nil {
		return ledger.Agent{}, refused(CodeInvalidAgent, bad.Param, "", "%s", bad.Message)
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
		fields{"scope": "session", "model": model, "reasoning_effort": effort},
		func(a *ledger.Agent) {
			a.Model, a.ReasoningEffort = model, effort
		})
}

// ClearModel lets an agent use the runtime's model again.
func (m *Scheduler) ClearModel(ctx context.Context, agentID string) (ledger.Agent, error) {
	return m.agent(ctx, agentID, record.ModelClearRequested, fields{"scope": "session"}, func(a *ledger.Agent) {
		a.Model, a.ReasoningEffort = "", ""
	})
}

// SetImage sets the image of an agent's next turns, "" the runtime's.
func (m *Scheduler) SetImage(ctx context.Context, agentID, image string) (ledger.Agent, error) {
	if bad := shortTexts("image", image); bad != nil {
		return ledger.Agent{}, refused(CodeInvalidAgent, bad.Param, "", "%s", bad.Message)
	}
	return m.agent(ctx, agentID, record.AgentStateChanged, fields{"image": image}, func(a *ledger.Agent) {
		a.Image = image
	})
}

// agent changes how an agent is set, and records it if it made a difference.
func (m *Scheduler) agent(ctx context.Context, agentID, event string, f fields, set func(*ledger.Agent)) (ledger.Agent,
	error) {
	var a ledger.Agent
	err := m.liveStep(ctx, agentID, func(s *step) error {
		old := s.agentRow()
		a = old
		if set(&a); a == old {
			s.unblock(false)
			return nil
		}
		a.UpdatedAt = s.now
		var e ledger.Event
		if record.Class(event) == "thread.updated" {
			e.Status = s.statusNow()
		}
		s.emit(event, e, f)
		s.unblock(false)
		s.update(&a)
		return nil
	})
	return a, err
}

// statusNow is the status of the agent's thread, which the event that needs it does not change.
func (s *step) statusNow() string {
	a, open := s.openAttempt()
	var last ledger.Closure
	if s.state.LastClosure != nil {
		last = *s.state.LastClosure
	}
	return s.threadStatus(last, a, open)
}
