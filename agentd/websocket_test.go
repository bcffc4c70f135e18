package agentd_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"holon/responses"
	"holon/responses/turns"
	"holon/test/expect"
)

// ws is a client's end of a connection.
type ws struct {
	t    *testing.T
	conn *websocket.Conn
}

func (h *harness) dial() *ws {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), patience)
	defer cancel()
	conn, _, err := websocket.Dial(ctx, "ws://agentd/v1/responses", &websocket.DialOptions{HTTPClient: h.http})
	expect.NoError(h.t, err)
	conn.SetReadLimit(1 << 30)
	h.t.Cleanup(func() { _ = conn.CloseNow() })
	return &ws{h.t, conn}
}

func (w *ws) send(text string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	expect.NoError(w.t, w.conn.Write(ctx, websocket.MessageText, []byte(text)))
}

// create sends a response.create with the given fields.
func (w *ws) create(fields string) {
	w.t.Helper()
	w.send(`{"type":"response.create",` + fields + `}`)
}

// frame reads one frame.
func (w *ws) frame() []byte {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	kind, data, err := w.conn.Read(ctx)
	expect.NoError(w.t, err)
	if kind != websocket.MessageText {
		w.t.Fatalf("a frame of kind %v", kind)
	}
	return data
}

// failed reads an error frame.
func (w *ws) failed() (e *responses.Error, status int) {
	w.t.Helper()
	data := w.frame()
	var frame struct {
		Type   string `json:"type"`
		Status int    `json:"status"`
	}
	if err := json.Unmarshal(data, &frame); err != nil || frame.Type != responses.EventError {
		w.t.Fatalf("no error frame: %.300s", data)
	}
	return responses.DecodeEnvelope(frame.Status, data), frame.Status
}

// turn reads the events of one turn and returns them as lines, and its response.
func (w *ws) turn() ([]byte, *responses.Response) {
	w.t.Helper()
	var all []byte
	for {
		data := w.frame()
		ev, err := responses.DecodeEvent(data)
		if err != nil || ev.Type == responses.EventError {
			w.t.Fatalf("%v: %.300s", err, data)
		}
		all = append(append(all, data...), '\n')
		if responses.Terminal(ev.Type) {
			return all, ev.Response
		}
	}
}

// closed waits for the end of the connection and returns its code.
func (w *ws) closed() websocket.StatusCode {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, data, err := w.conn.Read(ctx)
	if err == nil {
		w.t.Fatalf("instead of the end: %.300s", data)
	}
	return websocket.CloseStatus(err)
}

// What a client reads on a WebSocket is what lies on disk, and what the same
// turn gives by POST.
func TestSocketSendsTheEventLog(t *testing.T) {
	t.Parallel()
	h := start(t)
	ref := h.scenario("hello", hello)
	w := h.dial()
	const fields = `"input":"go","holon":{"turn_id":"turn_ws"}`
	w.create(`"model":"` + ref + `",` + fields)
	got, resp := w.turn()
	file, err := os.ReadFile(h.file("turn_ws", turns.EventsFile))
	if err != nil || !bytes.Equal(got, file) {
		t.Errorf("the frames are\n%s\nand the file\n%s (%v)", got, file, err)
	}
	expect.Equal(t, "the answer", resp.OutputText(), "Hello there.")
	again := h.post(`{"model":"`+ref+`",`+fields+`,"stream":true}`, "Accept", "application/x-ndjson")
	if !bytes.Equal(again.body, got) {
		t.Errorf("by POST the same request gives %.500s", again.body)
	}
}

func TestSocketKeepsWhatIsNotStored(t *testing.T) {
	t.Parallel()
	h := start(t)
	ref := h.scenario("memory", `
after_last_turn: diverge
turns:
  - rounds: [{calls: [{tool: ExecCommand, arguments: {cmd: echo plum}}]}, {text: Noted.}]
  - rounds: [{text: "You said {{last_user}}"}]
  - rounds: [{text: Third.}]
  - rounds: [{text: Fourth.}]
`)
	w := h.dial()
	ask := func(rest string) *responses.Response {
		t.Helper()
		w.create(`"model":"` + ref + `",` + rest)
		_, resp := w.turn()
		if resp.Status != responses.StatusCompleted {
			t.Fatalf("the turn is %s: %v", resp.Status, resp.Error)
		}
		return resp
	}
	first := ask(`"store":false,"input":"plum"`)
	if code := h.do(http.MethodGet, "/responses/"+first.ID, "").failure(t).Code; code != responses.CodeNotFound {
		t.Errorf("an unstored response: %s", code)
	}
	if e := h.post(`{"model":"` + ref + `","input":"x","previous_response_id":"` + first.ID +
		`"}`).failure(t); e.Code != responses.CodePreviousNotFound {
		t.Errorf("it is continued elsewhere: %v", e)
	}
	second := ask(`"store":false,"input":"pear","previous_response_id":"` + first.ID + `"`)
	if second.OutputText() != "You said pear" || second.PreviousResponseID == nil ||
		*second.PreviousResponseID != first.ID {
		t.Errorf("%+v, %+v", second, first)
	}
	// Any client can continue a stored response on top of it.
	third := ask(`"input":"kiwi","previous_response_id":"` + second.ID + `"`)
	fourth := h.post(`{"model":"` + ref + `","input":"fig","previous_response_id":"` + third.ID + `"}`).response(t)
	if fourth.OutputText() != "Fourth." {
		t.Errorf("the stored conversation goes on with %q, %v", fourth.OutputText(), fourth.Error)
	}
	// A stored response is continued on any connection.
	w = h.dial()
	w.create(`"model":"` + ref + `","store":false,"input":"fig","previous_response_id":"` + third.ID + `"`)
	if _, resp := w.turn(); resp.OutputText() != "Fourth." {
		t.Errorf("on another connection: %q", resp.OutputText())
	}
	w.create(`"model":"` + ref + `","store":false,"input":"x","previous_response_id":"` + second.ID + `"`)
	if e, status := w.failed(); e.Code != responses.CodePreviousNotFound || status != 404 ||
		e.Param != "previous_response_id" {
		t.Errorf("an unstored response on another connection: %+v, %+v", e, status)
	}
}

// A continuation that fails takes what it continued with it, whether it was
// refused or its turn failed; another failure does not.
func TestSocketForgetsAfterAFailure(t *testing.T) {
	t.Parallel()
	h := start(t)
	ref := h.scenario("fails", "turns:\n  - rounds: [{text: Fine.}]\n  - rounds: [{error: {status: 400, "+
		"message: no}}]\n")
	for name, c := range map[string]struct {
		fail  string // ID stands for the response
		turn  bool   // it fails as a turn
		keeps bool
	}{
		"an orphan output": {fail: `"previous_response_id":"ID","input":[{"type":"function_call_output",` +
			`"call_id":"c","output":"x"}]`},
		"a wrong field":     {fail: `"previous_response_id":"ID","input":5`},
		"a forbidden field": {fail: `"previous_response_id":"ID","input":"x","stream":null`},
		"a failed turn": {fail: `"previous_response_id":"ID","input":"x","model":"` + ref + `","store":false`,
			turn: true},
		"a foreign blob": {fail: `"previous_response_id":"ID","input":[{"type":"compaction",` +
			`"encrypted_content":"gAAAA"}]`},
		"another request": {fail: `"input":5`, keeps: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := h.dial()
			w.create(`"model":"` + ref + `","store":false,"input":"x"`)
			_, first := w.turn()
			w.create(strings.ReplaceAll(c.fail, "ID", first.ID))
			if c.turn {
				if _, resp := w.turn(); resp.Status != responses.StatusFailed {
					t.Fatalf("the turn is %s", resp.Status)
				}
			} else if e, status := w.failed(); status != 400 {
				t.Fatalf("%d %v", status, e)
			}
			w.create(`"model":"` + h.scenario("calm", "rounds: [{text: Fine.}]") +
				`","store":false,"input":"x","previous_response_id":"` + first.ID + `"`)
			if c.keeps {
				w.turn()
			} else if e, status := w.failed(); e.Code != responses.CodePreviousNotFound || status != 404 {
				t.Errorf("afterwards: %d %v", status, e)
			}
		})
	}
}

// An error frame holds what HTTP answers to the same request, and the
// connection goes on.
func TestSocketErrors(t *testing.T) {
	t.Parallel()
	h := start(t)
	ref := h.scenario("hello", hello)
	w := h.dial()
	for _, body := range []string{
		`{"input":5}`, `{"input":"x","previous_response_id":"resp_x"}`, `{"input":"x","model":"acme/x"}`,
		`{"input":"x","holon":{"colour":"red"}}`,
		`{"input":[{"type":"item_reference","id":"msg_x"}]}`, `{"input":"x","holon":{"workspace_dir":"/etc"}}`,
	} {
		a := h.post(body)
		w.create(body[1 : len(body)-1])
		frame := w.frame()
		want := fmt.Sprintf(`{"type":"error","status":%d,%s`, a.status, bytes.TrimSpace(a.body)[1:])
		if string(frame) != want {
			t.Errorf("%s gives\n%s\nwant\n%s", body, frame, want)
		}
	}
	for text, want := range map[string]struct{ code, param string }{
		"":                                 {responses.CodeInvalidJSON, ""},
		"null":                             {responses.CodeInvalidJSON, ""},
		"[]":                               {responses.CodeInvalidJSON, ""},
		"{":                                {responses.CodeInvalidJSON, ""},
		"\xff":                             {responses.CodeInvalidJSON, ""},
		strings.Repeat("[", 1000):          {responses.CodeInvalidJSON, ""},
		`{"input":"x"}`:                    {responses.CodeMissingParameter, "type"},
		`{"type":null,"input":"x"}`:        {responses.CodeInvalidValue, "type"},
		`{"type":"response.cancel"}`:       {responses.CodeInvalidValue, "type"},
		`{"type":["response.create"]}`:     {responses.CodeInvalidValue, "type"},
		create(`"stream":false`):           {responses.CodeUnsupportedParameter, "stream"},
		create(`"stream":null`):            {responses.CodeUnsupportedParameter, "stream"},
		create(`"Stream":true`):            {responses.CodeUnsupportedParameter, "stream"},
		create(`"stream_options":{}`):      {responses.CodeUnsupportedParameter, "stream_options"},
		create(`"background":null`):        {responses.CodeUnsupportedParameter, "background"},
		create(`"background":true`):        {responses.CodeUnsupportedParameter, "background"},
		create(`"input":"x","metadata":1`): {"", "metadata"},
	} {
		w.send(text)
		if e, status := w.failed(); want.code != "" && e.Code != want.code || e.Param != want.param ||
			status != 400 || e.Message == "" || strings.Contains(e.Message, "\n") {
			t.Errorf("%+v, %+v", e, status)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	expect.NoError(t, w.conn.Write(ctx, websocket.MessageBinary, []byte(create(`"input":"x"`))))
	if e, status := w.failed(); e.Code != responses.CodeUnsupportedMediaType || status != 415 {
		t.Errorf("a binary frame: %d %v", status, e)
	}
	w.create(`"model":"` + ref + `","input":"x"`)
	if _, resp := w.turn(); resp.Status != responses.StatusCompleted {
		t.Errorf("after all that the turn is %s", resp.Status)
	}
}

func create(fields string) string { return `{"type":"response.create",` + fields + `}` }
