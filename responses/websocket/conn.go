// Package websocket carries Open Responses over WebSockets: one connection, on
// which one turn runs at a time (Open Responses, "WebSocket").
//
//	client ─▶ read ─▶ queue ─▶ answer
//	   ▲                         │
//	   └────────── Send ◀────────┘
//
// Answers follow the order of the messages, refusals too: no frame says which
// message it answers. The package knows messages and frames, and no turn.
package websocket

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"holon/responses"
)

// Options bound a connection.
type Options struct {
	Lifetime time.Duration             // after which it ends, behind its running turn
	Ping     time.Duration             // silence after which a peer is asked whether it is there
	Stall    time.Duration             // how long a peer may read nothing while it is written to
	Clean    func(frame []byte) []byte // takes secrets out of the frame of an error
	Log      *slog.Logger
}

// Serve upgrades a request that CheckUpgrade accepted and serves the connection
// to its end. begin returns what answers its messages, one after the other; the peer
// is sent an error of an answer. Serve returns ErrClosed, before the upgrade, once the
// connections are closed; any other failure was answered already.
func (s *Connections) Serve(w http.ResponseWriter, r *http.Request, o Options,
	begin func(*Conn) (answer func(text []byte) error)) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	// Not the request's context: that of a connection which was taken over says nothing.
	ctx, end := context.WithCancel(s.ctx)
	defer end()
	c := &Conn{set: s, options: o, ctx: ctx, end: end, queue: newWaiting()}
	var err error
	c.conn, err = websocket.Accept(w, r, &websocket.AcceptOptions{
		CompressionMode:    websocket.CompressionDisabled, // a small frame could hold a large message
		InsecureSkipVerify: true,                          // CheckUpgrade lets no web page in
		OnPingReceived:     c.pinged,
	})
	if err != nil {
		o.Log.Debug("the upgrade to a WebSocket failed", "err", err)
		return nil
	}
	c.conn.SetReadLimit(responses.MaxRequest)
	c.run(begin(c))
	return nil
}

// Conn is an open connection. Its goroutines are that of Serve, one that reads
// and one that pings; Serve waits for both.
type Conn struct {
	set     *Connections
	options Options
	conn    *websocket.Conn
	ctx     context.Context // of the connection
	end     context.CancelFunc
	queue   waiting

	heard   atomic.Int64 // when something last came, in Unix nanoseconds
	wrote   atomic.Int64 // when a text was last sent whole
	writing atomic.Int64 // since when a text is being sent; 0 while none is
}

// run serves the connection to its end.
func (c *Conn) run(answer func(text []byte) error) {
	var others sync.WaitGroup
	defer others.Wait()
	defer func() { _ = c.conn.CloseNow() }()
	defer c.end()
	others.Go(c.read)
	others.Go(c.ping)
	c.serve(answer)
}

// serve answers what was asked, one after the other, until the connection is
// lost or too old or the server shuts down. A turn that runs is sent to its end
// in any case but the first. The end comes before what still waits.
func (c *Conn) serve(answer func(text []byte) error) {
	lifetime := c.options.Lifetime
	old, stop := context.WithTimeout(c.ctx, lifetime)
	defer stop()
	for {
		var m message
		select {
		case m = <-c.queue.list:
			c.queue.took(m)
		case <-c.set.closing.Done():
		case <-old.Done():
		}
		switch {
		case c.ctx.Err() != nil:
			return
		case c.set.closing.Err() != nil:
			c.close(websocket.StatusGoingAway, "the server is shutting down")
			return
		case old.Err() != nil:
			c.refuse(&responses.Error{Type: responses.TypeInvalidRequest, Code: responses.CodeConnectionLimit,
				Message: "the connection has reached its lifetime of " + lifetime.String(),
				Hint:    "continue on a new connection"})
			c.close(websocket.StatusNormalClosure, responses.CodeConnectionLimit)
			return
		}
		err := m.err
		if err == nil {
			err = answer(m.text)
		}
		if err != nil {
			c.refuse(err)
		}
	}
}

// close ends the connection in good order: it sends the reason and waits a
// little for the peer to have read it.
func (c *Conn) close(code websocket.StatusCode, reason string) {
	_ = c.conn.Close(code, reason) // it ends in any case
}

// Context is the connection's: it ends when the peer is lost.
func (c *Conn) Context() context.Context { return c.ctx }

// End cuts the connection off.
func (c *Conn) End() { c.end() }
