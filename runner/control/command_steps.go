package control

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"holon/runner/agent/readmodel"
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
	if strings.TrimSpace(c.Text) == "" {
		return outcome{}, missing("text", "say what the agent is to do")
	}
	a, err := s.steps.Admit(r.Context(), scheduler.Ingress{
		AgentID: c.AgentID, Key: stepKey(c), Kind: ledger.KindOperatorPrompt,
		Origin: ledger.Origin{Kind: ledger.OriginOperator}, Priority: ledger.Priority(c.Priority),
		Body: ledger.Body{Type: "text", Text: c.Text}, Surface: ledger.SurfaceControlPrompt,
		AdmissionContext: listenerOf(r.Context()).operatorContext()})
	return outcome{seq: a.EventSeq, noOp: a.Replayed, result: wire.Submitted{QueuedTurnID: a.MessageID}}, err
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

func (s *Server) getJob(r *http.Request, c wire.Command) (outcome, error) {
	model, err := s.readModel(r.Context(), c.AgentID, "subagent_job_summary")
	if err != nil {
		return outcome{}, err
	}
	return oneOf(model.(readmodel.ChildSummary).Jobs.Items, "job", c.JobID,
		func(j readmodel.Job) string { return j.JobID })
}

// oneOf is the outcome of a command that asks for one thing of a read model.
func oneOf[T any](items []T, noun, id string, of func(T) string) (outcome, error) {
	if id == "" {
		return outcome{}, missing(noun+"_id", "list_"+noun+"s has them")
	}
	i := slices.IndexFunc(items, func(item T) bool { return of(item) == id })
	if i < 0 {
		return outcome{}, noSuch(noun+"_id", noun, id)
	}
	return outcome{result: items[i]}, nil
}

func (s *Server) listSessions(r *http.Request, _ wire.Command) (outcome, error) {
	agents, err := read(s, r, view.Snapshot.List)
	sessions := make([]wire.Session, len(agents))
	for i, a := range agents {
		id := a.Identity.AgentID
		sessions[i] = wire.Session{SessionID: rules.SessionID(id), ThreadID: rules.ThreadID(id), AgentListEntry: a}
	}
	return outcome{result: sessions}, err
}

func (s *Server) getCapabilities(*http.Request, wire.Command) (outcome, error) {
	var all []wire.Capability
	for _, c := range commands() {
		all = append(all, wire.Capability{Command: c.name, Supported: c.run != nil, Reason: c.why})
	}
	return outcome{result: all}, nil
}
