package agentd

import (
	"cmp"
	"errors"
	"net/http"

	"holon/responses"
	"holon/responses/stream"
	"holon/responses/websocket"
)

// getWebSocket is GET /responses with an upgrade.
func (s *Server) getWebSocket(w http.ResponseWriter, r *http.Request) {
	err := websocket.CheckUpgrade(w, r)
	token := ""
	if err == nil {
		token, err = modelToken(r.Header)
	}
	if err == nil {
		err = s.sockets.Serve(w, r, websocket.Options{Lifetime: s.cfg.WebSocket.Lifetime, Ping: s.cfg.WebSocket.Ping,
			Stall: s.waits.write, Clean: s.cleanError, Log: s.log.With("request", w.Header().Get(headerRequestID))},
			func(c *websocket.Conn) func([]byte) error {
				return (&wsSession{server: s, conn: c, token: token}).answer
			})
	}
	if errors.Is(err, websocket.ErrClosed) {
		err = draining()
	}
	if err != nil {
		s.fail(w, err)
	}
}

// wsSession is what a connection knows of its turns. It belongs to the goroutine
// that serves the connection.
type wsSession struct {
	server *Server
	conn   *websocket.Conn
	token  string  // for the model gateway, of the handshake; a message may have its own
	mem    *memory // what can be continued on this connection only
}

// answer runs the turn that a message asks for and sends its events. The error
// says why the turn did not begin; the failure of a turn is one of its events.
func (w *wsSession) answer(text []byte) error {
	req, err := websocket.DecodeCreate(text)
	if err == nil {
		err = checkModelToken(websocket.KeyModelToken, req.Token)
	}
	if err != nil {
		w.evict(req.Previous)
		return err
	}
	v, err := w.server.accept(req.Request, origin{source: "websocket", token: cmp.Or(req.Token, w.token)}, w.mem)
	if err != nil {
		w.evict(req.Previous)
		return w.server.logged(err)
	}
	defer v.release()
	defer v.attach()()
	f := feed{framing: stream.NDJSON, send: func(lines []byte, _ bool) error {
		if len(lines) == 0 { // a heartbeat, which the connection has of its own
			return nil
		}
		if err := w.conn.Send(lines); err != nil {
			return errors.Join(errReader, err)
		}
		return nil
	}}
	if w.server.sendFeed(w.conn.Context(), v, f) != nil {
		w.conn.End()
		return nil
	}
	select {
	case <-v.done:
	case <-w.conn.Context().Done():
		return nil
	}
	if resp, _ := v.result(); resp == nil || resp.Status == responses.StatusFailed {
		w.evict(req.Previous)
	} else {
		w.mem = v.memory()
	}
	return nil
}

// evict forgets the conversation that a failed message wanted to continue: the
// client cannot know any more what it would continue (Open Responses,
// "WebSocket").
func (w *wsSession) evict(previous string) {
	if w.mem.holds(previous) {
		w.mem = nil
	}
}
