package agentd_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"holon/agentd"
	"holon/agentd/config"
	"holon/responses"
	"holon/responses/conform"
	"holon/responses/conform/schema"
	"holon/responses/turns"
)

// The cases of the official suite that need a WebSocket or a compaction.
func TestSocketConformance(t *testing.T) {
	h := start(t, func(c *config.Config, _ *agentd.Parts) { c.Server.Listen = "127.0.0.1:0" })
	ref := h.scenario("hello", hello)
	cases := slices.DeleteFunc(conform.Cases(), func(c conform.Case) bool {
		return !strings.HasPrefix(c.ID, "websocket-") && !strings.HasPrefix(c.ID, "compact-") && c.ID != "input tokens"
	})
	if len(cases) < 10 {
		t.Fatalf("only %d cases are left", len(cases))
	}
	doc, err := schema.Official()
	if err != nil {
		t.Fatal(err)
	}
	target := conform.Target{BaseURL: "http://agentd/v1", Socket: h.cfg.Server.Socket, Model: ref, Schemas: doc}
	t.Run("unix", func(t *testing.T) { conform.Run(t, target, cases) })
	target.BaseURL, target.Socket = "http://"+h.tcp, ""
	t.Run("tcp", func(t *testing.T) { conform.Run(t, target, cases) })
}

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
	if err != nil {
		h.t.Fatal(err)
	}
	conn.SetReadLimit(1 << 30)
	h.t.Cleanup(func() { _ = conn.CloseNow() })
	return &ws{h.t, conn}
}

func (w *ws) send(text string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	if err := w.conn.Write(ctx, websocket.MessageText, []byte(text)); err != nil {
		w.t.Fatal(err)
	}
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
	if err != nil {
		w.t.Fatal(err)
	}
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
	if resp.OutputText() != "Hello there." {
		t.Errorf("the answer is %q", resp.OutputText())
	}
	again := h.post(`{"model":"`+ref+`",`+fields+`,"stream":true}`, "Accept", "application/x-ndjson")
	if !bytes.Equal(again.body, got) {
		t.Errorf("by POST the same request gives %.500s", again.body)
	}
}

func TestSocketKeepsWhatIsNotStored(t *testing.T) {
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
	switch {
	case second.OutputText() != "You said pear":
		t.Errorf(`second.OutputText() = %q, want "You said pear"`, second.OutputText())
	case second.PreviousResponseID == nil:
		t.Error("second.PreviousResponseID = nil, want a value")
	case *second.PreviousResponseID != first.ID:
		t.Errorf("*second.PreviousResponseID = %q, want %q", *second.PreviousResponseID, first.ID)
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
	switch e, status := w.failed(); {
	case e.Code != responses.CodePreviousNotFound:
		t.Errorf("an unstored response on another connection: e.Code = %q, want %q", e.Code,
			responses.CodePreviousNotFound)
	case status != 404:
		t.Errorf("an unstored response on another connection: status = %d, want 404", status)
	case e.Param != "previous_response_id":
		t.Errorf(`an unstored response on another connection: e.Param = %q, want "previous_response_id"`, e.Param)
	}
}

// A continuation that fails takes what it continued with it, whether it was
// refused or its turn failed; another failure does not.
func TestSocketForgetsAfterAFailure(t *testing.T) {
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
		switch e, status := w.failed(); {
		case want.code != "" && e.Code != want.code:
			t.Errorf(`%.80q: want.code != "" && e.Code != want.code, want the contrary`, text)
		case e.Param != want.param:
			t.Errorf("%.80q: e.Param = %q, want %q", text, e.Param, want.param)
		case status != 400:
			t.Errorf("%.80q: status = %d, want 400", text, status)
		case e.Message == "":
			t.Errorf(`%.80q: e.Message = "", want another value`, text)
		case strings.Contains(e.Message, "\n"):
			t.Errorf("%.80q: e.Message = %q, want it without %q", text, e.Message, "\n")
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := w.conn.Write(ctx, websocket.MessageBinary, []byte(create(`"input":"x"`))); err != nil {
		t.Fatal(err)
	}
	if e, status := w.failed(); e.Code != responses.CodeUnsupportedMediaType || status != 415 {
		t.Errorf("a binary frame: %d %v", status, e)
	}
	w.create(`"model":"` + ref + `","input":"x"`)
	if _, resp := w.turn(); resp.Status != responses.StatusCompleted {
		t.Errorf("after all that the turn is %s", resp.Status)
	}
}

func create(fields string) string { return `{"type":"response.create",` + fields + `}` }

// Messages that come while a turn runs are answered in their order, and those
// that are too many are refused in theirs.
func TestSocketQueue(t *testing.T) {
	h := start(t)
	ref := h.scenario("hello", hello)
	w := h.dial()
	w.create(`"input":"first"`)
	h.gate.wait(t, 1)
	const more = 20
	for i := range more {
		w.create(fmt.Sprintf(`"model":%q,"input":"x","metadata":{"n":"%d"}`, ref, i))
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	go func() { _, _ = h.try(ctx, http.MethodGet, "/health", "") }() // the server is busy and still answers
	h.gate.release <- struct{}{}
	if _, resp := w.turn(); resp.OutputText() != "Working. Done." {
		t.Errorf("the first is %q", resp.OutputText())
	}
	served := 0
	for i := range more {
		data := w.frame()
		ev, err := responses.DecodeEvent(data)
		if err != nil {
			t.Fatal(err)
		}
		if ev.Type == responses.EventError {
			if ev.Error.Code != responses.CodeQueueFull {
				t.Errorf("refused: %s", data)
			}
			continue
		}
		if got := ev.Response.Metadata["n"]; got != fmt.Sprint(i) {
			t.Errorf("answer %d is that of message %s", i, got)
		}
		served++
		w.turn()
	}
	if served != 16 {
		t.Errorf("%d of %d messages had room", served, more)
	}
	w.create(`"model":"` + ref + `","input":"x"`)
	w.turn()
}

// A client that never stops asking is cut off.
func TestSocketFlood(t *testing.T) {
	h := start(t)
	w := h.dial()
	w.create(`"input":"first"`)
	h.gate.wait(t, 1)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for range 200 {
		if w.conn.Write(ctx, websocket.MessageText, []byte(`{}`)) != nil {
			break
		}
	}
	for {
		if _, _, err := w.conn.Read(ctx); err != nil {
			if code := websocket.CloseStatus(err); code != websocket.StatusPolicyViolation {
				t.Errorf("ended with %d: %v", code, err)
			}
			break
		}
	}
	close(h.gate.release)
}

func TestSocketTooLarge(t *testing.T) {
	h := start(t)
	conn := h.upgrade(t)
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	// A frame with a mask of zeros: what a client's library does to each byte takes longer than the rest.
	head := binary.BigEndian.AppendUint64([]byte{0x81, 0x80 | 127}, responses.MaxRequest+1)
	if _, err := conn.Write(append(head, 0, 0, 0, 0)); err != nil {
		t.Fatal(err)
	}
	chunk := make([]byte, 1<<20)
	for range responses.MaxRequest >> 20 {
		if _, err := conn.Write(chunk); err != nil {
			t.Fatalf("a message that is not too large yet: %v", err)
		}
	}
	if _, err := conn.Write(chunk[:1]); err != nil {
		t.Fatal(err)
	}
	answer, _ := io.ReadAll(conn) // it ends with a reset, since the server does not read on
	want := binary.BigEndian.AppendUint16(nil, uint16(websocket.StatusMessageTooBig))
	switch {
	case len(answer) < 4:
		t.Errorf("len(answer) = %d (%q), want at least 4", len(answer), answer)
	case answer[0] != 0x88:
		t.Errorf("answer[0] = %d, want 0x88", answer[0])
	case !bytes.Equal(answer[2:4], want):
		t.Errorf("answer[2:4] = %q, want %q", answer[2:4], want)
	}
}

// Frames that break the protocol end their connection and nothing else.
func TestSocketHostileFrames(t *testing.T) {
	h := start(t)
	ref := h.scenario("hello", hello)
	text := func(first byte, length uint64, payload string) string { // a masked frame, with a mask of zeros
		var b bytes.Buffer
		b.Write([]byte{first, 0x80 | 127})
		_ = binary.Write(&b, binary.BigEndian, length) // to memory
		b.WriteString("\x00\x00\x00\x00" + payload)
		return b.String()
	}
	for name, frames := range map[string]string{
		"not masked":           "\x81\x02{}",
		"reserved bits":        "\xf1\x80\x00\x00\x00\x00",
		"compressed":           "\xc1\x80\x00\x00\x00\x00",
		"unknown opcode":       "\x83\x80\x00\x00\x00\x00",
		"a stray continuation": "\x80\x80\x00\x00\x00\x00",
		"a message in another": "\x01\x80\x00\x00\x00\x00\x81\x80\x00\x00\x00\x00",
		"a long ping":          "\x89\xfe\x01\x00\x00\x00\x00\x00" + strings.Repeat("x", 256),
		"a ping in parts":      "\x09\x80\x00\x00\x00\x00",
		"a bad close":          "\x88\x81\x00\x00\x00\x00x",
		"a negative length":    text(0x81, 1<<63, ""),
		"larger than memory":   text(0x81, 1<<62, "x"),
		"not a frame":          "GET / HTTP/1.1\r\n\r\n",
		"half a frame":         "\x81\x85\x00\x00",
	} {
		t.Run(name, func(t *testing.T) {
			conn := h.upgrade(t)
			if _, err := io.WriteString(conn, frames); err != nil {
				t.Fatal(err)
			}
			if name == "half a frame" || name == "larger than memory" {
				return // it waits for the rest, which never comes
			}
			if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error("the connection stays open")
			}
		})
	}
	w := h.dial()
	w.create(`"model":"` + ref + `","input":"x"`)
	w.turn()
}

// upgrade returns a bare connection after the handshake.
func (h *harness) upgrade(t *testing.T) net.Conn {
	t.Helper()
	conn, err := net.Dial("unix", h.cfg.Server.Socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := io.WriteString(conn, "GET /responses HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, "+
		"Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: "+
		"AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Extensions: permessage-deflate\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	switch {
	case resp.StatusCode != http.StatusSwitchingProtocols:
		t.Fatalf("resp.StatusCode = %d, want %d", resp.StatusCode, http.StatusSwitchingProtocols)
	case resp.Header.Get("Sec-WebSocket-Extensions") != "":
		t.Fatalf(`resp.Header.Get("Sec-WebSocket-Extensions") = %q, want ""`, resp.Header.Get(
			"Sec-WebSocket-Extensions"))
	case r.Buffered() > 0:
		t.Fatalf("r.Buffered() = %d, want at most 0", r.Buffered())
	}
	return conn
}

func TestSocketHandshake(t *testing.T) {
	h := start(t)
	good := map[string]string{"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
		"Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA=="}
	for name, c := range map[string]struct {
		header, value string
		status        int
		code, param   string
	}{
		"no upgrade":       {"Upgrade", "", 405, responses.CodeMethodNotAllowed, ""},
		"no connection":    {"Connection", "close", 405, responses.CodeMethodNotAllowed, ""},
		"another protocol": {"Upgrade", "h2c", 405, responses.CodeMethodNotAllowed, ""},
		"a web page":       {"Origin", "http://agentd", 403, responses.CodeForbidden, "Origin"},
		"another version":  {"Sec-WebSocket-Version", "8", 400, responses.CodeInvalidValue, "Sec-WebSocket-Version"},
		"a short key":      {"Sec-WebSocket-Key", "AAAA", 400, responses.CodeInvalidValue, "Sec-WebSocket-Key"},
	} {
		var header []string
		for key, value := range good {
			if key != c.header {
				header = append(header, key, value)
			}
		}
		if c.value != "" {
			header = append(header, c.header, c.value)
		}
		a := h.do(http.MethodGet, "/responses", "", header...)
		switch e := a.failure(t); {
		case a.status != c.status:
			t.Errorf("%s: a.status = %d, want %d", name, a.status, c.status)
		case e.Code != c.code:
			t.Errorf("%s: e.Code = %q, want %q", name, e.Code, c.code)
		case e.Param != c.param:
			t.Errorf("%s: e.Param = %q, want %q", name, e.Param, c.param)
		}
	}
}

// The TCP listener admits to a WebSocket whom it admits elsewhere.
func TestSocketGuard(t *testing.T) {
	file := t.TempDir() + "/token"
	const token = "0123456789abcdef0123456789abcdef"
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	h := start(t, func(c *config.Config, _ *agentd.Parts) { c.Server.Listen, c.Server.TokenFile = "127.0.0.1:0", file })
	for name, c := range map[string]struct {
		header http.Header
		status int
	}{
		"no token":    {http.Header{}, 401},
		"wrong token": {http.Header{"Authorization": {"Bearer x"}}, 401},
		"a web page":  {http.Header{"Authorization": {"Bearer " + token}, "Origin": {"http://" + h.tcp}}, 403},
		"the token":   {http.Header{"Authorization": {"Bearer " + token}}, 101},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		conn, resp, err := websocket.Dial(ctx, "ws://"+h.tcp+"/responses", &websocket.DialOptions{HTTPHeader: c.header})
		cancel()
		if err == nil {
			_ = conn.CloseNow()
		}
		if resp == nil || resp.StatusCode != c.status {
			t.Errorf("%s: %v, %v", name, resp, err)
		}
	}
}

func TestSocketDisconnect(t *testing.T) {
	h := start(t)
	for name, c := range map[string]struct {
		fields string
		status responses.Status
	}{
		"stored":             {``, responses.StatusCompleted},
		"not stored":         {`"store":false,`, responses.StatusCancelled},
		"stored, but cancel": {`"holon":{"turn_id":"turn_c","on_disconnect":"cancel"},`, responses.StatusCancelled},
		"not stored, goes on": {`"store":false,"holon":{"turn_id":"turn_d","on_disconnect":"continue"},`,
			responses.StatusCompleted},
	} {
		t.Run(name, func(t *testing.T) {
			id := map[string]string{"stored, but cancel": "turn_c", "not stored, goes on": "turn_d"}[name]
			if id == "" {
				id = "turn_" + strings.ReplaceAll(name, " ", "_")
				c.fields += `"holon":{"turn_id":"` + id + `"},`
			}
			w := h.dial()
			w.create(c.fields + `"input":"x"`)
			h.gate.wait(t, 1)
			w.create(`"input":"never"`)
			if err := w.conn.CloseNow(); err != nil {
				t.Fatal(err)
			}
			if c.status == responses.StatusCompleted {
				h.gate.release <- struct{}{}
			}
			eventually(t, "the turn is "+string(c.status), func() bool { return h.record(id).Status == c.status })
			eventually(t, "no turn is left", func() bool {
				health := h.health()
				return health.ActiveTurns+health.QueuedTurns == 0
			})
		})
	}
}

// At the end of its lifetime a connection tells its turn to the end first.
func TestSocketLifetime(t *testing.T) {
	h := start(t, func(c *config.Config, _ *agentd.Parts) { c.WebSocket.Lifetime = 500 * time.Millisecond })
	w := h.dial()
	w.create(`"input":"x"`)
	h.gate.wait(t, 1)
	// One that is idle ends when its lifetime is over. It began later, so that of the
	// first is over too, while the turn runs.
	if e, _ := h.dial().failed(); e.Code != responses.CodeConnectionLimit {
		t.Errorf("an idle one is told %v, want %s", e, responses.CodeConnectionLimit)
	}
	w.create(`"input":"too late"`)
	h.gate.release <- struct{}{}
	if _, resp := w.turn(); resp.Status != responses.StatusCompleted {
		t.Errorf("the turn is %s", resp.Status)
	}
	if e, status := w.failed(); e.Code != responses.CodeConnectionLimit || status != 400 {
		t.Errorf("%d %v", status, e)
	}
	if code := w.closed(); code != websocket.StatusNormalClosure {
		t.Errorf("ended with %d", code)
	}
}

// At a shutdown the running turn is told to its end, new ones are refused, and
// every connection ends as one whose server goes away.
func TestSocketShutdown(t *testing.T) {
	h := start(t, func(c *config.Config, _ *agentd.Parts) { c.Turns.Grace = patience })
	idle, busy := h.dial(), h.dial()
	busy.create(`"input":"x"`)
	h.gate.wait(t, 1)
	h.server.Shutdown()
	eventually(t, "it drains", func() bool { return h.health().Status == turns.HealthDraining })
	idle.create(`"input":"x"`)
	if e, status := idle.failed(); e.Code != responses.CodeDraining || status != 503 {
		t.Errorf("a new turn: %d %v", status, e)
	}
	h.gate.release <- struct{}{}
	if _, resp := busy.turn(); resp.Status != responses.StatusCompleted {
		t.Errorf("the running turn is %s", resp.Status)
	}
	for name, w := range map[string]*ws{"idle": idle, "busy": busy} {
		if code := w.closed(); code != websocket.StatusGoingAway {
			t.Errorf("%s: ended with %d", name, code)
		}
	}
	if err := h.stop(); err != nil {
		t.Error(err)
	}
}

// A peer that neither reads nor answers holds nothing up: neither its turn nor a
// shutdown, which ends the connection.
func TestSocketStalledReader(t *testing.T) {
	h := start(t)
	ref := h.scenario("long", "rounds: [{repeat: {text: '"+strings.Repeat("x", 500)+"', count: 5000}}]")
	conn := h.upgrade(t)
	message := create(`"model":"` + ref + `","input":"x","holon":{"turn_id":"turn_flood"}`)
	frame := append([]byte{0x81, 0x80 | byte(len(message))}, 0, 0, 0, 0)
	if _, err := conn.Write(append(frame, message...)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the turn ends without its reader", func() bool {
		_, err := os.Stat(h.file("turn_flood", turns.RecordFile))
		return err == nil && h.record("turn_flood").Status == responses.StatusCompleted
	})
	began := time.Now()
	if err := h.stop(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > patience {
		t.Errorf("the server ended after %s", took)
	}
}

// Pings of either side keep a connection, however long it is idle.
func TestSocketPings(t *testing.T) {
	h := start(t, func(c *config.Config, _ *agentd.Parts) { c.WebSocket.Ping = 20 * time.Millisecond })
	ref := h.scenario("hello", hello)
	pinged := make(chan struct{}, 100)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	conn, _, err := websocket.Dial(ctx, "ws://agentd/responses",
		&websocket.DialOptions{HTTPClient: h.http, OnPingReceived: func(context.Context, []byte) bool {
			select {
			case pinged <- struct{}{}:
			default:
			}
			return true
		}})
	if err != nil {
		t.Fatal(err)
	}
	w := &ws{t, conn}
	defer func() { _ = conn.CloseNow() }()
	frames := make(chan []byte, 1000)
	go func() {
		defer close(frames)
		for {
			_, data, err := conn.Read(ctx)
			if err != nil {
				return
			}
			frames <- data
		}
	}()
	for range 3 {
		select {
		case <-pinged:
		case <-ctx.Done():
			t.Fatal("the server does not ping")
		}
	}
	if err := conn.Ping(ctx); err != nil {
		t.Errorf("the server answers no ping: %v", err)
	}
	w.create(`"model":"` + ref + `","input":"x"`)
	for data := range frames {
		if ev, err := responses.DecodeEvent(data); err != nil || responses.Terminal(ev.Type) {
			break
		}
	}
	if ctx.Err() != nil {
		t.Error("the turn has no end")
	}
}
