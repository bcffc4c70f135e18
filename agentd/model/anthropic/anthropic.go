// Package anthropic asks models through the Anthropic Messages API, or any
// server that speaks it, with the official client.
//
//	request ─▶ system, tools, messages ─▶ POST /v1/messages ─▶ events ─▶ model.Event
//
// A conversation of items becomes messages that take turns (see conversation),
// with markers where a provider may cache what stays the same (see markCache).
// Models of the API accept different parameters: see contract. The client makes
// the call and its authentication. Bodies and events have types of their own, for
// reasons given at wireRequest and wireEvent; the tests compare every body with
// the client's types.
//
// The invariants: an attempt that ends with Done saw message_stop and a reason to
// stop; a call is only ended when the model ended it; and the body of a round
// begins, but for the markers, with that of the round before. Keys and headers
// appear in no error. The package neither retries nor keeps state; decorators do.
package anthropic

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"iter"
	"maps"
	"net/http"
	"time"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"holon/agentd/model"
	"holon/agentd/model/endpoint"
	"holon/internal/providers"
	"holon/responses/stream"
)

const gatewayHost = "http://model/" // on the gateway's socket; the provider follows

// attemptTime is above what any turn may take. The client has a limit of its own
// that is too short for a long answer; the end of the context is what counts.
const attemptTime = 7 * 24 * time.Hour

// Options configure a Transport. Zero fields mean their defaults.
type Options struct {
	Provider     string            // providers.Anthropic when empty; the first part of references
	BaseURL      string            // endpoint without /v1/messages; the gateway's when there is a SocketPath
	APIKey       string            // required unless there is a SocketPath or KeyOptional
	KeyOptional  bool              // the server may want no key
	SocketPath   string            // Unix socket to dial instead of BaseURL's host
	HTTPClient   *http.Client      // used as it is, except that redirects are never followed
	ExtraHeaders map[string]string // sent with every request
	IdleTimeout  time.Duration     // longest silence between events, from the request on
}

// Transport implements model.Transport. It is safe for concurrent use.
type Transport struct {
	provider string // whose thoughts these are
	service  sdk.MessageService
	endpoint *endpoint.Endpoint
}

// New returns a transport. It does not connect, and reads nothing from the
// environment. A missing key is an error of every call and of [Transport.Check]
// but not of New, so that a server starts without one. The error, a
// *responses.Error, is about a malformed BaseURL.
func New(opts Options) (*Transport, error) {
	opts.Provider = cmp.Or(opts.Provider, providers.Anthropic)
	if opts.BaseURL == "" && opts.SocketPath != "" {
		opts.BaseURL = gatewayHost + opts.Provider
	} else if opts.BaseURL == "" {
		known, _ := providers.Find(providers.Anthropic)
		opts.BaseURL = known.BaseURL
	}
	headers := maps.Clone(opts.ExtraHeaders)
	if opts.APIKey != "" {
		if headers == nil {
			headers = make(map[string]string)
		}
		headers["X-Api-Key"] = opts.APIKey
	}
	e, err := endpoint.New(endpoint.Options{
		Provider: opts.Provider, BaseURL: opts.BaseURL, KeyOptional: opts.KeyOptional || opts.APIKey != "",
		SocketPath: opts.SocketPath,
		HTTPClient: opts.HTTPClient, Headers: headers, IdleTimeout: opts.IdleTimeout,
	})
	if err != nil {
		return nil, err
	}
	requestOptions := []option.RequestOption{
		option.WithBaseURL(e.Base()), option.WithHTTPClient(e.Client()), option.WithMaxRetries(0),
		option.WithRequestTimeout(attemptTime),
		option.WithMiddleware(endpoint.BoundErrors), option.WithHeader("Accept", stream.TypeSSE),
	}
	for name, values := range e.Headers() {
		requestOptions = append(requestOptions, option.WithHeader(name, values[0]))
	}
	return &Transport{provider: opts.Provider, service: sdk.NewMessageService(requestOptions...), endpoint: e}, nil
}

// Close drops idle connections. Streams that are being read go on.
func (t *Transport) Close() error { return t.endpoint.Close() }

// Check reports whether there is a key, or a gateway that has one. The error is
// a *responses.Error with code missing_credentials.
func (t *Transport) Check(string) error { return t.endpoint.Check() }

// Capabilities implements model.Capable: images and documents, no video. Where the
// API cannot enforce a format of the answer, an instruction asks for it.
func (t *Transport) Capabilities(string) model.Capabilities {
	return model.Capabilities{Images: true, Files: true}
}

// Stream implements model.Transport.
func (t *Transport) Stream(ctx context.Context, req model.Request) iter.Seq2[model.Event, error] {
	return t.endpoint.Stream(func(yield func(model.Event, error) bool) error { return t.attempt(ctx, req, yield) })
}

// attempt makes the call and yields the events of the answer. Its errors are
// *model.Error values, or endpoint.ErrStopped when the reader wants no more.
func (t *Transport) attempt(ctx context.Context, req model.Request, yield func(model.Event, error) bool) error {
	body, beta, err := encodeRequest(t.provider, req)
	if err != nil {
		return err
	}
	req.Lowered(model.Lowering{Mode: model.LoweredFull, Items: len(req.Input), Bytes: len(body),
		Breakpoints: bytes.Count(body, cacheMark)})
	watch := t.endpoint.Begin(ctx)
	defer watch.End()
	resp, err := t.send(watch.Context(), body, beta)
	if err != nil {
		return watch.Broken(model.StageSend, err)
	}
	defer func() { _ = resp.Body.Close() }() // the body was read as far as needed
	if err := t.endpoint.Answered(resp); err != nil {
		return err
	}
	if f, err := stream.FramingOf(resp.Header.Get("Content-Type")); err != nil || f != stream.SSE {
		return t.endpoint.Garbled(protocolError("the provider answered with content type %.80q where an event "+
			"stream was asked for", resp.Header.Get("Content-Type")))
	}
	a := newAssembly(t.provider, contractOf(req.Model), resp.Header.Get("Request-Id"), func(ev model.Event) bool {
		return watch.Yield(yield, ev)
	})
	// The client's own stream bounds lines but not events, and ends a truncated answer
	// without an error.
	events := stream.NewDecoder(watch.Body(resp.Body), stream.SSE)
	for data, err := range events.Events() {
		if err != nil {
			return watch.Broken(model.StageBody, err)
		}
		done, err := a.take(data)
		if err != nil {
			return t.endpoint.Garbled(err)
		}
		if done {
			watch.Drain(resp.Body)
			return nil
		}
	}
	return watch.Broken(model.StageBody, stream.ErrTruncated)
}

// send makes the request and returns the answer of any status.
func (t *Transport) send(ctx context.Context, body []byte, beta string) (*http.Response, error) {
	var resp *http.Response
	options := []option.RequestOption{option.WithRequestBody("application/json", body),
		option.WithResponseBodyInto(&resp)}
	if beta != "" {
		options = append(options, option.WithHeader("Anthropic-Beta", beta))
	}
	_, err := t.service.New(ctx, sdk.MessageNewParams{}, options...)
	if resp == nil && err == nil {
		err = errors.New("the client returned neither an answer nor an error")
	}
	if err != nil && (resp == nil || resp.StatusCode < 400) {
		return nil, err
	}
	return resp, nil // the client's own error for a status says less than the answer
}
