package client

import (
	"context"
	"errors"
	"io"
	"iter"
	"net/http"
	"strconv"

	"holon/responses"
	"holon/responses/stream"
)

// FromStart asks Replay for the whole stream.
const FromStart int64 = -1

// Replay yields the events of a stored response whose sequence number exceeds
// after, as they were sent the first time, then those to come. It ends as
// Stream does, except that after the number of the terminal event, or one
// beyond, there is nothing to yield and no error.
func (c *Client) Replay(ctx context.Context, id string, after int64) iter.Seq2[responses.Event, error] {
	return func(yield func(responses.Event, error) bool) {
		if err := responses.CheckID("response_id", id); err != nil {
			yield(responses.Event{}, err)
			return
		}
		path := "/responses/" + id + "?stream=true"
		if after > FromStart {
			path += "&starting_after=" + strconv.FormatInt(after, 10)
		}
		none := true
		for ev, err := range c.decoded("GET "+path, c.raw(ctx, http.MethodGet, path, nil)) {
			if none && after > FromStart && errors.Is(err, stream.ErrTruncated) &&
				!errors.Is(err, io.ErrUnexpectedEOF) {
				return // the answer is whole and empty
			}
			if none = false; !yield(ev, err) {
				return
			}
		}
	}
}

// maxResumes bounds how often Follow takes up a stream that brings nothing new.
const maxResumes = 3

// Follow runs a turn like Stream, and when the connection breaks in between it
// takes the stream up where it was left. The response must be stored.
func (c *Client) Follow(ctx context.Context, req *responses.Request) iter.Seq2[responses.Event, error] {
	return c.resuming(ctx, "", FromStart, c.Stream(ctx, req))
}

// Rejoin is Replay that takes the stream up again when the connection breaks.
func (c *Client) Rejoin(ctx context.Context, id string, after int64) iter.Seq2[responses.Event, error] {
	return c.resuming(ctx, id, after, c.Replay(ctx, id, after))
}

// resuming yields events, and when they break off, those that follow. id is the
// response's, "" until an event tells it; last is the number of the last event.
func (c *Client) resuming(ctx context.Context, id string, last int64,
	events iter.Seq2[responses.Event, error]) iter.Seq2[responses.Event, error] {
	return func(yield func(responses.Event, error) bool) {
		id, last, events := id, last, events // of this iteration
		for idle := 0; ; {
			broken := error(nil)
			for ev, err := range events {
				if e, ok := errors.AsType[*responses.Error](err); ok && e.Code == responses.CodeServerDisconnected &&
					id != "" {
					broken = err
					break
				}
				if err == nil {
					if ev.Response != nil {
						id = ev.Response.ID
					}
					last, idle = ev.SequenceNumber, 0
				}
				if !yield(ev, err) {
					return
				}
			}
			if broken == nil {
				return
			}
			if idle++; idle > maxResumes {
				yield(responses.Event{}, broken)
				return
			}
			events = c.Replay(ctx, id, last)
		}
	}
}
