package agentd

import (
	"bytes"
	"errors"
	"io"
	"net/http"

	"holon/agentd/record"
	"holon/agentd/websocket"
	"holon/responses"
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
	token  string  // for the model gateway, of the handshake
	mem    *memory // what can be continued on this connection only
}

// answer runs the turn that a message asks for and sends its events. The error
// says why the turn did not begin; the failure of a turn is one of its events.
func (w *wsSession) answer(text []byte) error {
	req, previous, err := websocket.DecodeCreate(text)
	if err != nil {
		w.evict(previous)
		return err
	}
	v, err := w.server.accept(req, origin{source: "websocket", token: w.token}, w.mem)
	if err != nil {
		w.evict(previous)
		return w.server.logged(err)
	}
	defer v.release()
	defer v.attach()()
	w.tell(v)
	select {
	case <-v.done:
	case <-w.conn.Context().Done():
		return nil
	}
	if resp, _ := v.result(); resp == nil || resp.Status == responses.StatusFailed {
		w.evict(previous)
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

// tell sends the turn's events, one a frame, as they become durable. When the
// peer is lost, it returns early and the connection is over.
func (w *wsSession) tell(v *view) {
	f := v.journal.Follow()
	for sent := int64(0); ; {
		lines, err := f.Next(w.conn.Context())
		switch {
		case errors.Is(err, io.EOF):
			return
		case w.conn.Context().Err() != nil:
			return
		case err != nil: // the journal broke (a full disk): the client still gets a legal end
			w.server.log.Error("the journal broke off", "err", err)
			if lines, err = w.server.brokenEnd(v, sent, recordError(err)); err == nil {
				err = w.conn.Send(lines)
			}
			if err != nil {
				w.conn.End()
			}
			return
		}
		if lines = record.AppendStream(nil, lines); len(lines) == 0 {
			continue
		}
		if err := w.conn.Send(lines); err != nil {
			w.conn.End()
			return
		}
		sent += int64(bytes.Count(lines, []byte{'\n'}))
	}
}
