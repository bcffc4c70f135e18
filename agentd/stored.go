package agentd

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/go-chi/chi/v5"

	"holon/agentd/record"
	"holon/agentd/turn"
	"holon/responses"
	"holon/responses/turns"
)

// maxAside bounds the bodies of requests that need none.
const maxAside = 64 << 10

// getResponse is GET /responses/{id}: the response as it is, in any state, or
// its stream.
func (s *Server) getResponse(w http.ResponseWriter, r *http.Request) {
	q, err := s.readReplay(w, r)
	if err != nil {
		s.fail(w, err)
		return
	}
	if q.Stream {
		s.replay(w, r, q)
		return
	}
	v, stored, err := s.stored(chi.URLParam(r, "id"))
	switch {
	case err != nil:
		s.fail(w, err)
	case v != nil:
		defer v.release()
		s.servePresent(w, r, v)
	default:
		s.writeResponse(w, stored.Response)
	}
}

// stored finds a response that may be fetched: of a turn of this process, whose
// view the caller must release, or else in the store.
func (s *Server) stored(id string) (*view, *record.Stored, error) {
	if lt := s.byResponse(id); lt != nil && lt.response.Store {
		if v := lt.view(); v != nil {
			return v, nil, nil
		}
	}
	stored, err := s.store.Load(id)
	if err != nil {
		return nil, nil, storeError(id, err)
	}
	return nil, stored, nil
}

// storeError explains why the store does not have a response.
func storeError(id string, err error) error {
	if errors.Is(err, record.ErrNotFound) {
		return responses.NotFound("id", responses.CodeNotFound,
			fmt.Sprintf("no stored response has the id %q", clipID(id)))
	}
	return responses.Internal("the stored response cannot be read", err)
}

// servePresent answers with the response as it is now, with the output so far.
func (s *Server) servePresent(w http.ResponseWriter, r *http.Request, v *view) {
	resp, err := v.present(r.Context())
	if err != nil {
		s.fail(w, err)
		return
	}
	s.writeResponse(w, &resp)
}

// deleted is the answer of DELETE /responses/{id}.
type deleted struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Deleted bool   `json:"deleted"`
}

// deleteResponse is DELETE /responses/{id}. The files of its turn stay: they
// are the caller's.
func (s *Server) deleteResponse(w http.ResponseWriter, r *http.Request) {
	id := chi.URLParam(r, "id")
	s.answer(w, deleted{id, "response", true}, s.delete(id))
}

func (s *Server) delete(id string) error {
	if lt := s.byResponse(id); lt != nil {
		if !lt.response.Store {
			return storeError(id, record.ErrNotFound)
		}
		if lt.turn.Record().Status.Terminal() {
			<-lt.done    // its end may be visible already; the rest is a moment
			s.forget(lt) // it is not found here any more
		}
	}
	err := s.store.Delete(id)
	if errors.Is(err, record.ErrRunning) {
		return &responses.Error{Type: responses.TypeInvalidRequest, Code: responses.CodeResponseInProgress, Param: "id",
			Message: fmt.Sprintf("the response %s is not over", clipID(id)), Hint: "cancel it first"}
	}
	if err != nil {
		return storeError(id, err)
	}
	return nil
}

// cancelResponse is POST /responses/{id}/cancel: it ends a running turn, stored
// or not, and answers with its final response. Cancelling what is over changes
// nothing and answers the same, so that a client need not win a race.
func (s *Server) cancelResponse(w http.ResponseWriter, r *http.Request) {
	if _, err := s.readBounded(w, r, maxAside); err != nil {
		s.fail(w, err)
		return
	}
	id := chi.URLParam(r, "id")
	if lt := s.byResponse(id); lt != nil {
		if v := lt.view(); v != nil {
			defer v.release()
			v.stop(turn.ErrCancelled)
			select {
			case <-v.done:
			case <-r.Context().Done():
				return
			}
			s.servePresent(w, r, v)
			return
		}
	}
	stored, err := s.store.Load(id)
	if err != nil {
		s.fail(w, storeError(id, err))
		return
	}
	s.writeResponse(w, stored.Response)
}

// writeResponse answers with a response.
func (s *Server) writeResponse(w http.ResponseWriter, resp *responses.Response) {
	s.writeJSON(w, http.StatusOK, resp, turns.NamesOfTools(resp.Tools, resp.Output)...)
}

// byResponse returns the live turn that makes the response id, or nil.
func (s *Server) byResponse(id string) *liveTurn {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, lt := range s.live {
		select {
		case <-lt.start:
			if lt.err == nil && lt.response.ID == id {
				return lt
			}
		default: // not yet acknowledged, so no client can know its id
		}
	}
	return nil
}
