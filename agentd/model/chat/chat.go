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
	"iter"
	"net/http"

	"holon/agentd/model"
	"holon/agentd/model/endpoint"
	"holon/internal/providers"
)

// Options configure a Transport. Zero fields mean their defaults.
type Options struct {
	endpoint.Options      // BaseURL is without /chat/completions
	Whole            bool // ask for the answer as one JSON object instead of a stream
	Dialect          providers.Dialect
}

// Transport implements model.Transport. It is safe for concurrent use.
type Transport struct {
	*endpoint.Endpoint
	provider string
	dialect  dialect
	whole    bool
}

// New returns a transport. It does not connect. A missing key is an error of every
// call and of [Transport.Check] but not of New, so that a server starts without
// one. The error, a *responses.Error, is about a malformed BaseURL.
func New(opts Options) (*Transport, error) {
	e, err := endpoint.New(opts.Options)
	if err != nil {
		return nil, err
	}
	return &Transport{Endpoint: e, provider: opts.Provider, dialect: dialect(opts.Dialect), whole: opts.Whole}, nil
}

// Capabilities says what models take, as the dialect declares them.
func (t *Transport) Capabilities(string) model.Capabilities {
	d := t.dialect
	return model.Capabilities{Images: d.Images, Files: d.Files, NoTools: d.NoTools, StrictTools: t.StrictTools(),
		NoStructured: d.Structured == providers.StructuredNone}
}

// Stream implements model.Transport.
func (t *Transport) Stream(ctx context.Context, req model.Request) iter.Seq2[model.Event, error] {
	return t.Endpoint.Stream(ctx, req, t.encode, t.read)
}

func (t *Transport) read(req model.Request, header http.Header, yield func(model.Event) bool) endpoint.Answer {
	a := newAssembly(t.provider, yield)
	a.asked = req
	a.requestID = cmp.Or(header.Get("X-Request-Id"), header.Get("X-Ds-Trace-Id"))
	return a
}
