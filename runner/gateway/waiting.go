package gateway

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// upstreamConn is a connection to a provider that says when nothing more is
// waiting on it, before it waits. What came until then can be sent on together,
// and none of it is kept for what may come.
type upstreamConn struct {
	net.Conn
	raw  syscall.RawConn
	idle atomic.Pointer[func()]
}

// newUpstreamConn wraps c, or returns it where it can't be.
func newUpstreamConn(c net.Conn) net.Conn {
	if sc, ok := c.(syscall.Conn); ok {
		if raw, err := sc.SyscallConn(); err == nil {
			return &upstreamConn{Conn: c, raw: raw}
		}
	}
	return c
}

// Read implements io.Reader.
func (c *upstreamConn) Read(p []byte) (n int, err error) {
	if len(p) == 0 {
		return 0, nil
	}
	waitErr := c.raw.Read(func(fd uintptr) bool {
		for {
			if n, err = unix.Read(int(fd), p); err != unix.EINTR {
				break
			}
		}
		if err != unix.EAGAIN {
			return true
		}
		if idle := c.idle.Load(); idle != nil {
			(*idle)()
		}
		return false
	})
	switch {
	case waitErr != nil:
		return 0, waitErr
	case err != nil:
		return 0, &net.OpError{Op: "read", Net: c.RemoteAddr().Network(), Addr: c.RemoteAddr(), Err: os.NewSyscallError("read", err)}
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// traced returns a context that notes the connection of a request.
func traced(ctx context.Context, conn *atomic.Pointer[upstreamConn]) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		c := info.Conn
		if secure, ok := c.(*tls.Conn); ok {
			c = secure.NetConn()
		}
		up, _ := c.(*upstreamConn)
		conn.Store(up)
	}})
}

// outlet gathers an answer's pieces on their way to the container.
type outlet struct {
	w       http.ResponseWriter
	control *http.ResponseController

	mu      sync.Mutex
	reading bool // the provider is being read from: what is gathered may go out meanwhile
	held    []byte
	err     error
}

// maxHeld is when pieces are sent on although more is waiting.
const maxHeld = 2 * bufferSize

// drained sends what is gathered because nothing more is waiting. It is called
// while the answer is read; the connection's own goroutine may call it, too,
// when the answer is over.
func (o *outlet) drained() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.reading {
		o.flush()
	}
}

// read reads the next piece.
func (o *outlet) read(body io.Reader, p []byte) (int, error) {
	o.mu.Lock()
	o.reading = true
	o.mu.Unlock()
	n, err := body.Read(p)
	o.mu.Lock()
	o.reading = false
	o.mu.Unlock()
	return n, err
}

// put gathers a piece, and sends what there is when that is much, or last.
func (o *outlet) put(piece []byte, now bool) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.held = append(o.held, piece...)
	if now || len(o.held) >= maxHeld {
		o.flush()
	}
	return o.err
}

// flush writes what is gathered. The caller holds mu.
func (o *outlet) flush() {
	if len(o.held) == 0 || o.err != nil {
		return
	}
	if _, o.err = o.w.Write(o.held); o.err == nil {
		o.err = o.control.Flush()
	}
	o.held = o.held[:0]
}
