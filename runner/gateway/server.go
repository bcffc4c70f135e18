package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"holon/internal/httpserver"
	"holon/runner/socket"
)

const (
	maxHeader      = 32 << 10
	maxConnections = 128 // of one container
	maxStrangers   = 32  // … that have sent no token
	headerTimeout  = 10 * time.Second
	idleTimeout    = 5 * time.Minute
	maxGrace       = 30 * time.Second
	flushGrace     = time.Second // for the ends of answers, when the server closes
)

// Server is one socket on which a gateway is served. All methods are safe for
// concurrent use.
type Server struct {
	gateway *Gateway
	log     *slog.Logger
	http    *http.Server
	socket  *socket.Socket
	cancel  context.CancelFunc // ends the requests that Close does not wait for
	served  chan struct{}      // closed when the accept loop is gone
	running sync.RWMutex       // each request holds it for reading while it is handled; Close takes it
	large   chan struct{}      // holds one for each request with a large body
	leases  sync.Map           // of *Lease, by TokenHash
	warned  atomic.Bool        // of a refused request

	closeOnce sync.Once
	closeErr  error
}

// Serve serves the gateway on a Unix socket at path, mode 0600, until Close. The
// socket's directory is made with mode 0700 if it is missing. A stale socket is
// replaced. Connections wait until gate is opened, where there is one. The context
// covers the call only. Every error is a *state.Error with socket.CodeUnusable.
func (g *Gateway) Serve(ctx context.Context, path string, gate *socket.Barrier) (*Server, error) {
	sock, err := socket.Listen(ctx, path, "model gateway", g.owner)
	if err != nil {
		return nil, err
	}
	// Requests live until Close, even if the caller's context ends: the container may
	// still need its model while the caller winds up.
	base, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s := &Server{
		gateway: g,
		log:     g.log.With("socket", path),
		socket:  sock,
		cancel:  cancel,
		served:  make(chan struct{}),
		large:   make(chan struct{}, maxLarge),
	}
	s.http = &http.Server{
		Handler:                      http.HandlerFunc(s.handle),
		BaseContext:                  func(net.Listener) context.Context { return base },
		ConnContext:                  httpserver.ConnContext,
		ReadHeaderTimeout:            g.headerTimeout,
		IdleTimeout:                  idleTimeout,
		MaxHeaderBytes:               maxHeader,
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(g.log.Handler(), slog.LevelDebug),
	}
	go func() {
		defer close(s.served)
		listener := httpserver.Guard(sock.BoundedBehind(gate, maxConnections), maxStrangers)
		if err := s.http.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			s.log.Error("gateway stopped", "err", err)
		}
	}()
	return s, nil
}

// Close refuses new requests, lets running ones end until ctx is done (for maxGrace at
// most), cuts off the rest, waits for them and removes the socket. An expired context
// is not an error. A second call waits for the first and returns its error.
func (s *Server) Close(ctx context.Context) error {
	s.closeOnce.Do(func() { s.closeErr = s.close(ctx) })
	return s.closeErr
}

func (s *Server) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, maxGrace)
	defer cancel()
	idle := make(chan struct{})
	go func() {
		s.running.Lock() // for good: no request begins any more
		close(idle)
	}()
	select {
	case <-idle:
		s.flush(ctx)
	case <-ctx.Done():
	}
	// Both ends of what is left are cut, so that no handler can block.
	s.cancel()
	err := s.http.Close()
	<-s.served
	<-idle
	s.leases.Range(func(_, l any) bool {
		l.(*Lease).Revoke()
		return true
	})
	if err = errors.Join(err, s.socket.Remove()); err != nil {
		return fmt.Errorf("close the gateway: %w", err)
	}
	return nil
}

// flush lets answers whose handlers are done reach their readers: package
// http writes the end of an answer after its handler. A client that reads too
// slowly, or holds a connection open without a request, is not waited for.
func (s *Server) flush(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, flushGrace)
	defer cancel()
	_ = s.http.Shutdown(ctx) // what is left is cut off
}

// Path returns the socket's path.
func (s *Server) Path() string { return s.socket.Path() }
