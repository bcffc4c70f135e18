package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
)

// socketHost is the made-up host of requests over a socket.
const socketHost = "agentd"

// maxSocketPath is what fits into sockaddr_un on Linux, with its final NUL.
const maxSocketPath = 107

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
	return newClient("http://"+socketHost, path, "start it with agentd serve --socket "+path, http.Client{Transport: transport})
}

func dialSocket(path string) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, _, addr string) (net.Conn, error) {
		if addr != socketHost+":80" {
			return nil, &net.OpError{Op: "dial", Net: "unix", Err: fmt.Errorf("this client reaches the socket %s only, not %.100q", path, addr)}
		}
		if len(path) > maxSocketPath {
			return nil, &net.OpError{Op: "dial", Net: "unix", Err: fmt.Errorf("the socket path has %d bytes and the system allows %d; use a shorter directory", len(path), maxSocketPath)}
		}
		var d net.Dialer
		return d.DialContext(ctx, "unix", path)
	}
}

// isDial reports whether err arose before there was a connection.
func isDial(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}
