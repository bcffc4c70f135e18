package egress_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"holon/responses/turns"
	"holon/runner/egress"
	"holon/test/expect"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// network stands for the public network: names have the addresses that a test
// gives them, and public addresses lead to local servers. The policy on
// addresses is the real one.
type network struct {
	mu     sync.Mutex
	names  map[string][][]netip.Addr // what each further question is answered; the last one stays
	dialed []string
	ports  map[string]string // local address behind each port
}

func (n *network) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	answers := n.names[host]
	if len(answers) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: host, Server: "10.9.8.7:53", IsNotFound: true}
	}
	if len(answers) > 1 {
		n.names[host] = answers[1:]
	}
	return append([]netip.Addr(nil), answers[0]...), nil
}

func (n *network) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	n.mu.Lock()
	n.dialed = append(n.dialed, address)
	_, port, err := net.SplitHostPort(address)
	local := n.ports[port]
	n.mu.Unlock()
	if err != nil || local == "" {
		return nil, errors.New("nothing listens there")
	}
	return (&net.Dialer{}).DialContext(ctx, network, local)
}

func (n *network) dials() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]string(nil), n.dialed...)
}

const public = "93.184.216.34"

func addrs(list ...string) (out []netip.Addr) {
	for _, s := range list {
		out = append(out, netip.MustParseAddr(s))
	}
	return out
}

// rig is a proxy with a container's view of it.
type rig struct {
	t      testing.TB
	net    *network
	server *egress.Server
	path   string
	ledger string
	roots  *x509.CertPool
	asked  *requests // what reached the servers behind the network
}

type requests struct {
	mu   sync.Mutex
	list []*http.Request
	body []string
}

func (r *requests) all() []*http.Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]*http.Request(nil), r.list...)
}

func newRig(t testing.TB, names map[string][][]netip.Addr, allow ...string) *rig {
	t.Helper()
	return newRigOf(t, names, egress.Options{Allow: allow})
}

func newRigOf(t testing.TB, names map[string][][]netip.Addr, options egress.Options) *rig {
	t.Helper()
	asked := &requests{}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(io.LimitReader(r.Body, 64<<20))
		if err != nil {
			return
		}
		asked.mu.Lock()
		asked.list, asked.body = append(asked.list, r), append(asked.body, string(body))
		asked.mu.Unlock()
		switch r.URL.Path {
		case "/away":
			http.Redirect(w, r, "http://denied.example.net/", http.StatusFound)
		case "/large":
			_, _ = io.CopyN(w, zeros{}, 8<<20)
		case "/upgrade":
			w.Header().Set("Upgrade", "other")
			w.WriteHeader(http.StatusSwitchingProtocols)
		default:
			w.Header().Set("Keep-Alive", "timeout=5")
			fmt.Fprintf(w, "%s %s %d\n", r.Host, r.URL.RequestURI(), len(body))
		}
	})
	secure := httptest.NewUnstartedServer(handler)
	secure.Config.ErrorLog = discardLog()
	secure.StartTLS()
	t.Cleanup(secure.Close)
	plain := httptest.NewServer(handler)
	t.Cleanup(plain.Close)
	n := &network{names: names, ports: map[string]string{"443": secure.Listener.Addr().String(),
		"80": plain.Listener.Addr().String(), "8081": plain.Listener.Addr().String(),
		"8443": secure.Listener.Addr().String()}}
	options.Resolver, options.Dialer = n, n
	p, err := egress.New(options)
	expect.NoError(t, err)
	dir, err := os.MkdirTemp("", "eg")
	expect.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	r := &rig{t: t, net: n, path: filepath.Join(dir, "e.sock"), ledger: filepath.Join(dir, "egress.ndjson"),
		roots: x509.NewCertPool(), asked: asked}
	r.roots.AddCert(secure.Certificate())
	if r.server, err = p.Serve(t.Context(), r.path, r.ledger, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.close() })
	return r
}

// close ends the proxy and returns what it recorded.
func (r *rig) close() []egress.Fact {
	r.t.Helper()
	if err := r.server.Close(); err != nil {
		r.t.Error(err)
	}
	if _, err := os.Lstat(r.path); !errors.Is(err, os.ErrNotExist) {
		r.t.Errorf("the socket is left: %v", err)
	}
	facts, err := egress.ReadFacts(r.ledger)
	if err != nil {
		r.t.Error(err)
	}
	return facts
}

// decisions lists the decisions as "verdict reason host".
func decisions(facts []egress.Fact) (list []string) {
	for _, f := range facts {
		if d := f.Decision; d != nil {
			list = append(list, fmt.Sprintf("%s %s %s", d.Verdict, d.Reason, d.Host))
		}
	}
	return list
}

func ends(facts []egress.Fact) (list []turns.EgressEnd) {
	for _, f := range facts {
		if f.Ended != nil {
			list = append(list, *f.Ended)
		}
	}
	return list
}

// dial connects to the proxy as a program in the container does.
func (r *rig) dial() net.Conn {
	r.t.Helper()
	conn, err := net.Dial("unix", r.path)
	expect.NoError(r.t, err)
	r.t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	return conn
}

// client is an HTTP client behind the proxy. name, if set, is what it asks TLS
// for instead of the host.
func (r *rig) client(name string) *http.Client {
	transport := &http.Transport{
		Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: "proxy:1"}),
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", r.path)
		},
		// The test server's certificate names example.com and addresses only.
		TLSClientConfig: &tls.Config{RootCAs: r.roots, ServerName: name},
	}
	r.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: time.Minute}
}

// get returns status and body of an answer, or the error.
func (r *rig) get(c *http.Client, url string) (string, error) {
	resp, err := c.Get(url)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return fmt.Sprintf("%d %s", resp.StatusCode, body), err
}

// say sends raw bytes and returns all that is answered.
func (r *rig) say(raw string) string {
	r.t.Helper()
	conn := r.dial()
	defer conn.Close()
	go func() { _, _ = io.WriteString(conn, raw) }()
	answer, err := io.ReadAll(conn)
	if err != nil && !strings.Contains(err.Error(), "reset") {
		r.t.Errorf("%.40q: %v", raw, err)
	}
	return string(answer)
}

// status reads the status line of a raw answer.
func status(answer string) string {
	line, _, _ := strings.Cut(answer, "\r\n")
	_, code, _ := strings.Cut(line, " ")
	return code
}

// tunnel asks for a tunnel and returns the connection within it.
func (r *rig) tunnel(target string) (net.Conn, *bufio.Reader) {
	r.t.Helper()
	conn := r.dial()
	if _, err := fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", target, target); err != nil {
		r.t.Fatal(err)
	}
	in := bufio.NewReader(conn)
	resp, err := http.ReadResponse(in, &http.Request{Method: http.MethodConnect})
	if err != nil || resp.StatusCode != http.StatusOK {
		r.t.Fatalf("CONNECT %s: %v, %v", target, resp, err)
	}
	return conn, in
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }
