package conform

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/coder/websocket"
)

// turnLimit is when a turn on a WebSocket is given up. The official suite waits for 30 s, which the containers of all
// cases at once can take on a busy machine.
const turnLimit = 2 * time.Minute

// message is a response.create without its type and model.
type message map[string]any

type turn struct {
	frames   [][]byte
	errs     []error // events that are not valid, or no end
	code     string  // of an error
	status   int     // of an error event
	response json.RawMessage
}

type session struct {
	t      *trial
	conn   *websocket.Conn
	broken error // why it cannot be used any more
}

// on runs f on a WebSocket of its own.
func (t *trial) on(f func(*session)) {
	url := "ws" + strings.TrimPrefix(t.BaseURL, "http") + "/responses"
	conn, resp, err := websocket.Dial(t.ctx, url, &websocket.DialOptions{HTTPClient: t.http, HTTPHeader: http.Header{
		"Content-Type": {"application/json"}, "Authorization": {"Bearer " + t.Token},
	}})
	if err != nil && resp != nil {
		err = fmt.Errorf("answered %d: %w", resp.StatusCode, err)
	}
	t.demand(err == nil, "open a WebSocket: %w", err)
	defer func() { _ = conn.Close(websocket.StatusNormalClosure, "") }() // the server may have gone first
	conn.SetReadLimit(maxBody)
	f(&session{t: t, conn: conn})
}

// create sends one response.create and waits for the end of its turn.
func (c *session) create(m message) turn {
	out := message{"type": "response.create", "model": c.t.Model}
	maps.Copy(out, m)
	return c.request(encode(out))
}

// request sends a text frame and reads up to a terminal event, an error event,
// or an event that carries an error code.
func (c *session) request(frame []byte) (got turn) {
	if c.broken == nil {
		c.broken = c.converse(frame, &got)
	}
	if c.broken != nil {
		got.errs = append(got.errs, fmt.Errorf("the connection failed after %d events: %w", len(got.frames), c.broken))
	}
	return got
}

func (c *session) converse(frame []byte, got *turn) error {
	ctx, cancel := context.WithTimeout(c.t.ctx, turnLimit)
	defer cancel()
	if err := c.conn.Write(ctx, websocket.MessageText, frame); err != nil {
		return err
	}
	for {
		kind, data, err := c.conn.Read(ctx)
		if err != nil {
			return err
		}
		if kind != websocket.MessageText || string(data) == "[DONE]" {
			got.errs = append(got.errs, fmt.Errorf("a frame is not an event: %.100q", data))
			return nil
		}
		if got.take(c.t, data) {
			return nil
		}
	}
}

// take notes one event and reports whether it ends the turn.
func (got *turn) take(t *trial, data []byte) (ends bool) {
	got.frames = append(got.frames, data)
	typ, response, err := t.officialEvent(data)
	if err != nil {
		got.errs = append(got.errs, err)
	}
	var ev struct {
		Status int `json:"status"`
		Error  *struct {
			Code any `json:"code"`
		} `json:"error"`
	}
	_ = json.Unmarshal(data, &ev) // officialEvent has complained
	if ev.Error != nil {
		got.code, _ = ev.Error.Code.(string)
		got.status = ev.Status
	}
	if typ == "error" && got.code == "" {
		got.errs = append(got.errs, fmt.Errorf("an error has no code: %.300s", data))
	}
	if isTerminal(typ) && got.code == "" {
		got.response = response
	}
	return typ == "error" || got.code != "" || got.response != nil
}

func (got turn) clean(t *trial) resource {
	t.must(errors.Join(got.errs...))
	t.demand(got.code == "", "the turn failed: %s", got.code)
	return t.resource(got.response)
}

func (got turn) completed(t *trial) resource {
	r := got.clean(t)
	t.demand(r.str("status") == "completed", "the response is %q: %v", r.str("status"), r["error"])
	return r
}

func (c *session) clean(m message) resource     { return c.create(m).clean(c.t) }
func (c *session) completed(m message) resource { return c.create(m).completed(c.t) }

// notFound demands that a turn ends because of its previous response, with an error event or a failed response.
func (c *session) notFound(m message) {
	got := c.create(m)
	var failed struct {
		Error struct {
			Code string `json:"code"`
		} `json:"error"`
	}
	if got.response != nil {
		c.t.must(json.Unmarshal(got.response, &failed))
	}
	c.t.errs = append(c.t.errs, got.errs...)
	code := cmp.Or(got.code, failed.Error.Code)
	c.t.expect(code == "previous_response_not_found", "the turn has error code %q, want previous_response_not_found",
		code)
}
