package client

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"strconv"

	"holon/responses"
	"holon/responses/stream"
)

// Events yields the events of a stored response, behind the one with the number after, -1 for all, to its terminal
// event, and takes the stream up where it was when the connection breaks. An error event becomes the error it carries.
// An error comes with a zero event and is the last pair.
func (c *Client) Events(ctx context.Context, id string, after int64) iter.Seq2[responses.Event, error] {
	return func(yield func(responses.Event, error) bool) {
		if err := responses.CheckID("response_id", id); err != nil {
			yield(responses.Event{}, err)
			return
		}
		last := after
		for idle := 0; ; idle++ {
			before := last
			err := c.eventsAfter(ctx, id, &last, yield)
			if last > before {
				idle = 0
			}
			lost, ok := errors.AsType[*responses.Error](err)
			if ok && lost.Code == responses.CodeServerDisconnected && idle < maxResumes {
				continue
			}
			if err != nil && !errors.Is(err, errLeft) {
				yield(responses.Event{}, err)
			}
			return
		}
	}
}

// eventsAfter yields the events after the last one. A nil error means that the stream is over.
func (c *Client) eventsAfter(ctx context.Context, id string, last *int64,
	yield func(responses.Event, error) bool) error {
	path := "/responses/" + id + "?stream=true&starting_after=" + strconv.FormatInt(*last, 10)
	if *last < 0 {
		path = "/responses/" + id + "?stream=true"
	}
	resp, err := c.do(ctx, http.MethodGet, path, nil, stream.TypeSSE)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return c.failure(ctx, resp)
	}
	what := "GET /responses/" + id
	for data, err := range stream.NewDecoder(resp.Body, stream.SSE).Limit(maxResponse).Events() {
		if errors.Is(err, stream.ErrTooLarge) {
			return c.badAnswer(what, err)
		} else if err != nil {
			return c.broken(ctx, what, err)
		}
		ev, err := responses.DecodeEvent(data)
		switch {
		case err != nil:
			return c.badAnswer(what, err)
		case ev.Type == responses.EventError:
			return errorOf(ev)
		case ev.SequenceNumber <= *last:
			return c.badAnswer(what, errors.New("the numbers of its events do not grow"))
		}
		if *last = ev.SequenceNumber; !yield(ev, nil) {
			return errLeft
		}
	}
	return nil
}
