package control

import (
	"errors"
	"net/http"
	"time"

	"holon/internal/httpserver"
	"holon/responses"
	"holon/responses/tasks"
	"holon/runner/agent/rules"
	"holon/runner/agent/scheduler"
	"holon/runner/agent/view"
	"holon/runner/control/wire"
	"holon/state"
	"holon/state/ledger"
)

// containerTime is how long it may take until a container answers that has to be made first.
const (
	containerTime = 2 * time.Minute
	maxTaskTokens = 64_000
)

func (s *Server) getTaskOutput(w http.ResponseWriter, r *http.Request) (any, error) {
	q, err := queryOf(r, "timeout_ms", "max_output_tokens")
	if err != nil {
		return nil, err
	}
	wait, err := q.number("timeout_ms", wire.MaxTaskWait.Milliseconds())
	if err != nil {
		return nil, err
	}
	tokens, err := q.number("max_output_tokens", maxTaskTokens)
	if err != nil {
		return nil, err
	}
	patience := time.Duration(wait) * time.Millisecond
	s.mayTake(w, patience+containerTime)
	out, err := s.host.TaskOutput(r.Context(), s.agentID(r), httpserver.PathValue(r, "task_id"), patience, int(tokens))
	return out, ofContainer(err)
}

// postTask starts a command in the container of an agent, as a task of the operator.
func (s *Server) postTask(w http.ResponseWriter, r *http.Request, n wire.Task) (any, error) {
	if n.Cmd == "" {
		return nil, missing("cmd", "give the command to run")
	}
	key, err := idempotencyKey(r, "http_task")
	if err != nil {
		return nil, err
	}
	s.mayTake(w, containerTime)
	t, err := s.host.StartTask(r.Context(), scheduler.NewTask{AgentID: s.agentID(r), Key: key, Purpose: n.Summary,
		Start: tasks.Start{Cmd: n.Cmd, Workdir: n.Workdir, Shell: n.Shell, Login: n.Login, TTY: n.TTY,
			AcceptsInput: n.AcceptsInput}})
	return view.OfTask(t), ofContainer(err)
}

func (s *Server) postTaskInput(w http.ResponseWriter, r *http.Request, in tasks.Input) (any, error) {
	if in == (tasks.Input{}) {
		return nil, missing("input", "give what to write, or set close_input")
	}
	s.mayTake(w, containerTime)
	out, err := s.host.TaskInput(r.Context(), s.agentID(r), httpserver.PathValue(r, "task_id"), in)
	return out, ofContainer(err)
}

func (s *Server) postTaskStop(w http.ResponseWriter, r *http.Request, stop tasks.Stop) (any, error) {
	s.mayTake(w, containerTime)
	out, err := s.host.StopTask(r.Context(), s.agentID(r), httpserver.PathValue(r, "task_id"), stop.Force)
	return out, ofContainer(err)
}

// containerCodes are the codes of this control plane for refusals of a container, which no later try changes.
var containerCodes = map[state.Code]state.Code{
	responses.CodeTurnConflict: ledger.CodeConflict, responses.CodeInputConflict: ledger.CodeConflict,
	responses.CodeTurnNotFound: ledger.CodeNotFound, responses.CodeItemNotFound: ledger.CodeNotFound,
	responses.CodeMissingParameter: wire.CodeMissingField, responses.CodeUnsupportedParameter: wire.CodeUnknownField,
}

// noHome is the code of a container without the home of its agent, which does not come by itself.
const noHome state.Code = "agent_no_home"

// ofContainer makes an error of the container of an agent one of the control plane, which knows none of its codes.
func ofContainer(err error) error {
	e, ok := errors.AsType[*state.Error](err)
	if !ok {
		return err
	}
	if code, listed := containerCodes[e.Code]; listed {
		return &state.Error{Code: code, Message: e.Message, Param: e.Param, Hint: e.Hint, Err: err}
	}
	if _, _, known := wire.Explain(err); known {
		return err
	}
	code := wire.CodeContainer
	if rules.Permanent(e.Code) || e.Code == noHome {
		code = wire.CodeUnusable
	}
	return &state.Error{Code: code, Message: state.Named(e.Param, e.Message), Param: e.Param,
		Hint: e.Hint, Err: err}
}

// mayTake gives an answer more time than others have.
func (s *Server) mayTake(w http.ResponseWriter, d time.Duration) {
	// a recorder in a test has no deadline
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(d + s.limits.Write))
}
