package agentd

import (
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

// replayQuery says what of a response is asked for.
type replayQuery struct {
	Stream bool   `json:"stream"`
	After  *int64 `json:"starting_after"` // the last event that the client has; nil for none
}

// readReplay reads stream and starting_after where clients put them: in the
// query, or, as one SDK does, in the JSON body of the GET. The query outweighs
// the body; include, include[] and include_obfuscation ask for nothing that a
// stored stream could still change, so they are let pass.
func (s *Server) readReplay(w http.ResponseWriter, r *http.Request) (q replayQuery, err error) {
	body, err := s.readBounded(w, r, maxAside)
	if err != nil {
		return q, err
	}
	if len(body) > 0 {
		if err := responses.CheckDepth(body); err != nil {
			return q, err
		}
		if err := responses.Unmarshal(body, &q); err != nil {
			return q, err
		}
		if err := q.check(); err != nil {
			return q, err
		}
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return q, responses.Invalid("", responses.CodeInvalidValue, "the query cannot be read")
	}
	if query.Get("stream") != "" {
		if q.Stream, err = boolean(query, "stream"); err != nil {
			return q, err
		}
	}
	if v := query.Get("starting_after"); v != "" {
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil {
			n = -1
		}
		q.After = &n
	}
	return q, q.check()
}

func (q replayQuery) check() error {
	if n := q.After; n != nil && (*n < 0 || *n == math.MaxInt64) {
		return responses.Invalid("starting_after", responses.CodeInvalidValue,
			"starting_after must be a sequence number: an integer of at least 0")
	}
	return nil
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
	f := feed{framing: framing}
	if q.After != nil {
		f.skip = *q.After + 1
	}
	s.serveFeed(w, r, v, f)
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
