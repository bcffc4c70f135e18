package control

import (
	"net/http"
	"time"

	"holon/internal/httpserver"
	"holon/responses"
	"holon/runner/access"
	"holon/runner/agent/scheduler"
	"holon/runner/control/wire"
	"holon/state"
	"holon/state/ledger"
)

// admitted returns a request with its caller in its context, or why it is refused: a route is for operators unless it
// says otherwise.
func (s *Server) admitted(r *http.Request, l listener, one route) (*http.Request, error) {
	caller, err := l.admit(r, one.capability)
	if err != nil {
		s.reportTokens(l.tokens)
		return r, err
	}
	if one.capability {
		return r, nil
	}
	httpserver.Admit(r)
	if !one.clients {
		err = forOperators(caller)
	}
	ctx := access.With(r.Context(), caller)
	if caller.Operator && !one.clients {
		ctx = scheduler.Operating(ctx, caller.Name, ledger.SurfaceControlPrompt, l.operatorContext())
	}
	return r.WithContext(ctx), err
}

// reportTokens logs why the tokens file cannot be used, once: those who have a token of it only see that it is wrong.
func (s *Server) reportTokens(t *access.Tokens) {
	if t == nil {
		return
	}
	why := ""
	if err := t.Err(); err != nil {
		why = err.Error()
	}
	if before := s.unusable.Swap(&why); why != "" && (before == nil || *before != why) {
		s.log.Warn("the tokens file can't be used: none of its tokens is accepted", "err", why)
	}
}

// Clients serves the requests of clients. Close ends the connections that it has taken over, and refuses requests.
type Clients interface {
	http.Handler
	Close()
}

// serveClients passes on what is below /v1/. A stream or a WebSocket lasts as long as its client and its turn do.
func (s *Server) serveClients(l listener) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		r, err := s.admitted(r, l, route{clients: true})
		if err == nil {
			err = s.refuseLate()
		}
		if err != nil {
			s.failAs(w, r, err, ofProtocol)
			return
		}
		s.clients.Add(1)
		defer s.clients.Done()
		control := http.NewResponseController(w)
		_ = control.SetReadDeadline(time.Time{}) // a recorder in a test has none
		_ = control.SetWriteDeadline(time.Time{})
		s.opts.Clients.ServeHTTP(w, r)
	}
}

// refuseLate refuses what comes while the server ends.
func (s *Server) refuseLate() error {
	select {
	case <-s.ending:
		return &state.Error{Code: wire.CodeDraining, Message: "the server is shutting down", Hint: "come back in a second"}
	default:
		return nil
	}
}

// ofProtocol is an error in the form of Open Responses.
func ofProtocol(f wire.Failure) any {
	e := responses.Error{Type: responses.TypeInvalidRequest, Code: string(f.Error.Code), Message: f.Error.Message,
		Param: f.Error.Param, Hint: f.Error.Hint}
	if f.Error.Retryable {
		e.Type = responses.TypeServerError
	}
	return e.Envelope()
}
