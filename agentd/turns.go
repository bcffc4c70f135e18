package agentd

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/go-chi/chi/v5"

	"holon/responses"
	"holon/responses/stream"
)

func (s *Server) getTurn(w http.ResponseWriter, r *http.Request) {
	id := chi.URLParam(r, "id")
	if err := responses.CheckID("turn_id", id); err != nil {
		s.writeError(w, err)
		return
	}
	id = s.turnOf(id)
	if lt := s.lookup(id); lt != nil {
		<-lt.start
		if lt.err == nil && lt.turn != nil {
			s.writeJSON(w, http.StatusOK, lt.turn.Record())
			return
		}
	}
	_, rec, err := s.locate(id)
	switch {
	case err != nil:
		s.fail(w, err)
	case rec == nil:
		s.writeError(w, turnNotFound(id))
	default:
		s.writeJSON(w, http.StatusOK, rec)
	}
}

// turnOf returns the turn of a response, where id is that of one.
func (s *Server) turnOf(id string) string {
	if lt := s.byResponse(id); lt != nil {
		return lt.id
	}
	if stored, err := s.store.Load(id); err == nil && stored.Response.Holon != nil {
		return stored.Response.Holon.TurnID
	}
	return id
}

func turnNotFound(id string) *responses.Error {
	return responses.NotFound("turn_id", responses.CodeTurnNotFound, fmt.Sprintf("there is no turn %s", clipID(id)))
}

// getTurnEvents serves the journal: the lines numbered above after, and
// with follow=true those to come, until the turn is over. deltas=false leaves the deltas of the stream out.
func (s *Server) getTurnEvents(w http.ResponseWriter, r *http.Request) {
	id := chi.URLParam(r, "id")
	if err := responses.CheckID("turn_id", id); err != nil {
		s.writeError(w, err)
		return
	}
	var after int64
	if q := r.URL.Query().Get("after"); q != "" {
		var err error
		if after, err = strconv.ParseInt(q, 10, 64); err != nil || after < 0 {
			s.writeError(w, responses.Invalid("after", responses.CodeInvalidValue,
				"after must be a number of at least 0"))
			return
		}
	}
	v, err := s.find(s.turnOf(id))
	if err != nil {
		s.fail(w, err)
		return
	}
	if v == nil {
		s.writeError(w, turnNotFound(id))
		return
	}
	defer v.release()
	s.serveFeed(w, r, v, feed{framing: stream.NDJSON, whole: true, once: r.URL.Query().Get("follow") != "true",
		skip: after, sparse: r.URL.Query().Get("deltas") == "false"})
}
