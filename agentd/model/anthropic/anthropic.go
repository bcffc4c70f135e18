// Package anthropic asks models through the Anthropic Messages API, or any
// server that speaks it.
//
//	request ─▶ system, tools, messages ─▶ POST /v1/messages ─▶ events ─▶ model.Event
//
// A conversation of items becomes messages that take turns (see conversation),
// with markers where a provider may cache what stays the same (see markCache).
// Models of the API accept different parameters: see contract. Bodies and events
// have types of their own, for reasons given at wireRequest and wireEvent; the tests
// compare every body, and every answer, with the official client's types.
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
	"iter"
	"net/http"

	"holon/agentd/model"
	"holon/agentd/model/endpoint"
	"holon/internal/providers"
)

// Options configure a Transport. Zero fields mean their defaults: Provider is
// "anthropic", and BaseURL is without /v1/messages.
type Options = endpoint.Options

// Transport implements model.Transport. It is safe for concurrent use.
type Transport struct {
	*endpoint.Endpoint
	provider string // the author of the thoughts
}

// New returns a transport. It does not connect, and reads nothing from the
// environment. A missing key is an error of every call and of [Transport.Check]
// but not of New, so that a server starts without one. The error, a
// *responses.Error, is about a malformed BaseURL.
func New(opts Options) (*Transport, error) {
	opts.Provider = cmp.Or(opts.Provider, providers.Anthropic)
	if opts.BaseURL == "" && opts.SocketPath == "" {
		known, _ := providers.Find(providers.Anthropic)
		opts.BaseURL = known.BaseURL
	}
	opts.KeyHeader = "X-Api-Key"
	e, err := endpoint.New(opts)
	if err != nil {
		return nil, err
	}
	return &Transport{Endpoint: e, provider: opts.Provider}, nil
}

// Capabilities says what models take: images and documents, no video. Where the
// API cannot enforce a format of the answer, an instruction asks for it.
func (t *Transport) Capabilities(string) model.Capabilities {
	return model.Capabilities{Images: true, Files: true, StrictTools: t.StrictTools()}
}

// Stream implements model.Transport.
func (t *Transport) Stream(ctx context.Context, req model.Request) iter.Seq2[model.Event, error] {
	return t.Endpoint.Stream(ctx, req, t.encode, t.read)
}

func (t *Transport) encode(req model.Request) (endpoint.Request, error) {
	body, beta, err := encodeRequest(t.provider, req)
	if err != nil {
		return endpoint.Request{}, err
	}
	header := map[string]string{"Anthropic-Version": "2023-06-01"}
	if beta != "" {
		header["Anthropic-Beta"] = beta
	}
	return endpoint.Request{Path: "/v1/messages", Header: header, Body: body, Lowering: model.Lowering{
		Mode: model.LoweredFull, Items: len(req.Input), Bytes: len(body),
		Breakpoints: bytes.Count(body, cacheMark)}}, nil
}

func (t *Transport) read(req model.Request, header http.Header, yield func(model.Event) bool) endpoint.Answer {
	a := newAssembly(t.provider, contractOf(req.Model), header.Get("Request-Id"), yield)
	a.asked = req
	return a
}
