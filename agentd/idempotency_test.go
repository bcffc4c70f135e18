package agentd_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"

	"holon/agentd"
	"holon/agentd/config"
	"holon/responses"
	"holon/responses/stream"
	"holon/test/expect"
)

const key = "Idempotency-Key"

func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	h := start(t)
	ref := h.scenario("hello", hello)
	body := `{"model":"` + ref + `","input":"hi"}`
	first := h.post(body, key, "a key").response(t)
	if again := h.post(body, key, "a key").response(t); again.ID != first.ID {
		t.Errorf("the same request gave %s and %s", first.ID, again.ID)
	}
	if s := h.post(`{"input":"hi","stream":true,"model":"`+ref+`"}`, key, "a key"); !bytes.Contains(s.body,
		[]byte(first.ID)) || !bytes.Contains(s.body, []byte(responses.EventCreated)) {
		t.Errorf("the same request as a stream: %.300s", s.body)
	}
	for _, other := range [][]string{{}, {key, "another"}} {
		if got := h.post(body, other...).response(t); got.ID == first.ID {
			t.Errorf("with %v came the same response", other)
		}
	}
	unstored := `{"model":"` + ref + `","input":"hi","store":false}`
	if one, two := h.post(unstored, key, "u").response(t), h.post(unstored, key, "u").response(t); one.ID != two.ID {
		t.Errorf("not stored: %s and %s", one.ID, two.ID)
	}
	other := strings.Replace(body, "hi", "ho", 1)
	conflict := h.post(other, key, "a key")
	conflict.refused(t, http.StatusConflict, responses.CodeIdempotencyConflict)
	if e := conflict.failure(t); e.Param != key {
		t.Errorf("the conflict is at %q, want %q", e.Param, key)
	}
	expect.Equal(t, "after a conflict X-Should-Retry", conflict.header.Get("X-Should-Retry"), "false")
	expect.NoError(t, h.stop())
	h2 := startIn(t, h.dir)
	if again := h2.post(body, key, "a key").response(t); again.ID != first.ID {
		t.Errorf("after a restart the key gave %s, want %s", again.ID, first.ID)
	}
	h2.post(other, key, "a key").refused(t, http.StatusConflict, responses.CodeIdempotencyConflict)
}

func TestIdempotencyKeyRefused(t *testing.T) {
	t.Parallel()
	h := start(t)
	body := `{"model":"` + h.scenario("hello", hello) + `","input":"hi"}`
	for _, bad := range []string{"", strings.Repeat("k", 256), "tab\tin it", "schlüssel"} {
		a := h.post(body, key, bad)
		if e := a.failure(t); a.status != http.StatusBadRequest || e.Param != key {
			t.Errorf("%q: %d %+v", bad, a.status, e)
		}
	}
	both := h.post(`{"input":"hi","holon":{"turn_id":"turn_a"}}`, key, "k")
	if e := both.failure(t); both.status != http.StatusBadRequest || e.Param != key || e.Hint == "" {
		t.Errorf("with a turn_id: %d %.300s, %+v, %+v", both.status, both.body, e, key)
	}
	if got := h.post(body, key, strings.Repeat("k", 255)).response(t); got.Status != responses.StatusCompleted {
		t.Errorf("the longest key: %s", got.Status)
	}
	// A refusal uses no key up.
	if a := h.post(`{"model":"scripted/none","input":"x"}`, key, "refused"); a.status != http.StatusBadRequest {
		t.Errorf("%d %s", a.status, a.body)
	}
	if got := h.post(body, key, "refused").response(t); got.Status != responses.StatusCompleted {
		t.Errorf("after a refusal: %s", got.Status)
	}
}

// Requests that come while the first one runs join it, from its beginning.
func TestIdempotencyKeyOfARunningTurn(t *testing.T) {
	t.Parallel()
	h := start(t)
	request := func(body string) <-chan answer {
		done := make(chan answer, 1)
		go func() {
			a, err := h.try(h.t.Context(), http.MethodPost, "/responses", body, key, "k")
			if err != nil {
				a.body = []byte(err.Error())
			}
			done <- a
		}()
		return done
	}
	var streams, whole []<-chan answer
	for range 4 {
		streams = append(streams, request(`{"input":"go","stream":true}`))
		whole = append(whole, request(`{"input":"go"}`))
	}
	h.gate.wait(t, 1)
	streams = append(streams, request(`{"input":"go","stream":true}`))
	if a := get(t, request(`{"input":"other"}`)); a.status != http.StatusConflict {
		t.Errorf("another request: %d %s", a.status, a.body)
	}
	close(h.gate.release)
	id := get(t, whole[0]).response(t).ID
	for _, a := range whole[1:] {
		expect.Equal(t, "the response", get(t, a).response(t).ID, id)
	}
	first := get(t, streams[0]).body
	for _, a := range streams[1:] {
		if got := get(t, a).body; !bytes.Equal(got, first) || !bytes.Contains(got, []byte(id)) {
			t.Errorf("the streams differ:\n%s\n%s", got, first)
		}
	}
	expect.Equal(t, "more samplings", len(h.gate.started), 0)
}

// A turn that ends with its client ends with the last of its clients.
func TestTheLastReaderLeaves(t *testing.T) {
	t.Parallel()
	for name, ends := range map[string]struct {
		keys string
		gone bool
	}{"cancel": {`"holon":{"turn_id":"turn_a","on_disconnect":"cancel"}`, true},
		"unstored":   {`"store":false,"holon":{"turn_id":"turn_a"}`, true},
		"continue":   {`"holon":{"turn_id":"turn_a"}`, false},
		"background": {`"background":true,"holon":{"turn_id":"turn_a"}`, false}} {
		t.Run(name, func(t *testing.T) {
			h := start(t)
			body := `{"input":"go","stream":true,` + ends.keys + `}`
			ctx1, leave1 := context.WithCancel(t.Context())
			ctx2, leave2 := context.WithCancel(t.Context())
			defer leave2()
			one := h.reader(ctx1, body)
			h.gate.wait(t, 1)
			if name != "background" { // which is answered at once where it is not streamed
				body = strings.Replace(body, `"stream":true`, `"stream":false`, 1)
			}
			two := h.later(ctx2, body)
			eventually(t, "the second is there", func() bool { return h.server.Clients("turn_a") == 2 })
			leave1()
			get(t, one)
			eventually(t, "the server notices", func() bool { return h.server.Clients("turn_a") == 1 })
			if status := h.record("turn_a").Status; status.Terminal() {
				t.Fatalf("with one reader left the turn is %s", status)
			}
			leave2()
			get(t, two)
			want := responses.StatusCancelled
			if !ends.gone {
				h.gate.release <- struct{}{}
				want = responses.StatusCompleted
			}
			eventually(t, "the turn ends", func() bool { return h.record("turn_a").Status.Terminal() })
			expect.Equal(t, "the turn", h.record("turn_a").Status, want)
		})
	}
}

// reader posts a streaming request and returns when its first event is there.
func (h *harness) reader(ctx context.Context, body string) <-chan answer {
	h.t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://agentd/responses", strings.NewReader(body))
	expect.NoError(h.t, err)
	req.Header.Set("Content-Type", "application/json")
	resp, err := h.http.Do(req)
	expect.NoError(h.t, err)
	if _, err := resp.Body.Read(make([]byte, 1)); err != nil {
		h.t.Fatal(err)
	}
	done := make(chan answer, 1)
	go func() {
		defer resp.Body.Close()
		var rest bytes.Buffer
		_, _ = rest.ReadFrom(resp.Body)
		done <- answer{status: resp.StatusCode, header: resp.Header, body: rest.Bytes()}
	}()
	return done
}

// refusal is a request that is refused, and how.
type refusal struct {
	name, keys string
	header     []string
	code       string
	status     int
	again      string
}

// check checks the answer to the request.
func (c refusal) check(t *testing.T, a answer) {
	t.Helper()
	if e := a.failure(t); a.status != c.status || c.code != "" && e.Code != c.code {
		t.Errorf("%d %s, want %d %s\n%.300s", a.status, e.Code, c.status, c.code, a.body)
	}
	wait := ""
	if c.again == "true" {
		wait = "1"
	}
	for name, want := range map[string]string{"Content-Type": "application/json", "X-Should-Retry": c.again,
		"Retry-After": wait} {
		if got := a.header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if got := a.header.Get("X-Request-Id"); !strings.HasPrefix(got, "req_") {
		t.Errorf("X-Request-Id is %q", got)
	}
	var env struct{ Error map[string]any }
	expect.NoError(t, json.Unmarshal(a.body, &env))
	for _, k := range []string{"message", "type", "code", "param"} {
		if _, ok := env.Error[k].(string); !ok {
			t.Errorf("%s is %v, want a string", k, env.Error[k])
		}
	}
}

// A refusal is the same in every framing.
func TestRefusalsInEveryFraming(t *testing.T) {
	t.Parallel()
	h := start(t, func(c *config.Config, _ *agentd.Parts) { c.Turns.Concurrency, c.Turns.QueueLimit = 1, 0 })
	held := h.later(t.Context(), `{"input":"go","holon":{"turn_id":"turn_held"}}`)
	h.gate.wait(t, 1)
	for _, c := range []refusal{
		{"invalid", `"input":5`, nil, responses.CodeInvalidValue, 400, "false"},
		{"previous", `"input":"x","previous_response_id":"resp_none"`, nil, responses.CodePreviousNotFound, 404,
			"false"},
		{"model", `"input":"x","model":"acme/x"`, nil, responses.CodeModelNotFound, 400, "false"},
		{"conflict", `"input":"x","holon":{"turn_id":"turn_held"}`, nil, responses.CodeTurnConflict, 409, "false"},
		{"full", `"input":"x"`, nil, responses.CodeQueueFull, 429, "true"},
		{"type", `"input":"x"`, []string{"Content-Type", "text/plain"}, responses.CodeUnsupportedMediaType, 415,
			"false"},
		{"charset", `"input":"x"`, []string{"Content-Type", "application/json; charset=utf-16"},
			responses.CodeUnsupportedMediaType, 415, "false"},
		{"packed", `"input":"x"`, []string{"Content-Encoding", "gzip"}, responses.CodeUnsupportedMediaType, 415,
			"false"},
		{"deep", `"input":` + strings.Repeat("[", 5000), nil, "", 400, "false"},
	} {
		var first []byte
		for _, framing := range []string{`"stream":false`, `"stream":true`, `"stream":true,"x":"ndjson"`,
			`"background":true`} {
			header := append([]string{"Accept", "application/json"}, c.header...)
			if strings.Contains(framing, "ndjson") {
				header[1] = stream.TypeNDJSON
			}
			t.Run(c.name+" "+framing, func(t *testing.T) {
				a := h.post("{"+framing+","+c.keys+"}", header...)
				c.check(t, a)
				if first == nil {
					first = a.body
				} else if !bytes.Equal(a.body, first) {
					t.Errorf("%s, but before %s", a.body, first)
				}
			})
		}
	}
	h.gate.release <- struct{}{}
	get(t, held)
}

// The failure of a turn is the same in every framing, at the end of the stream.
func TestFailuresInEveryFraming(t *testing.T) {
	t.Parallel()
	h := start(t)
	broken := h.scenario("broken", "rounds:\n  - error: {kind: context_length, message: Too much.}\n")
	asJSON := h.post(`{"model":"` + broken + `","input":"x"}`)
	want := asJSON.failure(t)
	if asJSON.header.Get("X-Should-Retry") != "false" {
		t.Errorf("a failed turn may be repeated: %v", asJSON.header)
	}
	for _, accept := range []string{stream.TypeSSE, stream.TypeNDJSON} {
		a := h.post(`{"model":"`+broken+`","input":"x","stream":true}`, "Accept", accept)
		if got := a.header.Get("Content-Type"); got != accept {
			t.Fatalf("Content-Type = %q, want %q", got, accept)
		}
		var last responses.Event
		for data, err := range stream.NewDecoder(bytes.NewReader(a.body), stream.Accepted(accept)).Events() {
			expect.NoError(t, err)
			if last, err = responses.DecodeEvent(data); err != nil {
				t.Fatal(err)
			}
			if last.Type == responses.EventError {
				t.Error("an error event came after the response was created")
			}
		}
		switch e := last.Response.Error; {
		case last.Type != responses.EventFailed:
			t.Errorf("%s: last.Type = %q, want %q", accept, last.Type, responses.EventFailed)
		case e.Code != want.Code:
			t.Errorf("%s: e.Code = %q, want %q", accept, e.Code, want.Code)
		case e.Message != want.Error():
			t.Errorf("%s: e.Message = %q, want %q", accept, e.Message, want.Error())
		case e.Type != want.Type:
			t.Errorf("%s: e.Type = %q, want %q", accept, e.Type, want.Type)
		}
		if a.header.Get("X-Should-Retry") != "false" {
			t.Errorf("a stream may be repeated: %v", a.header)
		}
	}
}

// Deleting makes a response unknown, and nothing else.
func TestDelete(t *testing.T) {
	t.Parallel()
	h := start(t)
	ref := h.scenario("hello", hello)
	resp := h.post(`{"model":"` + ref + `","input":"hi","stream":true,"holon":{"turn_id":"turn_a"}}`)
	id := h.record("turn_a").ResponseID
	next := h.post(`{"model":"` + ref + `","input":"hi","previous_response_id":"` + id + `"}`).response(t)
	gone := h.do(http.MethodDelete, "/v1/responses/"+id, "")
	if want := `{"id":"` + id + `","object":"response","deleted":true}` + "\n"; gone.status != http.StatusOK ||
		string(gone.body) != want {
		t.Errorf("%d %s", gone.status, gone.body)
	}
	for _, c := range [][2]string{{http.MethodDelete, ""}, {http.MethodGet, ""}, {http.MethodGet, "?stream=true"},
		{http.MethodGet, "/input_items"}, {http.MethodPost, "/cancel"}} {
		if a := h.do(c[0], "/responses/"+id+c[1], ""); a.status != http.StatusNotFound ||
			a.failure(t).Code != responses.CodeNotFound {
			t.Errorf("%v afterwards: %d %s", c, a.status, a.body)
		}
	}
	if a := h.post(`{"model":"` + ref + `","input":"hi","previous_response_id":"` + id +
		`"}`); a.failure(t).Code != responses.CodePreviousNotFound {
		t.Errorf("continued afterwards: %s", a.body)
	}
	if a := h.post(`{"model":"` + ref + `","input":"hi","previous_response_id":"` + next.ID +
		`"}`); a.response(t).Status != responses.StatusCompleted {
		t.Errorf("its successor: %s", a.body)
	}
	if _, err := os.Stat(h.file("turn_a", "turn.json")); err != nil {
		t.Errorf("the caller's files: %v", err)
	}
	if again := h.post(`{"model":"` + ref +
		`","input":"hi","stream":true,"holon":{"turn_id":"turn_a"}}`); !bytes.Equal(again.body, resp.body) {
		t.Errorf("the turn of a deleted response: %.300s", again.body)
	}
	running := h.begin(`{"input":"go","background":true}`)
	busy := h.do(http.MethodDelete, "/responses/"+running.ID, "")
	if e := busy.failure(t); busy.status != http.StatusConflict || e.Code != responses.CodeResponseInProgress ||
		busy.header.Get("X-Should-Retry") != "false" {
		t.Errorf("a running one: %d %.300s, %+v", busy.status, busy.body, e)
	}
	h.do(http.MethodPost, "/responses/"+running.ID+"/cancel", "")
	if a := h.do(http.MethodDelete, "/responses/"+running.ID, ""); a.status != http.StatusOK {
		t.Errorf("a cancelled one: %d %s", a.status, a.body)
	}
}
