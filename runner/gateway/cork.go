package gateway

import (
	"context"
	"net"
	"sync"

	"holon/internal/httpserver"
)

// corkedListener accepts connections that can be corked.
type corkedListener struct{ net.Listener }

func (l corkedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &corkedConn{Conn: conn}, nil
}

// corkedConn gathers what is written between cork and uncork, so that a piece of
// an answer goes out at once: package http writes a chunk's frame and what it
// frames through a buffer of 4 KiB, and each write wakes the reader.
type corkedConn struct {
	net.Conn

	mu     sync.Mutex // held while it writes, which the connection's deadline and end bound
	corked bool
	held   []byte // at most a piece of an answer and its frame
}

// Write implements net.Conn. An error of what is held comes from uncork.
func (c *corkedConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.corked {
		c.held = append(c.held, p...)
		return len(p), nil
	}
	return c.Conn.Write(p)
}

func (c *corkedConn) cork() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.corked = true
}

// uncork writes what is held. It does nothing where nothing is.
func (c *corkedConn) uncork() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	held := c.held
	if c.corked, c.held = false, held[:0]; len(held) == 0 {
		return nil
	}
	_, err := c.Conn.Write(held)
	return err
}

type connKey struct{}

// withConn is http.Server.ConnContext: it lets handlers find their connection.
func withConn(ctx context.Context, conn net.Conn) context.Context {
	return httpserver.ConnContext(context.WithValue(ctx, connKey{}, conn), conn.(*corkedConn).Conn)
}

// connOf returns the connection of a request.
func connOf(ctx context.Context) *corkedConn {
	return ctx.Value(connKey{}).(*corkedConn)
}
