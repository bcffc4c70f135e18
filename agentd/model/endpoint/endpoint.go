// Package endpoint is the common part of transports over HTTP: the address, client
// and key of a provider, the limit of its silence, the meaning of its failures, and
// the order of the items in its answers.
//
// The invariant: an error contains no key and no header of the configuration, and
// its text is one bounded line. Redirects are not followed, compression is not
// requested, and nothing is repeated: an attempt is one request.
package endpoint

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"holon/agentd/turntoken"
	"holon/internal/providers"
	"holon/responses"
	"holon/responses/stream"
)

// defaultIdleTimeout is how long a provider may be silent.
const defaultIdleTimeout = 5 * time.Minute

// maxErrorBody bounds what is read of an answer that is an error, in bytes.
const maxErrorBody = 64 << 10

// Options configure an Endpoint. Zero fields mean their defaults.
type Options struct {
	Provider    string            // the first part of its model references; names its settings
	BaseURL     string            // http, https, or unix:///SOCKET:/PREFIX; the gateway's when there is a SocketPath
	APIKey      string            // required unless there is a SocketPath or KeyOptional
	KeyHeader   string            // carries the key; "" means Authorization, as a bearer token
	KeyOptional bool              // the provider may want no key
	SocketPath  string            // Unix socket to dial instead of BaseURL's host
	Headers     map[string]string // sent with every request
	IdleTimeout time.Duration     // longest silence, from the request on
	StrictTools bool              // offer the container's tools in the form for providers that enforce schemas
	Post        postFunc          // nil: the HTTP client alone
}

// postFunc posts a JSON body to a path that it knows below base, and returns the answer of any status.
type postFunc func(ctx context.Context, client *http.Client, base string, header http.Header,
	body []byte) (*http.Response, error)

// Endpoint is one provider. It is safe for concurrent use.
type Endpoint struct {
	provider string
	base     string
	client   *http.Client
	poster   postFunc
	header   http.Header
	idle     time.Duration
	secrets  []string // never shown
	ready    bool     // it needs no key, or there is one
	gateway  bool     // it is the host's, which takes the token of a turn
	strict   bool
}

// New returns an endpoint. It does not connect. A missing key is an error of
// [Endpoint.Check] but not of New, so that a server starts without one. The error,
// a *responses.Error, is about a malformed BaseURL or header.
func New(opts Options) (*Endpoint, error) {
	gateway := opts.SocketPath != "" // and not a server of the configuration
	if gateway && opts.BaseURL == "" {
		opts.BaseURL = "http://model/" + opts.Provider
	}
	base, password, err := parseBase(&opts)
	if err != nil {
		return nil, err
	}
	e := &Endpoint{
		provider: opts.Provider, base: base, header: make(http.Header), idle: opts.IdleTimeout,
		poster: opts.Post, strict: opts.StrictTools, gateway: gateway,
		ready: opts.APIKey != "" || opts.SocketPath != "" || opts.KeyOptional,
	}
	if e.idle <= 0 {
		e.idle = defaultIdleTimeout
	}
	if opts.APIKey != "" {
		if opts.KeyHeader != "" {
			e.header.Set(opts.KeyHeader, opts.APIKey)
		} else {
			e.header.Set("Authorization", "Bearer "+opts.APIKey)
		}
		e.secrets = append(e.secrets, opts.APIKey)
	}
	if password != "" {
		e.secrets = append(e.secrets, password)
	}
	for name, value := range opts.Headers {
		e.header.Set(name, value)
		e.secrets = append(e.secrets, value)
	}
	e.client = newClient(opts)
	return e, nil
}

// parseBase checks the base URL. One that names a socket becomes a SocketPath.
func parseBase(opts *Options) (base, password string, err error) {
	bad := func(message string) (string, string, error) {
		e := responses.Invalid(providers.Setting(opts.Provider, "BASE_URL"), responses.CodeInvalidValue, message)
		e.Hint = "write for example https://host/v1, or unix:///socket:/v1"
		return "", "", e
	}
	if rest, ok := strings.CutPrefix(opts.BaseURL, "unix://"); ok {
		path, prefix, _ := strings.Cut(rest, ":")
		if !strings.HasPrefix(path, "/") || prefix != "" && !strings.HasPrefix(prefix, "/") {
			return bad(fmt.Sprintf("the endpoint of %s names no socket", opts.Provider))
		}
		if opts.SocketPath == "" {
			opts.SocketPath, opts.KeyOptional = path, true
		}
		return "http://" + opts.Provider + strings.TrimSuffix(prefix, "/"), "", nil
	}
	u, err := url.Parse(opts.BaseURL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return bad(fmt.Sprintf("the endpoint of %s is not an http or https URL", opts.Provider))
	}
	password, _ = u.User.Password()
	return strings.TrimSuffix(opts.BaseURL, "/"), password, nil
}

// newClient returns the HTTP client for opts.
func newClient(opts Options) *http.Client {
	dialer := net.Dialer{Timeout: 15 * time.Second, KeepAlive: 30 * time.Second}
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, TLSHandshakeTimeout: 15 * time.Second,
		MaxIdleConnsPerHost: 16, IdleConnTimeout: 90 * time.Second, DialContext: dialer.DialContext,
		WriteBufferSize:    1 << 10, // for the header: a body goes past it
		DisableCompression: true,    // a compressed stream arrives in lumps
	}
	if opts.SocketPath != "" {
		transport.Proxy = nil
		transport.DialContext = (&socketDialer{Dialer: dialer, path: opts.SocketPath}).DialContext
	}
	return &http.Client{Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// StrictTools reports whether tools are offered in their strict form (runtime
// specification, "Provider Tool Schema Contract").
func (e *Endpoint) StrictTools() bool { return e.strict }

// Close drops idle connections. Streams that are being read go on.
func (e *Endpoint) Close() error {
	e.client.CloseIdleConnections()
	return nil
}

// Check reports whether there is a key, or no need of one. The error is a
// *responses.Error with code missing_credentials.
func (e *Endpoint) Check(string) error {
	if e.ready {
		return nil
	}
	return &responses.Error{
		Type: responses.TypeInvalidRequest, Code: responses.CodeMissingCredentials, Param: "model",
		Message: fmt.Sprintf("models of %s need a key and there is none", e.provider),
		Hint:    "set " + providers.Setting(e.provider, "API_KEY"),
	}
}

// typeJSON is the media type of an answer that is one JSON object.
const typeJSON = "application/json"

func (r Request) accept() string {
	if r.Whole {
		return typeJSON
	}
	return stream.TypeSSE
}

// post sends a request and returns the answer of any status.
func (e *Endpoint) post(ctx context.Context, r Request) (*http.Response, error) {
	header := e.header.Clone()
	header.Set("Content-Type", typeJSON)
	header.Set("Accept", r.accept())
	for name, value := range r.Header {
		header.Set(name, value)
	}
	if token := turntoken.Of(ctx); e.gateway && token != "" {
		header.Set("Authorization", "Bearer "+token)
	}
	if e.poster != nil {
		return e.poster(ctx, e.client, e.base, header, r.Body)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.base+r.Path, bytes.NewReader(r.Body))
	if err != nil {
		return nil, fmt.Errorf("make the request: %w", err)
	}
	req.Header = header
	return e.client.Do(req)
}

// BoundErrors limits the body of an error answer. It is a middleware for official clients, which read such a body
// completely.
func BoundErrors(req *http.Request, next func(*http.Request) (*http.Response, error)) (*http.Response, error) {
	resp, err := next(req)
	if err == nil && resp.StatusCode >= 400 {
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(resp.Body, maxErrorBody), resp.Body}
	}
	return resp, err
}
