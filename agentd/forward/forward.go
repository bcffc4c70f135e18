// Package forward gives programs in a container that has no network the one way
// out that its host offers: a TCP port of the loopback interface whose connections
// are passed, byte for byte, to the host's proxy on a Unix socket.
//
// It judges nothing: the host does, on the other side of the socket, and a process
// that can reach the port could reach the socket too. A connection beyond the bound
// waits. It promises no order between connections.
package forward

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"
)

const (
	maxConnections = 64
	dialTimeout    = 10 * time.Second
)

// Forwarder is a listening forwarder. Its methods are safe for concurrent use.
type Forwarder struct {
	listener *net.TCPListener
	socket   string
	log      *slog.Logger
	slots    chan struct{}
	base     context.Context // of all connections
	cancel   context.CancelFunc
	served   sync.WaitGroup
}

// Listen forwards from a free port of 127.0.0.1 to the Unix socket until Close.
// The socket is looked at with each connection only.
func Listen(socket string, log *slog.Logger) (*Forwarder, error) {
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, fmt.Errorf("open a port for the host's proxy: %w", err)
	}
	f := &Forwarder{listener: l, socket: socket, log: log, slots: make(chan struct{}, maxConnections)}
	f.base, f.cancel = context.WithCancel(context.Background()) // ends with Close
	f.served.Go(f.accept)
	return f, nil
}

// URL is where programs find the proxy.
func (f *Forwarder) URL() string { return "http://" + f.listener.Addr().String() }

// Environ returns the variables by which programs know their proxy. What runs in
// the container itself is reached without it, by the names too that it has there.
func (f *Forwarder) Environ(names ...string) []string {
	url, local := f.URL(), strings.Join(append([]string{"localhost,127.0.0.1,::1"}, names...), ",")
	return []string{
		"HTTP_PROXY=" + url, "HTTPS_PROXY=" + url, "ALL_PROXY=" + url, "NO_PROXY=" + local,
		"http_proxy=" + url, "https_proxy=" + url, "all_proxy=" + url, "no_proxy=" + local,
		"NODE_USE_ENV_PROXY=1", // without it Node.js ignores them
	}
}

// Close cuts all connections and waits for their end.
func (f *Forwarder) Close() error {
	f.cancel()
	err := f.listener.Close()
	f.served.Wait()
	if err != nil {
		return fmt.Errorf("close the port for the host's proxy: %w", err)
	}
	return nil
}

func (f *Forwarder) accept() {
	for {
		select {
		case f.slots <- struct{}{}:
		case <-f.base.Done():
			return
		}
		conn, err := f.listener.AcceptTCP()
		if err == nil {
			f.served.Go(func() {
				defer func() { <-f.slots }()
				f.pass(conn)
			})
			continue
		}
		<-f.slots
		if f.base.Err() != nil {
			return
		}
		f.log.Warn("a connection to the host's proxy can't be taken", "err", err)
		select { // no descriptor is left, for one
		case <-f.base.Done():
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// pass connects client to the proxy until both have said all, or one is gone.
func (f *Forwarder) pass(client *net.TCPConn) {
	defer client.Close()
	dialer := net.Dialer{Timeout: dialTimeout}
	conn, err := dialer.DialContext(f.base, "unix", f.socket)
	if err != nil {
		f.log.Warn("the host's proxy does not answer", "socket", f.socket, "err", err)
		return
	}
	proxy := conn.(*net.UnixConn) // what this network gives
	defer proxy.Close()
	cut := func() { _, _ = client.Close(), proxy.Close() }
	defer context.AfterFunc(f.base, cut)()
	var both sync.WaitGroup
	both.Go(func() { copyThenEnd(proxy, client, cut) })
	both.Go(func() { copyThenEnd(client, proxy, cut) })
	both.Wait()
}

// copyThenEnd passes bytes on, then their end.
func copyThenEnd(to interface {
	io.Writer
	CloseWrite() error
}, from io.Reader, cut func()) {
	if _, err := io.Copy(to, from); err != nil || to.CloseWrite() != nil {
		cut()
	}
}
