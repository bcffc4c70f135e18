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
func Unix(path string) *Client { return UnixPeer(path, nil) }

// UnixPeer is Unix for a directory in which others could put a server of their own:
// check is asked about each connection before anything is sent on it, and its error
// is that no server answers.
func UnixPeer(path string, check func(net.Conn) error) *Client {
	transport := &http.Transport{
		DialContext:            dialSocket(path, check),
		DisableCompression:     true,
		MaxIdleConnsPerHost:    8,
		MaxResponseHeaderBytes: 64 << 10,
	}
	return newClient("http://"+socketHost, path, "start it with agentd serve --socket "+path,
		http.Client{Transport: transport})
}

type dialer func(ctx context.Context, network, addr string) (net.Conn, error)

func dialSocket(path string, check func(net.Conn) error) dialer {
	return func(ctx context.Context, _, addr string) (net.Conn, error) {
		if addr != socketHost+":80" {
			return nil, &net.OpError{Op: "dial", Net: "unix",
				Err: fmt.Errorf("this client reaches the socket %s only, not %.100q", path, addr)}
		}
		conn, err := unixsocket.Dial(ctx, path)
		if err != nil || check == nil {
			return conn, err
		}
		if err := check(conn); err != nil {
			at := &net.UnixAddr{Name: path, Net: "unix"}
			return nil, errors.Join(&net.OpError{Op: "dial", Net: "unix", Addr: at, Err: err}, conn.Close())
		}
		return conn, nil
	}
}

// isDial reports whether err arose before there was a connection.
func isDial(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}
