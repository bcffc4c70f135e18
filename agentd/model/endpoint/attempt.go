package endpoint

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"mime"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tidwall/gjson"

	"holon/agentd/model"
	"holon/internal/bounded"
	"holon/internal/duration"
	"holon/internal/providers"
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

// Request is what one attempt sends.
type Request struct {
	Path   string            // below the base URL; unused with Options.Post
	Header map[string]string // in addition to the endpoint's own
	Whole  bool              // ask for the answer as one JSON object instead of a stream
	Body   []byte            // JSON

	Lowering model.Lowering
}

// Answer reads the answer to one request and passes its events on. Its errors are
// *model.Error values, or ErrStopped when the reader wants no more.
type Answer interface {
	// Take reads one event of a stream and reports whether it was the last.
	Take(data []byte) (last bool, err error)
	// End ends a stream without a last event, after the mark [DONE] or at the end of the body. It returns
	// stream.ErrTruncated if something is missing.
	End(marked bool) error
	// Whole reads an answer that is one JSON object.
	Whole(data []byte) error
}

// encodeFunc returns the request that a transport makes of req. The error is a
// *model.Error.
type encodeFunc func(req model.Request) (Request, error)

// readFunc returns what reads an answer with the given header.
type readFunc func(req model.Request, header http.Header, yield func(model.Event) bool) Answer

// Stream implements the Stream method of a model.Transport: it makes one attempt.
// Without a key there is none.
func (e *Endpoint) Stream(ctx context.Context, req model.Request, encode encodeFunc,
	read readFunc) iter.Seq2[model.Event, error] {
	if e.strict {
		req.Tools = slices.Clone(req.Tools)
		for i := range req.Tools {
			if t := &req.Tools[i]; t.StrictForm != nil { // those of clients have none
				t.Parameters, t.Strict = t.StrictForm, new(true)
			}
		}
	}
	return func(yield func(model.Event, error) bool) {
		err := e.Check(req.Model)
		if err != nil {
			err = &model.Error{Kind: model.KindAuthentication, Code: responses.CodeMissingCredentials,
				Message: err.Error(), Permanent: true}
		} else {
			err = e.attempt(ctx, &req, encode, read, yield)
		}
		if err != nil && !errors.Is(err, ErrStopped) {
			yield(model.Event{}, err)
		}
	}
}

// attempt makes the request and yields the events of the answer. Its errors are
// *model.Error values, or ErrStopped when the reader wants no more.
func (e *Endpoint) attempt(ctx context.Context, req *model.Request, encode encodeFunc, read readFunc,
	yield func(model.Event, error) bool) error {
	a := e.begin(ctx)
	defer a.end()
	return a.addressed(a.ask(req, encode, read, yield))
}

// ask is attempt while it is supervised.
func (a *attempt) ask(req *model.Request, encode encodeFunc, read readFunc, yield func(model.Event, error) bool) error {
	e := a.endpoint
	resp, answer, err := a.send(req, encode, read, yield)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // the body was read as far as needed
	body := bufio.NewReader(lively{resp.Body, a})
	switch looksLike(body, resp.Header.Get("Content-Type")) {
	case stream.TypeSSE:
		return a.readStream(body, answer)
	case typeJSON:
		data, err := bounded.ReadAll(body, stream.MaxEvent)
		if err != nil {
			return a.broken(model.StageBody, err)
		}
		return e.garbled(answer.Whole(data))
	}
	return e.garbled(a.foreign(body, resp))
}

// looksLike returns the form of an answer, which its first bytes show better than its content type: "" for one that
// can't be read.
func looksLike(body *bufio.Reader, contentType string) string {
	kind, _, _ := mime.ParseMediaType(contentType)
	start, err := body.Peek(1)
	for ; err == nil && strings.IndexByte(" \t\r\n\ufeff", start[0]) >= 0; start, err = body.Peek(1) {
		_, _ = body.Discard(1) // blanks keep connections alive
	}
	switch {
	case err == nil && (start[0] == '{' || start[0] == '['):
		return typeJSON
	case kind == stream.TypeSSE, err == nil && start[0] == ':':
		return stream.TypeSSE
	}
	start, _ = body.Peek(len("event:"))
	for _, field := range []string{"data:", "event:", "id:", "retry:"} {
		if strings.HasPrefix(string(start), field) {
			return stream.TypeSSE
		}
	}
	return ""
}

// foreign is the error of an answer that is neither a stream nor JSON.
func (a *attempt) foreign(body io.Reader, resp *http.Response) error {
	text, err := io.ReadAll(io.LimitReader(body, maxErrorBody))
	if err != nil {
		return a.broken(model.StageBody, err)
	}
	e := Malformed("the provider answered with content type %.80q where %s was asked for",
		resp.Header.Get("Content-Type"), resp.Request.Header.Get("Accept"))
	if words := excerpt(text); words != "" {
		e.Message += ": " + words
	}
	return e
}

// send makes the request and returns the answer of status 200, and what reads it. Its
// frame, which holds the request twice, is not on the stack of a turn that waits for
// the model.
func (a *attempt) send(req *model.Request, encode encodeFunc, read readFunc,
	yield func(model.Event, error) bool) (*http.Response, Answer, error) {
	r, err := encode(*req)
	if err != nil {
		return nil, nil, err
	}
	req.Lowered(r.Lowering)
	ctx := a.ctx
	if a.endpoint.gateway {
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
			Got1xxResponse: func(_ int, h textproto.MIMEHeader) error { return a.located(http.Header(h)) }})
	}
	resp, err := a.endpoint.post(ctx, r)
	if err != nil {
		return nil, nil, a.broken(model.StageSend, err)
	}
	if a.endpoint.gateway {
		_ = a.located(resp.Header)
	}
	if err := a.endpoint.answered(resp); err != nil {
		_ = resp.Body.Close()
		return nil, nil, err
	}
	return resp, read(*req, resp.Header, func(ev model.Event) bool { return a.yield(yield, ev) }), nil
}

// readStream reads an answer that is a stream of events. The streams of the official
// clients bound lines but not events, and end a truncated answer without an error.
func (a *attempt) readStream(body io.Reader, answer Answer) error {
	broken := stream.ErrTruncated
	marked := false
	var odd *oddity // the first
	for frame, err := range stream.NewDecoder(body, stream.SSE).Frames() {
		if err != nil {
			broken = truncated(err)
			break
		}
		if marked = frame.Data == "[DONE]"; marked {
			break
		}
		last, err := take(answer, frame)
		if o, ok := errors.AsType[*oddity](err); ok {
			odd = cmp.Or(odd, o)
			continue
		}
		if last {
			a.drain(body)
		}
		if last || err != nil {
			return a.endpoint.garbled(err)
		}
	}
	err := stream.ErrTruncated
	if odd == nil || a.yielded {
		err = answer.End(marked)
	}
	switch {
	case errors.Is(err, stream.ErrTruncated) && odd != nil:
		return a.endpoint.garbled(odd.failure)
	case errors.Is(err, stream.ErrTruncated):
		return a.broken(model.StageBody, broken)
	case err == nil && marked:
		a.drain(body)
	}
	return a.endpoint.garbled(err)
}

// truncated makes an end within an event that of a stream.
func truncated(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: %w", stream.ErrTruncated, err)
	}
	return err
}

// take has the answer read an event. Lines of others, which are no objects, are odd.
func take(answer Answer, frame stream.Frame) (last bool, err error) {
	data := []byte(frame.Data)
	switch {
	case frame.Name == responses.EventError:
		return false, EventError(DecodeFailure(data))
	case !strings.HasPrefix(strings.TrimSpace(frame.Data), "{"):
		return false, Odd(data)
	case !gjson.ValidBytes(data): // a part of the answer may be lost
		return false, Malformed("the provider's event can't be read, as it is not JSON: %s", excerpt(data))
	}
	return answer.Take(data)
}

// attempt supervises one request: it cancels the request when the parent context
// ends and when the provider is silent for too long. It belongs to one goroutine.
type attempt struct {
	endpoint *Endpoint
	parent   context.Context
	ctx      context.Context
	cancel   context.CancelCauseFunc
	idle     *time.Timer
	yielded  bool                   // an event
	address  atomic.Pointer[string] // the provider's, as the host's gateway says; nil without one
}

// begin starts an attempt. Call end when the answer is no longer read.
func (e *Endpoint) begin(parent context.Context) *attempt {
	ctx, cancel := context.WithCancelCause(parent)
	return &attempt{endpoint: e, parent: parent, ctx: ctx, cancel: cancel,
		idle: time.AfterFunc(e.idle, func() { cancel(errIdle) })}
}

// alive records that data arrived.
func (a *attempt) alive() { a.idle.Reset(a.endpoint.idle) }

// yield passes an event to the reader. The time that the reader takes does not
// count as silence of the provider.
func (a *attempt) yield(yield func(model.Event, error) bool, ev model.Event) bool {
	a.idle.Stop()
	a.yielded = true
	more := yield(ev, nil)
	a.alive()
	return more
}

// lively is a body of which all data, comments included, counts as a sign of life.
type lively struct {
	io.Reader
	a *attempt
}

// Read implements io.Reader.
func (l lively) Read(p []byte) (int, error) {
	n, err := l.Reader.Read(p)
	if n > 0 {
		l.a.alive()
	}
	return n, err
}

// drain reads the rest of a body after the last event, to reuse the connection.
func (a *attempt) drain(body io.Reader) {
	a.idle.Reset(drainTime)
	_, _ = io.CopyN(io.Discard, body, maxErrorBody)
}

// end releases what the attempt holds.
func (a *attempt) end() {
	a.idle.Stop()
	a.cancel(nil)
}

// broken returns the error of a connection that could not be made or broke, at
// a stage of model.Diagnostics.
func (a *attempt) broken(stage string, err error) *model.Error {
	e := &model.Error{Kind: model.KindTransport, Code: responses.CodeProviderUnavailable}
	e.Diagnostics, e.Permanent = a.endpoint.diagnose(stage, err), providers.Permanent(err)
	err = withoutAddress(err)
	switch {
	case a.parent.Err() != nil:
		cancelled := model.Cancelled(a.parent)
		cancelled.Diagnostics = e.Diagnostics
		return cancelled
	case errors.Is(context.Cause(a.ctx), errIdle):
		e.Diagnostics.Timeout = true
		e.Message = "the provider sent no event for " + duration.Text(a.endpoint.idle)
	case errors.Is(err, stream.ErrTruncated):
		e.Message = "the provider's stream ended before its answer did"
	case errors.Is(err, stream.ErrTooLarge):
		e.Kind, e.Code, e.Message = model.KindProtocol, responses.CodeModelError, err.Error()
	default:
		e.Message = "the connection to the provider failed: " + err.Error()
		if _, over := errors.AsType[*bounded.TooLargeError](err); over {
			e.Kind, e.Code, e.Message = model.KindProtocol, responses.CodeModelError,
				"the provider's answer is too large"
		}
	}
	return a.endpoint.clean(e)
}

// answered returns the error that an answer with another status than 200 is,
// and nil for 200. It reads the body of an error.
func (e *Endpoint) answered(resp *http.Response) *model.Error {
	if resp.StatusCode == http.StatusOK {
		return nil
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	if err != nil {
		body = nil // the status says what is needed
	}
	failed := statusError(resp.StatusCode, resp.Header, body)
	failed.Diagnostics = e.diagnoseStatus(resp.Header)
	failed.Diagnostics.Redirect = resp.StatusCode >= 300 && resp.StatusCode < 400
	return e.clean(failed)
}

// garbled adds diagnostics to a *model.Error about the content of an answer, and
// cleans its message. Other errors, such as ErrStopped, are returned unchanged.
func (e *Endpoint) garbled(err error) error {
	if odd, ok := errors.AsType[*oddity](err); ok {
		err = odd.failure
	}
	failed, ok := errors.AsType[*model.Error](err)
	if !ok {
		return err
	}
	if failed.Diagnostics == nil {
		failed.Diagnostics = e.diagnose(model.StageDecode, failed.Err)
		failed.Diagnostics.Decode = failed.Kind == model.KindProtocol
	}
	return e.clean(failed)
}
