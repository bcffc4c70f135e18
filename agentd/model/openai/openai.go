// Package openai asks models through the OpenAI Responses API, or any server
// that speaks it.
//
//	request ─▶ one JSON body ─▶ POST /responses ─▶ events ─▶ model.Event
//
// The official client carries both: its parameters, its call, its events. Deltas are
// read from the raw event, for reasons given at readDelta.
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
	"iter"
	"maps"
	"net/http"

	"github.com/openai/openai-go/v3/option"
	sdk "github.com/openai/openai-go/v3/responses"

	"holon/agentd/model"
	"holon/agentd/model/endpoint"
	"holon/internal/providers"
	"holon/responses"
)

// Options configure a Transport. Zero fields mean their defaults.
type Options struct {
	endpoint.Options      // Provider is "openai" when empty; BaseURL is without /responses
	Whole            bool // ask for the answer as one JSON object instead of a stream
	Codex            bool // the request has the shape that ChatGPT's Codex backend takes
	Freeform         bool // offer tools in free form to models that may know it
}

// Transport implements model.Transport. It is safe for concurrent use.
type Transport struct {
	*endpoint.Endpoint
	provider string
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
	if opts.BaseURL == "" && opts.SocketPath == "" {
		name := providers.OpenAI
		if opts.Codex {
			name = providers.OpenAICodex
		}
		known, _ := providers.Find(name)
		opts.BaseURL = known.BaseURL
	}
	if account := providers.ChatGPTAccount(opts.APIKey); opts.Codex && account != "" {
		headers := make(map[string]string)
		maps.Copy(headers, opts.Headers)
		headers["Chatgpt-Account-Id"] = account
		opts.Headers = headers
	}
	opts.Post = post
	e, err := endpoint.New(opts.Options)
	if err != nil {
		return nil, err
	}
	return &Transport{Endpoint: e, provider: opts.Provider, whole: opts.Whole, codex: opts.Codex,
		freeform: opts.Freeform}, nil
}

// post sends a request with the official client, which knows the path, and returns the answer. The client's stream
// would end at "error": null, and not tell a truncated answer from one that ended.
func post(ctx context.Context, client *http.Client, base string, header http.Header,
	body []byte) (*http.Response, error) {
	var resp *http.Response
	opts := []option.RequestOption{
		option.WithBaseURL(base), option.WithHTTPClient(client), option.WithMaxRetries(0),
		option.WithMiddleware(endpoint.BoundErrors), option.WithRequestBody("application/json", body),
		option.WithResponseBodyInto(&resp),
	}
	for name, values := range header {
		opts = append(opts, option.WithHeader(name, values[0]))
	}
	service := sdk.NewResponseService()
	_, err := service.New(ctx, sdk.ResponseNewParams{}, opts...)
	if resp == nil && err == nil {
		err = errors.New("the client returned neither an answer nor an error")
	}
	if err != nil && (resp == nil || resp.StatusCode < 400) {
		return nil, err
	}
	return resp, nil // the client's own error for a status says less than the answer
}

// Capabilities says what models take. Only the provider knows which of its
// models accept images and files; it refuses the others.
func (t *Transport) Capabilities(name string) model.Capabilities {
	return model.Capabilities{Images: true, Files: true, CacheKey: true, Freeform: t.freeform && takesGrammars(name),
		StrictTools: t.StrictTools()}
}

// Stream implements model.Transport.
func (t *Transport) Stream(ctx context.Context, req model.Request) iter.Seq2[model.Event, error] {
	return t.Endpoint.Stream(ctx, req, t.encode, t.read)
}

func (t *Transport) read(req model.Request, header http.Header, yield func(model.Event) bool) endpoint.Answer {
	a := newAssembly(t.provider, t.freeformOf(req), yield)
	a.asked, a.requestID = req, header.Get("X-Request-Id")
	return a
}
