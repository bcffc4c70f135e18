package control

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"holon/runner/access"
	"holon/runner/socket"
	"holon/state"
)

// Listeners are the open ways to a control plane, before and while it is served.
type Listeners struct {
	unix   *socket.Socket
	tcp    net.Listener // nil: none
	access Access
}

// Listen opens the Unix socket at path, mode 0600, in a directory that is made with mode 0700, and the TCP port if
// access has one. A stale socket is replaced; a socket that answers, and any other kind of file, is refused. TCP needs
// a token unless access disables it. Errors are *state.Error.
func Listen(ctx context.Context, path string, access Access) (*Listeners, error) {
	access, err := access.Check()
	if err != nil {
		return nil, err
	}
	if access.NeedsToken() && access.Token == "" {
		return nil, badAccess("--token-file", "a token is needed for the TCP port and none is given",
			"give --token-file FILE")
	}
	l := &Listeners{access: access}
	if l.unix, err = socket.Listen(ctx, path, "control plane", nil); err != nil {
		return nil, err
	}
	if !access.Enabled() {
		return l, nil
	}
	if l.tcp, err = listenTCP(ctx, access); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// listenTCP listens on the address of access. A peer that vanished without a word is noticed after a minute and a half.
func listenTCP(ctx context.Context, access Access) (net.Listener, error) {
	config := net.ListenConfig{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second,
		Interval: 15 * time.Second, Count: 4}}
	l, err := config.Listen(ctx, "tcp", access.address())
	if err != nil {
		return nil, &state.Error{Code: CodeInvalidAccess, Param: "--listen",
			Message: "can't listen on " + access.address(), Hint: "choose another --port, or stop what is there",
			Err: err}
	}
	at, ok := l.Addr().(*net.TCPAddr)
	if loopback := ok && at.IP.IsLoopback(); !loopback && (access.Mode == ModeLocal || access.Mode == ModeTunnel) {
		// What the name resolved to counts.
		return nil, errors.Join(badAccess("--host",
			fmt.Sprintf("%s is %s here, which other machines can reach", access.address(), l.Addr()),
			"use 127.0.0.1"), l.Close())
	}
	return l, nil
}

// HTTPAddr returns the address of the TCP port, "" when there is none.
func (l *Listeners) HTTPAddr() string {
	if l.tcp == nil {
		return ""
	}
	return l.tcp.Addr().String()
}

// AdvertiseURL returns the URL under which others reach the TCP port, without a
// slash at its end; "" when there is none.
func (l *Listeners) AdvertiseURL() string {
	switch {
	case l.access.Advertise != "":
		return strings.TrimRight(l.access.Advertise, "/")
	case l.tcp != nil:
		return "http://" + l.HTTPAddr()
	}
	return ""
}

// SocketPath returns the path of the Unix socket.
func (l *Listeners) SocketPath() string { return l.unix.Path() }

// Close closes what Run has not closed yet and removes the socket. It may be called more than once.
func (l *Listeners) Close() error {
	err := ignoreClosed(l.unix.Bounded(1).Close())
	if l.tcp != nil {
		err = errors.Join(err, ignoreClosed(l.tcp.Close()))
	}
	if err = errors.Join(err, l.unix.Remove()); err != nil {
		return fmt.Errorf("close the control plane: %w", err)
	}
	return nil
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// listener is a Unix socket or TCP port and what it demands of clients.
type listener struct {
	local  bool // the Unix socket: a client that can connect is the operator
	auth   Auth
	token  [sha256.Size]byte // digest
	tokens *access.Tokens    // of other callers; nil: none
	hosts  []string          // names under which a TCP port may be addressed
	listen func(limit int) net.Listener
}

func (l *Listeners) all() []listener {
	out := []listener{{local: true, listen: l.unix.Bounded}}
	if l.tcp == nil {
		return out
	}
	d := listener{auth: l.access.Auth, token: sha256.Sum256([]byte(l.access.Token)), tokens: l.access.Tokens,
		listen: func(limit int) net.Listener {
			return socket.Bounded(l.tcp, limit)
		}}
	if host, _, err := net.SplitHostPort(l.access.address()); err == nil {
		d.hosts = append(d.hosts, host)
	}
	if u, err := url.Parse(l.access.Advertise); err == nil && u.Host != "" {
		d.hosts = append(d.hosts, u.Hostname())
	}
	return append(out, d)
}
