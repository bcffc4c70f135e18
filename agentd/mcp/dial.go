package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/net/http/httpproxy"

	"holon/agentd/process"
	"holon/internal/mcpwire"
	"holon/internal/tracecontext"
	"holon/internal/visible"
)

// Bounds of connections.
const (
	maxMessage   = mcpwire.DefaultMaxMessage
	maxBody      = 256 << 20 // of one stream of events
	maxRedirects = 3
	stopGrace    = 2 * time.Second // for a server that we started to end by itself
	stderrBytes  = 1 << 20         // kept of the log of a server that we started
)

// link is an open connection to a server, before a session begins on it.
type link struct {
	transport sdk.Transport
	close     func()        // ends it and waits for its end
	why       func() string // why it ended, "" if unknown
}

// dialer opens a link.
type dialer func(ctx context.Context) (*link, error)

// dialProcess starts a program in the container. It outlives turns and ends with its
// link.
func (m *Manager) dialProcess(name string, cfg Server) dialer {
	env := append([]string(nil), m.options.Environ...)
	for key, value := range cfg.Env {
		env = append(env, key+"="+value)
	}
	dir := cfg.Dir
	if dir == "" {
		dir = m.options.Dir
	}
	return func(context.Context) (*link, error) {
		p, err := m.options.Starter.Start(process.Command{
			Argv: append([]string{cfg.Command}, cfg.Args...), Dir: dir, Env: env, Input: true, Piped: true,
			Grace: stopGrace, KeepBytes: 4 << 10, StderrPath: m.freshLog(name), LogBytes: stderrBytes,
		})
		if err != nil {
			return nil, err
		}
		stream := &mcpwire.Stream{Reader: newTolerant(p.Output()), Writer: processWriter{p}, MaxMessage: maxMessage,
			Close: func() error {
				_ = p.Output().Close()
				_ = p.CloseInput() // the way to ask such a server to end
				p.Stop(stopGrace)
				return nil
			}}
		return &link{
			transport: stream,
			close:     func() { _ = stream.Close(); p.Result() },
			why:       func() string { return processEnd(p) },
		}, nil
	}
}

// freshLog returns the file for the standard error of a server that is about to
// start, and renames the file of its last start; "" if that fails.
func (m *Manager) freshLog(name string) string {
	if m.options.LogDir == "" {
		return ""
	}
	path := filepath.Join(m.options.LogDir, name+".log")
	if err := os.Rename(path, path+".1"); err != nil && !errors.Is(err, os.ErrNotExist) {
		m.log.Warn("the log of an MCP server is not kept", "server", name, "err", err)
		return ""
	}
	return path
}

// processEnd returns how a server that we started ended, and the last line of its log.
func processEnd(p *process.Process) string {
	select {
	case <-p.Done():
	case <-time.After(stopGrace): // its stream ends shortly before it does, longer before on a busy machine
		return ""
	}
	r := p.Result()
	if r.Signal != 0 && (r.Stopped || r.Canceled) {
		return "" // by us
	}
	why := fmt.Sprintf("it ended with status %d", r.ExitCode)
	logged := append(append([]byte(nil), r.Stderr.Head...), r.Stderr.Tail...)
	lines := strings.Split(strings.TrimSpace(string(logged)), "\n")
	if last := visible.OneLine(lines[len(lines)-1], 200); last != "" {
		why += ": " + last
	}
	return why
}

// processWriter writes to a server's standard input, which is bounded by package
// process: a program that does not read is an error after some seconds.
type processWriter struct{ p *process.Process }

func (w processWriter) Write(ctx context.Context, message []byte) error {
	_, err := w.p.Write(ctx, message)
	return err
}

// dialSocket connects to a Unix socket.
func dialSocket(path string) dialer {
	return func(ctx context.Context) (*link, error) {
		var d net.Dialer
		nc, err := d.DialContext(ctx, "unix", path)
		if err != nil {
			return nil, err
		}
		stream := &mcpwire.Stream{Reader: newTolerant(nc), Writer: mcpwire.Conn{Conn: nc}, MaxMessage: maxMessage,
			Close: nc.Close}
		return &link{transport: stream, close: func() { _ = nc.Close() }, why: func() string { return "" }}, nil
	}
}

// dialHTTP uses the streamable transport. It uses the same proxies as the commands of
// the container, which has no other connection to the network.
func (m *Manager) dialHTTP(cfg Server) dialer {
	proxy := proxyOf(m.options.Environ)
	return func(context.Context) (*link, error) {
		alive, cancel := context.WithCancel(context.Background()) // all requests end with the link
		base := &http.Transport{
			Proxy: func(r *http.Request) (*url.URL, error) {
				return proxy(r.URL)
			}, ForceAttemptHTTP2: true, TLSHandshakeTimeout: 15 * time.Second,
			DialContext:     (&net.Dialer{Timeout: 15 * time.Second}).DialContext,
			IdleConnTimeout: 90 * time.Second, MaxResponseHeaderBytes: 64 << 10, MaxConnsPerHost: 32,
		}
		client := &http.Client{Transport: &boundedTransport{base: base, headers: cfg.headers, alive: alive},
			CheckRedirect: sameHost}
		return &link{
			transport: &sdk.StreamableClientTransport{Endpoint: cfg.URL, HTTPClient: client, MaxEventSize: maxMessage,
				MaxRetries: 2},
			close: func() {
				time.AfterFunc(stopGrace, cancel) // the session says goodbye until then
				base.CloseIdleConnections()
			},
			why: func() string { return "" },
		}, nil
	}
}

// proxyOf reads the usual variables.
func proxyOf(environ []string) func(*url.URL) (*url.URL, error) {
	var c httpproxy.Config
	for _, kv := range environ {
		switch name, value, _ := strings.Cut(kv, "="); strings.ToUpper(name) {
		case "HTTP_PROXY":
			c.HTTPProxy = value
		case "HTTPS_PROXY":
			c.HTTPSProxy = value
		case "NO_PROXY":
			c.NoProxy = value
		}
	}
	return c.ProxyFunc()
}

// sameHost allows redirects to the same host only: another host would receive the
// headers and the content meant for the first.
func sameHost(next *http.Request, via []*http.Request) error {
	first := via[0].URL
	if next.URL.Scheme != first.Scheme || next.URL.Host != first.Host {
		return errors.New("a redirect to another host is not followed")
	}
	if len(via) > maxRedirects {
		return errors.New("too many redirects")
	}
	return nil
}

// boundedTransport adds headers to requests and bounds the bodies of answers.
type boundedTransport struct {
	base    *http.Transport
	headers http.Header
	alive   context.Context
}

func (b *boundedTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(req.Context())
	detach := context.AfterFunc(b.alive, cancel)
	end := func() { detach(); cancel() }
	req = req.Clone(ctx)
	if span := tracecontext.Of(ctx); span.Valid() {
		req.Header.Set(tracecontext.Header, span.String())
	}
	for name, values := range b.headers {
		req.Header[name] = values
	}
	resp, err := b.base.RoundTrip(req)
	if err != nil {
		end()
		return nil, err
	}
	limit := int64(maxMessage)
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		limit = maxBody
	} else if resp.StatusCode >= 300 {
		limit = 64 << 10
	}
	bounded := &boundedBody{resp.Body, limit + 1, end}
	resp.ContentLength = -1
	resp.Body = struct {
		io.Reader
		io.Closer
	}{newTolerant(bounded), bounded}
	return resp, nil
}

// boundedBody fails at its limit instead of ending as if it were complete.
type boundedBody struct {
	io.ReadCloser
	left int64 // one more than may be read
	end  func()
}

func (b *boundedBody) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooLarge
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

var errTooLarge = errors.New("the answer is too large")
