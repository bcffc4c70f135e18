package endpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"time"

	"holon/agentd/model"
	"holon/internal/bounded"
	"holon/responses"
	"holon/responses/stream"
)

// errIdle ends an attempt whose provider fell silent.
var errIdle = errors.New("the provider is silent")

// drainTime bounds reading the end of a stream after its last event. A connection
// that was read to its end can be reused.
const drainTime = 20 * time.Millisecond

// ErrStopped ends an attempt whose reader stopped. It is never yielded.
var ErrStopped = errors.New("the reader stopped")

// Stream implements the Stream method of a transport: it yields the events of
// attempt and, as the last pair, its error, a *model.Error, unless that is
// ErrStopped. Without a key there is no attempt.
func (e *Endpoint) Stream(attempt func(yield func(model.Event, error) bool) error) iter.Seq2[model.Event, error] {
	return func(yield func(model.Event, error) bool) {
		if err := e.Check(); err != nil {
			yield(model.Event{}, &model.Error{Kind: model.KindAuthentication, Code: responses.CodeMissingCredentials,
				Message: err.Error(), Permanent: true})
			return
		}
		if err := attempt(yield); err != nil && !errors.Is(err, ErrStopped) {
			yield(model.Event{}, err)
		}
	}
}

// Attempt supervises one request: it cancels the request when the parent context
// ends and when the provider is silent for too long. Use it from one goroutine.
type Attempt struct {
	endpoint *Endpoint
	parent   context.Context
	ctx      context.Context
	cancel   context.CancelCauseFunc
	idle     *time.Timer
}

// Begin starts an attempt. Call End when the answer is no longer read.
func (e *Endpoint) Begin(parent context.Context) *Attempt {
	ctx, cancel := context.WithCancelCause(parent)
	return &Attempt{e, parent, ctx, cancel, time.AfterFunc(e.idle, func() { cancel(errIdle) })}
}

// Context is the context of the request.
func (a *Attempt) Context() context.Context { return a.ctx }

// Alive records that data arrived.
func (a *Attempt) Alive() { a.idle.Reset(a.endpoint.idle) }

// Yield passes an event to the reader. The time that the reader takes does not
// count as silence of the provider.
func (a *Attempt) Yield(yield func(model.Event, error) bool, ev model.Event) bool {
	a.idle.Stop()
	more := yield(ev, nil)
	a.Alive()
	return more
}

// Body returns r such that all data from it, comments included, counts as a sign of
// life.
func (a *Attempt) Body(r io.Reader) io.Reader { return &lively{r, a} }

type lively struct {
	r io.Reader
	a *Attempt
}

// Read implements io.Reader.
func (l *lively) Read(p []byte) (int, error) {
	n, err := l.r.Read(p)
	if n > 0 {
		l.a.Alive()
	}
	return n, err
}

// Drain reads the rest of a body after the last event, to reuse the connection.
func (a *Attempt) Drain(body io.Reader) {
	a.idle.Reset(drainTime)
	_, _ = io.CopyN(io.Discard, body, maxErrorBody)
}

// End releases what the attempt holds.
func (a *Attempt) End() {
	a.idle.Stop()
	a.cancel(nil)
}

// Broken returns the error of a connection that could not be made or broke, at
// a stage of model.Diagnostics.
func (a *Attempt) Broken(stage string, err error) *model.Error {
	e := &model.Error{Kind: model.KindTransport, Code: responses.CodeProviderUnavailable}
	e.Diagnostics = a.endpoint.diagnose(stage, err)
	err = withoutAddress(err)
	switch {
	case a.parent.Err() != nil:
		cancelled := model.Cancelled(a.parent)
		cancelled.Diagnostics = e.Diagnostics
		return cancelled
	case errors.Is(context.Cause(a.ctx), errIdle):
		e.Diagnostics.Timeout = true
		e.Message = fmt.Sprintf("the provider sent no event for %s", a.endpoint.idle)
	case errors.Is(err, stream.ErrTruncated):
		e.Message = "the provider's stream ended before its answer did"
	case errors.Is(err, stream.ErrTooLarge):
		e.Kind, e.Code, e.Message = model.KindProtocol, responses.CodeModelError, err.Error()
	default:
		e.Message = "the connection to the provider failed: " + err.Error()
		if _, over := errors.AsType[*bounded.TooLargeError](err); over {
			e.Kind, e.Code, e.Message = model.KindProtocol, responses.CodeModelError, "the provider's answer is too large"
		}
	}
	return a.endpoint.Clean(e)
}

// Answered returns the error that an answer with another status than 200 is,
// and nil for 200. It reads the body of an error.
func (e *Endpoint) Answered(resp *http.Response) *model.Error {
	if resp.StatusCode == http.StatusOK {
		return nil
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	if err != nil {
		body = nil // the status says what is needed
	}
	failed := statusError(resp.StatusCode, resp.Header, body)
	failed.Diagnostics = e.diagnose(model.StageStatus, nil)
	failed.Diagnostics.Redirect = resp.StatusCode >= 300 && resp.StatusCode < 400
	return e.Clean(failed)
}

// Garbled adds diagnostics to a *model.Error about the content of an answer, and
// cleans its message. Other errors, such as ErrStopped, are returned unchanged.
func (e *Endpoint) Garbled(err error) error {
	failed, ok := errors.AsType[*model.Error](err)
	if !ok {
		return err
	}
	if failed.Diagnostics == nil {
		failed.Diagnostics = e.diagnose(model.StageDecode, failed.Err)
		failed.Diagnostics.Decode = failed.Kind == model.KindProtocol
	}
	return e.Clean(failed)
}
