package runner

import (
	"errors"

	"holon/internal/redact"
	"holon/internal/visible"
	"holon/responses"
	"holon/responses/turns"
	"holon/runner/gateway"
	"holon/state"
)

// Causes that end a turn from outside, for context.WithCancelCause. Any other cause counts as ErrInterrupted.
var (
	ErrInterrupted = errors.New("cancelled by the user")
	ErrDeadline    = errors.New("the turn ended early: it ran out of time")
	// ErrSilent ends a turn whose container does not answer.
	ErrSilent = errors.New("agentd did not accept the turn in time")
	// ErrLeft does not end the turn: it goes on unwatched until another process
	// takes its session up.
	ErrLeft = errors.New("the turn was left to go on by itself")
)

// End is how a turn ended. What the host did to the turn overrides the end that the container reports. Its texts are
// the container's: bounded, and not cleaned for a terminal.
type End struct {
	TurnID     string
	SessionID  string
	ResponseID string // that another turn may continue; "" when it is not known
	// Response is the last snapshot that arrived: the final response when Err
	// is nil, else what is known of it, nil when nothing arrived.
	Response *responses.Response
	Err      error // why the final response is missing
	NotBegun bool  // with Err: agentd has never accepted the turn, as its files show
	// Claimed is the final response in files that commands could write, of a turn whose end was not seen; nil if there
	// is none.
	Claimed *responses.Response

	// Status is the end of the turn: completed, failed, incomplete or cancelled; "" when it is not known.
	Status  responses.Status
	Failure *state.Failure // why it is not completed, without known secrets; nil when it is
	// Lost: the turn was cut off from outside, or its end is not known. agentd
	// keeps its output under ResponseID when its container starts again.
	Lost bool

	Record  *turns.Record    // what agentd recorded of it; nil when that was not read
	Answer  string           // what the agent said last, without known secrets
	Usage   *responses.Usage // of models, as the container counts; nil when that is not known
	Model   string           // that gave the newest answer, provider/model; "": none did
	Account *gateway.Account // what the gateway metered, nil where there was none
	Fresh   string           // why the turn got another container than the one before; "": it did not

	trouble     *state.Failure // what the gateway reports of the last request to a model, nil if that was answered
	interrupted bool           // the turn's context ended before the turn did
	stopped     *Error         // why the host ended it: it wrote more than its DiskBytes, or a service ended
}

// maxAnswer bounds End.Answer in bytes, without the mark that it was shortened.
const maxAnswer = 256 << 10

// Inserted returns the ids of the messages that the model was sent while the turn ran.
func (e End) Inserted() (ids []string) {
	if e.Record == nil {
		return nil
	}
	for _, in := range e.Record.Inputs {
		if in.Inserted {
			ids = append(ids, in.ID)
		}
	}
	return ids
}

// Settle decides how the turn ended. cause is why its context ended, nil if it did not.
func (e *End) Settle(cause error, secrets *redact.Set) {
	if e.Response != nil {
		e.ResponseID = e.Response.ID
		e.Answer = visible.Clip(secrets.Text(e.Response.OutputText()), maxAnswer)
	}
	if e.Err != nil && cause != nil && errors.Is(e.Err, cause) && !errors.Is(cause, ErrLeft) &&
		!errors.Is(cause, ErrSilent) {
		e.Err = ErrInterrupted // the caller may have another name for it
	}
	if e.Err == nil && e.Response.Status == responses.StatusCompleted {
		e.Status = responses.StatusCompleted
		return
	}
	switch status, host := e.byHost(); {
	case host != nil:
		e.Status, e.Failure = status, new(Describe(host))
	case e.Err == nil:
		e.Status, e.Failure = e.Response.Status, e.reported()
		e.Lost = e.Status == responses.StatusFailed && e.Failure.Code == responses.CodeInterrupted ||
			e.Status == responses.StatusIncomplete && e.Failure.Code == responses.ReasonShutdown
	default:
		e.Lost, e.Failure = true, &state.Failure{Code: responses.CodeInterrupted, Message: Describe(e.Err).Message}
	}
	e.Failure.Message = secrets.Text(e.Failure.Message)
}

// byHost is the end that the host gave the turn, and why; nil where it did not.
func (e *End) byHost() (responses.Status, error) {
	switch {
	case e.stopped != nil:
		return responses.StatusIncomplete, e.stopped
	case e.interrupted, errors.Is(e.Err, ErrInterrupted):
		return responses.StatusCancelled, ErrInterrupted
	case errors.Is(e.Err, ErrDeadline):
		return responses.StatusIncomplete, ErrDeadline
	}
	return "", nil
}

// reported says why the final response of a turn is not completed. What the host knows of it and the
// container does not, such as the endpoint that could not be reached, is part of it.
func (e *End) reported() *state.Failure {
	f, trouble := responseFailure(e.Response), e.trouble
	if trouble == nil || f.Code != trouble.Code {
		return f
	}
	f.Param, f.Hint = trouble.Param, trouble.Hint
	if trouble.Message != "" {
		f.Message = visible.OneLine(trouble.Message, 2000)
	}
	return f
}

// responseFailure is the container's word on why a response is not completed, made fit to be printed.
func responseFailure(resp *responses.Response) *state.Failure {
	switch {
	case resp.Status == responses.StatusCancelled:
		return &state.Failure{Code: responses.CodeCancelled, Message: "the turn was cancelled"}
	case resp.Status == responses.StatusIncomplete && resp.IncompleteDetails != nil:
		reason := visible.OneLine(resp.IncompleteDetails.Reason, 100)
		if reason == responses.ReasonTimeout {
			return &state.Failure{Code: reason, Message: ErrDeadline.Error()}
		}
		return &state.Failure{Code: reason, Message: "the turn ended early: " + reason}
	case resp.Error != nil:
		return &state.Failure{Code: visible.OneLine(resp.Error.Code, 100),
			Message: visible.OneLine(resp.Error.Message, 2000)}
	}
	return &state.Failure{Code: responses.CodeServerError, Message: "the turn failed"}
}
