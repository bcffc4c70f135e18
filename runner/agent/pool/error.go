package pool

import (
	"context"

	"holon/responses"
	"holon/runner"
	"holon/state"
)

// Code classifies an error of the pool.
type Code = state.Code

// The codes of Error, in addition to those of engines, gateway and agentd.
const (
	CodeClosed  Code = "runtime_closing" // no turn is begun any more
	CodeLeft    Code = "turn_left"       // the turn goes on; Recover takes it up
	CodeNoHome  Code = "agent_no_home"   // the agent's directory is not there
	CodeNoTurn  Code = "no_current_run"  // Interject: the agent does not make that turn
	CodeUnclear Code = "start_unclear"   // StartTask: the container was asked, and its answer did not come
	CodeBusy    Code = "container_busy"  // the turn needs another container, and a task runs in this one
)

// Error is the error of every method; Param names the setting at fault.
type Error = state.Error

// typed makes an *Error of the reason why something was not done, without known
// secrets.
func (k *Pool) typed(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return &Error{Code: responses.CodeCancelled, Message: "it was ended before it was done",
			Err: context.Cause(ctx)}
	}
	f := runner.Describe(err)
	code := Code(f.Code)
	if f.Code == "internal_error" {
		code = runner.CodeNotReady
	}
	return &Error{Code: code, Message: k.opts.Secrets.Text(f.Message), Param: f.Param,
		Hint: k.opts.Secrets.Text(f.Hint), Err: nil}
}
