// Package client calls the control plane of a holon daemon over its Unix socket
// or a URL.
//
// Every call ends with a reason: an answer of failure becomes the *state.Error it
// was on the server, with its hint; a daemon that cannot be reached becomes one
// with wire.CodeUnreachable; a context that ended gives the context's error. The
// server is not trusted: answers are bounded and redirects are not followed, and
// a client made by [Unix] reaches nothing but its socket. Nothing is sent twice
// by itself but the reading of an event stream ([Client.Follow]).
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"unicode"

	"holon/internal/bounded"
	"holon/internal/unixsocket"
	"holon/runner/control/wire"
	"holon/state"
)

// Bounds of what is read.
const (
	maxAnswer = 64 << 20 // a page of events with all their texts
	maxError  = 256 << 10
)

// Client calls one daemon. Its methods are safe for concurrent use. Where a
// method takes an agent's id, "" is the daemon's default agent.
type Client struct {
	base  string // without a slash at the end
	where string // how messages name the daemon
	token string
	http  *http.Client

	version atomic.Pointer[string] // that the daemon says it has; nil before its first answer
}

// Version returns that of the daemon, "" before its first answer and of one that does not say it.
func (c *Client) Version() string {
	if v := c.version.Load(); v != nil {
		return *v
	}
	return ""
}

const socketHost = "holon"

// Unix returns a client of the daemon whose socket is at path. Nothing is
// dialled until the first call.
func Unix(path string) *Client {
	dial := func(ctx context.Context, _, addr string) (net.Conn, error) {
		if addr != socketHost+":80" {
			return nil, fmt.Errorf("this client reaches the socket %s only, not %.100q", path, addr)
		}
		return unixsocket.Dial(ctx, path)
	}
	return newClient("http://"+socketHost, path, "",
		&http.Transport{DialContext: dial, DisableCompression: true, MaxIdleConnsPerHost: 8,
			MaxResponseHeaderBytes: 64 << 10})
}

// New returns a client of the daemon at baseURL, of scheme http or https. token
// may be "". Errors are *state.Error.
func New(baseURL, token string) (*Client, error) {
	u, err := url.Parse(baseURL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" ||
		u.Fragment != "" || u.User != nil {
		return nil, &state.Error{Code: wire.CodeInvalidValue, Param: "url",
			Message: fmt.Sprintf("%.200q is not the URL of a daemon", baseURL), Hint: "give one like http://127.0.0.1:7878"}
	}
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, DisableCompression: true,
		MaxIdleConnsPerHost: 8, MaxResponseHeaderBytes: 64 << 10}
	return newClient(strings.TrimRight(baseURL, "/"), u.Host, token, transport), nil
}

func newClient(base, where, token string, transport *http.Transport) *Client {
	return &Client{base: base, where: where, token: token, http: &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Close closes idle connections. Calls that run are not affected.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// call makes a request and decodes its answer into out, unless that is nil. key
// is the idempotency key, "" for none.
func (c *Client) call(ctx context.Context, method, path string, body any, key string, out any) error {
	var data []byte
	if body != nil {
		var err error
		if data, err = json.Marshal(body); err != nil {
			return &state.Error{Code: wire.CodeInvalidJSON, Message: "the request cannot be encoded", Err: err}
		}
	}
	header := http.Header{"Accept": {"application/json"}}
	if strings.ContainsFunc(key, unicode.IsControl) {
		return &state.Error{Code: wire.CodeInvalidValue, Param: wire.HeaderIdempotencyKey,
			Message: "has characters that cannot be printed", Hint: "use letters and digits"}
	}
	if key != "" {
		header.Set(wire.HeaderIdempotencyKey, key)
	}
	resp, err := c.do(ctx, method, path, data, header)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := c.read(ctx, resp, maxAnswer)
	if err != nil || out == nil {
		return err
	}
	if raw, ok := out.(*json.RawMessage); ok && json.Valid(answer) {
		*raw = answer
		return nil
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return c.bad(method+" "+path, err)
	}
	return nil
}

// do sends a request and returns an answer of success. Its errors are final: the
// context's, or a *state.Error.
func (c *Client) do(ctx context.Context, method, path string, body []byte, header http.Header) (*http.Response, error) {
	var r io.Reader
	if body != nil {
		r = bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, r)
	if err != nil {
		return nil, &state.Error{Code: wire.CodeInvalidValue,
			Message: fmt.Sprintf("the request %s %.200q cannot be made", method, path), Err: err}
	}
	req.Header = header
	req.Header.Set("User-Agent", "holon")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.broken(ctx, err)
	}
	if v := resp.Header.Get(wire.HeaderVersion); v != "" {
		c.version.Store(&v)
	}
	if resp.StatusCode/100 == 2 {
		return resp, nil
	}
	defer resp.Body.Close()
	answer, err := c.read(ctx, resp, maxError)
	if err != nil {
		return nil, err
	}
	return nil, wire.DecodeFailure(resp.StatusCode, answer)
}

// read reads an answer of at most limit bytes.
func (c *Client) read(ctx context.Context, resp *http.Response, limit int64) ([]byte, error) {
	body, err := bounded.ReadAll(resp.Body, limit)
	if _, over := errors.AsType[*bounded.TooLargeError](err); over {
		return nil, c.bad(resp.Request.Method+" "+resp.Request.URL.Path, err)
	}
	if err != nil {
		return nil, c.broken(ctx, err)
	}
	return body, nil
}

func (c *Client) bad(what string, err error) error {
	return &state.Error{Code: wire.CodeBadAnswer,
		Message: fmt.Sprintf("the daemon at %s gave no usable answer to %.200s", c.where, what),
		Hint:    "check that what answers is holon, of this version", Err: err}
}

// broken says why there was no whole answer.
func (c *Client) broken(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err // which named the URL once more
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return &state.Error{Code: wire.CodeUnreachable, Message: "no daemon answers at " + c.where,
			Hint: "start it with: holon daemon start", Err: err}
	}
	return &state.Error{Code: wire.CodeDisconnected, Message: "the daemon at " + c.where + " went away",
		Hint: "see: holon daemon status", Err: err}
}

// agent returns the path of an agent beneath prefix. For "" it asks which agent
// is the default one.
func (c *Client) agent(ctx context.Context, prefix, agentID, below string) (string, error) {
	if agentID == "" {
		root, err := c.Root(ctx)
		if err != nil {
			return "", err
		}
		agentID = root.DefaultAgent
	}
	return prefix + url.PathEscape(agentID) + below, nil
}

func limited(path string, limit int) string {
	if limit <= 0 {
		return path
	}
	return path + "?limit=" + strconv.Itoa(limit)
}
