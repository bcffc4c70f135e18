package openresponses

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"holon/responses"
	"holon/runner/access"
	"holon/state"
)

// Headers of answers, as agentd has them.
const (
	headerRequestID   = "X-Request-Id"
	headerResponseID  = "X-Response-Id"
	headerShouldRetry = "X-Should-Retry"
)

// later is an error of something that may be there again.
type later interface {
	error
	RetryAfter() time.Duration
}

// requestID names every request until the answer of an agentd has a name of its own.
func requestID(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(headerRequestID, responses.NewID(responses.PrefixRequest))
		next.ServeHTTP(w, r)
	})
}

// admit refuses a request without a caller, whose sessions would be those of all.
func (s *Server) admit(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if access.From(r.Context()).Name == "" {
			s.fail(w, r, &responses.Error{Type: responses.TypeInvalidRequest, Code: responses.CodeUnauthorized,
				Message: "the request has no token", Hint: "send it as Authorization: Bearer TOKEN"})
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (s *Server) notFound(w http.ResponseWriter, r *http.Request) {
	s.fail(w, r, responses.NotFound("", responses.CodeNotFound, fmt.Sprintf("there is no %q", clip(r.URL.Path))))
}

func (s *Server) methodNotAllowed(w http.ResponseWriter, r *http.Request) {
	routes := chi.RouteContext(r.Context()).Routes
	var list []string
	for _, m := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
		if routes.Match(chi.NewRouteContext(), m, r.URL.Path) {
			list = append(list, m)
		}
	}
	w.Header().Set("Allow", strings.Join(list, ", "))
	e := responses.Invalid("", responses.CodeMethodNotAllowed,
		fmt.Sprintf("%q does not take %q", clip(r.URL.Path), clip(r.Method)))
	e.Hint = "use one of " + strings.Join(list, ", ")
	s.fail(w, r, e)
}

// fail answers a request with an error. What the error hides from the client goes to the log.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	refused, _ := errors.AsType[*responses.Error](err)
	if r.Context().Err() != nil && (refused == nil || refused.Type != responses.TypeInvalidRequest) {
		panic(http.ErrAbortHandler) // the client is gone; one whose body did not come, which ends the context too, reads why
	}
	e := s.public(access.From(r.Context()), w.Header(), err)
	h := w.Header()
	var wait later
	switch again := errors.As(err, &wait); {
	case h.Get(headerShouldRetry) != "": // work has begun
	case e.Code == responses.CodeElsewhere || e.Code == responses.CodeNotReady: // nothing has
		h.Set("Retry-After", "1")
		h.Set(headerShouldRetry, "true")
	case again:
		seconds := max(1, int64(wait.RetryAfter().Round(time.Second).Seconds()))
		h.Set("Retry-After", strconv.FormatInt(seconds, 10))
		h.Set(headerShouldRetry, "true")
	default: // SDKs send what fails with 408, 409, 429 and from 500 on again, unless they are asked not to
		h.Set(headerShouldRetry, "false")
	}
	h.Set("Content-Type", "application/json")
	deadline(w)
	w.WriteHeader(e.Status())
	_, _ = w.Write(append(e.Envelope(), '\n')) // the client is gone
}

// public is an error as a caller may see it. Those of the client of agentd name its socket; those that are not of the
// protocol may name anything.
func (s *Server) public(c access.Caller, h http.Header, err error) *responses.Error {
	e, ok := errors.AsType[*responses.Error](err)
	if !ok {
		e = ofHost(err)
	}
	switch {
	case e == nil:
		s.o.Log.Error("a request of a client failed", "request", h.Get(headerRequestID), "err", err)
		return responses.Internal("the session could not answer; the log of the host has the details", nil)
	case e.Code == responses.CodeServerUnreachable || e.Code == responses.CodeServerDisconnected:
		s.o.Log.Error("the agentd of a session is lost", "request", h.Get(headerRequestID), "err", err)
		return &responses.Error{Type: responses.TypeServerError, Code: e.Code, ResponseID: e.ResponseID,
			Message: "the connection to the session's container broke",
			Hint:    "read the response before sending the request again: it may have run"}
	case e.Type == responses.TypeServerError && e.Cause != nil:
		s.o.Log.Error(e.Message, "request", h.Get(headerRequestID), "err", e.Cause)
	}
	if c.Name != "" { // else it says how to become a caller
		shown := *e
		shown.Message, shown.Hint = c.Readable(e.Message, e.Hint)
		e = &shown
	}
	return e
}

// hostCodes are the codes of the host's errors that a client may see: it is at fault, or may ask again.
func hostCodes(code state.Code) (t responses.ErrorType, known bool) {
	switch code {
	case responses.CodeNotFound, responses.CodeTurnNotFound, responses.CodeItemNotFound, "session_not_found":
		return responses.TypeNotFound, true
	case responses.CodeSessionLimit:
		return responses.TypeTooManyRequests, true
	case responses.CodeElsewhere, responses.CodeNotReady:
		return responses.TypeServerError, true
	case responses.CodeSessionClosed, responses.CodeSessionConflict, responses.CodeTurnConflict,
		responses.CodeInvalidValue, responses.CodeForbidden, responses.CodeModelNotFound,
		responses.CodeMissingCredentials, "workspace_not_allowed", "no_workspace", "image_not_found",
		"not_a_directory", "bare_repository", "broken_repository", "unsafe_ownership", "leads_elsewhere",
		"foreign_objects", "missing_objects", "unsafe_path", "too_large":
		return responses.TypeInvalidRequest, true
	}
	return "", false
}

// ofHost is an error of the host that a client may see, without its cause; nil for any other.
func ofHost(err error) *responses.Error {
	e, ok := errors.AsType[*state.Error](err)
	if !ok {
		return nil
	}
	t, known := hostCodes(e.Code)
	if !known {
		return nil
	}
	return &responses.Error{Type: t, Code: string(e.Code), Param: e.Param, Message: e.Message, Hint: e.Hint}
}

func draining() error {
	return &responses.Error{Type: responses.TypeServerError, Code: responses.CodeDraining,
		Message: "the host is shutting down", Hint: "send the request again in a moment"}
}

// clip shortens what a client wrote for a message.
func clip(s string) string { return fmt.Sprintf("%.80s", s) }
