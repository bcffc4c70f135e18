package httpserver

import (
	"net/http"

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
