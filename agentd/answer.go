package agentd

import (
	"encoding/json"
	"net/http"
	"time"

	"holon/responses"
)

// fail answers a request with an error. What the error hides from the client
// goes to the log, under the id that the client was given.
func (s *Server) fail(w http.ResponseWriter, err error) {
	writeError(w, s.logged(err, "request", w.Header().Get(headerRequestID)))
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
func writeError(w http.ResponseWriter, err error) {
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
	stall(w)
	w.WriteHeader(e.Status())
	_, _ = w.Write(append(e.Envelope(), '\n')) // the client is gone
}

// Headers of answers.
const (
	headerRequestID   = "X-Request-Id"
	headerResponseID  = "X-Response-Id"
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

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	stall(w)
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // as above
}

// stall bounds how long the rest of the answer may wait for its reader.
func stall(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout)) // a recorder in a test has none
}
