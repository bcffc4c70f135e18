package openresponses_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"holon/responses"
	"holon/test/expect"
)

const call = `
turns:
- rounds: [{calls: [{tool: weather, arguments: {city: Rome}}]}, {text: "It rains."}]
`

// No client hears of the end of a turn before the session has saved it.
func TestEndsAreHeld(t *testing.T) {
	t.Parallel()
	d := open(t)
	d.saving = make(chan struct{})
	socket := d.socket("ann")
	for name, ask := range map[string]func() string{
		"whole": func() string { return d.post(`{"model":"scripted/talk","input":"hi"}`).body },
		"SSE":   func() string { return d.post(`{"model":"scripted/talk","input":"hi","stream":true}`).body },
		"Chat Completions": func() string {
			return d.do(http.MethodPost, "/v1/chat/completions",
				`{"model":"scripted/talk","messages":[{"role":"user","content":"hi"}],"stream":true}`).body
		},
		"WebSocket": func() string { lines, _ := socket.turn(`"model":"scripted/talk","input":"hi"`); return lines },
	} {
		answered := make(chan string, 1)
		go func() { answered <- ask() }()
		select {
		case <-answered:
			t.Errorf("%s: it was answered before it was saved", name)
			d.saving <- struct{}{}
			continue
		case d.saving <- struct{}{}:
		}
		expect.Contains(t, name, <-answered, "resp_")
	}
}

// A client's first request opens a session; JSON, SSE and NDJSON are what agentd has stored.
func TestCreateIsByteForByte(t *testing.T) {
	t.Parallel()
	d := open(t)
	for _, tc := range []struct{ accept, kind string }{
		{"application/json", "text/event-stream"}, {"application/x-ndjson", "application/x-ndjson"},
	} {
		a := d.post(`{"model":"scripted/talk","input":"hi","stream":true}`, "Accept", tc.accept)
		expect.Equal(t, "status", a.status, http.StatusOK)
		expect.Contains(t, "type", a.header.Get("Content-Type"), tc.kind)
		x := d.session(d.count() - 1)
		again := x.direct(http.MethodGet, "/responses/"+a.header.Get("X-Response-Id")+"?stream=true",
			http.Header{"Accept": {tc.accept}})
		expect.Equal(t, "stream", a.body, again.body)
	}
	a := d.post(`{"model":"scripted/talk","input":"hi"}`)
	x := d.session(2)
	again := x.direct(http.MethodGet, "/responses/"+a.response(t).ID, nil)
	expect.Equal(t, "response", a.body, again.body)
	expect.Equal(t, "length", a.header.Get("Content-Length"), fmt.Sprint(len(a.body)))
	expect.Equal(t, "session", a.response(t).Holon.SessionID, "sess_ses_2")
}

// What continues goes to the session that it continues; what does not opens one.
func TestRoutes(t *testing.T) {
	t.Parallel()
	d := open(t)
	first := d.post(`{"model":"scripted/talk","input":"hi","holon":{"session_id":"mine"}}`).response(t)
	next := d.post(`{"model":"scripted/talk","input":"on","previous_response_id":"` + first.ID + `"}`).response(t)
	expect.Contains(t, "text", fmt.Sprint(next.OutputText()), "Once more.")
	named := d.post(`{"model":"scripted/talk","input":"hi","holon":{"session_id":"mine"}}`).response(t)
	expect.Equal(t, "session", named.Holon.SessionID, first.Holon.SessionID)
	item := first.Output[0].ItemID()
	body := `{"model":"scripted/talk","input":[{"role":"user","content":"hi"},{"type":"item_reference","id":"` + item +
		`"},{"role":"user","content":"on"}]}`
	expect.Equal(t, "session", d.post(body).response(t).Holon.SessionID, first.Holon.SessionID)
	expect.Equal(t, "sessions", d.count(), 1)

	bob := []string{"Authorization", "Bearer bob"}
	previous := `{"model":"scripted/talk","input":"on","previous_response_id":"%s"}`
	for _, header := range [][]string{bob, nil} {
		id := first.ID
		if header == nil {
			id = "resp_unknown"
		}
		d.post(fmt.Sprintf(previous, id), header...).is(t, 404, "previous_response_not_found", "previous_response_id")
	}
	d.post(body, bob...).is(t, 404, "item_not_found", "input[1].id")
	d.post(`{"model":"scripted/talk","input":"on","previous_response_id":"`+first.ID+
		`","holon":{"session_id":"other"}}`).is(t, 404, "previous_response_not_found", "previous_response_id")
	d.post(`{"model":"scripted/talk","input":"on","holon":{"workspace":"/elsewhere"}}`).
		is(t, 400, "workspace_not_allowed", "holon.workspace")
	broken := d.post(`{"model":"scripted/talk","input":"on","holon":{"workspace":"/broken"}}`)
	broken.is(t, 400, "broken_repository", "holon.workspace")
	hidden := d.post(`{"model":"scripted/talk","input":"on","holon":{"workspace":"/gone"}}`)
	hidden.is(t, 500, "server_error", "")
	taken := d.post(`{"model":"scripted/talk","input":"on","holon":{"workspace":"/taken-over"}}`)
	taken.is(t, 503, "agent_elsewhere", "")
	expect.Equal(t, "retry", taken.header.Get("X-Should-Retry")+taken.header.Get("Retry-After"), "true1")
	if text := broken.body + hidden.body + taken.body; strings.Contains(text, d.dir) {
		t.Errorf("a path of the host is shown: %s", text)
	}
	d.post(`{"input":7}`).is(t, 400, "invalid_value", "input")
	for _, key := range []string{"workspace", "image"} {
		for _, value := range []string{"null", `""`, "7", "[]"} {
			d.post(`{"input":"x","holon":{"`+key+`":`+value+`}}`).is(t, 400, "invalid_value", "holon."+key)
		}
	}
	d.post(`{"input":"x"}`, "Content-Encoding", "gzip").is(t, 415, "unsupported_media_type", "Content-Encoding")
	d.post(`{"input":"x"}`, "Content-Type", "application/json; charset=utf-16").is(t, 415, "unsupported_media_type",
		"Content-Type")
	d.post(`{"input":"x"}`, "Authorization", "Bearer none").is(t, 403, "forbidden", "model")
	d.post(`{"input":"x"}`, "Authorization", "").is(t, 401, "unauthorized", "")

	d.session(0).close()
	d.post(fmt.Sprintf(previous, first.ID)).is(t, 409, "session_closed", "previous_response_id")
	d.post(`{"model":"scripted/talk","input":"on","holon":{"session_id":"ses_0"}}`).
		is(t, 409, "session_closed", "holon.session_id")
	d.post(body).is(t, 404, "item_not_found", "input[1].id")
	expect.Equal(t, "sessions", d.count(), 1)
	other := d.post(`{"model":"scripted/talk","input":"hi","holon":{"session_id":"mine"}}`).response(t)
	expect.Equal(t, "session", other.Holon.SessionID, "sess_ses_1")
}

// A request that names its session alone is the session's next turn: it continues the last response that it can. What is
// not stored, deleted or cancelled is not continued, one that is made comes first, and the whole conversation of Chat
// Completions continues nothing.
func TestNextTurn(t *testing.T) {
	t.Parallel()
	d := open(t)
	named := func(more string) string {
		return `{"model":"scripted/talk","input":"on"` + more + `,"holon":{"session_id":"mine"}}`
	}
	first := d.post(named("")).response(t)
	if first.PreviousResponseID != nil {
		t.Errorf("the first turn continues %s", *first.PreviousResponseID)
	}
	continues := func(what, body, want string, header ...string) *responses.Response {
		t.Helper()
		resp := d.post(body, header...).response(t)
		got := ""
		if resp.PreviousResponseID != nil {
			got = *resp.PreviousResponseID
		}
		expect.Equal(t, what, got, want)
		return resp
	}
	key := []string{"Idempotency-Key", "k"}
	second := continues("a name", named(""), first.ID, key...)
	expect.Equal(t, "text", second.OutputText(), "Once more.")
	expect.Equal(t, "null is none", continues("null", named(`,"previous_response_id":null,"store":false`),
		second.ID).Store, false)
	continues("a response of one's own choice", named(`,"previous_response_id":"`+first.ID+`","store":false`), first.ID)
	expect.Equal(t, "again", continues("again", named(""), first.ID, key...).ID, second.ID)
	d.do(http.MethodDelete, "/v1/responses/"+second.ID, "")
	d.do(http.MethodDelete, "/v1/responses/"+second.ID, "").is(t, 404, "not_found", "id")
	expect.Equal(t, "deleted", strings.Join(d.session(0).deleted, " "), second.ID)
	continues("after one that was deleted", named(`,"store":false`), first.ID)
	_, last := d.socket("ann").turn(`"model":"scripted/talk","input":"on","holon":{"session_id":"mine"}`)
	continues("the id of the session", strings.Replace(named(`,"store":false`), "mine", "ses_0", 1), last.Response.ID)
	going := d.post(strings.Replace(named(`,"background":true`), "talk", "slow", 1)).response(t)
	d.post(named("")).is(t, 409, "previous_response_in_progress", "previous_response_id")
	d.do(http.MethodPost, "/v1/responses/"+going.ID+"/cancel", "")
	continues("after one that was cancelled", named(`,"store":false`), last.Response.ID)
	before := len(d.session(0).Line())
	d.do(http.MethodPost, "/v1/chat/completions", `{"model":"scripted/talk","store":true,"holon":{"session_id":"mine"},`+
		`"messages":[{"role":"user","content":"hi"}]}`)
	whole := d.session(0).Line()[before]
	if resp := d.do(http.MethodGet, "/v1/responses/"+whole, "").response(t); resp.PreviousResponseID != nil {
		t.Errorf("a whole conversation continues %s", *resp.PreviousResponseID)
	}
	expect.Equal(t, "sessions", d.count(), 1)
}

// Next turns that are asked for at once are one line: each that is made continues the one before.
func TestNextTurnsAtOnce(t *testing.T) {
	t.Parallel()
	d := open(t)
	for i := range 4 {
		body := fmt.Sprintf(`{"model":"scripted/talk","input":"on","holon":{"session_id":"mine%d"}}`, i)
		var both sync.WaitGroup
		answers := make([]answer, 3)
		for i := range answers {
			both.Go(func() { answers[i] = d.post(body) })
		}
		both.Wait()
		made := map[string]bool{}
		for _, a := range answers {
			if a.status == http.StatusConflict {
				a.is(t, 409, "previous_response_in_progress", "previous_response_id")
				continue
			}
			previous := ""
			if resp := a.response(t); resp.PreviousResponseID != nil {
				previous = *resp.PreviousResponseID
			}
			if made[previous] {
				t.Errorf("two turns continue %q", previous)
			}
			made[previous] = true
		}
	}
	expect.Equal(t, "sessions", d.count(), 4)
}

// What no request can continue opens a session that may be closed early: on a WebSocket the connection can.
func TestOnce(t *testing.T) {
	t.Parallel()
	d := open(t)
	const talk = `"model":"scripted/talk","input":"hi"`
	d.post(`{` + talk + `}`)
	d.post(`{` + talk + `,"store":false}`)
	d.do(http.MethodPost, "/v1/responses/input_tokens", `{`+talk+`}`)
	d.do(http.MethodPost, "/v1/chat/completions", `{"model":"scripted/talk","messages":[{"role":"user","content":"hi"}]}`)
	d.socket("ann").turn(talk + `,"store":false`)
	for i, want := range []bool{false, true, true, true, false} {
		expect.Equal(t, fmt.Sprint(i), d.session(i).ask.Once, want)
	}
}

// A request with the key, or the turn id, of an earlier one has its answer.
func TestRepeatedRequest(t *testing.T) {
	t.Parallel()
	d := open(t)
	for _, tc := range []struct {
		body        string
		header      []string
		code, param string
	}{
		{`{"model":"scripted/talk","input":"hi"}`, []string{"Idempotency-Key", "k1"}, "idempotency_conflict",
			"Idempotency-Key"},
		{`{"model":"scripted/talk","input":"hi","holon":{"turn_id":"turn_own"}}`, nil, "turn_conflict", "holon.turn_id"},
	} {
		before := d.count()
		var first, again answer
		var both sync.WaitGroup
		both.Go(func() { first = d.post(tc.body, tc.header...) })
		both.Go(func() { again = d.post(tc.body, tc.header...) })
		both.Wait()
		expect.Equal(t, "response", again.body, first.body)
		expect.Equal(t, "later", d.post(tc.body, tc.header...).body, first.body)
		expect.Equal(t, "sessions", d.count(), before+1)
		changed := d.post(strings.Replace(tc.body, "hi", "ho", 1), tc.header...)
		changed.is(t, 409, tc.code, tc.param)
		elsewhere := strings.Replace(strings.Replace(tc.body, `"holon":{`, `"holon":{"session_id":"x",`, 1), `"hi"}`,
			`"hi","holon":{"session_id":"x"}}`, 1)
		d.post(elsewhere, tc.header...).is(t, 409, tc.code, tc.param)
	}
	d.post(`{"model":"scripted/talk","input":"hi"}`, "Idempotency-Key", "schlüssel").
		is(t, 400, "invalid_value", "Idempotency-Key")
	d.post(`{"model":"scripted/talk","input":"hi"}`, "Idempotency-Key", "k1", "Authorization", "Bearer bob").response(t)
	const own = `{"model":"scripted/talk","input":"hi","holon":{"turn_id":"turn_own"}}`
	x, first := d.session(1), d.post(own)
	x.note("turn_lost") // of which agentd has nothing
	x.close()
	expect.Equal(t, "once it is closed", d.post(own).body, first.body)
	d.post(strings.Replace(own, "turn_own", "turn_lost", 1)).is(t, 409, "session_closed", "holon.session_id")
	expect.Equal(t, "sessions", d.count(), 3)
}

// A turn that agentd refuses answers as agentd does, and grants nothing for longer.
func TestRefusedTurn(t *testing.T) {
	t.Parallel()
	d := open(t)
	d.post(`{"model":"scripted/none","input":"hi"}`).is(t, 400, "scenario_not_found", "model")
	d.stop() // waits for the turn
}

// A turn that agentd made, and broke off before it said so, is answered all the same.
func TestUnansweredTurn(t *testing.T) {
	t.Parallel()
	d := open(t)
	const talk = `"model":"scripted/talk","input":"hi","holon":{"session_id":"mine"}`
	d.post("{" + talk + "}").response(t)
	x := d.session(0)
	x.cut = filepath.Join(x.host.Dir, "cut")
	cutOff(t, x.cut, x.host.Socket())
	expect.Equal(t, "text", d.post("{"+talk+"}").response(t).OutputText(), "Once more.")
	expect.Contains(t, "stream", d.post("{"+talk+`,"stream":true}`).body, "And again.")
	lines, last := d.socket("ann").turn(talk)
	expect.Equal(t, "last", last.Type, "response.completed")
	expect.Contains(t, "frames", lines, "The last time.")
}

// cutOff forwards what comes on a socket to a server, and ends each connection at the first answer but an upgrade.
func cutOff(t *testing.T, socket, target string) {
	t.Helper()
	listener, err := net.Listen("unix", socket)
	expect.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	forward := func(conn net.Conn) {
		defer conn.Close()
		server, err := net.Dial("unix", target)
		if err != nil {
			return
		}
		defer server.Close()
		go func() { _, _ = io.Copy(server, conn) }()
		answer := make([]byte, 32<<10)
		for {
			n, err := server.Read(answer)
			if err != nil || !bytes.HasPrefix(answer[:n], []byte("HTTP/1.1 101")) {
				return
			}
			_, _ = conn.Write(answer[:n])
		}
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go forward(conn)
		}
	}()
}
