package gateway_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"holon/runner/gateway"
	"holon/test/expect"
	"holon/test/memory"
)

// upstream is a provider that records what it is asked.
type upstream struct {
	*httptest.Server
	mu   sync.Mutex
	seen []request
}

type request struct {
	method, uri, host, body string
	header                  http.Header
}

func newUpstream(t testing.TB, handler http.HandlerFunc) *upstream {
	t.Helper()
	up := &upstream{}
	up.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body bytes.Buffer
		n, err := io.Copy(&body, io.LimitReader(r.Body, 1<<20))
		if err == nil && n == 1<<20 {
			_, err = io.Copy(io.Discard, r.Body)
		}
		if err != nil {
			return
		}
		header := r.Header.Clone()
		header.Set("Content-Length", fmt.Sprint(r.ContentLength))
		up.mu.Lock()
		up.seen = append(up.seen, request{r.Method, r.RequestURI, r.Host, body.String(), header})
		up.mu.Unlock()
		handler(w, r)
	}))
	up.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	t.Cleanup(up.Close)
	return up
}

func (u *upstream) all() []request {
	u.mu.Lock()
	defer u.mu.Unlock()
	return append([]request(nil), u.seen...)
}

func (u *upstream) only(t testing.TB) request {
	t.Helper()
	all := u.all()
	if len(all) != 1 {
		t.Fatalf("the provider was asked %d times, want 1", len(all))
	}
	return all[0]
}

func openAI(baseURL string) gateway.Options {
	return gateway.Options{Providers: map[string]gateway.Provider{"openai": {BaseURL: baseURL,
		Credential: gateway.NewSecret(sentinel)}}}
}

// served is a gateway on a socket and a client as a container would have.
type served struct {
	gateway *gateway.Gateway
	server  *gateway.Server
	lease   *gateway.Lease
	token   string
	client  *http.Client
}

// models are those that the turn of serve may ask.
var models = map[string]string{"openai": "openai/m", "anthropic": "anthropic/m", "local": "local/m"}

func serve(t testing.TB, options gateway.Options) *served {
	t.Helper()
	grant := gateway.Grant{TurnID: "turn_1"}
	for name := range options.Providers {
		grant.Models = append(grant.Models, models[name])
	}
	return serveTurn(t, options, grant)
}

// serveTurn is serve for a grant of the test's own.
func serveTurn(t testing.TB, options gateway.Options, grant gateway.Grant) *served {
	t.Helper()
	g, err := gateway.New(options)
	expect.NoError(t, err)
	return serveGateway(t, g, grant)
}

// serveGateway is serveTurn for a gateway of the test's own.
func serveGateway(t testing.TB, g *gateway.Gateway, grant gateway.Grant) *served {
	t.Helper()
	path := filepath.Join(memory.Dir(t), "ipc", "model.sock")
	server, err := g.Serve(t.Context(), path, nil)
	expect.NoError(t, err)
	token, hash := gateway.NewToken()
	grant.Token = hash
	lease, err := server.Grant(grant)
	expect.NoError(t, err)
	client := unixClient(path)
	client.Transport = bearer{token.Reveal(), client.Transport.(*http.Transport)}
	t.Cleanup(func() {
		client.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := server.Close(ctx); err != nil {
			t.Error(err)
		}
		g.Close()
		if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the socket is still there: %v", err)
		}
	})
	return &served{g, server, lease, token.Reveal(), client}
}

func unixClient(path string) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DisableCompression:  true,
		ReadBufferSize:      32 << 10, // as the clients have that benchmarks compare it with
		MaxIdleConnsPerHost: 16,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		},
	}}
}

// bearer sends a turn's token.
type bearer struct {
	token string
	*http.Transport
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	if b.token != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+b.token)
		r.Header.Set("Content-Type", "application/json")
	}
	return b.Transport.RoundTrip(r)
}

type answer struct {
	status int
	header http.Header
	body   string
}

func (s *served) do(t testing.TB, req *http.Request) answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	resp, err := s.client.Do(req.WithContext(ctx))
	expect.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	expect.NoError(t, err)
	return answer{resp.StatusCode, resp.Header, string(body)}
}

func (s *served) post(t testing.TB, target, body string) answer {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, "http://model"+target, strings.NewReader(body))
	expect.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	return s.do(t, req)
}

// bodyOf returns a body of size bytes.
func bodyOf(size int64) io.Reader {
	const begin, end = `{"model":"m","input":"`, `"}`
	return io.MultiReader(strings.NewReader(begin), io.LimitReader(letters{}, size-int64(len(begin+end))),
		strings.NewReader(end))
}

type letters struct{}

func (letters) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'a'
	}
	return len(p), nil
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// logger writes all levels to b.
func logger(b io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(b, &slog.HandlerOptions{Level: slog.LevelDebug}))
}
