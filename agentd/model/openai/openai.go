// Package openai asks models through the OpenAI Responses API, or any server
// that speaks it, with the official client.
//
//	request ─▶ one JSON body ─▶ POST /responses ─▶ events ─▶ model.Event
//
// The client makes the call and its authentication. Requests and events have types
// of their own, for reasons given at wireRequest and wireEvent.
//
// The invariant: an attempt that ends with Done saw the provider's own terminal
// event; any other end of a stream is an error. Keys and headers appear in no
// error. The package does not retry; a decorator does.
//
// The provider is asked to store nothing, and every request carries the whole
// conversation.
package openai

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"mime"
	"net/http"
	"time"

	"github.com/openai/openai-go/v3/option"
	sdk "github.com/openai/openai-go/v3/responses"

	"holon/agentd/model"
	"holon/agentd/model/endpoint"
	"holon/internal/bounded"
	"holon/internal/providers"
	"holon/responses"
	"holon/responses/stream"
)

const gatewayHost = "http://model/" // on the gateway's socket; the provider follows

// defaultIdleTimeout is how long a provider may be silent.
const defaultIdleTimeout = endpoint.DefaultIdleTimeout

// maxJSON bounds an answer that is not streamed, in bytes.
const maxJSON = stream.MaxEvent

// Options configure a Transport. Zero fields mean their defaults.
type Options struct {
	Provider     string            // "openai" when empty; the first part of references
	BaseURL      string            // endpoint without /responses; the gateway's when there is a SocketPath
	APIKey       string            // required unless there is a SocketPath or KeyOptional
	KeyOptional  bool              // the server may want no key
	SocketPath   string            // Unix socket to dial instead of BaseURL's host
	HTTPClient   *http.Client      // used as it is, except that redirects are never followed
	ExtraHeaders map[string]string // sent with every request
	IdleTimeout  time.Duration     // longest silence between events, from the request on
	Whole        bool              // ask for the answer as one JSON object instead of a stream
	Codex        bool              // the request has the shape that ChatGPT's Codex backend takes
	Freeform     bool              // offer tools in free form to models that may know it
}

// Transport implements model.Transport. It is safe for concurrent use.
type Transport struct {
	provider string
	service  sdk.ResponseService
	endpoint *endpoint.Endpoint
	whole    bool
	codex    bool
	freeform bool
}

// New returns a transport. It does not connect. A missing key is an error of every
// call and of [Transport.Check] but not of New, so that a server starts without
// one. The error, a *responses.Error, is about a malformed BaseURL or about
// options that contradict each other.
func New(opts Options) (*Transport, error) {
	opts.Provider = cmp.Or(opts.Provider, providers.OpenAI)
	if opts.Codex && opts.Whole {
		e := responses.Invalid(providers.Setting(opts.Provider, "STREAM"), responses.CodeInvalidValue,
			"the Codex backend only streams")
		e.Hint = "leave the setting out"
		return nil, e
	}
	if opts.BaseURL == "" {
		opts.BaseURL = defaultBase(opts)
	}
	headers := maps.Clone(opts.ExtraHeaders)
	if account := providers.ChatGPTAccount(opts.APIKey); opts.Codex && account != "" {
		if headers == nil {
			headers = make(map[string]string)
		}
		headers["Chatgpt-Account-Id"] = account
	}
	e, err := endpoint.New(endpoint.Options{
		Provider: opts.Provider, BaseURL: opts.BaseURL, APIKey: opts.APIKey, KeyOptional: opts.KeyOptional,
		SocketPath: opts.SocketPath,
		HTTPClient: opts.HTTPClient, Headers: headers, IdleTimeout: opts.IdleTimeout,
	})
	if err != nil {
		return nil, err
	}
	t := &Transport{provider: opts.Provider, endpoint: e, whole: opts.Whole, codex: opts.Codex, freeform: opts.Freeform}
	requestOptions := []option.RequestOption{
		option.WithBaseURL(e.Base()), option.WithHTTPClient(e.Client()), option.WithMaxRetries(0),
		option.WithMiddleware(endpoint.BoundErrors), option.WithHeader("Accept", t.accepts()),
	}
	for name, values := range e.Headers() {
		requestOptions = append(requestOptions, option.WithHeader(name, values[0]))
	}
	t.service = sdk.NewResponseService(requestOptions...)
	return t, nil
}

func defaultBase(opts Options) string {
	name := providers.OpenAI
	switch {
	case opts.SocketPath != "":
		return gatewayHost + opts.Provider
	case opts.Codex:
		name = providers.OpenAICodex
	}
	known, _ := providers.Find(name)
	return known.BaseURL
}

func (t *Transport) accepts() string {
	if t.whole {
		return "application/json"
	}
	return stream.TypeSSE
}

// Close drops idle connections. Streams that are being read go on.
func (t *Transport) Close() error { return t.endpoint.Close() }

// Check reports whether there is a key, or a gateway that has one. The error is
// a *responses.Error with code missing_credentials.
func (t *Transport) Check(string) error { return t.endpoint.Check() }

// Capabilities implements model.Capable. Only the provider knows which of its
// models accept images and files; it refuses the others.
func (t *Transport) Capabilities(name string) model.Capabilities {
	return model.Capabilities{Images: true, Files: true, Freeform: t.freeform && takesGrammars(name)}
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
	req.Lowered(model.Lowering{Mode: model.LoweredFull, Items: len(req.Input), Bytes: len(body),
		CacheKey: req.PromptCacheKey != ""})
	watch := t.endpoint.Begin(ctx)
	defer watch.End()
	resp, err := t.call(watch.Context(), body)
	if err != nil {
		return watch.Broken(model.StageSend, err)
	}
	defer func() { _ = resp.Body.Close() }() // the body was read as far as needed
	if err := t.endpoint.Answered(resp); err != nil {
		return err
	}
	a := newAssembly(t.provider, t.freeformOf(req), func(ev model.Event) bool { return watch.Yield(yield, ev) })
	a.requestID = resp.Header.Get("X-Request-Id")
	switch {
	case isType(resp, stream.TypeSSE):
		return t.streamed(watch, resp.Body, a)
	case t.whole && isType(resp, "application/json"):
		return t.wholeAnswer(watch, resp.Body, a)
	default:
		return t.endpoint.Garbled(protocolError(fmt.Sprintf("the provider answered with content type %.80q where %s "+
			"was asked for", resp.Header.Get("Content-Type"), t.asked())))
	}
}

func (t *Transport) asked() string {
	if t.whole {
		return "JSON"
	}
	return "an event stream"
}

func isType(resp *http.Response, want string) bool {
	got, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return err == nil && got == want
}

// streamed reads an answer that is a stream of events. The client's own stream
// bounds lines but not events, ends a truncated answer without an error, and
// takes a null error of an ordinary event for a failure.
func (t *Transport) streamed(watch *endpoint.Attempt, body io.Reader, a *assembly) error {
	events := stream.NewDecoder(watch.Body(body), stream.SSE)
	for data, err := range events.Events() {
		if err != nil {
			return watch.Broken(model.StageBody, err)
		}
		if done, err := a.take(data); err != nil {
			return t.endpoint.Garbled(err)
		} else if done {
			watch.Drain(body)
			return nil
		}
	}
	return watch.Broken(model.StageBody, stream.ErrTruncated)
}

// wholeAnswer reads an answer that is one JSON object.
func (t *Transport) wholeAnswer(watch *endpoint.Attempt, body io.Reader, a *assembly) error {
	data, err := bounded.ReadAll(watch.Body(body), maxJSON)
	if err != nil {
		return watch.Broken(model.StageBody, err)
	}
	return t.endpoint.Garbled(a.whole(data))
}

// call sends the request and returns the answer of any status.
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
	return resp, nil // the client's own error for a status says less than the answer
}
