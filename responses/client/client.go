// Package client calls a server of the Open Responses protocol, and the
// endpoints that agentd adds to it, over a Unix socket or at a URL.
//
// Every call ends with a reason. An answer with an error envelope becomes the
// *responses.Error it was on the server; a server that cannot be reached becomes
// one with the code server_unreachable; a context that ended gives the context's
// error, so that a caller can tell "I stopped" from "it broke".
//
// The server is not trusted: bodies, events and headers are bounded, redirects
// are not followed, and a client of a socket can reach nothing else. There are no
// retries, since a repeated request could run an agent twice, and no timeouts
// other than the caller's context.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"holon/internal/bounded"
	"holon/internal/tracecontext"
	"holon/responses"
	"holon/responses/turns"
)

// Bounds of what is sent and of what is read.
const (
	maxRequest  = responses.MaxRequest  // a request body
	maxResponse = responses.MaxResponse // a JSON answer, and an event with its framing
	maxError    = 256 << 10             // the body of an error answer
	maxSmall    = 1 << 20               // an answer of fixed form
)

// Client calls one server. Its methods are safe for concurrent use.
type Client struct {
	where  string // path of the socket, or the URL, for errors
	remedy string // where no server answers
	base   string // URL before the path of each call
	http   *http.Client
	header http.Header
}

// WithModelToken returns a copy of c whose requests carry the token with which a
// turn may ask models through the host's gateway and call the host's tools.
func (c *Client) WithModelToken(token string) *Client {
	return c.withHeader(responses.HeaderModelToken, token)
}

// WithSpan returns a copy of c whose requests are made in a span, of which the server is told. The zero Span is none.
func (c *Client) WithSpan(span tracecontext.Span) *Client {
	if !span.Valid() {
		return c
	}
	return c.withHeader(tracecontext.Header, span.String())
}

// WithKey returns a copy of c whose requests have an idempotency key: the server makes one with the same key once, and
// answers the others like the first.
func (c *Client) WithKey(key string) *Client { return c.withHeader("Idempotency-Key", key) }

// Below returns a copy of c for a server that has the protocol below a path, such as /v1.
func (c *Client) Below(path string) *Client {
	d := *c
	d.base += path
	return &d
}

func (c *Client) withHeader(name, value string) *Client {
	d := *c
	d.header = c.header.Clone()
	d.header.Set(name, value)
	return &d
}

// Close closes idle connections. Calls that run are not affected.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Health asks GET /health. A server that is starting or draining answers too.
func (c *Client) Health(ctx context.Context) (turns.Health, error) {
	resp, err := c.do(ctx, http.MethodGet, "/health", nil, "application/json")
	if err != nil {
		return turns.Health{}, err
	}
	defer resp.Body.Close()
	body, err := c.read(ctx, resp, maxSmall)
	if err != nil {
		return turns.Health{}, err
	}
	h, err := turns.DecodeHealth(body)
	switch {
	case err == nil:
		return h, nil
	case resp.StatusCode != http.StatusOK:
		return turns.Health{}, responses.DecodeEnvelope(resp.StatusCode, body)
	}
	return turns.Health{}, c.badAnswer("GET /health", err)
}

// Preview returns what a model would be asked first if the request were sent. Nothing is asked and nothing is stored.
func (c *Client) Preview(ctx context.Context, req *responses.Request) (turns.Preview, error) {
	data, err := encodeRequest(*req, maxRequest)
	if err != nil {
		return turns.Preview{}, err
	}
	return call(ctx, c, http.MethodPost, "/responses/preview", data, maxResponse, turns.DecodePreview)
}

// Turn reads the record of a turn.
func (c *Client) Turn(ctx context.Context, turnID string) (*turns.Record, error) {
	if err := responses.CheckID("turn_id", turnID); err != nil {
		return nil, err
	}
	return call(ctx, c, http.MethodGet, "/turns/"+turnID, nil, maxResponse, turns.DecodeRecord)
}

// Input sends the model a message while the turn runs and returns the state of
// that message. The caller chooses id; a message whose answer was lost may be sent
// again with the same id and text. A turn that accepts no more messages is an error
// with the code turn_ended, also for a message that it accepted and never passed to
// the model; an id that was used for another text is input_conflict.
func (c *Client) Input(ctx context.Context, turnID, id, text string) (turns.Input, error) {
	said := turns.NewInput{ID: id, Text: text}
	if err := responses.CheckID("turn_id", turnID); err != nil {
		return turns.Input{}, err
	}
	if err := said.Check(); err != nil {
		return turns.Input{}, err
	}
	body, err := responses.Marshal(said)
	if err != nil {
		return turns.Input{}, responses.Internal("the message cannot be encoded", err)
	}
	path := "/turns/" + turnID + "/input"
	return call(ctx, c, http.MethodPost, path, body, maxSmall, func(answer []byte) (turns.Input, error) {
		in, err := turns.DecodeInput(answer)
		if err == nil && in.ID != id {
			err = fmt.Errorf("it is about another message, %.64q", in.ID)
		}
		return in, err
	})
}

// Call makes a call beyond the protocol, whose answer is JSON.
func (c *Client) Call(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	return c.json(ctx, method, path, body, maxResponse)
}

// json makes a call whose answer is 200 with a JSON body of at most limit bytes.
func (c *Client) json(ctx context.Context, method, path string, body []byte, limit int64) ([]byte, error) {
	resp, err := c.do(ctx, method, path, body, "application/json")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, c.failure(ctx, resp)
	}
	answer, err := c.read(ctx, resp, limit)
	if err != nil {
		return nil, err
	}
	if err := responses.CheckShape(answer); err != nil {
		return nil, c.badAnswer(method+" "+path, err)
	}
	return answer, nil
}

// call makes a call whose answer of at most limit bytes decode reads.
func call[T any](ctx context.Context, c *Client, method, path string, body []byte, limit int64,
	decode func(answer []byte) (T, error)) (out T, err error) {
	answer, err := c.json(ctx, method, path, body, limit)
	if err != nil {
		return out, err
	}
	if out, err = decode(answer); err != nil {
		var none T
		return none, c.badAnswer(method+" "+path, err)
	}
	return out, nil
}

// decoded reads a T as it is.
func decoded[T any](answer []byte) (*T, error) {
	var out T
	err := json.Unmarshal(answer, &out)
	return &out, err
}

// do sends a request. Its errors are final: the context's, or a *responses.Error.
func (c *Client) do(ctx context.Context, method, path string, body []byte, accept string) (*http.Response, error) {
	var r io.Reader
	if body != nil {
		r = bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, r)
	if err != nil {
		return nil, responses.Internal(fmt.Sprintf("the request %s %s cannot be made", method, path), err)
	}
	req.Header = c.header.Clone()
	req.Header.Set("Accept", accept)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.broken(ctx, method+" "+path, err)
	}
	return resp, nil
}

// read reads a body of at most limit bytes.
func (c *Client) read(ctx context.Context, resp *http.Response, limit int64) ([]byte, error) {
	what := resp.Request.Method + " " + resp.Request.URL.Path
	body, err := bounded.ReadAll(resp.Body, limit)
	if _, over := errors.AsType[*bounded.TooLargeError](err); over {
		return nil, c.badAnswer(what, err)
	}
	if err != nil {
		return nil, c.broken(ctx, what, err)
	}
	return body, nil
}

// failure turns an error answer into the error that it carries.
func (c *Client) failure(ctx context.Context, resp *http.Response) error {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxError))
	if err != nil {
		return c.broken(ctx, resp.Request.Method+" "+resp.Request.URL.Path, err)
	}
	return responses.DecodeEnvelope(resp.StatusCode, body)
}

// encodeRequest encodes req within the bound of a request, in bytes.
func encodeRequest(req responses.Request, limit int) ([]byte, error) {
	data, err := responses.Marshal(req)
	if err != nil {
		return nil, responses.Invalid("", responses.CodeInvalidJSON, "the request cannot be encoded: "+err.Error())
	}
	if len(data) > limit {
		return nil, &responses.Error{Type: responses.TypeInvalidRequest, Code: responses.CodeRequestTooLarge,
			Message: fmt.Sprintf("the request has %d bytes", len(data)),
			Hint:    fmt.Sprintf("the limit is %d MiB; pass large files in the turn's input directory", limit>>20)}
	}
	return data, nil
}

// badAnswer is the error for an answer that arrived whole and cannot be understood.
func (c *Client) badAnswer(what string, cause error) error {
	return &responses.Error{Type: responses.TypeServerError, Code: responses.CodeServerError,
		Message: fmt.Sprintf("%s at %s gave an answer that cannot be read: %v", what, c.where, cause),
		Hint:    "check that both sides have the same version", Cause: cause}
}

// broken is the error for a request whose answer did not arrive whole.
func (c *Client) broken(ctx context.Context, what string, cause error) error {
	if err := ctx.Err(); err != nil {
		if why := context.Cause(ctx); why != err {
			err = fmt.Errorf("%w: %w", err, why)
		}
		return fmt.Errorf("%s at %s: %w", what, c.where, err)
	}
	if u, ok := errors.AsType[*url.Error](cause); ok {
		cause = u.Err // it only repeats the method and the made-up URL
	}
	if isDial(cause) {
		return &responses.Error{Type: responses.TypeServerError, Code: responses.CodeServerUnreachable,
			Message: fmt.Sprintf("no server answers at %s: %v", c.where, cause),
			Hint:    c.remedy, Cause: cause}
	}
	return &responses.Error{Type: responses.TypeServerError, Code: responses.CodeServerDisconnected,
		Message: fmt.Sprintf("%s at %s: the connection broke: %v", what, c.where, cause),
		Hint:    "the turn may have run; read its record before trying again", Cause: cause}
}
