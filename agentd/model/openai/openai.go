// Package openai asks models through the OpenAI Responses API, or any server
// that speaks it, with the official client.
//
//	request ─▶ one JSON body ─▶ POST /responses ─▶ events ─▶ model.Event
//
// The client's types are used for the call, not for the stream: its event union
// costs more to decode than everything else a delta goes through. Events are
// read as bytes, and of each only the few fields that matter here.
//
// The invariant: an attempt that ends with Done saw the provider's own terminal
// event; whatever else ends a stream is an error. Nothing is stored with the
// provider, so every request carries the whole conversation. Keys and headers
// appear in no error. The package neither retries nor remembers: those are
// decorators' business.
package openai

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/openai/openai-go/v3/option"
	sdk "github.com/openai/openai-go/v3/responses"

	"holon/agentd/model"
	"holon/responses"
	"holon/responses/stream"
)

// Endpoints that are used when none is configured.
const (
	DefaultBaseURL = "https://api.openai.com/v1"
	GatewayBaseURL = "http://model/openai" // on the gateway's socket
)

// DefaultIdleTimeout is how long a provider may be silent.
const DefaultIdleTimeout = 5 * time.Minute

const (
	// maxErrorBody bounds what is read of an answer that is no stream.
	maxErrorBody = 64 << 10
	// drainTime is how long the end of a stream may take after its last event. A
	// connection that was read to its end serves the next round too.
	drainTime = 20 * time.Millisecond
)

// Options configure a Transport. Zero fields mean their defaults.
type Options struct {
	BaseURL      string            // endpoint without /responses; GatewayBaseURL when there is a SocketPath
	APIKey       string            // required unless there is a SocketPath
	SocketPath   string            // Unix socket to dial instead of BaseURL's host
	HTTPClient   *http.Client      // used as it is but for redirects, which are never followed
	ExtraHeaders map[string]string // sent with every request
	IdleTimeout  time.Duration     // longest silence between events, from the request on
}

// Transport implements model.Transport. It is safe for concurrent use.
type Transport struct {
	service sdk.ResponseService
	client  *http.Client
	owned   *http.Transport // nil when the caller brought a client
	idle    time.Duration
	secrets []string // never shown
	ready   bool     // there is a key or a socket
}

// New returns a transport. It does not connect. A missing key is not an error
// here but of every call and of [Transport.Check], so that a server starts
// without. The error, a *responses.Error, is about a malformed BaseURL.
func New(opts Options) (*Transport, error) {
	if opts.BaseURL == "" {
		opts.BaseURL = DefaultBaseURL
		if opts.SocketPath != "" {
			opts.BaseURL = GatewayBaseURL
		}
	}
	if u, err := url.Parse(opts.BaseURL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		e := responses.Invalid("OPENAI_BASE_URL", responses.CodeInvalidValue, "the OpenAI endpoint is no http or https URL")
		e.Hint = "write for example " + DefaultBaseURL
		return nil, e
	}
	t := &Transport{idle: opts.IdleTimeout, ready: opts.APIKey != "" || opts.SocketPath != ""}
	if t.idle <= 0 {
		t.idle = DefaultIdleTimeout
	}
	t.client, t.owned = newClient(opts)
	requestOptions := []option.RequestOption{
		option.WithBaseURL(opts.BaseURL), option.WithHTTPClient(t.client), option.WithMaxRetries(0),
		option.WithMiddleware(boundErrors), option.WithHeader("Accept", stream.TypeSSE),
	}
	if opts.APIKey != "" {
		requestOptions = append(requestOptions, option.WithAPIKey(opts.APIKey))
		t.secrets = append(t.secrets, opts.APIKey)
	}
	for name, value := range opts.ExtraHeaders {
		requestOptions = append(requestOptions, option.WithHeader(name, value))
		t.secrets = append(t.secrets, value)
	}
	t.service = sdk.NewResponseService(requestOptions...)
	return t, nil
}

// newClient returns the HTTP client for opts, and its transport when that is
// ours to close.
func newClient(opts Options) (*http.Client, *http.Transport) {
	client := &http.Client{}
	var owned *http.Transport
	if opts.HTTPClient != nil {
		*client = *opts.HTTPClient
	} else {
		owned = &http.Transport{
			Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, TLSHandshakeTimeout: 15 * time.Second,
			MaxIdleConnsPerHost: 16, IdleConnTimeout: 90 * time.Second,
			DisableCompression: true, // a compressed stream arrives in lumps
		}
		dialer := &net.Dialer{Timeout: 15 * time.Second, KeepAlive: 30 * time.Second}
		owned.DialContext = dialer.DialContext
		if opts.SocketPath != "" {
			owned.Proxy = nil
			owned.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
				return dialer.DialContext(ctx, "unix", opts.SocketPath)
			}
		}
		client.Transport = owned
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return client, owned
}

// boundErrors cuts the body of an error answer, which the client reads whole.
func boundErrors(req *http.Request, next option.MiddlewareNext) (*http.Response, error) {
	resp, err := next(req)
	if err == nil && resp.StatusCode >= 400 {
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(resp.Body, maxErrorBody), resp.Body}
	}
	return resp, err
}

// Close drops idle connections. Streams that are being read go on.
func (t *Transport) Close() error {
	if t.owned != nil {
		t.owned.CloseIdleConnections()
	}
	return nil
}

// Check reports whether there is a key, or a gateway that has one. The error is
// a *responses.Error with code missing_credentials.
func (t *Transport) Check(string) error {
	if t.ready {
		return nil
	}
	return &responses.Error{
		Type: responses.TypeInvalidRequest, Code: responses.CodeMissingCredentials, Param: "model",
		Message: "models of openai need a key and there is none", Hint: "set OPENAI_API_KEY",
	}
}

// Capabilities implements model.Capable. Which of its models take images and
// files only the provider knows for sure; it refuses what does not fit.
func (t *Transport) Capabilities(string) model.Capabilities {
	return model.Capabilities{Images: true, Files: true}
}

// errIdle ends an attempt whose provider fell silent.
var errIdle = errors.New("the provider is silent")

// Stream implements model.Transport.
func (t *Transport) Stream(ctx context.Context, req model.Request) iter.Seq2[model.Event, error] {
	return func(yield func(model.Event, error) bool) {
		if err := t.attempt(ctx, req, yield); err != nil && !errors.Is(err, errStopped) {
			yield(model.Event{}, err)
		}
	}
}

// attempt makes the call and yields what comes. Its errors are *model.Error
// values, or errStopped when the reader wants no more.
func (t *Transport) attempt(parent context.Context, req model.Request, yield func(model.Event, error) bool) error {
	if err := t.Check(req.Model); err != nil {
		return &model.Error{Kind: model.KindAuthentication, Code: responses.CodeMissingCredentials, Message: err.Error(), Permanent: true}
	}
	body, err := encodeRequest(req)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	idle := time.AfterFunc(t.idle, func() { cancel(errIdle) })
	defer idle.Stop()
	resp, err := t.call(ctx, body)
	if err != nil {
		return t.broken(parent, ctx, err)
	}
	defer func() { _ = resp.Body.Close() }() // what matters of it was read
	if err := t.checkAnswer(resp); err != nil {
		return err
	}
	a := newAssembly(func(ev model.Event) bool {
		// How long the reader takes is not the provider's silence.
		idle.Stop()
		more := yield(ev, nil)
		idle.Reset(t.idle)
		return more
	})
	a.requestID = resp.Header.Get("X-Request-Id")
	for data, err := range stream.Events(resp.Body, stream.SSE) {
		if err != nil {
			return t.broken(parent, ctx, err)
		}
		idle.Reset(t.idle)
		if done, err := a.take(data); err != nil {
			return t.clean(err)
		} else if done {
			idle.Reset(drainTime)
			_, _ = io.CopyN(io.Discard, resp.Body, maxErrorBody) // only for the connection's sake
			return nil
		}
	}
	return &model.Error{Kind: model.KindTransport, Code: responses.CodeProviderUnavailable, Message: "the provider's stream ended before its answer did"}
}

// call sends the request and returns the answer, whatever its status.
func (t *Transport) call(ctx context.Context, body []byte) (*http.Response, error) {
	var resp *http.Response
	_, err := t.service.New(ctx, sdk.ResponseNewParams{},
		option.WithRequestBody("application/json", body), option.WithResponseBodyInto(&resp))
	if resp == nil && err == nil {
		err = errors.New("the client returned neither an answer nor an error")
	}
	if err != nil && (resp == nil || resp.StatusCode < 400) {
		return nil, err
	}
	return resp, nil // the client's own error for a status tells less than the answer
}

// checkAnswer returns the error that an answer is unless it is an event stream.
func (t *Transport) checkAnswer(resp *http.Response) error {
	if resp.StatusCode != http.StatusOK {
		body, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
		if err != nil {
			body = nil // the status says what is needed
		}
		return t.clean(statusError(resp.StatusCode, resp.Header, body))
	}
	if f, err := stream.FramingOf(resp.Header.Get("Content-Type")); err != nil || f != stream.SSE {
		return t.clean(&model.Error{Kind: model.KindProtocol, Code: responses.CodeModelError,
			Message: fmt.Sprintf("the provider answered with content type %.80q where an event stream was asked for", resp.Header.Get("Content-Type"))})
	}
	return nil
}

// broken returns the error of a connection that could not be made or broke.
func (t *Transport) broken(parent, ctx context.Context, err error) error {
	e := &model.Error{Kind: model.KindTransport, Code: responses.CodeProviderUnavailable}
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err // the address may hold a secret
	}
	switch {
	case parent.Err() != nil:
		return model.Cancelled(parent)
	case errors.Is(context.Cause(ctx), errIdle):
		e.Message = fmt.Sprintf("the provider sent no event for %s", t.idle)
	case errors.Is(err, stream.ErrTruncated):
		e.Message = "the provider's stream ended before its answer did"
	case errors.Is(err, stream.ErrTooLarge):
		e.Kind, e.Code, e.Message = model.KindProtocol, responses.CodeModelError, err.Error()
	default:
		e.Message = "the connection to the provider failed: " + err.Error()
	}
	return t.clean(e)
}
