package agentd

import (
	"net/http"

	"holon/responses"
	"holon/responses/stream"
)

// createResponse is POST /responses: JSON, or a stream when the body says so.
// A request in the background is answered at once unless it streams.
func (s *Server) createResponse(w http.ResponseWriter, r *http.Request) {
	req, v, err := s.acceptRequest(w, r)
	if err != nil {
		s.fail(w, err)
		return
	}
	defer v.release()
	defer v.attach()()
	switch {
	case req.Stream:
		s.serveFeed(w, r, v, feed{framing: stream.Accepted(r.Header.Get("Accept"))})
	case req.Background:
		s.servePresent(w, r, v)
	default:
		s.serveJSON(w, r, v)
	}
}

// acceptRequest reads a request and takes it in. Once it has, the head of the answer
// says so.
func (s *Server) acceptRequest(w http.ResponseWriter, r *http.Request) (*responses.Request, *view, error) {
	req, err := s.readRequest(w, r)
	if err != nil {
		return nil, nil, err
	}
	key, err := responses.IdempotencyKey(r.Header, req)
	if err != nil {
		return nil, nil, err
	}
	if key != "" {
		req.Holon.TurnID = responses.TurnOfKey(key)
	}
	token, err := modelToken(r.Header)
	if err != nil {
		return nil, nil, err
	}
	v, err := s.accept(req, origin{"responses", token, spanOf(r.Header)}, nil)
	if err != nil {
		if key != "" {
			err = keyConflict(err)
		}
		return nil, nil, err
	}
	s.log.Debug("a request has its turn", "request", w.Header().Get(headerRequestID), "response", v.response.ID)
	// Work has begun: a client that sends the request again would start it again.
	w.Header().Set(headerShouldRetry, "false")
	w.Header().Set(headerResponseID, v.response.ID)
	if at := v.response.Holon; at != nil {
		w.Header().Set(headerTurnID, at.TurnID)
	}
	if token != "" && !req.Stream && !req.Background { // the head of a stream says it as soon
		announce(w)
	}
	return req, v, nil
}

// announce says that a turn is durable, before its answer, which may take long.
func announce(w http.ResponseWriter) {
	h := w.Header()
	h.Set(responses.HeaderTurnID, h.Get(headerTurnID))
	h.Set(responses.HeaderResponseID, h.Get(headerResponseID))
	w.WriteHeader(http.StatusProcessing)
	h.Del(responses.HeaderTurnID)
	h.Del(responses.HeaderResponseID)
}

// cancelOnDisconnect tells whether the turn ends when the last client that
// waits for it goes. A stored response goes on by default, since it can be
// fetched later; one in the background goes on in any case.
func cancelOnDisconnect(req *responses.Request) bool {
	switch req.Holon.OnDisconnect {
	case "cancel":
		return true
	case "continue":
		return false
	}
	return !req.Store
}

// checkBackground refuses a background response that would end with the very
// request that only asks for it. That it is stored was checked when it was decoded.
func checkBackground(req *responses.Request) error {
	if req.Background && req.Holon.OnDisconnect == "cancel" {
		return &responses.Error{Type: responses.TypeInvalidRequest, Code: responses.CodeInvalidValue,
			Param:   "holon.on_disconnect",
			Message: "a background response does not end with its client",
			Hint:    "leave one of background and on_disconnect out"}
	}
	return nil
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
		known := *failure
		known.ResponseID = v.response.ID
		s.writeError(w, &known)
		return
	}
	if e := resp.Error; resp.Status == responses.StatusFailed && e != nil {
		s.writeError(w, &responses.Error{Type: e.Type, Code: e.Code, Message: e.Message, ResponseID: resp.ID})
		return
	}
	s.writeResponse(w, resp)
}

// keyConflict makes a conflict about the turn one about the key it came from.
func keyConflict(err error) error {
	if e := responses.AsError(err); e.Code != responses.CodeTurnConflict {
		return err
	}
	return responses.IdempotencyConflict()
}
