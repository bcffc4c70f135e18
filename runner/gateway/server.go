package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
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
	active  activity
	meters  map[string]*meter // by provider, fixed after Serve
	refused atomic.Int64
	leases  leases

	closeOnce sync.Once
	closeErr  error
}

// Stats counts what passed through one server.
type Stats struct {
	Refused   int64                    `json:"refused"` // requests that no route allows
	Providers map[string]ProviderStats `json:"providers"`
}

// ProviderStats counts what went to one provider and came back.
type ProviderStats struct {
	Requests      int64 `json:"requests"` // that a route allows
	Refused       int64 `json:"refused"`  // of Requests: too large, malformed, for another model, over the budget
	Failed        int64 `json:"failed"`   // of Requests: no answer, or one with an error status
	BytesSent     int64 `json:"bytes_sent"`
	BytesReceived int64 `json:"bytes_received"`
	Usage         Usage `json:"usage"` // of all turns; its Requests are those that were let through
}

// meter counts for one provider.
type meter struct {
	requests, refused, failed, sent, received atomic.Int64

	mu    sync.Mutex
	usage Usage
}

// take adds what a request took.
func (m *meter) take(u Usage) {
	m.mu.Lock()
	defer m.mu.Unlock()
	u.Requests = 1
	m.usage = m.usage.plus(u)
}

func (m *meter) taken() Usage {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.usage
}

// Serve serves the gateway on a Unix socket at path, mode 0600, until Close. The
// socket's directory is made with mode 0700 if it is missing. A stale socket is
// replaced. The context covers the call only. Every error is an *Error with
// CodeSocketUnusable.
func (g *Gateway) Serve(ctx context.Context, path string) (*Server, error) {
	return g.ServePeer(ctx, path, nil)
}

// ServePeer is Serve for one process alone.
func (g *Gateway) ServePeer(ctx context.Context, path string, peer *socket.Peer) (*Server, error) {
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
		meters:  make(map[string]*meter, len(g.upstreams)),
	}
	for name := range g.upstreams {
		s.meters[name] = new(meter)
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
		listener := httpserver.Guard(sock.BoundedFor(peer, maxConnections), maxStrangers)
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
	idle := s.active.drain()
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
	for _, l := range s.leases.all() {
		l.Revoke()
	}
	if err = errors.Join(err, s.socket.Remove()); err != nil {
		return fmt.Errorf("close the gateway: %w", err)
	}
	return nil
}

// flush lets answers whose handlers are done reach their readers: package
// http writes the end of an answer after its handler. Who reads too slowly for
// that, or holds a connection open without a request, is not waited for.
func (s *Server) flush(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, flushGrace)
	defer cancel()
	_ = s.http.Shutdown(ctx) // what is left is cut off
}

// Path returns the socket's path.
func (s *Server) Path() string { return s.socket.Path() }

// Stats returns the counts so far, with an entry for each provider.
func (s *Server) Stats() Stats {
	stats := Stats{Refused: s.refused.Load(), Providers: make(map[string]ProviderStats, len(s.meters))}
	for name, m := range s.meters {
		stats.Providers[name] = ProviderStats{
			Requests: m.requests.Load(), Refused: m.refused.Load(), Failed: m.failed.Load(),
			BytesSent: m.sent.Load(), BytesReceived: m.received.Load(),
			Usage: m.taken(),
		}
	}
	return stats
}

// activity counts the requests that are being handled, until it is drained.
type activity struct {
	mu    sync.Mutex
	count int
	idle  chan struct{} // not nil: draining; closed: and nothing is left
}

// begin reports whether a request may be handled; end must follow if so.
func (a *activity) begin() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.idle != nil {
		return false
	}
	a.count++
	return true
}

func (a *activity) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.count--
	if a.idle != nil && a.count == 0 {
		close(a.idle)
	}
}

// drain lets no request begin any more. The channel is closed when none is
// left. It must be called once.
func (a *activity) drain() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.idle = make(chan struct{})
	if a.count == 0 {
		close(a.idle)
	}
	return a.idle
}

// countingReader adds the bytes read to count. Close closes the reader.
type countingReader struct {
	reader io.ReadCloser
	count  *atomic.Int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.reader.Read(p)
	c.count.Add(int64(n))
	return n, err
}

func (c *countingReader) Close() error { return c.reader.Close() }
