package agentd

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"time"

	"holon/agentd/config"
)

// Serve listens where the configuration says and serves until ctx ends or
// POST /shutdown asks for the end. Then it takes no new turns, gives the running
// ones the configured grace, ends those that remain, and removes its socket.
func (s *Server) Serve(ctx context.Context) error {
	endpoints, err := s.listen(ctx)
	defer func() {
		for _, e := range endpoints {
			e.close()
		}
	}()
	if err != nil {
		return err
	}
	failed := make(chan error, len(endpoints))
	var servers []*http.Server
	for _, e := range endpoints {
		srv := &http.Server{Handler: e.handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 10 * time.Minute,
			MaxHeaderBytes: 64 << 10, ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug)}
		go func() { failed <- srv.Serve(e.Listener) }()
		s.log.Info("serving", "network", e.Addr().Network(), "address", e.address, "version", s.parts.Version)
		servers = append(servers, srv)
	}
	select {
	case <-ctx.Done():
	case <-s.shutdown:
	case err = <-failed: // a listener broke
	}
	s.drain()
	s.sockets.Close(closeGrace)
	s.closeServers(servers)
	return err
}

// endpoint is a listener with the handler that serves it.
type endpoint struct {
	net.Listener
	address string
	handler http.Handler
	close   func()
}

// listen opens the configured listeners. Those that it returns are open also
// after an error.
func (s *Server) listen(ctx context.Context) (list []endpoint, err error) {
	at := s.cfg.Server
	if !at.Serves() {
		return nil, config.Wrong("--socket", "is empty and --listen is too", "give one of them")
	}
	token, err := at.Token()
	if err != nil {
		return nil, err
	}
	if at.Listen != "" { // first, since it leaves nothing behind when the socket is refused
		l, err := listenTCP(ctx, at.Listen, token != "")
		if err != nil {
			return nil, err
		}
		list = append(list, endpoint{l, l.Addr().String(), requestID(s.guard(s.Handler(), token)),
			func() { _ = l.Close() }})
	}
	if at.Socket == "" {
		return list, nil
	}
	unix, err := listenUnix(ctx, at.Socket, s.parts.Users != nil)
	if err != nil {
		return list, err
	}
	return slices.Insert(list, 0, endpoint{unix, at.Socket, s.Handler(), func() {
		_ = unix.Close()  // the HTTP server has closed it already, as a rule
		_ = unix.Remove() // a socket that is left is replaced as stale
	}}), nil
}

// closeGrace is what answers that are still being read get after the turns are over.
const closeGrace = 2 * time.Second

// closeServers ends the HTTP servers after the turns are over, and the tasks: a client that follows those is told of
// their ends.
func (s *Server) closeServers(servers []*http.Server) {
	if err := s.parts.Tasks.Close(); err != nil {
		s.log.Warn("tasks could not be ended", "err", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeGrace) // the one of Serve has ended
	defer cancel()
	for _, srv := range servers {
		if srv.Shutdown(ctx) != nil {
			_ = srv.Close() // what is still open is cut off
		}
	}
}
