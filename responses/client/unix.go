package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"

	"holon/internal/unixsocket"
)

// socketHost is the made-up host of requests over a socket.
const socketHost = "agentd"

// Unix returns a client for the server that listens on the Unix socket at path.
// Nothing is dialled until the first call. The client can reach nothing else:
// its dialer refuses every other address, and it uses no proxy.
func Unix(path string) *Client { return UnixBy(path, unixsocket.Dial) }

// UnixBy is Unix with another way to connect to the socket. Errors of dial are *net.OpError with Op "dial".
func UnixBy(path string, dial func(ctx context.Context, path string) (net.Conn, error)) *Client {
	transport := &http.Transport{
		DialContext:            dialSocket(path, dial),
		DisableCompression:     true,
		MaxIdleConnsPerHost:    8,
		MaxResponseHeaderBytes: 64 << 10,
	}
	return &Client{where: path, remedy: "start it with agentd serve --socket " + path, base: "http://" + socketHost,
		header: http.Header{"User-Agent": {"holon"}}, http: &http.Client{Transport: transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// URL returns a client for the server at a URL without a slash at its end, which h reaches; h follows no redirect.
// Requests have the token, "" for none.
func URL(h *http.Client, base, token string) *Client {
	c := &Client{where: base, remedy: "start the server", base: base, http: h,
		header: http.Header{"User-Agent": {"holon"}}}
	if token == "" {
		return c
	}
	return c.withHeader("Authorization", "Bearer "+token)
}

type dialer func(ctx context.Context, network, addr string) (net.Conn, error)

func dialSocket(path string, dial func(context.Context, string) (net.Conn, error)) dialer {
	return func(ctx context.Context, _, addr string) (net.Conn, error) {
		if addr != socketHost+":80" {
			return nil, &net.OpError{Op: "dial", Net: "unix",
				Err: fmt.Errorf("this client reaches the socket %s only, not %.100q", path, addr)}
		}
		return dial(ctx, path)
	}
}

// isDial reports whether err arose before there was a connection.
func isDial(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}
