package openresponses_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/coder/websocket"

	"holon/responses"
	"holon/test/expect"
)

// socket is a client's connection.
type socket struct {
	t    *testing.T
	conn *websocket.Conn
}

func (d *door) socket(name string) *socket {
	d.t.Helper()
	conn, _, err := websocket.Dial(d.t.Context(), d.url+"/v1/responses", &websocket.DialOptions{
		HTTPHeader: http.Header{"Authorization": {"Bearer " + name}}})
	expect.NoError(d.t, err)
	conn.SetReadLimit(1 << 20)
	d.t.Cleanup(func() { _ = conn.CloseNow() })
	return &socket{d.t, conn}
}

func (s *socket) send(fields string) {
	s.t.Helper()
	expect.NoError(s.t, s.conn.Write(s.t.Context(), websocket.MessageText,
		[]byte(`{"type":"response.create",`+fields+`}`)))
}

// frame is what tests look at.
type frame struct {
	Type     string
	Status   int
	Response struct{ ID string }
	Error    struct{ Code, Param string }
}

// turn sends a message and returns the lines of its answer, and the last of them.
func (s *socket) turn(fields string) (lines string, last frame) {
	s.t.Helper()
	s.send(fields)
	for last.Type != "error" && !responses.Terminal(last.Type) {
		_, text, err := s.conn.Read(s.t.Context())
		expect.NoError(s.t, err)
		last = frame{}
		expect.NoError(s.t, json.Unmarshal(text, &last))
		lines += string(text) + "\n"
	}
	return lines, last
}

// Frames are agentd's. On a connection each session has a tunnel, so that what is not stored can be continued, with a
// token for each turn.
func TestWebSocket(t *testing.T) {
	t.Parallel()
	d := open(t)
	s := d.socket("ann")
	const talk = `"model":"scripted/talk","input":"hi"`
	lines, first := s.turn(talk)
	want := d.session(0).direct(http.MethodGet, "/responses/"+first.Response.ID+"?stream=true",
		http.Header{"Accept": {"application/x-ndjson"}})
	expect.Equal(t, "frames", lines, want.body)

	_, unstored := s.turn(talk + `,"store":false`)
	lines, last := s.turn(talk + `,"store":false,"previous_response_id":"` + unstored.Response.ID + `"`)
	expect.Equal(t, "last", last.Type, "response.completed")
	expect.Contains(t, "text", lines, "Once more.")
	_, last = s.turn(talk + `,"previous_response_id":"` + first.Response.ID + `"`) // of the other session
	expect.Equal(t, "last", last.Type, "response.completed")
	expect.Equal(t, "sessions", d.count(), 2)

	for name, tc := range map[string]struct {
		fields string
		want   frame
	}{
		"unknown": {talk + `,"previous_response_id":"resp_x"`,
			refusal(404, "previous_response_not_found", "previous_response_id")},
		"streamed": {talk + `,"stream":true`, refusal(400, "unsupported_parameter", "stream")},
		"refused":  {`"model":"scripted/none","input":"hi"`, refusal(400, "scenario_not_found", "model")},
		"token":    {talk + `,"holon_model_token":"t"`, refusal(400, "unsupported_parameter", "holon_model_token")},
		"agent":    {`"model":"agent/a","input":"hi"`, refusal(400, "unsupported_parameter", "model")},
	} {
		_, got := s.turn(tc.fields)
		expect.Equal(t, name, got, tc.want)
	}
	_, last = d.socket("ann").turn(talk + `,"previous_response_id":"` + unstored.Response.ID + `"`)
	expect.Equal(t, "on another connection", last, refusal(404, "previous_response_not_found", "previous_response_id"))
	_, last = d.socket("bob").turn(talk + `,"previous_response_id":"` + first.Response.ID + `"`)
	expect.Equal(t, "of another", last, refusal(404, "previous_response_not_found", "previous_response_id"))
	repeated := talk + `,"holon":{"turn_id":"turn_own"}`
	lines, _ = s.turn(repeated)
	again, _ := s.turn(repeated)
	expect.Equal(t, "repeated", again, lines)
	d.do(http.MethodGet, "/v1/responses", "").is(t, 405, "method_not_allowed", "")
}

func refusal(status int, code, param string) (f frame) {
	f.Type, f.Status, f.Error.Code, f.Error.Param = "error", status, code, param
	return f
}

// The end of either side is the end of the other.
func TestWebSocketEnds(t *testing.T) {
	t.Parallel()
	d := open(t)
	s := d.socket("ann")
	s.send(`"model":"scripted/slow","input":"hi","store":false`)
	d.accepted(0)
	expect.NoError(t, s.conn.CloseNow())
	d.turns.Wait() // agentd ends a turn that no one can fetch

	s = d.socket("ann")
	s.send(`"model":"scripted/slow","input":"hi"`)
	d.accepted(1)
	d.session(1).host.Kill()
	for err := error(nil); err == nil; {
		_, _, err = s.conn.Read(t.Context())
	}
	s = d.socket("ann")
	s.send(`"model":"scripted/slow","input":"hi"`)
	d.accepted(2)
	d.stop()
	for err := error(nil); err == nil; {
		_, _, err = s.conn.Read(t.Context())
	}
}
