package httpserver

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Guard returns a listener for an HTTP/1 server that faces others. Requests on
// its connections have one framing: package http would drop the length of one
// that has chunks as well, and a proxy in front of the server may not. Such
// a request is answered with 400, and Begin ends a connection after chunks.
//
// Of its connections no more than strangers are served of which no request was
// admitted: another one waits until one of them is, or is gone, or has had
// patience, when it is closed. So clients without access hold no place of
// clients with it. The server needs ConnContext.
func Guard(l net.Listener, strangers int) net.Listener {
	return &guard{Listener: l, most: strangers, left: make(chan struct{}, 1), closed: make(chan struct{})}
}

// patience is what a connection has for its first request while others wait: enough for a client, and a server, of a
// busy machine.
const patience = time.Second

type guard struct {
	net.Listener
	most   int
	left   chan struct{} // holds one when a stranger has left
	closed chan struct{}
	once   sync.Once

	mu        sync.Mutex
	strangers []*guardedConn // oldest first
}

// Accept implements net.Listener.
func (g *guard) Accept() (net.Conn, error) {
	conn, err := g.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &guardedConn{Conn: conn, guard: g}
	for {
		oldest, wait := g.enter(c)
		switch {
		case oldest == nil:
			return c, nil
		case wait <= 0:
			_ = oldest.Close() // it leaves by that
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-g.left:
		case <-timer.C:
		case <-g.closed:
			_ = conn.Close()
			err = net.ErrClosed
		}
		if timer.Stop(); err != nil {
			return nil, err
		}
	}
}

// enter lets a connection in, or returns the stranger that is in its way and for
// how long it may still be.
func (g *guard) enter(c *guardedConn) (oldest *guardedConn, wait time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.strangers) < g.most {
		c.since = time.Now()
		g.strangers = append(g.strangers, c)
		return nil, 0
	}
	oldest = g.strangers[0]
	return oldest, patience - time.Since(oldest.since)
}

func (g *guard) remove(c *guardedConn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.Index(g.strangers, c)
	if i < 0 {
		return
	}
	g.strangers = slices.Delete(g.strangers, i, i+1)
	select {
	case g.left <- struct{}{}:
	default: // Accept looks anyway
	}
}

// Close implements net.Listener.
func (g *guard) Close() error {
	g.once.Do(func() { close(g.closed) })
	return g.Listener.Close()
}

type guardKey struct{}

// ConnContext is http.Server.ConnContext for connections of a guard.
func ConnContext(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, guardKey{}, conn)
}

// Begin is called for each request before its answer begins. Where the request
// came in chunks, nothing after it is read.
func Begin(w http.ResponseWriter, r *http.Request) {
	if c, ok := r.Context().Value(guardKey{}).(*guardedConn); ok && c.chunked.Load() {
		w.Header().Set("Connection", "close")
	}
}

// Admit says that a request was let in, so that its connection counts as known.
func Admit(r *http.Request) {
	if c, ok := r.Context().Value(guardKey{}).(*guardedConn); ok {
		c.guard.remove(c)
	}
}

// guardedConn reads the heads of requests as they pass. A head is passed on whole
// only if it has one framing.
type guardedConn struct {
	net.Conn
	guard   *guard
	since   time.Time
	chunked atomic.Bool // the last request had chunks: the rest is not looked at

	failed error
	body   int64  // bytes of a body to come
	began  bool   // the head has its first line
	line   []byte // as much of the present line as matters
	chunks bool
	length []byte // nil: none
	bad    bool
}

// maxLine bounds the part of a line that is kept: no name or length is longer.
const maxLine = 64

var errFraming = errors.New("the request has no framing, or more than one")

// Read implements net.Conn.
func (c *guardedConn) Read(p []byte) (int, error) {
	if c.failed != nil {
		return 0, c.failed
	}
	n, err := c.Conn.Read(p)
	for i := 0; i < n && !c.chunked.Load(); {
		if c.body > 0 {
			skip := min(c.body, int64(n-i))
			c.body, i = c.body-skip, i+int(skip)
			continue
		}
		if !c.look(p[i]) {
			if c.failed = errFraming; i == 0 {
				return 0, c.failed
			}
			return i, nil // without the end of the head
		}
		i++
	}
	return n, err
}

// look takes a byte of a head and reports whether it may pass.
func (c *guardedConn) look(b byte) bool {
	if b != '\n' {
		if len(c.line) <= maxLine {
			c.line = append(c.line, b)
		}
		return true
	}
	line := bytes.TrimSuffix(c.line, []byte("\r"))
	c.line = c.line[:0]
	switch {
	case len(line) > 0 && c.began:
		c.field(line)
	case len(line) > 0:
		c.began = true
	case c.began:
		return c.headEnds()
	}
	return true
}

// field takes a line behind the first.
func (c *guardedConn) field(line []byte) {
	name, value, _ := bytes.Cut(line, []byte(":"))
	switch {
	case strings.EqualFold(string(name), "Transfer-Encoding"):
		c.chunks = true
	case strings.EqualFold(string(name), "Content-Length"):
		c.bad = c.bad || c.length != nil || len(line) > maxLine
		c.length = append([]byte{}, bytes.Trim(value, " \t")...)
	}
}

// headEnds reports whether the head has one framing, and begins the body.
func (c *guardedConn) headEnds() bool {
	length, chunks, bad := c.length, c.chunks, c.bad
	c.length, c.chunks, c.bad, c.began = nil, false, false, false
	if chunks {
		c.chunked.Store(true)
		return length == nil
	}
	if length == nil {
		return true
	}
	n, err := strconv.ParseUint(string(length), 10, 63)
	c.body = int64(n)
	return err == nil && !bad
}

// Close implements net.Conn.
func (c *guardedConn) Close() error {
	c.guard.remove(c)
	return c.Conn.Close()
}

// CloseWrite ends what is sent and leaves the other direction open.
func (c *guardedConn) CloseWrite() error {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok {
		return errors.ErrUnsupported
	}
	return half.CloseWrite()
}
