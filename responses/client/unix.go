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
func Unix(path string) *Client {
	transport := &http.Transport{
		DialContext:            dialSocket(path),
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

func dialSocket(path string) dialer {
	return func(ctx context.Context, _, addr string) (net.Conn, error) {
		if addr != socketHost+":80" {
			return nil, &net.OpError{Op: "dial", Net: "unix",
				Err: fmt.Errorf("this client reaches the socket %s only, not %.100q", path, addr)}
		}
		return unixsocket.Dial(ctx, path)
	}
}

// isDial reports whether err arose before there was a connection.
func isDial(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}
