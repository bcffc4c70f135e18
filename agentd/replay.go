package agentd

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net/http"
	"net/url"
	"strconv"

	"github.com/go-chi/chi/v5"

	"holon/agentd/record"
	"holon/responses"
	"holon/responses/stream"
)

// fromStart is the number before that of the first event.
const fromStart int64 = -1

// replayQuery says what of a response is asked for.
type replayQuery struct {
	stream bool
	after  int64 // the last event that the client has; fromStart for none
}

// readReplay reads stream and starting_after where clients put them: in the
// query, or, as one SDK does, in the JSON body of the GET. The query outweighs
// the body; include, include[] and include_obfuscation ask for nothing that a
// stored stream could still change, so they are let pass.
func (s *Server) readReplay(w http.ResponseWriter, r *http.Request) (replayQuery, error) {
	q := replayQuery{after: fromStart}
	body, err := s.readBounded(w, r, maxAside)
	if err != nil {
		return q, err
	}
	if len(body) > 0 {
		if err := q.readBody(body); err != nil {
			return q, err
		}
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return q, responses.Invalid("", responses.CodeInvalidValue, "the query cannot be read")
	}
	switch v := query.Get("stream"); v {
	case "":
	case "true", "1":
		q.stream = true
	case "false", "0":
		q.stream = false
	default:
		return q, responses.Invalid("stream", responses.CodeInvalidValue, "stream must be true or false")
	}
	if v := query.Get("starting_after"); v != "" {
		if q.after, err = startingAfter(v); err != nil {
			return q, err
		}
	}
	return q, nil
}

func (q *replayQuery) readBody(body []byte) error {
	if err := responses.CheckDepth(body); err != nil {
		return err
	}
	var in struct {
		Stream *bool        `json:"stream"`
		After  *json.Number `json:"starting_after"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return responses.Invalid("", responses.CodeInvalidJSON,
			"the body must be an object with stream, a boolean, and starting_after, a number")
	}
	if in.Stream != nil {
		q.stream = *in.Stream
	}
	if in.After == nil {
		return nil
	}
	var err error
	q.after, err = startingAfter(in.After.String())
	return err
}

func startingAfter(v string) (int64, error) {
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n < 0 || n == math.MaxInt64 {
		return fromStart, responses.Invalid("starting_after", responses.CodeInvalidValue,
			"starting_after must be a sequence number: an integer of at least 0")
	}
	return n, nil
}

// replay sends the events of a response after the one that the client has,
// then those to come: the same bytes and numbers as the first time.
func (s *Server) replay(w http.ResponseWriter, r *http.Request, q replayQuery) {
	id := chi.URLParam(r, "id")
	framing := stream.Accepted(r.Header.Get("Accept"))
	v, stored, err := s.stored(id)
	if err == nil && v == nil {
		v, err = openStream(stored)
	}
	if err != nil {
		s.fail(w, err)
		return
	}
	defer v.release()
	defer v.attach()()
	s.serveFeed(w, r, v, feed{framing: framing, skip: q.after + 1})
}

// openStream returns a view of a stored response's events, and of nothing else.
func openStream(stored *record.Stored) (*view, error) {
	gone := func() error {
		return &responses.Error{Type: responses.TypeNotFound, Code: responses.CodeNotFound, Param: "stream",
			Message: fmt.Sprintf("the events of the response %s are no longer in its turn's directory",
				stored.Header.ResponseID), Hint: "fetch the response without stream"}
	}
	v, err := openFinished(stored.Header.TurnDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, gone()
	}
	// Commands of any turn can write there, so the file may be of another one.
	if err == nil && v.response.ID != stored.Header.ResponseID {
		v.release()
		return nil, gone()
	}
	return v, err
}
