package agentd

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"

	"github.com/go-chi/chi/v5"

	"holon/agentd/record"
	"holon/agentd/turn"
	"holon/responses"
	"holon/responses/stream"
	"holon/responses/turns"
)

// maxBody bounds a request body: the largest input_file is 32 MiB of base64,
// and a request may hold more than one.
const maxBody = 96 << 20

// Handler returns the API. Every route exists under / and under /v1.
func (s *Server) Handler() http.Handler {
	r := chi.NewRouter()
	r.Use(requestID, s.recover)
	r.NotFound(func(w http.ResponseWriter, r *http.Request) {
		writeError(w, responses.NotFound("", responses.CodeNotFound, fmt.Sprintf("there is no %s", r.URL.Path)))
	})
	r.MethodNotAllowed(func(w http.ResponseWriter, r *http.Request) {
		writeError(w, responses.Invalid("", responses.CodeMethodNotAllowed, fmt.Sprintf("%s does not take %s", r.URL.Path, r.Method)))
	})
	s.routes(r)
	r.Route("/v1", s.routes)
	return r
}

func (s *Server) routes(r chi.Router) {
	r.Get("/health", s.getHealth)
	r.Post("/responses", s.createResponse)
	r.Get("/responses/{id}", s.getResponse)
	r.Post("/responses/{id}/cancel", s.cancelResponse)
	r.Get("/turns/{id}", s.getTurn)
	r.Get("/turns/{id}/events", s.getTurnEvents)
	r.Post("/shutdown", s.postShutdown)
}

func (s *Server) getHealth(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, s.Health())
}

// Health tells what state the server is in, without asking a model or a disk.
func (s *Server) Health() turns.Health {
	h := turns.Health{Status: turns.HealthReady, Version: s.parts.Version, Engine: turns.EngineAgentd, Models: s.parts.Models.Models(), Instance: s.instance, Skills: s.parts.Skills}
	h.ActiveTurns, h.QueuedTurns = s.lanes.load()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		h.Status = turns.HealthDraining
	}
	return h
}

// createResponse is POST /responses: JSON, or a stream when the body says so.
func (s *Server) createResponse(w http.ResponseWriter, r *http.Request) {
	body, err := readBody(w, r)
	if err != nil {
		writeError(w, err)
		return
	}
	req, err := responses.DecodeRequest(body)
	if err != nil {
		writeError(w, err)
		return
	}
	v, err := s.accept(req, "responses")
	if err != nil {
		writeError(w, s.logged(err))
		return
	}
	defer v.release()
	// Work has begun: a client that sends the request again would start it again.
	w.Header().Set("X-Should-Retry", "false")
	if req.Stream {
		s.serveStream(w, r, v, stream.Accepted(r.Header.Get("Accept")))
	} else {
		s.serveJSON(w, r, v)
	}
	if r.Context().Err() != nil && cancelOnDisconnect(req) {
		v.cancel(turn.ErrCancelled)
	}
}

// cancelOnDisconnect tells whether the turn ends with its client. A stored
// response goes on by default, since it can be fetched later.
func cancelOnDisconnect(req *responses.Request) bool {
	switch req.Holon.OnDisconnect {
	case "cancel":
		return true
	case "continue":
		return false
	}
	return !req.Store
}

// serveJSON answers with the finished response, or with the error envelope
// when the turn failed.
func (s *Server) serveJSON(w http.ResponseWriter, r *http.Request, v *view) {
	select {
	case <-v.done:
	case <-r.Context().Done():
		return
	}
	resp, failure := v.result()
	if failure != nil {
		writeError(w, failure)
		return
	}
	if e := resp.Error; resp.Status == responses.StatusFailed && e != nil {
		writeError(w, &responses.Error{Type: e.Type, Code: e.Code, Message: e.Message})
		return
	}
	writeJSON(w, http.StatusOK, resp)
}

func (s *Server) getResponse(w http.ResponseWriter, r *http.Request) {
	id := chi.URLParam(r, "id")
	if lt := s.byResponse(id); lt != nil {
		if v := lt.view(); v != nil {
			defer v.release()
			resp, failure := v.result()
			switch {
			case failure != nil:
				writeError(w, failure)
			case resp != nil:
				writeJSON(w, http.StatusOK, resp)
			default:
				writeJSON(w, http.StatusOK, v.present())
			}
			return
		}
	}
	stored, err := s.store.Load(id)
	switch {
	case errors.Is(err, record.ErrNotFound):
		writeError(w, responses.NotFound("id", responses.CodeNotFound, fmt.Sprintf("no stored response has the id %q", clipID(id))))
	case err != nil:
		writeError(w, s.logged(responses.Internal("the stored response cannot be read", err)))
	default:
		writeJSON(w, http.StatusOK, stored.Response)
	}
}

// cancelResponse ends a running turn and answers with its final response.
// Cancelling what is over changes nothing and answers the same.
func (s *Server) cancelResponse(w http.ResponseWriter, r *http.Request) {
	if lt := s.byResponse(chi.URLParam(r, "id")); lt != nil {
		if v := lt.view(); v != nil {
			defer v.release()
			v.cancel(turn.ErrCancelled)
			select {
			case <-v.done:
			case <-r.Context().Done():
				return
			}
			if resp, failure := v.result(); failure != nil {
				writeError(w, failure)
			} else {
				writeJSON(w, http.StatusOK, resp)
			}
			return
		}
	}
	s.getResponse(w, r)
}

func (s *Server) getTurn(w http.ResponseWriter, r *http.Request) {
	id := chi.URLParam(r, "id")
	if err := responses.CheckID("turn_id", id); err != nil {
		writeError(w, err)
		return
	}
	if lt := s.lookup(id); lt != nil {
		<-lt.start
		if lt.err == nil && lt.turn != nil {
			writeJSON(w, http.StatusOK, lt.turn.Record())
			return
		}
	}
	_, rec, err := s.locate(id)
	switch {
	case err != nil:
		writeError(w, s.logged(err))
	case rec == nil:
		writeError(w, turnNotFound(id))
	default:
		writeJSON(w, http.StatusOK, rec)
	}
}

func turnNotFound(id string) *responses.Error {
	return responses.NotFound("turn_id", responses.CodeTurnNotFound, fmt.Sprintf("there is no turn %s", clipID(id)))
}

// getTurnEvents serves runtime.ndjson: the events numbered above after, and
// with follow=true those to come, until the turn is over.
func (s *Server) getTurnEvents(w http.ResponseWriter, r *http.Request) {
	id := chi.URLParam(r, "id")
	if err := responses.CheckID("turn_id", id); err != nil {
		writeError(w, err)
		return
	}
	var after int64
	if q := r.URL.Query().Get("after"); q != "" {
		var err error
		if after, err = strconv.ParseInt(q, 10, 64); err != nil || after < 0 {
			writeError(w, responses.Invalid("after", responses.CodeInvalidValue, "after must be a number of at least 0"))
			return
		}
	}
	v, err := s.find(id)
	if err != nil {
		writeError(w, s.logged(err))
		return
	}
	if v == nil {
		writeError(w, turnNotFound(id))
		return
	}
	defer v.release()
	follow := r.URL.Query().Get("follow") == "true"
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Cache-Control", "no-store")
	out := newWriter(w)
	_ = out.lines(r.Context(), v.runtime, follow, after) // the reader is gone, or the disk is: nobody to tell
}

func (s *Server) postShutdown(w http.ResponseWriter, _ *http.Request) {
	running, queued := s.lanes.load()
	writeJSON(w, http.StatusAccepted, struct {
		Status  string `json:"status"`
		Running int    `json:"active_turns"`
		Queued  int    `json:"queued_turns"`
	}{turns.HealthDraining, running, queued})
	s.Shutdown()
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
		default: // not yet acknowledged, so nobody can know its id
		}
	}
	return nil
}

// readBody reads a bounded JSON body.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if ct := r.Header.Get("Content-Type"); ct != "" {
		if kind, _, err := mime.ParseMediaType(ct); err != nil || kind != "application/json" {
			return nil, responses.Invalid("", responses.CodeUnsupportedMediaType, fmt.Sprintf("the body must be application/json, not %.80q", ct))
		}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return nil, &responses.Error{Type: responses.TypeInvalidRequest, Code: responses.CodeRequestTooLarge,
			Message: fmt.Sprintf("the body is larger than %d MiB", maxBody>>20), Hint: "give large files through the turn's input directory"}
	}
	if err != nil {
		return nil, responses.Invalid("", responses.CodeInvalidJSON, "the body could not be read to its end")
	}
	if len(body) == 0 {
		return nil, responses.Invalid("", responses.CodeInvalidJSON, "the body is empty; send a JSON object")
	}
	return body, nil
}

// logged logs an error that hides its cause from the client, and returns it.
func (s *Server) logged(err error) error {
	e := responses.AsError(err)
	if e.Type == responses.TypeServerError && e.Cause != nil {
		s.log.Error(e.Message, "err", e.Cause)
	}
	return e
}

func writeError(w http.ResponseWriter, err error) {
	e := responses.AsError(err)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(e.Status())
	_, _ = w.Write(append(e.Envelope(), '\n')) // the client is gone: nobody to tell
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // as above
}
