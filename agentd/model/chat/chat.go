// Package chat asks models through the OpenAI Chat Completions API, which most
// providers and local servers speak in some dialect.
//
//	request ─▶ messages ─▶ POST /chat/completions ─▶ chunks ─▶ model.Event
//
// The wire types are our own: the official client's types describe one provider,
// and its package is larger than the rest of this program's transports.
//
// The invariant: an attempt that ends with Done saw the provider's reason to stop,
// or the end mark of the stream after some output; any other end of a stream is an
// error. A conversation that grows only at its end becomes messages that grow only
// at their end. The package neither retries nor keeps state; decorators do.
package chat

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"iter"
	"mime"
	"net/http"
	"time"

	"holon/agentd/model"
	"holon/agentd/model/endpoint"
	"holon/internal/bounded"
	"holon/internal/providers"
	"holon/responses/stream"
)

const (
	gatewayHost = "http://model/" // on the gateway's socket; the provider follows
	path        = "/chat/completions"
	maxJSON     = stream.MaxEvent // bytes of an answer that is not streamed
)

// Options configure a Transport. Zero fields mean their defaults.
type Options struct {
	Provider     string            // the first part of its model references
	BaseURL      string            // endpoint without /chat/completions; the gateway's when there is a SocketPath
	APIKey       string            // required unless there is a SocketPath or KeyOptional
	KeyOptional  bool              // the server may want no key
	SocketPath   string            // Unix socket to dial instead of BaseURL's host
	HTTPClient   *http.Client      // used as it is, except that redirects are never followed
	ExtraHeaders map[string]string // sent with every request
	IdleTimeout  time.Duration     // longest silence between events, from the request on
	Whole        bool              // ask for the answer as one JSON object instead of a stream
	Dialect      providers.Dialect
}

// Transport implements model.Transport. It is safe for concurrent use.
type Transport struct {
	provider string
	endpoint *endpoint.Endpoint
	dialect  dialect
	whole    bool
}

// New returns a transport. It does not connect. A missing key is an error of every
// call and of [Transport.Check] but not of New, so that a server starts without
// one. The error, a *responses.Error, is about a malformed BaseURL.
func New(opts Options) (*Transport, error) {
	if opts.SocketPath != "" && opts.BaseURL == "" {
		opts.BaseURL = gatewayHost + opts.Provider
	}
	e, err := endpoint.New(endpoint.Options{
		Provider: opts.Provider, BaseURL: opts.BaseURL, APIKey: opts.APIKey, KeyOptional: opts.KeyOptional,
		SocketPath: opts.SocketPath,
		HTTPClient: opts.HTTPClient, Headers: opts.ExtraHeaders, IdleTimeout: opts.IdleTimeout,
	})
	if err != nil {
		return nil, err
	}
	return &Transport{provider: opts.Provider, endpoint: e, dialect: dialect(opts.Dialect), whole: opts.Whole}, nil
}

// Close drops idle connections. Streams that are being read go on.
func (t *Transport) Close() error { return t.endpoint.Close() }

// Check reports whether there is a key, or no need of one. The error is a
// *responses.Error with code missing_credentials.
func (t *Transport) Check(string) error { return t.endpoint.Check() }

// Capabilities implements model.Capable, as the dialect declares them.
func (t *Transport) Capabilities(string) model.Capabilities {
	d := t.dialect
	return model.Capabilities{Images: d.Images, Files: d.Files, NoTools: d.NoTools,
		NoStructured: d.Structured == providers.StructuredNone}
}

// Stream implements model.Transport.
func (t *Transport) Stream(ctx context.Context, req model.Request) iter.Seq2[model.Event, error] {
	return t.endpoint.Stream(func(yield func(model.Event, error) bool) error { return t.attempt(ctx, req, yield) })
}

// attempt makes the call and yields the events of the answer. Its errors are
// *model.Error values, or endpoint.ErrStopped when the reader wants no more.
func (t *Transport) attempt(ctx context.Context, req model.Request, yield func(model.Event, error) bool) error {
	body, err := t.encode(req)
	if err != nil {
		return err
	}
	req.Lowered(model.Lowering{Mode: model.LoweredFull, Items: len(req.Input), Bytes: len(body)})
	watch := t.endpoint.Begin(ctx)
	defer watch.End()
	accept := stream.TypeSSE
	if t.whole {
		accept = "application/json"
	}
	resp, err := t.endpoint.Post(watch.Context(), path, accept, body)
	if err != nil {
		return watch.Broken(model.StageSend, err)
	}
	defer func() { _ = resp.Body.Close() }() // the body was read as far as needed
	if err := t.endpoint.Answered(resp); err != nil {
		return err
	}
	a := newAssembly(t.provider, func(ev model.Event) bool { return watch.Yield(yield, ev) })
	a.requestID = cmp.Or(resp.Header.Get("X-Request-Id"), resp.Header.Get("X-Ds-Trace-Id"))
	switch kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind {
	case stream.TypeSSE:
		return t.streamed(watch, resp.Body, a)
	case "application/json": // also from servers that do not stream what they are asked to
		return t.wholeAnswer(watch, resp.Body, a)
	}
	return t.endpoint.Garbled(protocolError(fmt.Sprintf("the provider answered with content type %.80q where an "+
		"event stream was asked for", resp.Header.Get("Content-Type"))))
}

// streamed reads an answer that is a stream of chunks. A chunk with the usage may
// follow the one with the reason to stop, so the stream is read to its end.
func (t *Transport) streamed(watch *endpoint.Attempt, body io.Reader, a *assembly) error {
	events := stream.NewDecoder(watch.Body(body), stream.SSE)
	for data, err := range events.Data() {
		if err != nil {
			if a.finish != "" { // the answer is complete, so how the connection ended does not matter
				break
			}
			return watch.Broken(model.StageBody, err)
		}
		if string(data) == "[DONE]" {
			if err := a.end(true); err != nil {
				return t.endpoint.Garbled(err)
			}
			watch.Drain(body)
			return nil
		}
		if err := a.take(data); err != nil {
			return t.endpoint.Garbled(err)
		}
	}
	if a.finish == "" {
		return watch.Broken(model.StageBody, stream.ErrTruncated)
	}
	return t.endpoint.Garbled(a.end(false))
}

// wholeAnswer reads an answer that is one JSON object.
func (t *Transport) wholeAnswer(watch *endpoint.Attempt, body io.Reader, a *assembly) error {
	data, err := bounded.ReadAll(watch.Body(body), maxJSON)
	if err != nil {
		return watch.Broken(model.StageBody, err)
	}
	if err := a.take(data); err != nil {
		return t.endpoint.Garbled(err)
	}
	return t.endpoint.Garbled(a.end(true))
}
