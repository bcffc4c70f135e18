package control

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"holon/internal/httpserver"
	"holon/runner/agent/scheduler"
	"holon/runner/agent/view"
	"holon/runner/control/wire"
	"holon/state"
	"holon/state/ledger"
)

func (s *Server) postCreate(w http.ResponseWriter, r *http.Request, c wire.Create) (any, error) {
	if err := s.checkWorkspace(r.Context(), c.Workspace); err != nil {
		return nil, err
	}
	s.mayTake(w, containerTime) // a template may have to be fetched
	a, err := s.host.CreateAgent(r.Context(), s.agentID(r), c.Template)
	if err != nil {
		return nil, err
	}
	return read(s, r, func(v view.Snapshot) (view.AgentSummary, error) { return v.Summary(a.ID) })
}

func (s *Server) postControl(w http.ResponseWriter, r *http.Request, c wire.Control) (any, error) {
	id := s.agentID(r)
	steps := map[string]func() error{
		"start": func() error { return s.steps.Start(r.Context(), id, operator) },
		"stop":  func() error { return s.steps.Stop(r.Context(), id, operator) },
		"renew": func() error { return s.steps.Renew(r.Context(), id, operator) },
	}
	steps["resume"], steps["pause"] = steps["start"], steps["stop"] // older words
	step, known := steps[c.Action]
	if !known {
		return nil, invalid("action", fmt.Sprintf("%.40q is not an action", c.Action), "use start, stop or renew")
	}
	if c.WithTasks && c.Action != "stop" {
		return nil, invalid("with_tasks", "with_tasks is of the action stop", "leave it out")
	}
	if err := step(); err != nil {
		return nil, err
	}
	if c.WithTasks {
		s.mayTake(w, containerTime)
		if err := ofContainer(s.host.StopTasks(r.Context(), id)); err != nil {
			return nil, err
		}
	}
	return wire.Controlled{OK: true, AgentID: id, Action: c.Action}, nil
}

func (s *Server) postAbort(_ http.ResponseWriter, r *http.Request, a wire.Abort) (any, error) {
	if a.Mode != "" && a.Mode != "stop_after_abort" {
		return nil, invalid("mode", fmt.Sprintf("%.40q is not a mode", a.Mode),
			"use stop_after_abort, or leave mode out")
	}
	id := s.agentID(r)
	attempt, _, err := s.steps.Abort(r.Context(), scheduler.Abort{AgentID: id, RunID: a.RunID, Mode: a.Mode, By: operator})
	if err != nil {
		return nil, err
	}
	return wire.Aborted{OK: true, Aborted: true, AgentID: id, RunID: attempt.TurnID, MessageID: attempt.MessageID,
		Mode: attempt.AbortMode}, nil
}

func (s *Server) postArchive(w http.ResponseWriter, r *http.Request, a wire.Archive) (any, error) {
	id := s.agentID(r)
	shown, err := read(s, r, func(v view.Snapshot) (view.AgentSummary, error) { return v.Summary(id) })
	if err != nil {
		return nil, err
	}
	if shown.Identity.IsDefaultAgent {
		return nil, &state.Error{Code: scheduler.CodeDefaultAgent, Param: "agent_id",
			Message: fmt.Sprintf("agent %s is the default one and stays", id),
			Hint:    "start the daemon with another default agent: holon daemon restart --agent ID"}
	}
	s.mayTake(w, containerTime)
	changes, err := s.unapplied(r.Context(), id, a.Force || a.DryRun)
	if err != nil {
		return nil, err
	}
	lost, err := s.steps.Archive(r.Context(),
		scheduler.Archive{AgentID: id, By: operator, Force: a.Force, DryRun: a.DryRun})
	if err != nil {
		return nil, err
	}
	if !a.DryRun {
		s.host.Retire(r.Context(), id)
		s.forgetSecrets(r.Context(), id)
	}
	return wire.Archived{OK: true, AgentID: id, DryRun: a.DryRun, Lost: wire.Losses(lost),
		AgentHome: shown.Identity.AgentHome, Changes: changes}, nil
}

// forgetSecrets removes the secrets of what was revoked.
func (s *Server) forgetSecrets(ctx context.Context, agentID string) {
	if err := s.opts.Transports.Forget(ctx); err != nil { // the next start does
		s.log.Warn("secrets of what was revoked stay for now", "agent", agentID, "err", err)
	}
}

func (s *Server) postTimer(_ http.ResponseWriter, r *http.Request, t wire.Timer) (any, error) {
	least := int64(1)
	if t.Cron != "" {
		least = 0
	}
	if err := checkSpan("duration_ms", t.DurationMS, least); err != nil {
		return nil, err
	}
	if err := checkSpan("interval_ms", t.IntervalMS, 0); err != nil {
		return nil, err
	}
	key, err := idempotencyKey(r, "http_timer")
	if err != nil {
		return nil, err
	}
	timer, made, err := s.steps.CreateTimer(r.Context(),
		scheduler.NewTimer{AgentID: s.agentID(r), Key: key, After: time.Duration(t.DurationMS) * time.Millisecond,
			Interval: time.Duration(t.IntervalMS) * time.Millisecond, Cron: t.Cron, Zone: t.Zone, Summary: t.Summary})
	if err != nil {
		return nil, err
	}
	return wire.MadeTimer{Timer: view.OfTimer(timer), Replayed: !made}, nil
}

// maxSpan bounds the times of timers, in milliseconds: ten years.
const maxSpan = 10 * 365 * 24 * 3600 * 1000

func checkSpan(param string, ms, low int64) error {
	if ms < low || ms > maxSpan {
		return invalid(param, fmt.Sprintf("%s can't be %d", param, ms),
			fmt.Sprintf("give milliseconds from %d to %d", low, int64(maxSpan)))
	}
	return nil
}

// deleteTimer cancels a timer of the agent that the path names, and of no other.
func (s *Server) deleteTimer(_ http.ResponseWriter, r *http.Request) (any, error) {
	id := httpserver.PathValue(r, "timer_id")
	var timer ledger.Timer
	err := s.store.View(r.Context(), func(v ledger.View) (err error) {
		timer, err = v.Timer(id)
		return err
	})
	if err != nil {
		return nil, err
	}
	if timer.AgentID != s.agentID(r) {
		return nil, &state.Error{Code: ledger.CodeNotFound, Param: "timer",
			Message: fmt.Sprintf("agent %.64s has no timer %.64q", s.agentID(r), id),
			Hint:    "holon timer list --agent " + s.agentID(r) + " shows the timers"}
	}
	if timer, err = s.steps.CancelTimer(r.Context(), id); err != nil {
		return nil, err
	}
	return view.OfTimer(timer), nil
}

// deleteQueued takes a message out of the queue of the agent that the path names.
func (s *Server) deleteQueued(_ http.ResponseWriter, r *http.Request) (any, error) {
	return s.steps.Remove(r.Context(), s.agentID(r), httpserver.PathValue(r, "message_id"), operator)
}

func (s *Server) postModel(_ http.ResponseWriter, r *http.Request, m wire.Model) (any, error) {
	if m.Model == "" {
		return nil, missing("model", "name one as provider/model; holon agent model clear "+s.agentID(r)+
			" goes back to that of the runtime")
	}
	if err := s.host.CheckModel(m.Model, m.Force); err != nil {
		return nil, err
	}
	a, err := s.steps.SetModel(r.Context(), s.agentID(r), m.Model, m.ReasoningEffort)
	if err != nil {
		return nil, err
	}
	return s.modelSet(r, a.ID)
}

func (s *Server) postClearModel(_ http.ResponseWriter, r *http.Request) (any, error) {
	a, err := s.steps.ClearModel(r.Context(), s.agentID(r))
	if err != nil {
		return nil, err
	}
	return s.modelSet(r, a.ID)
}

func (s *Server) modelSet(r *http.Request, agentID string) (any, error) {
	m, err := read(s, r, func(v view.Snapshot) (view.ModelState, error) { return v.Model(agentID) })
	return wire.ModelSet{OK: true, AgentID: agentID, Model: m}, err
}

func (s *Server) postImage(_ http.ResponseWriter, r *http.Request, i wire.Image) (any, error) {
	if i.Image != "" {
		if err := s.host.CheckImage(r.Context(), i.Image); err != nil {
			return nil, err
		}
	}
	a, err := s.steps.SetImage(r.Context(), s.agentID(r), i.Image)
	if err != nil {
		return nil, err
	}
	return wire.ImageSet{OK: true, AgentID: a.ID, Image: a.Image}, nil
}

func (s *Server) getBudget(_ http.ResponseWriter, r *http.Request) (any, error) {
	id := s.agentID(r)
	return read(s, r, func(v view.Snapshot) (view.TreeBudget, error) { return v.Budget(id) })
}

func (s *Server) getWorktrees(_ http.ResponseWriter, r *http.Request) (any, error) {
	id := s.agentID(r)
	return read(s, r, func(v view.Snapshot) (view.WorktreeSummary, error) { return v.Worktrees(id) })
}

func (s *Server) postBudget(w http.ResponseWriter, r *http.Request, b wire.Budget) (any, error) {
	_, err := s.host.SetBudget(r.Context(), s.agentID(r), scheduler.Budget(b))
	if err != nil {
		return nil, err
	}
	return s.getBudget(w, r)
}

func (s *Server) postDebugPrompt(_ http.ResponseWriter, r *http.Request, p wire.DebugPrompt) (any, error) {
	prompt, err := s.host.Prompt(r.Context(), s.agentID(r), p.Text)
	if err != nil {
		return nil, err
	}
	return []byte(prompt), nil
}

func (s *Server) postTrigger(_ http.ResponseWriter, r *http.Request) (any, error) {
	return s.trigger(s.steps.EnsureTrigger(r.Context(), s.agentID(r)))
}

func (s *Server) postNewTrigger(_ http.ResponseWriter, r *http.Request, n wire.NewTrigger) (any, error) {
	return s.trigger(s.opts.Transports.CreateTrigger(r.Context(), s.agentID(r), n.Signature, n.Secret))
}

// postRotateTrigger and postRevokeTrigger are about the trigger that the path names, else the one without signatures.
func (s *Server) postRotateTrigger(_ http.ResponseWriter, r *http.Request) (any, error) {
	return s.trigger(s.steps.RotateTrigger(r.Context(), s.agentID(r), httpserver.PathValue(r, "trigger_id")))
}

func (s *Server) postRevokeTrigger(_ http.ResponseWriter, r *http.Request) (any, error) {
	t, err := s.steps.RevokeTrigger(r.Context(), s.agentID(r), httpserver.PathValue(r, "trigger_id"))
	if err == nil && t.Signature != "" {
		s.forgetSecrets(r.Context(), t.AgentID)
	}
	return s.trigger(t, "", err)
}

// idFlag is the flag that names a trigger, "" for the one without signatures.
func idFlag(t ledger.Trigger) string {
	if t.Signature == "" {
		return ""
	}
	return "--id " + t.ID
}

// trigger tells of a trigger, with its URL when its token is known.
func (s *Server) trigger(t ledger.Trigger, token string, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	out := wire.Trigger{OK: true, AgentID: t.AgentID, Trigger: view.OfTrigger(t)}
	switch info := s.host.Info(); {
	case token == "" && t.Status == ledger.TriggerActive:
		out.Hint = "the URL was made with another key and still works; get one that can be shown with: " +
			strings.TrimSpace("holon agent trigger rotate "+t.AgentID+" "+idFlag(t))
	case token != "":
		if out.TriggerURL = info.TriggerURL(token); info.Reachable() {
			break
		}
		out.Hint = "there is no TCP port: this path is served on " + info.SocketPath + "; open a port with --access"
	}
	return out, nil
}
