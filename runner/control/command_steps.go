package control

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"holon/runner/agent/rules"
	"holon/runner/agent/scheduler"
	"holon/runner/agent/view"
	"holon/runner/control/wire"
	"holon/state"
	"holon/state/ledger"
)

// stepKey makes the step of a command one that is done once.
func stepKey(c wire.Command) string { return "command:" + c.CommandID }

func (s *Server) submitTurn(r *http.Request, c wire.Command) (outcome, error) {
	m, err := s.promptOf(r, c.AgentID, stepKey(c), ledger.Priority(c.Priority), c.Text, c.Parts)
	if err != nil {
		return outcome{}, err
	}
	a, err := s.steps.Admit(r.Context(), m)
	return outcome{seq: a.EventSeq, noOp: a.Replayed, result: wire.Submitted{QueuedTurnID: a.MessageID}}, err
}

// respondAction answers what an agent, or a work item whose plan needs input, asks of the operator. An answer that
// comes after another one adds nothing.
func (s *Server) respondAction(r *http.Request, c wire.Command) (outcome, error) {
	if strings.TrimSpace(c.Text) == "" {
		return outcome{}, missing("text", "say what you decided")
	}
	var open, ofItem bool
	subject := strings.TrimPrefix(c.ActionID, "action_")
	err := s.store.View(r.Context(), func(v ledger.View) error {
		w, err := v.Wait(subject)
		if err == nil && w.AgentID == c.AgentID && w.Kind == ledger.WaitOperator {
			open = w.Status == ledger.WaitActive
			return nil
		}
		item, err := v.WorkItem(subject)
		if err != nil || item.AgentID != c.AgentID {
			return noSuch("action_id", "action", c.ActionID)
		}
		open, ofItem = item.State == ledger.WorkOpen && item.PlanStatus == ledger.PlanNeedsInput, true
		return nil
	})
	if err != nil || !open {
		return outcome{noOp: true}, err
	}
	prompt, err := s.promptOf(r, c.AgentID, stepKey(c), ledger.Priority(c.Priority), c.Text, nil)
	if err != nil {
		return outcome{}, err
	}
	prompt.SourceRefs = map[string]string{rules.RefAction: c.ActionID}
	a, err := s.steps.Admit(r.Context(), prompt)
	out := outcome{seq: a.EventSeq, result: wire.Submitted{QueuedTurnID: a.MessageID}}
	if err == nil && ofItem {
		ready := ledger.PlanReady
		_, err = s.steps.UpdateWork(r.Context(), c.AgentID, subject, stepKey(c),
			scheduler.WorkChange{PlanStatus: &ready, Via: scheduler.ViaAction})
		out.seq = 0 // its events are behind that of the message
	}
	return out, err
}

// interruptTurn ends the turn that the command names, and no later one, or the one that runs.
func (s *Server) interruptTurn(r *http.Request, c wire.Command) (outcome, error) {
	_, changed, err := s.steps.Abort(r.Context(), scheduler.Abort{AgentID: c.AgentID, RunID: c.TurnID, By: operator,
		Reason: c.Reason})
	if !state.IsCode(err, scheduler.CodeNoRun) && !state.IsCode(err, scheduler.CodeRunMismatch) {
		return outcome{noOp: err == nil && !changed}, err
	}
	if c.TurnID == "" {
		return outcome{noOp: true}, nil // none runs
	}
	known := s.store.View(r.Context(), func(v ledger.View) error {
		t, missing := v.Turn(c.TurnID)
		if missing == nil && t.AgentID != c.AgentID {
			missing = noSuch("turn_id", "turn", c.TurnID)
		}
		return missing
	})
	if known == nil {
		return outcome{noOp: true}, nil // it has ended
	}
	if !state.IsCode(known, ledger.CodeNotFound) {
		return outcome{}, known
	}
	return outcome{}, noSuch("turn_id", "turn", c.TurnID)
}

func noSuch(param, noun, id string) error {
	return &state.Error{Code: ledger.CodeNotFound, Param: param,
		Message: fmt.Sprintf("the agent has no %s %.100q", noun, id),
		Hint:    "the read models have the ids: GET /runtime/read/{model}"}
}

// resumeThread is remembered with its step: one that comes again after a later stop starts nothing.
func (s *Server) resumeThread(r *http.Request, c wire.Command) (outcome, error) {
	known, err := remembered("resume_thread", c)
	if err != nil {
		return outcome{}, err
	}
	known, err = s.steps.Resume(r.Context(), known, operator)
	return outcome{seq: known.Through, noOp: known.NoOp, result: known.Result}, err
}

// removeQueuedTurn is done when the message is not in the queue because someone removed it.
func (s *Server) removeQueuedTurn(r *http.Request, c wire.Command) (outcome, error) {
	if c.QueuedTurnID == "" {
		return outcome{}, missing("queued_turn_id", "queue_snapshot has them")
	}
	entry, err := s.steps.Remove(r.Context(), c.AgentID, c.QueuedTurnID, operator)
	if !state.IsCode(err, scheduler.CodeNotQueued) {
		return outcome{result: entry}, err
	}
	message, gone := read(s, r, func(v view.Snapshot) (view.MessageState, error) {
		return v.Message(c.AgentID, c.QueuedTurnID)
	})
	if gone == nil && message.Entry.Status == ledger.Dropped {
		return outcome{noOp: true, result: message.Entry}, nil
	}
	return outcome{}, err
}

func (s *Server) promoteQueuedTurn(r *http.Request, c wire.Command) (outcome, error) {
	if c.QueuedTurnID == "" {
		return outcome{}, missing("queued_turn_id", "queue_snapshot has them")
	}
	entry, err := s.steps.Promote(r.Context(), c.AgentID, c.QueuedTurnID, operator)
	return outcome{result: entry}, err
}

// exportEvidence answers with a reference to an export. The record says that evidence was exported, and directories of
// turns may go after that.
func (s *Server) exportEvidence(r *http.Request, c wire.Command) (outcome, error) {
	err := s.store.View(r.Context(), func(v ledger.View) error {
		agent, err := v.AgentState(c.AgentID)
		if agent.ExportedBy == c.CommandID {
			c.Through = &agent.Exported
		}
		return err
	})
	if err != nil {
		return outcome{}, err
	}
	doc, err := s.export(r.Context(), c.AgentID, "evidence", c.Through)
	if err != nil {
		return outcome{}, err
	}
	m := doc.Manifest
	query := url.Values{"agent_id": {c.AgentID}, "through": {strconv.FormatInt(m.ThroughSequence, 10)}}
	out := wire.Exported{Ref: "/runtime/export/evidence?" + query.Encode(), ThroughSequence: m.ThroughSequence,
		EventCount: m.EventCount, EventsDigest: m.Digests["events"]}
	seq, err := s.steps.Exported(r.Context(), scheduler.Export{AgentID: c.AgentID, Key: c.CommandID,
		From: out.ThroughSequence - out.EventCount + 1, Through: out.ThroughSequence, Ref: out.Ref,
		Digest: out.EventsDigest})
	return outcome{seq: seq, noOp: seq == 0, result: out}, err
}

func (s *Server) getCapabilities(*http.Request, wire.Command) (outcome, error) {
	var all []wire.Capability
	for _, c := range commands() {
		all = append(all, c.capability())
	}
	return outcome{result: all}, nil
}
