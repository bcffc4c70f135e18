package control

import "net/http"

// Handler is the API as it is behind the Unix socket, or behind a TCP port without authentication.
func (s *Server) Handler(local bool) http.Handler {
	return s.handler(listener{local: local, auth: authDisabled})
}
