package client

import (
	"context"
	"errors"
	"io"
	"iter"
	"net/http"

	"holon/responses"
	"holon/responses/stream"
)

// Stream runs a turn and yields its events as they come; req.Stream is ignored.
// The sequence ends without an error after exactly one terminal event; a lone error event becomes the error it carries.
// An error comes with a zero event and is the last pair. Stopping early closes
// the connection; what that does to the turn is the server's on_disconnect.
func (c *Client) Stream(ctx context.Context, req *responses.Request) iter.Seq2[responses.Event, error] {
	return c.decoded("POST /responses", c.StreamRaw(ctx, req))
}

// decoded decodes the events of the call named what.
func (c *Client) decoded(what string, events iter.Seq2[[]byte, error]) iter.Seq2[responses.Event, error] {
	return func(yield func(responses.Event, error) bool) {
		for data, err := range events {
			if err != nil {
				yield(responses.Event{}, err)
				return
			}
			ev, err := DecodeEvent(data)
			if err != nil {
				yield(responses.Event{}, c.badAnswer(what, err))
				return
			}
			if ev.Type == responses.EventError {
				yield(responses.Event{}, errorOf(ev))
				return
			}
			if !yield(ev, nil) {
				return
			}
		}
	}
}

// StreamRaw is Stream without decoding: it yields the JSON of each event, an
// error event included, valid until the next iteration.
func (c *Client) StreamRaw(ctx context.Context, req *responses.Request) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		streamed := *req
		streamed.Stream = true
		data, err := encodeRequest(streamed, maxRequest)
		if err != nil {
			yield(nil, err)
			return
		}
		for event, err := range c.raw(ctx, http.MethodPost, "/responses", data) {
			if !yield(event, err) {
				return
			}
		}
	}
}

// raw makes a call whose answer is an event stream.
func (c *Client) raw(ctx context.Context, method, path string, body []byte) iter.Seq2[[]byte, error] {
	what := method + " " + path
	return func(yield func([]byte, error) bool) {
		resp, err := c.do(ctx, method, path, body, stream.TypeSSE)
		if err != nil {
			yield(nil, err)
			return
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			yield(nil, c.failure(ctx, resp))
			return
		}
		framing, err := stream.FramingOf(resp.Header.Get("Content-Type"))
		if err != nil {
			yield(nil, c.badAnswer(what, err))
			return
		}
		ended := false
		for event, err := range stream.NewDecoder(resp.Body, framing).Limit(maxResponse).Events() {
			if err != nil {
				yield(nil, c.streamError(ctx, what, err))
				return
			}
			if ended {
				yield(nil, c.badAnswer(what, errors.New("the stream goes on after its terminal event")))
				return
			}
			ended = responses.Terminal(responses.EventType(event))
			if !yield(event, nil) {
				return
			}
		}
	}
}

// streamError says why a stream broke off.
func (c *Client) streamError(ctx context.Context, what string, err error) error {
	if ctx.Err() == nil && errors.Is(err, stream.ErrTooLarge) {
		return c.badAnswer(what, err)
	}
	if errors.Is(err, stream.ErrTruncated) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return c.broken(ctx, what, stream.ErrTruncated)
	}
	return c.broken(ctx, what, err)
}

func errorOf(ev responses.Event) error {
	if ev.Error == nil || ev.Error.Message == "" {
		return responses.Internal("the server sent an error event without a message", nil)
	}
	return ev.Error
}
