package httpserver

import (
	"net/http"
	"net/url"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
)

// Answer notes the status and the size of an answer. Unlike chi's own writer it returns the error of a flush, by which
// a stream finds that its reader is too slow or gone.
type Answer struct{ middleware.WrapResponseWriter }

// NewAnswer returns a writer of the answer to a request.
func NewAnswer(w http.ResponseWriter, r *http.Request) Answer {
	return Answer{middleware.NewWrapResponseWriter(w, r.ProtoMajor)}
}

// FlushError implements what http.ResponseController looks for.
func (a Answer) FlushError() error { return http.NewResponseController(a.Unwrap()).Flush() }

// PathValue is a part of a request's path, decoded once: chi has it as it was sent where the path has escapes that it
// need not have, as %2F, and decoded otherwise.
func PathValue(r *http.Request, name string) string {
	value := chi.URLParam(r, name)
	if r.URL.RawPath == "" {
		return value
	}
	if decoded, err := url.PathUnescape(value); err == nil {
		return decoded
	}
	return value
}
