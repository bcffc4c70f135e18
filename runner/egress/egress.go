// Package egress is the only way out of a container that has no network: an
// HTTP proxy of the host, on a Unix socket in the container's directory, that
// opens named hosts and nothing else.
//
//	CONNECT host:443 ─▶ listed? ─▶ addresses public? ─▶ record ─▶ dial ─▶ 200 ─▶ SNI is host? ─▶ bytes
//	GET http://host/ ─▶ listed? ─▶ addresses public? ─▶ record ─▶ dial ─▶ one request, one answer
//
// The invariant: a byte leaves only to an address that was checked to be public,
// of a host that is on the list, on port 443 within TLS for that host's name or
// on port 80 as one well-formed request to that host, or likewise to the address
// and port that an operator gave for a host of its own network; and the decision is on
// the host's disk before that. The address that was checked is the one that is
// dialled. A request that cannot be recorded or understood is refused. Answers are passed on, redirects too:
// a client that follows one asks again.
//
// It does not look into TLS: a host that is allowed sees what the agent sends to
// it, and a server that serves several names can be asked for another one of
// them once its TLS is up. It promises no order between connections.
package egress

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"holon/responses"
	"holon/runner/socket"
)

// Bounds of one container's proxy. Time limits are for each step, not for a
// connection as a whole: a download may take as long as it moves.
const (
	maxConnections = 64 // at once; more wait
	headTimeout    = 15 * time.Second
	helloTimeout   = 15 * time.Second
	resolveTimeout = 10 * time.Second
	dialTimeout    = 10 * time.Second // for each address
	idleTimeout    = 5 * time.Minute  // without a byte in either direction
)

// Resolver finds the addresses of a name; *net.Resolver is one. Names are given
// with a dot at their end, so that no search list applies.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Dialer opens connections to addresses that were checked; *net.Dialer is one.
type Dialer interface {
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
}

// Options say what may be reached.
type Options struct {
	// Allow lists hosts: "example.com", "*.example.com" for all names below it
	// but not itself, or a public address such as "192.0.78.9". An empty list
	// allows nothing.
	Allow []string
	// Private lists hosts of the operator's own network, as HOST:PORT=ADDRESS, or ADDRESS:PORT: a private, shared or
	// loopback address, to which that host leads at that port, within TLS or with http.
	Private []string

	Resolver Resolver      // nil: the host's
	Dialer   Dialer        // nil: the host's; no proxy of the host is ever used
	Owner    *socket.Owner // is given the sockets; nil leaves them with this process's user
	Log      *slog.Logger  // nil discards
}

// Proxy judges and passes on for any number of containers. Its methods are safe
// for concurrent use.
type Proxy struct {
	hosts     *hosts
	private   privateHosts
	addresses *addresses
	resolver  Resolver
	dialer    Dialer
	owner     *socket.Owner
	log       *slog.Logger
}

// New checks the lists. Errors are *state.Error with CodeInvalidHost or CodeInvalidPrivateHost.
func New(options Options) (*Proxy, error) {
	list, err := newHosts(options.Allow)
	if err != nil {
		return nil, err
	}
	private, err := parsePrivate(options.Private)
	if err != nil {
		return nil, err
	}
	p := &Proxy{hosts: list, private: private, addresses: newAddresses(), resolver: options.Resolver,
		dialer: options.Dialer, owner: options.Owner, log: options.Log}
	if p.resolver == nil {
		p.resolver = net.DefaultResolver
	}
	if p.dialer == nil {
		p.dialer = &net.Dialer{KeepAlive: 30 * time.Second}
	}
	if p.log == nil {
		p.log = slog.New(slog.DiscardHandler)
	}
	return p, nil
}

// Allowed returns the list as it is compared, sorted.
func (p *Proxy) Allowed() []string { return slices.Clone(p.hosts.entries) }

// Private returns the list of the operator's own hosts as it is compared, sorted.
func (p *Proxy) Private() []string { return p.private.list() }

// Server is the proxy of one container.
type Server struct {
	proxy  *Proxy
	log    *slog.Logger
	socket *socket.Socket
	ledger *ledger
	base   context.Context // of all connections; outlives the call of Serve on purpose
	cancel context.CancelFunc
	served sync.WaitGroup

	closing  sync.Once
	closeErr error
}

// Serve serves the container whose socket is at path, until Close. Facts are
// appended to the file at ledger, which no container may reach, and told to
// watch if it is not nil: one at a time, and it must return quickly.
func (p *Proxy) Serve(ctx context.Context, path, ledger string, watch func(Fact)) (*Server, error) {
	facts, err := openLedger(ledger, watch)
	if err != nil {
		return nil, err
	}
	sock, err := socket.Listen(ctx, path, "egress proxy", p.owner)
	if err != nil {
		return nil, errors.Join(err, facts.close())
	}
	s := &Server{proxy: p, log: p.log.With("socket", path), socket: sock, ledger: facts}
	s.base, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	listener := sock.Bounded(maxConnections)
	s.served.Go(func() { socket.AcceptAll(s.base, listener, s.log, &s.served, s.serve) })
	return s, nil
}

// serve handles the one request of a connection.
func (s *Server) serve(client net.Conn) {
	ctx, cancel := context.WithCancel(s.base)
	defer cancel()
	x := &connection{server: s, client: client, id: responses.NewID("egr_"), begun: time.Now()}
	x.idle = time.AfterFunc(headTimeout, cancel)
	defer x.idle.Stop()
	// Blocked reads and writes end with the connection, however it ends.
	defer context.AfterFunc(ctx, x.cut)()
	defer x.cut()
	x.run(ctx)
}

// Close cuts all connections, waits for their end, which is recorded, and
// removes the socket. A second call returns the first one's error.
func (s *Server) Close() error {
	s.closing.Do(func() {
		s.cancel()
		s.served.Wait()
		if err := errors.Join(s.socket.Remove(), s.ledger.close()); err != nil {
			s.closeErr = fmt.Errorf("close the egress proxy: %w", err)
		}
	})
	return s.closeErr
}
