package control

import (
	"context"
	"net/http"
	"time"

	"holon/responses/turns"
	"holon/runner/control/wire"
	"holon/state"
)

// postUILogin makes a link into the web console. It leads to the TCP port, the only way that browsers have.
func (s *Server) postUILogin(_ http.ResponseWriter, _ *http.Request) (any, error) {
	if s.opts.Console == nil {
		return nil, &state.Error{Code: wire.CodeUnsupported, Param: "ui", Message: "this runtime has no web console",
			Hint: "start it with: holon daemon start"}
	}
	base := s.host.Info().AdvertiseURL
	if base == "" {
		return nil, &state.Error{Code: wire.CodeUnsupported, Param: "--access",
			Message: "the daemon has no TCP port, which browsers need",
			Hint:    "open one with: holon daemon restart --access local"}
	}
	link, expires := s.opts.Console.Login()
	return wire.UILogin{URL: base + link, ExpiresAt: turns.At(expires)}, nil
}

// serveConsole passes on what is below /ui. A name that was rebound to this address is refused; who a browser is, and
// which page made it send a request, is for the console to check. Streams end when the server does.
func (s *Server) serveConsole(l listener) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		err := s.refuseLate()
		if !l.named(r.Host) {
			err = &state.Error{Code: wire.CodeForbidden, Param: "Host", Message: "the Host header does not name this server",
				Hint: "use its address, or start it with --advertise URL"}
		}
		if err != nil {
			s.fail(w, r, err)
			return
		}
		if r.Header.Get("Accept") == "text/event-stream" {
			_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // a recorder in a test has none
			ctx, cancel := context.WithCancel(r.Context())
			defer cancel()
			s.clients.Go(func() {
				defer cancel()
				select {
				case <-s.ending:
				case <-ctx.Done():
				}
			})
			r = r.WithContext(ctx)
		}
		s.opts.Console.ServeHTTP(w, r)
	}
}
