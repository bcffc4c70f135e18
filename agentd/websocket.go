package agentd

import (
	"context"
	"encoding/base64"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"holon/responses"
)

// getWebSocket is GET /responses with an upgrade: one connection, on which one
// turn runs at a time (Open Responses, "WebSocket").
//
//	client ─▶ read ─▶ queue ─▶ serve ─▶ accept ─▶ turn
//	   ▲                         │
//	   └───── events.ndjson ◀────┘
//
// What is answered follows the order of what was asked, refusals too: no frame
// says which message it answers.
func (s *Server) getWebSocket(w http.ResponseWriter, r *http.Request) {
	err := checkUpgrade(w, r)
	token := ""
	if err == nil {
		token, err = modelToken(r.Header)
	}
	if err == nil {
		err = s.sockets.enter()
	}
	if err != nil {
		s.fail(w, err)
		return
	}
	defer s.sockets.leave()
	// Not the request's context: that of a connection which was taken over says nothing.
	ctx, end := context.WithCancel(s.sockets.ctx)
	defer end()
	c := &wsConn{server: s, token: token, ctx: ctx, end: end, queue: newWaiting()}
	wiring := &wiring{ResponseWriter: w}
	c.conn, err = websocket.Accept(wiring, r, &websocket.AcceptOptions{
		CompressionMode:    websocket.CompressionDisabled, // a small frame could hold a large message
		InsecureSkipVerify: true,                          // checkUpgrade lets no web page in
		OnPingReceived:     c.pinged,
	})
	if err != nil {
		s.log.Debug("no WebSocket came to be", "request", w.Header().Get(headerRequestID), "err", err)
		return
	}
	c.wire = wiring.wire
	c.conn.SetReadLimit(responses.MaxRequest)
	c.run()
}

// checkUpgrade refuses what is no handshake, with an error as every other
// request gets it.
func checkUpgrade(w http.ResponseWriter, r *http.Request) error {
	h := r.Header
	if r.Method != http.MethodGet || !r.ProtoAtLeast(1, 1) || !hasToken(h, "Connection", "upgrade") ||
		!hasToken(h, "Upgrade", "websocket") {
		w.Header().Set("Allow", "POST, OPTIONS")
		e := responses.Invalid("", responses.CodeMethodNotAllowed,
			"a GET of this path must ask for an upgrade to a WebSocket")
		e.Hint = "use POST to create a response"
		return e
	}
	if h.Get("Origin") != "" {
		return &responses.Error{Type: responses.TypeInvalidRequest, Code: responses.CodeForbidden,
			Message: "requests of web pages are refused", Param: "Origin"}
	}
	if h.Get("Sec-WebSocket-Version") != "13" {
		w.Header().Set("Sec-WebSocket-Version", "13")
		return responses.Invalid("Sec-WebSocket-Version", responses.CodeInvalidValue,
			"only version 13 of the WebSocket protocol is spoken")
	}
	keys := h.Values("Sec-WebSocket-Key")
	if len(keys) == 1 {
		if key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(keys[0])); err == nil && len(key) == 16 {
			return nil
		}
	}
	return responses.Invalid("Sec-WebSocket-Key", responses.CodeInvalidValue,
		"the key of the handshake must be 16 bytes in base64")
}

// hasToken reports whether a header lists a token.
func hasToken(h http.Header, name, token string) bool {
	for _, v := range h.Values(name) {
		for t := range strings.SplitSeq(v, ",") {
			if strings.EqualFold(strings.TrimSpace(t), token) {
				return true
			}
		}
	}
	return false
}

// wsConn is an open connection. Its goroutines are run's own, one that reads
// and one that pings; run waits for both.
type wsConn struct {
	server *Server
	token  string // for the model gateway, of the handshake
	conn   *websocket.Conn
	wire   *wire           // beneath conn
	ctx    context.Context // of the connection
	end    context.CancelFunc
	queue  waiting
	mem    *memory // serve's own: what can be continued here only

	heard   atomic.Int64 // when something last came, in Unix nanoseconds
	wrote   atomic.Int64 // when a text was last sent whole
	writing atomic.Int64 // since when a text is being sent; 0 while none is
}

// run serves the connection to its end.
func (c *wsConn) run() {
	var others sync.WaitGroup
	defer others.Wait()
	defer func() { _ = c.conn.CloseNow() }()
	defer c.end()
	others.Go(c.read)
	others.Go(c.ping)
	c.serve()
}

// serve answers what was asked, one after the other, until the connection is
// lost or too old or the server shuts down. A turn that runs is told to its end
// in any case but the first.
func (c *wsConn) serve() {
	lifetime := c.server.cfg.WebSocket.Lifetime
	old := make(chan struct{})
	defer time.AfterFunc(lifetime, func() { close(old) }).Stop()
	for {
		m, why := c.next(old)
		switch why {
		case ended:
			return
		case shutdown:
			c.close(websocket.StatusGoingAway, "the server is shutting down")
			return
		case tooOld:
			c.refuse(&responses.Error{Type: responses.TypeInvalidRequest, Code: responses.CodeConnectionLimit,
				Message: "the connection has reached its lifetime of " + lifetime.String(),
				Hint:    "continue on a new connection"})
			c.close(websocket.StatusNormalClosure, responses.CodeConnectionLimit)
			return
		}
		if err := c.answer(m); err != nil {
			c.refuse(err)
		}
	}
}

// wake says why serve goes on.
type wake uint8

const (
	asked wake = iota
	ended
	tooOld
	shutdown
)

// next waits for the next message. The end of the connection comes before what
// still waits.
func (c *wsConn) next(old <-chan struct{}) (m message, why wake) {
	closing := c.server.sockets.closing
	select {
	case <-c.ctx.Done():
		return m, ended
	case <-closing:
		return m, shutdown
	case <-old:
		return m, tooOld
	default:
	}
	select {
	case <-closing:
		return m, shutdown
	case <-old:
		return m, tooOld
	case <-c.ctx.Done():
		return m, ended
	case m = <-c.queue.list:
		c.queue.took(m)
		return m, asked
	}
}

// close ends the connection in good order: it sends the reason and waits a
// little for the peer to have read it.
func (c *wsConn) close(code websocket.StatusCode, reason string) {
	_ = c.conn.Close(code, reason) // it ends in any case
}
