package websocket

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"sync"
)

// maxGathered bounds the frames that wait to be written together.
const maxGathered = 64 << 10

// wire is the connection beneath a WebSocket. It writes the frames of many
// events at once: the library writes each by itself, and the system calls for
// that took three quarters of the time of a fast stream. Without this the
// WebSocket row of P7 falls below half the rate of server-sent events.
type wire struct {
	net.Conn

	mu     sync.Mutex
	gather bool
	buf    []byte // frames that wait
}

// Write implements net.Conn. While frames are gathered it may only note p.
func (w *wire) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gather && len(w.buf)+len(p) <= maxGathered {
		w.buf = append(w.buf, p...)
		return len(p), nil
	}
	if err := w.flush(); err != nil {
		return 0, err
	}
	return w.Conn.Write(p)
}

// hold gathers frames, of about n bytes, until release.
func (w *wire) hold(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gather = true
	if w.buf == nil {
		w.buf = make([]byte, 0, min(n, maxGathered))
	}
}

// release writes what was gathered. The end of ctx breaks the connection.
func (w *wire) release(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = w.Close() }) // a write that hangs fails then
	defer stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gather = false
	err := w.flush()
	w.buf = nil // a connection that waits holds nothing
	return err
}

func (w *wire) flush() error {
	if len(w.buf) == 0 {
		return nil
	}
	_, err := w.Conn.Write(w.buf)
	w.buf = w.buf[:0]
	return err
}

// wiring puts a wire beneath the connection that a handshake takes over.
type wiring struct {
	http.ResponseWriter
	wire *wire
}

// Hijack implements http.Hijacker.
func (w *wiring) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	w.wire = &wire{Conn: conn}
	return w.wire, bufio.NewReadWriter(rw.Reader, bufio.NewWriter(w.wire)), nil
}
