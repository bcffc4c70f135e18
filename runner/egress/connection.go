package egress

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"holon/responses/turns"
)

// connection serves one connection of the container: one tunnel, or one request with
// its answer. Nothing that follows on the same connection is looked at.
type connection struct {
	server *Server
	client net.Conn
	id     string
	begun  time.Time
	idle   *time.Timer // ends the connection when nothing moves

	sent, received atomic.Int64 // to and from the host

	mu       sync.Mutex
	upstream net.Conn
	over     bool
}

// run reads the request, judges it and does what is allowed.
func (x *connection) run(ctx context.Context) {
	in := bufio.NewReaderSize(x.client, maxHead)
	h, err := readHead(in)
	if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) { // nothing was asked
		return
	}
	if err != nil {
		x.refuse(target{}, &refusal{reason: reasonMalformed, detail: err.Error()})
		return
	}
	x.idle.Reset(idleTimeout)
	t, no := x.server.proxy.judge(h)
	if no != nil {
		x.refuse(t, no)
		return
	}
	addrs, no := x.server.proxy.resolve(ctx, t)
	if no != nil {
		x.refuse(t, no)
		return
	}
	recorded, err := x.server.ledger.decided(x.decision(t, turns.VerdictAllowed, reasonListed, addrs[0].String(), ""))
	if err != nil {
		x.unrecorded(err)
		return
	}
	var at netip.Addr
	if t.scheme == "https" {
		_, _ = in.Discard(h.size) // is in the buffer
		at, err = x.tunnel(ctx, in, t, addrs)
	} else {
		at, err = x.forward(ctx, in, h, t, addrs)
	}
	if recorded {
		x.ended(t, at, err)
	}
}

// ended records how the connection to at ended.
func (x *connection) ended(t target, at netip.Addr, err error) {
	end := turns.EgressEnd{
		EgressID: x.id, Host: t.host, Port: t.port, BytesSent: x.sent.Load(), BytesReceived: x.received.Load(),
		DurationMS: time.Since(x.begun).Milliseconds(),
	}
	if at.IsValid() {
		end.Address = at.String()
	}
	if err != nil {
		end.Error = clean(err.Error())
	}
	if err := x.server.ledger.ended(end); err != nil {
		x.server.log.Error("egress cannot be recorded", "err", err)
	}
}

// connect dials and makes the connection end with this one.
func (x *connection) connect(ctx context.Context, addrs []netip.Addr, port int) (net.Conn, netip.Addr, error) {
	conn, at, err := x.server.proxy.dial(ctx, addrs, port)
	if err != nil {
		return nil, at, errUnreachable
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.over {
		return nil, at, errors.Join(errUnreachable, conn.Close())
	}
	x.upstream = conn
	return &metered{Conn: conn, connection: x}, at, nil
}

// errUnreachable says no more: the container must not
// observe the network of the host.
var errUnreachable = errors.New("the host does not answer")

// cut closes both sides. It may be called at any time and more than once.
func (x *connection) cut() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.over = true
	_ = x.client.Close()
	if x.upstream != nil {
		_ = x.upstream.Close()
	}
}

// refuse records a denial, then answers with it.
func (x *connection) refuse(t target, no *refusal) {
	if _, err := x.server.ledger.decided(x.decision(t, turns.VerdictDenied, no.reason, no.address,
		no.detail)); err != nil {
		x.unrecorded(err)
		return
	}
	message := clean(no.detail)
	if t.host != "" {
		message = clean(t.host) + ": " + message
	}
	if no.reason == reasonHostNotAllowed {
		message += "; the operator opens hosts with --allow-host"
	}
	x.answer(no.status(), no.reason, message)
}

// unrecorded refuses what cannot be written down.
func (x *connection) unrecorded(err error) {
	x.server.log.Error("egress cannot be recorded, so it is refused", "err", err)
	x.answer(http.StatusServiceUnavailable, "not_recorded", "the host cannot record connections, so it makes none")
}

// answer sends a short answer of the proxy's own and ends the connection.
func (x *connection) answer(status int, reason, message string) {
	body := "holon egress: " + message + " (" + reason + ")\n"
	x.idle.Reset(answerTimeout)
	// Programs show the status line of a refused CONNECT, and nothing else of it.
	_, err := fmt.Fprintf(x.client, "HTTP/1.1 %d Egress refused: %s\r\nContent-Type: text/plain; "+
		"charset=utf-8\r\nX-Holon-Egress: %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
		status, reason, reason, len(body), body)
	if half, ok := x.client.(interface{ CloseWrite() error }); ok && err == nil && half.CloseWrite() == nil {
		// Read what the client still sends for a moment: closing at once would
		// reset the connection before the client has read the answer.
		_, _ = io.CopyN(io.Discard, x.client, maxLinger)
	}
}

const (
	answerTimeout = 3 * time.Second
	maxLinger     = 1 << 20
)

// metered counts what passes and keeps the connection alive by it.
type metered struct {
	net.Conn
	connection *connection
}

// Read implements net.Conn.
func (m *metered) Read(p []byte) (int, error) {
	n, err := m.Conn.Read(p)
	m.connection.moved(&m.connection.received, n)
	return n, err
}

// Write implements net.Conn.
func (m *metered) Write(p []byte) (int, error) {
	// Counted before, since the answer can be here before Write returns.
	m.connection.moved(&m.connection.sent, len(p))
	n, err := m.Conn.Write(p)
	m.connection.sent.Add(int64(n - len(p)))
	return n, err
}

// CloseWrite passes on the end of what the client sends, where that is possible.
func (m *metered) CloseWrite() error {
	if half, ok := m.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

func (x *connection) moved(count *atomic.Int64, n int) {
	if n > 0 {
		count.Add(int64(n))
		x.idle.Reset(idleTimeout)
	}
}
