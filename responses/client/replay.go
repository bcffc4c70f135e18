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
