package client

import (
	"context"
	"encoding/json"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	"holon/responses"
	"holon/responses/stream"
	"holon/runner/control/wire"
	"holon/state"
)

const (
	door     = "/v1/responses"
	maxEvent = responses.MaxResponse
)

// CreateResponse begins a turn of a session or an agent, by a body of POST /v1/responses with background, and returns
// its response, which is made whether anyone follows it or not.
func (c *Client) CreateResponse(ctx context.Context, body any) (*responses.Response, error) {
	data, err := responses.Marshal(body)
	if err != nil {
		return nil, &state.Error{Code: wire.CodeInvalidJSON, Message: "the request cannot be encoded", Err: err}
	}
	var answer json.RawMessage
	if err := c.call(ctx, http.MethodPost, door, json.RawMessage(data), "", &answer); err != nil {
		return nil, err
	}
	made, err := responses.DecodeResponse(answer)
	if err != nil {
		return nil, c.bad("POST "+door, err)
	}
	return made, nil
}

// CancelResponse ends the turn that makes a response. One that is final stays as it is.
func (c *Client) CancelResponse(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodPost, door+"/"+url.PathEscape(id)+"/cancel", nil, "", nil)
}

// ResponseInput returns the newest items of the input of a response, the oldest first.
func (c *Client) ResponseInput(ctx context.Context, id string) (responses.Items, error) {
	var answer json.RawMessage
	err := c.call(ctx, http.MethodGet, door+"/"+url.PathEscape(id)+"/input_items?order=asc&limit=100", nil, "", &answer)
	if err != nil {
		return nil, err
	}
	var list struct {
		Data responses.Items `json:"data"`
	}
	if err := responses.Unmarshal(answer, &list); err != nil {
		return nil, c.bad("the input of a response", err)
	}
	return list.Data, nil
}

// FollowResponse yields the events of a response from its first one to its terminal event, each once and in order. Of f
// it takes Patience and Away: a connection that breaks is made anew, also across a restart of the daemon. An error
// comes with a zero event and is the last pair.
func (c *Client) FollowResponse(ctx context.Context, id string, f Follow) iter.Seq2[responses.Event, error] {
	return func(yield func(responses.Event, error) bool) {
		last, over := int64(-1), false
		err := f.retry(ctx, func() (answered bool, err error) {
			before := last
			over, err = c.eventsAfter(ctx, id, &last, yield)
			if over {
				err = nil
			}
			return last > before, err
		})
		if err != nil && !over {
			yield(responses.Event{}, err)
		}
	}
}

// eventsAfter yields the events after the last one, and reports whether no more are wanted, or there.
func (c *Client) eventsAfter(ctx context.Context, id string, last *int64,
	yield func(responses.Event, error) bool) (over bool, err error) {
	path := door + "/" + url.PathEscape(id) + "?stream=true"
	if *last >= 0 {
		path += "&starting_after=" + strconv.FormatInt(*last, 10)
	}
	resp, err := c.do(ctx, http.MethodGet, path, nil, http.Header{"Accept": {stream.TypeSSE}})
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	for data, err := range stream.NewDecoder(resp.Body, stream.SSE).Limit(maxEvent).Events() {
		if err != nil {
			return false, c.broken(ctx, err)
		}
		ev, err := responses.DecodeEvent(data)
		switch {
		case err != nil:
			return false, c.bad("an event stream", err)
		case ev.Type == responses.EventError && ev.Error != nil:
			return false, &state.Error{Code: state.Code(ev.Error.Code), Message: ev.Error.Message, Hint: ev.Error.Hint}
		case ev.SequenceNumber <= *last:
			continue
		}
		*last = ev.SequenceNumber
		if !yield(ev, nil) || responses.Terminal(ev.Type) {
			return true, nil
		}
	}
	return false, c.broken(ctx, io.ErrUnexpectedEOF)
}
