package openresponses

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	coder "github.com/coder/websocket"

	"holon/responses"
	"holon/responses/client"
	"holon/responses/websocket"
	"holon/runner/access"
)

// Bounds of connections: those of agentd, so that the connection to a client ends no later than those behind it.
const (
	socketLifetime = time.Hour
	socketPing     = 30 * time.Second
	socketGrace    = time.Second // at the end of the server
)

// webSocket is GET /v1/responses with an upgrade.
func (s *Server) webSocket(w http.ResponseWriter, r *http.Request) error {
	if err := websocket.CheckUpgrade(w, r); err != nil {
		return err
	}
	c := &socket{server: s, caller: access.From(r.Context()), agents: make(map[string]*tunnel)}
	defer c.close()
	o := websocket.Options{Lifetime: socketLifetime, Ping: socketPing, Stall: writeTimeout, Log: s.o.Log,
		Clean: func(frame []byte) []byte { return frame }} // the errors of agentd are not encoded again
	err := s.sockets.Serve(w, r, o, func(conn *websocket.Conn) func([]byte) error {
		c.conn = conn
		return c.answer
	})
	if errors.Is(err, websocket.ErrClosed) {
		return draining()
	}
	return err
}

// socket is a client's connection, with a tunnel to the agentd of each session that it uses: what is not stored can be
// continued on the connection that it came on. It belongs to the goroutine that serves the connection.
type socket struct {
	server *Server
	caller access.Caller
	conn   *websocket.Conn
	agents map[string]*tunnel // by session
}

func (c *socket) close() {
	for _, t := range c.agents {
		t.close()
	}
}

// answer makes the turn that a message asks for, and copies its frames. An error is answered with one.
func (c *socket) answer(text []byte) error {
	err := c.turn(text)
	if err == nil {
		return nil
	}
	if errors.Is(err, errCut) || c.conn.Context().Err() != nil {
		c.conn.End()
		return nil
	}
	return c.server.public(c.caller, http.Header{}, err)
}

func (c *socket) turn(text []byte) error {
	q := &request{caller: c.caller, looks: true}
	if err := q.strip(text); err != nil {
		return err
	}
	create, err := websocket.DecodeCreate(q.body)
	if err == nil && create.Token != "" {
		err = responses.Invalid(websocket.KeyModelToken, responses.CodeUnsupportedParameter, "the host chooses the token")
	}
	if err != nil {
		return err
	}
	if strings.HasPrefix(create.Model, "agent/") {
		e := responses.Invalid("model", responses.CodeUnsupportedParameter, "agents are not reached on a WebSocket")
		e.Hint = "use POST"
		return e
	}
	q.Request = create.Request
	if err := q.identify(nil); err != nil {
		return err
	}
	ctx := c.conn.Context()
	if err := c.server.hold(ctx, q); err != nil {
		return err
	}
	defer func() { q.settled() }()
	x, err := c.server.route(ctx, q)
	if err != nil {
		return err
	}
	p := newPost(ctx, x, q)
	if q.repeated {
		q.settled()
		close(p.over) // the turn is another request's
	} else if err = c.server.holdLine(ctx, q, x); err != nil {
		return err
	} else {
		err = c.server.watched(p, func(up upstream) error { return c.converse(p, up) })
	}
	if q.repeated || errors.Is(err, errUnanswered) {
		return x.Do(ctx, func(ctx context.Context, agent *client.Client) error {
			return c.converse(p, upstream{agent: agent, ctx: ctx, stop: func() {}})
		})
	}
	if err != nil && p.id.Load() != nil { // the client can fetch the rest; an error would be an end
		return errCut
	}
	return err
}

// converse sends a message to the agentd of a session and copies the frames of its answer.
func (c *socket) converse(p *post, up upstream) error {
	id := p.session.Info().ID
	t := c.agents[id]
	if t == nil || t.ctx.Err() != nil {
		conn, err := up.agent.WebSocket(up.ctx)
		if err != nil {
			p.failed(err)
			return err
		}
		t = newTunnel(conn)
		c.agents[id] = t
	}
	err := c.pass(p, up, t)
	if err != nil { // what else comes on it belongs to no message
		t.close()
		p.failed(err)
	}
	return err
}

func (c *socket) pass(p *post, up upstream, t *tunnel) error {
	text, err := p.request.edited(up.ctx, up.agent, p.session)
	if err == nil && up.token != "" {
		text, err = withToken(text, up.token)
	}
	if err != nil {
		return err
	}
	if err := t.conn.Write(up.ctx, coder.MessageText, text); err != nil {
		return broken(err)
	}
	for {
		line, err := t.next(up.ctx)
		if err != nil {
			return err
		}
		var frame struct {
			Type     string `json:"type"`
			Status   int    `json:"status"` // of an error
			Response struct {
				ID string `json:"id"`
			} `json:"response"`
		}
		if err := responses.Unmarshal(line, &frame); err != nil {
			return broken(err)
		}
		if frame.Response.ID != "" {
			p.accepted(up, frame.Response.ID)
		}
		if frame.Type == responses.EventError {
			p.failed(responses.DecodeEnvelope(frame.Status, line))
		}
		if c.server.o.HoldEnds && responses.Terminal(frame.Type) {
			p.awaitEnd()
		}
		if c.conn.Send(append(line, '\n')) != nil {
			return errCut
		}
		if frame.Type == responses.EventError || responses.Terminal(frame.Type) {
			return nil
		}
	}
}

// broken is the end of a connection to agentd. The error of the client of agentd for the same.
func broken(err error) error {
	return &responses.Error{Type: responses.TypeServerError, Code: responses.CodeServerDisconnected,
		Message: "the connection to agentd broke", Cause: err}
}

// tunnel is a connection to agentd. Its goroutine reads, so that pings are answered between messages.
type tunnel struct {
	conn   *coder.Conn
	ctx    context.Context // ends with the connection
	end    context.CancelFunc
	frames chan []byte
	reader sync.WaitGroup
}

func newTunnel(conn *coder.Conn) *tunnel {
	t := &tunnel{conn: conn, frames: make(chan []byte)}
	t.ctx, t.end = context.WithCancel(context.Background()) // it outlives the turn that it was opened for
	t.reader.Go(func() {
		defer t.end()
		for {
			_, text, err := conn.Read(t.ctx)
			if err != nil {
				return
			}
			select {
			case t.frames <- text:
			case <-t.ctx.Done():
				return
			}
		}
	})
	return t
}

// next is the next frame of agentd.
func (t *tunnel) next(ctx context.Context) ([]byte, error) {
	select {
	case text := <-t.frames:
		return text, nil
	case <-t.ctx.Done():
		return nil, broken(t.ctx.Err())
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (t *tunnel) close() {
	t.end()
	_ = t.conn.CloseNow() // agentd sees that the client is gone
	t.reader.Wait()
}
