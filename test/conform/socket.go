package conform

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/coder/websocket"
)

// turnLimit is how long the official suite waits for a turn on a WebSocket.
const turnLimit = 30 * time.Second

// message is a response.create without its type and model.
type message map[string]any

// turn is what came back for one message.
type turn struct {
	events   int
	frames   [][]byte
	errs     []error // events that are not valid, or no end
	code     string  // of an error
	status   int     // of an error event
	response json.RawMessage
}

// session is one WebSocket connection.
type session struct {
	s      *Suite
	conn   *websocket.Conn
	broken error // why it cannot be used any more
}

// dial opens a WebSocket on /responses. The caller must close it.
func (s *Suite) dial(ctx context.Context) (*session, error) {
	url := "ws" + strings.TrimPrefix(s.BaseURL, "http") + "/responses"
	conn, resp, err := websocket.Dial(ctx, url, &websocket.DialOptions{HTTPClient: s.http, HTTPHeader: http.Header{
		"Content-Type": {"application/json"}, "Authorization": {"Bearer " + s.Token},
	}})
	if err != nil {
		if resp != nil {
			return nil, fmt.Errorf("open a WebSocket: answered %d: %w", resp.StatusCode, err)
		}
		return nil, fmt.Errorf("open a WebSocket: %w", err)
	}
	conn.SetReadLimit(maxBody)
	return &session{s: s, conn: conn}, nil
}

func (c *session) close() { _ = c.conn.Close(websocket.StatusNormalClosure, "") } // the server may have gone first

// create sends one response.create and waits for the end of its turn.
func (c *session) create(ctx context.Context, m message) turn {
	out := message{"type": "response.create", "model": c.s.Model}
	for key, v := range m {
		out[key] = v
	}
	return c.exchange(ctx, encode(out))
}

// exchange sends a text frame and reads up to a terminal event, an error event,
// or an event that carries an error code.
func (c *session) exchange(ctx context.Context, frame []byte) (t turn) {
	if c.broken != nil {
		t.errs = append(t.errs, fmt.Errorf("the connection had failed: %w", c.broken))
		return t
	}
	ctx, cancel := context.WithTimeout(ctx, turnLimit)
	defer cancel()
	if err := c.conn.Write(ctx, websocket.MessageText, frame); err != nil {
		c.broken = err
		t.errs = append(t.errs, fmt.Errorf("send: %w", err))
		return t
	}
	for {
		kind, data, err := c.conn.Read(ctx)
		if err != nil {
			c.broken = err
			t.errs = append(t.errs, fmt.Errorf("the turn has no end after %d events: %w", t.events, err))
			return t
		}
		if kind != websocket.MessageText {
			t.errs = append(t.errs, errors.New("a frame is not text"))
			return t
		}
		if string(data) == "[DONE]" {
			t.errs = append(t.errs, errors.New("[DONE] came before the end of this turn"))
			return t
		}
		if t.take(c.s, data) {
			return t
		}
	}
}

// take notes one event and reports whether it ends the turn.
func (t *turn) take(s *Suite, data []byte) (ends bool) {
	t.events++
	t.frames = append(t.frames, data)
	typ, response, err := s.officialEvent(data)
	if err != nil {
		t.errs = append(t.errs, err)
	}
	var ev struct {
		Status int `json:"status"`
		Error  *struct {
			Code any `json:"code"`
		} `json:"error"`
	}
	_ = json.Unmarshal(data, &ev) // officialEvent has complained
	if ev.Error != nil {
		t.code, _ = ev.Error.Code.(string)
		t.status = ev.Status
	}
	switch {
	case typ == "error" && t.code == "":
		t.errs = append(t.errs, fmt.Errorf("an error has no code: %.300s", data))
		return true
	case typ == "error" || t.code != "":
		return true
	case isTerminal(typ):
		t.response = response
		return true
	}
	return false
}

// clean demands a turn without errors and returns its response.
func (t turn) clean(s *Suite) (resource, error) {
	if err := t.fault(); err != nil {
		return nil, err
	}
	r, err := s.resource(t.response)
	return r, errors.Join(err, expect(t.events > 0, "there were no events"))
}

func (t turn) fault() error {
	return errors.Join(append(t.errs, expect(t.code == "", "the turn failed: %s", t.code))...)
}

// completed demands a clean turn that completed.
func (t turn) completed(s *Suite) (resource, error) {
	r, err := t.clean(s)
	if err == nil {
		err = expect(r.str("status") == "completed", "the response is %q: %v", r.str("status"), r["error"])
	}
	return r, err
}

// errorCode is the code of an error event, or of a failed response.
func (t turn) errorCode() string {
	if t.code != "" || t.response == nil {
		return t.code
	}
	var r struct {
		Error struct {
			Code string `json:"code"`
		} `json:"error"`
	}
	_ = json.Unmarshal(t.response, &r) // without one, the code stays empty
	return r.Error.Code
}

// notFound demands that a turn ended because of its previous response.
func (t turn) notFound() error {
	return errors.Join(append(t.errs, expect(t.errorCode() == "previous_response_not_found",
		"the turn has error code %q, want previous_response_not_found", t.errorCode()))...)
}
