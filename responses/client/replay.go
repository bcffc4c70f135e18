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
// Stream does, except that when after is the number of the terminal event, or
// greater, it yields nothing and no error.
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

// maxResumes bounds how often Follow resumes a stream that brings nothing new.
const maxResumes = 3

// Follow runs a turn like Stream and resumes the stream when the connection
// breaks. The response must be stored.
func (c *Client) Follow(ctx context.Context, req *responses.Request) iter.Seq2[responses.Event, error] {
	return c.resuming(ctx, "", FromStart, c.Stream(ctx, req))
}

// Rejoin is Replay that resumes the stream when the connection breaks.
func (c *Client) Rejoin(ctx context.Context, id string, after int64) iter.Seq2[responses.Event, error] {
	return c.resuming(ctx, id, after, c.Replay(ctx, id, after))
}

// resuming yields events and resumes them when they break off. id is the id of the
// response, "" until an event carries it; last is the number of the last event.
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
