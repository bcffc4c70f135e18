package agentd

import (
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"holon/internal/httpserver"
	"holon/responses"
)

// requestID names every request, so that a client's report can be found in the log.
func requestID(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h := w.Header(); h.Get(headerRequestID) == "" {
			h.Set(headerRequestID, responses.NewID(responses.PrefixRequest))
		}
		next.ServeHTTP(w, r)
	})
}

// observe logs every request and turns a panic of a handler into an error
// answer, or, when an answer has begun, cuts the connection so that no client
// takes it for whole. The turn itself runs elsewhere; a panic there is a bug that must
// be seen.
func (s *Server) observe(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := httpserver.NewAnswer(w, r)
		began := time.Now()
		defer s.answered(answer, r, began)
		if r.ContentLength != 0 { // a body that no handler reads is not waited for either
			_ = http.NewResponseController(w).SetReadDeadline(began.Add(s.waits.body))
		}
		next.ServeHTTP(answer, r)
	})
}

// answered is deferred by observe: it recovers from a panic of the handler.
func (s *Server) answered(answer httpserver.Answer, r *http.Request, began time.Time) {
	p := recover()
	log := s.log.With("request", answer.Header().Get(headerRequestID), "method", strconv.Quote(r.Method), "path",
		strconv.Quote(clipID(r.URL.Path)))
	if p == nil {
		log.Debug("answered", "status", answer.Status(), "took", time.Since(began))
		return
	}
	if p == http.ErrAbortHandler {
		panic(p)
	}
	log.Error("a request handler panicked", "panic", p, "stack", string(debug.Stack()))
	if answer.Status() != 0 {
		panic(http.ErrAbortHandler)
	}
	s.writeError(answer, responses.Internal("internal error; the server's log has the details", nil))
}

// versions routes what is asked for under /v1 like what is asked for under /.
func versions(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.EscapedPath()
		if rest, ok := strings.CutPrefix(path, "/v1/"); ok {
			path = "/" + rest
		}
		chi.RouteContext(r.Context()).RoutePath = path
		next.ServeHTTP(w, r)
	})
}

// options answers OPTIONS with the methods of the path. No header of the answer
// invites web pages: they have no business here.
func options(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		list := ""
		if r.Method == http.MethodOptions {
			list = allowed(r)
		}
		if list == "" { // of an unknown path, which is not found
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Allow", list)
		w.WriteHeader(http.StatusNoContent)
	})
}
