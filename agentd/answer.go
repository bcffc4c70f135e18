package agentd

import (
	"bytes"
	"encoding/json"
	"net/http"
	"time"

	"holon/responses"
	"holon/responses/turns"
)

// fail answers a request with an error. What the error hides from the client
// goes to the log, under the id that the client was given.
func (s *Server) fail(w http.ResponseWriter, err error) {
	s.writeError(w, s.logged(err, "request", w.Header().Get(headerRequestID)))
}

// logged logs an error that hides its cause from the client, and returns it.
func (s *Server) logged(err error, attrs ...any) error {
	e := responses.AsError(err)
	if e.Type == responses.TypeServerError && e.Cause != nil {
		s.log.Error(e.Message, append(attrs, "err", e.Cause)...)
	}
	return e
}

// writeError makes every error answer: the envelope, the status of its code, and
// whether to send the request again. SDKs repeat what fails with 408, 409, 429 and from 500 on, which could
// run an agent twice, so they are told in every case.
func (s *Server) writeError(w http.ResponseWriter, err error) {
	e := responses.AsError(err)
	h := w.Header()
	if h.Get(headerShouldRetry) == "" { // otherwise work has begun
		again := retrySafe(e.Code)
		h.Set(headerShouldRetry, again)
		if again == "true" {
			h.Set("Retry-After", "1")
		}
	}
	h.Set("Content-Type", "application/json")
	if e.Status() == http.StatusUnauthorized || e.Status() == http.StatusForbidden {
		h.Set("Connection", "close") // a client that is kept out holds no connection
	}
	stall(w)
	w.WriteHeader(e.Status())
	_, _ = w.Write(append(s.cleanError(e.Envelope()), '\n')) // the client is gone
}

// Headers of answers.
const (
	headerRequestID   = "X-Request-Id"
	headerResponseID  = "X-Response-Id"
	headerTurnID      = "X-Holon-Turn-Id"
	headerShouldRetry = "X-Should-Retry"
)

// retrySafe returns "true" for refusals that come before any work and may be
// gone in a moment, "false" for all that would fail again or may have run.
func retrySafe(code string) string {
	switch code {
	case responses.CodeQueueFull, responses.CodeDraining, responses.CodeRequestTimeout:
		return "true"
	}
	return "false"
}

// writeJSON makes every other answer that is JSON. tools are the names in v that a client calls tools by.
func (s *Server) writeJSON(w http.ResponseWriter, status int, v any, tools ...string) {
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		s.fail(w, responses.Internal("the answer cannot be encoded", err))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	stall(w)
	w.WriteHeader(status)
	_, _ = w.Write(s.clean(body.Bytes(), tools...)) // as above
}

// answer makes the answer of a request that was carried out, or not.
func (s *Server) answer(w http.ResponseWriter, v any, err error) {
	if err != nil {
		s.fail(w, err)
		return
	}
	s.writeJSON(w, http.StatusOK, v)
}

// cleanError is clean for errors, which name no tool where a client looks for it.
func (s *Server) cleanError(envelope []byte) []byte { return s.clean(envelope) }

// clean returns JSON that leaves the server as the records of a turn have it: without known secrets, but with their
// structure and the names of tools.
func (s *Server) clean(data []byte, tools ...string) []byte {
	names := turns.ToolNames(tools)
	if !s.parts.Secrets.Empty() {
		data = s.parts.Secrets.JSON(data, turns.Structure, names)
	}
	return s.store.Conceal(data, turns.Structure, names)
}

// stall bounds how long the rest of the answer may wait for its reader.
func stall(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout)) // a recorder in a test has none
}
