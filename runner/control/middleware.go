package control

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"holon/internal/httpserver"
	"holon/responses"
	"holon/runner/access"
	"holon/runner/agent/scheduler"
	"holon/runner/control/wire"
	"holon/state"
	"holon/state/ledger"
)

// handler returns the API as one listener serves it.
func (s *Server) handler(l listener) http.Handler {
	r := chi.NewRouter()
	r.Use(s.observe, middleware.WithValue(listenerKey{}, l))
	refuse := func(refusal *state.Error) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			// a client without access learns no route, but the paths that need none
			triggered := strings.HasPrefix(r.URL.Path, callbacks)
			_, err := s.admitted(r, l, route{capability: triggered})
			if triggered && refusal.Code == wire.CodeMethod {
				w.Header().Set("Allow", http.MethodPost)
			}
			s.fail(w, r, cmp.Or(err, error(refusal)))
		}
	}
	r.NotFound(refuse(&state.Error{Code: wire.CodeNoRoute, Message: "the path does not exist",
		Hint: "GET /openapi.json lists the paths"}))
	r.MethodNotAllowed(refuse(&state.Error{Code: wire.CodeMethod, Message: "the path does not take this method",
		Hint: "GET /openapi.json lists the methods"}))
	for _, one := range s.routes() {
		path, file := strings.Replace(one.path, "/{path}", "/*", 1), strings.HasSuffix(one.path, "/{path}")
		if r.Method(one.method, path, s.serve(l, one)); file { // whose path has slashes
			r.Head(path, s.serve(l, one))
		}
	}
	if s.opts.Clients != nil {
		r.Handle("/v1/*", s.serveClients(l))
	}
	if s.opts.Console != nil && !l.local {
		r.Handle("/ui", s.serveConsole(l))
		r.Handle("/ui/*", s.serveConsole(l))
	}
	return r
}

// serve checks access to a route, calls its handler and sends the answer.
func (s *Server) serve(l listener, one route) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var answer any
		r, err := s.admitted(r, l, one)
		if err == nil {
			err = s.enter(w, r, l, one)
		}
		switch {
		case err != nil:
		case one.stream != nil:
			one.stream(w, r)
			return
		case one.take != nil:
			answer, err = one.take(w, r)
		default:
			answer, err = one.handle(w, r)
		}
		if err != nil {
			s.fail(w, r, err)
			return
		}
		s.send(w, http.StatusOK, answer)
	}
}

// enter checks that a request that was admitted may have what its route gives.
func (s *Server) enter(w http.ResponseWriter, r *http.Request, l listener, one route) error {
	if !one.capability {
		w.Header().Set(wire.HeaderVersion, s.host.Info().Version)
	}
	params := chi.RouteContext(r.Context()).URLParams
	if at := slices.Index(params.Values, ""); at >= 0 {
		name := strings.Replace(params.Keys[at], "*", "path", 1) // of a file
		return &state.Error{Code: ledger.CodeNotFound, Param: name, Message: "the path names no " + name,
			Hint: "put it between the slashes"}
	}
	if !one.queries {
		if _, err := queryOf(r); err != nil {
			return err
		}
	}
	if one.take == nil {
		if err := s.refuseBody(w, r, one); err != nil {
			return err
		}
	}
	id := cmp.Or(httpserver.PathValue(r, "id"), r.URL.Query().Get("agent_id"))
	if state.IsChild(id) && !(l.local && one.debugs) {
		return private(id)
	}
	if one.live {
		return s.addressee(r.Context(), s.agentID(r), true)
	}
	return nil
}

// private is the answer about a child to whoever is not to see it by itself, whether or not there is one.
func private(id string) error {
	return &state.Error{Code: scheduler.CodeAgentPrivate, Param: "agent_id",
		Message: fmt.Sprintf("agent %.80s is private", id), Hint: "look at its parent, " + state.RootAgent(id)}
}

// computeTime is how long an answer may take to be computed.
const computeTime = 15 * time.Second

// observe gives every request an id, bounds how slow its client may be, and logs it. A panic of a handler becomes an
// error answer; after the answer began, it cuts the connection, so that no client takes the answer for complete. The
// log has the route and never the path, which can hold a capability.
func (s *Server) observe(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := responses.NewID(responses.PrefixRequest)
		w.Header().Set(wire.HeaderRequestID, id)
		httpserver.Begin(w, r)
		answer, began := httpserver.NewAnswer(w, r), time.Now()
		control := http.NewResponseController(w)
		// the one of the request before may be on the connection
		_ = control.SetWriteDeadline(began.Add(s.limits.Body + s.limits.Write + computeTime))
		// a body that no handler reads is not waited for either
		if r.ContentLength != 0 {
			_ = control.SetReadDeadline(began.Add(s.limits.Body))
		}
		log := s.log.With("request", id, "method", strconv.Quote(r.Method))
		defer func() {
			p := recover()
			s.counts.answers[min(answer.Status()/100, 5)].Add(1)
			if p == nil {
				log.Debug("answered", "route", chi.RouteContext(r.Context()).RoutePattern(), "status", answer.Status(),
					"took", time.Since(began))
				return
			}
			if p == http.ErrAbortHandler {
				panic(p)
			}
			log.Error("a request handler panicked", "panic", p, "stack", string(debug.Stack()))
			if answer.Status() != 0 {
				panic(http.ErrAbortHandler)
			}
			s.fail(answer, r, &state.Error{Code: wire.CodeInternal, Message: "internal error",
				Hint: "the runtime's log has the details: holon daemon logs"})
		}()
		next.ServeHTTP(answer, r)
	})
}

// send answers with JSON; bytes are JSON already.
func (s *Server) send(w http.ResponseWriter, status int, answer any) {
	body, encoded := answer.([]byte)
	if !encoded {
		var err error
		if body, err = json.Marshal(answer); err != nil {
			s.log.Error("an answer can't be encoded", "err", err)
			status, body = http.StatusInternalServerError,
				[]byte(`{"ok":false,"error":{"code":"internal_error","message":"internal error","retryable":false}}`)
		}
	}
	body = s.opts.Hide(body)
	h := w.Header()
	if h.Get("Content-Type") == "" {
		h.Set("Content-Type", "application/json")
	}
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if status == http.StatusUnauthorized || status == http.StatusForbidden {
		h.Set("Connection", "close") // a client that is kept out holds no connection
	}
	w.WriteHeader(status)
	_ = s.write(w, body) // an error means that the client is gone
}

// piece is how much of an answer is written at a time, in bytes.
const piece = 64 << 10

// write sends data and flushes it. A client that takes no piece of it for Limits.Write gets an error that wraps
// os.ErrDeadlineExceeded, and its connection is of no use any more.
func (s *Server) write(w http.ResponseWriter, data []byte) error {
	rc := http.NewResponseController(w)
	for part := range slices.Chunk(data, piece) {
		_ = rc.SetWriteDeadline(time.Now().Add(s.limits.Write)) // a recorder in a test has none
		if _, err := w.Write(part); err != nil {
			return fmt.Errorf("write to the client: %w", err)
		}
	}
	if err := rc.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return fmt.Errorf("write to the client: %w", err)
	}
	return nil
}

// later is an error that says when to ask again.
type later interface {
	error
	RetryAfter() time.Duration
}

// fail answers with an error, and logs one whose cause the answer does not name.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	s.failAs(w, r, err, func(f wire.Failure) any { return f })
}

// failAs is fail for clients that expect an error in another form.
func (s *Server) failAs(w http.ResponseWriter, r *http.Request, err error, form func(wire.Failure) any) {
	failure, status, known := wire.Explain(err)
	if r.Context().Err() == nil && (!known || status >= 500 && status != http.StatusNotImplemented) {
		s.log.Error("a request failed", "request", w.Header().Get(wire.HeaderRequestID), "route",
			chi.RouteContext(r.Context()).RoutePattern(), "err", err)
	}
	if c := access.From(r.Context()); c.Name != "" {
		failure.Error.Message, failure.Error.Hint = c.Readable(failure.Error.Message, failure.Error.Hint)
	}
	if e, ok := errors.AsType[later](err); ok {
		w.Header().Set("Retry-After", strconv.Itoa(int(max(1, math.Ceil(e.RetryAfter().Seconds())))))
	}
	switch status {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		s.counts.busy.Add(1)
		if w.Header().Get("Retry-After") == "" {
			w.Header().Set("Retry-After", "1")
		}
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	s.send(w, status, form(failure))
}
