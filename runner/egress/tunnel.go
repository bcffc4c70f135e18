package egress

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"holon/responses/turns"
)

// tunnel connects, and passes bytes once the client has begun TLS for the host.
func (x *connection) tunnel(ctx context.Context, in *bufio.Reader, t target, addrs []netip.Addr) (netip.Addr, error) {
	upstream, at, err := x.connect(ctx, addrs, t.port)
	if err != nil {
		x.answer(http.StatusBadGateway, "unreachable", t.host+": "+err.Error())
		return at, err
	}
	if _, err := io.WriteString(x.client, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return at, errGone
	}
	x.idle.Reset(helloTimeout)
	hello, no := readHello(in, t.host)
	if no != nil {
		if _, err := x.server.ledger.decided(x.decision(t, turns.VerdictDenied, no.reason, at.String(),
			no.detail)); err != nil {
			x.server.log.Error("egress cannot be recorded", "err", err)
		}
		_, _ = x.client.Write(accessDenied) // the client may be gone
		return at, errors.New(no.reason)
	}
	x.idle.Reset(idleTimeout)
	if _, err := upstream.Write(hello); err != nil {
		return at, errUnreachable
	}
	x.splice(in, upstream)
	return at, nil
}

var errGone = errors.New("the client is gone")

// accessDenied is the fatal alert of TLS by which a client learns that it was
// policy and no fault of the network.
var accessDenied = []byte{21, 3, 3, 0, 2, 2, 49}

// splice passes bytes both ways until both sides have said all, or one is gone.
func (x *connection) splice(in io.Reader, upstream net.Conn) {
	var both sync.WaitGroup
	pass := func(to io.Writer, from io.Reader) {
		_, err := io.Copy(to, from)
		half, ok := to.(interface{ CloseWrite() error })
		if err != nil || !ok || half.CloseWrite() != nil {
			x.cut()
		}
	}
	both.Go(func() { pass(upstream, in) })
	both.Go(func() { pass(x.client, upstream) })
	both.Wait()
}

// maxHello bounds the first message of TLS with the records it is cut into.
const maxHello = 80 << 10

// readHello reads the first message of TLS and returns it byte for byte if it
// asks for host by name, or by none where host is an address. The parser is that
// of crypto/tls, which is told to stop there; it sends nothing.
func readHello(r io.Reader, host string) ([]byte, *refusal) {
	heard := &listener{Reader: r}
	var hello *tls.ClientHelloInfo
	err := tls.Server(heard, &tls.Config{GetConfigForClient: func(info *tls.ClientHelloInfo) (*tls.Config, error) {
		hello = info
		return nil, errHeard
	}}).Handshake()
	if hello == nil {
		return nil, &refusal{reason: reasonNotTLS, detail: fmt.Sprintf("the tunnel does not begin with TLS: %v", err)}
	}
	if slices.Contains(hello.Extensions, extensionECH) {
		return nil, &refusal{reason: reasonHiddenName,
			detail: "an Encrypted Client Hello can hide the name that is asked for"}
	}
	want := host
	if _, err := netip.ParseAddr(host); err == nil {
		want = "" // addresses are never named (RFC 6066, 3)
	}
	if strings.ToLower(hello.ServerName) != want {
		return nil, &refusal{reason: reasonNameMismatch,
			detail: fmt.Sprintf("TLS asks for %.100q in a tunnel to %s", hello.ServerName, host)}
	}
	return heard.raw, nil
}

const extensionECH = 0xfe0d

var errHeard = errors.New("the hello was heard")

// listener is a connection on which crypto/tls hears a hello and says nothing.
type listener struct {
	io.Reader
	raw []byte
}

// Read implements net.Conn and keeps what was read.
func (l *listener) Read(p []byte) (int, error) {
	if len(l.raw) >= maxHello {
		return 0, fmt.Errorf("more than %d bytes without a hello", maxHello)
	}
	n, err := l.Reader.Read(p[:min(len(p), maxHello-len(l.raw))])
	l.raw = append(l.raw, p[:n]...)
	return n, err
}

// Write implements net.Conn: alerts go nowhere.
func (l *listener) Write(p []byte) (int, error) { return len(p), nil }

// The rest of net.Conn: the connection beneath has its own limits and end.
func (l *listener) Close() error                     { return nil }
func (l *listener) LocalAddr() net.Addr              { return nil }
func (l *listener) RemoteAddr() net.Addr             { return nil }
func (l *listener) SetDeadline(time.Time) error      { return nil }
func (l *listener) SetReadDeadline(time.Time) error  { return nil }
func (l *listener) SetWriteDeadline(time.Time) error { return nil }
