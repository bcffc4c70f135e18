package openresponses_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"holon/responses"
	"holon/test/expect"
)

// Every route of a response answers as the agentd of its session does, and an unknown id like that of another.
func TestStoredResponses(t *testing.T) {
	t.Parallel()
	d := open(t)
	first := d.post(`{"model":"scripted/talk","input":"hi","stream":true}`)
	id := first.header.Get("X-Response-Id")
	x := d.session(0)
	for _, path := range []string{"/responses/" + id, "/responses/" + id + "?stream=true&starting_after=3",
		"/responses/" + id + "/input_items?limit=1"} {
		got, want := d.do(http.MethodGet, "/v1"+path, ""), x.direct(http.MethodGet, path, nil)
		expect.Equal(t, path, got.body, want.body)
		expect.Equal(t, path, got.status, want.status)
	}
	rest := d.do(http.MethodGet, "/v1/responses/"+id+"?stream=true&starting_after=3", "").body
	if !strings.HasSuffix(first.body, rest) || rest == "" {
		t.Errorf("the rest of the stream is %s", rest)
	}
	for _, query := range []string{"?stream=true", ""} {
		resumed := d.do(http.MethodGet, "/v1/responses/"+id+query, "", "Last-Event-ID", "3")
		expect.Equal(t, "resumed", resumed.body, rest)
	}
	inBody := d.do(http.MethodGet, "/v1/responses/"+id, `{"stream":true,"starting_after":3}`)
	expect.Equal(t, "asked in the body", inBody.body, rest)
	d.do(http.MethodGet, "/v1/responses/"+id, "", "Last-Event-ID", "x").is(t, 400, "invalid_value", "Last-Event-ID")

	for _, route := range [][2]string{{"GET", ""}, {"DELETE", ""}, {"POST", "/cancel"}, {"GET", "/input_items"}} {
		foreign := d.do(route[0], "/v1/responses/"+id+route[1], "", "Authorization", "Bearer bob")
		unknown := d.do(route[0], "/v1/responses/resp_unknown"+route[1], "")
		unknown.is(t, 404, "not_found", "id")
		expect.Equal(t, "foreign", strings.ReplaceAll(foreign.body, id, "resp_unknown"), unknown.body)
	}
	operators := d.do(http.MethodGet, "/v1/responses/"+id, "", "Authorization", "Bearer ops").response(t)
	expect.Equal(t, "an operator's look", operators.ID, id)
	own := x.direct(http.MethodGet, "/responses/resp_unknown", nil)
	expect.Equal(t, "unknown to agentd", own.body, d.do(http.MethodGet, "/v1/responses/resp_unknown", "").body)

	x.close() // what was said is still there
	expect.Equal(t, "cancelled", d.do(http.MethodPost, "/v1/responses/"+id+"/cancel", "").response(t).ID, id)
	expect.Equal(t, "deleted", d.do(http.MethodDelete, "/v1/responses/"+id, "").status, http.StatusOK)
	d.do(http.MethodGet, "/v1/responses/"+id, "").is(t, 404, "not_found", "id")
	d.do(http.MethodGet, "/v1/other", "").is(t, 404, "not_found", "")
	wrong := d.do(http.MethodDelete, "/v1/responses", "")
	wrong.is(t, 405, "method_not_allowed", "")
	expect.Equal(t, "allowed", wrong.header.Get("Allow"), "GET, POST")
}

func TestAside(t *testing.T) {
	t.Parallel()
	d := open(t)
	count := d.do(http.MethodPost, "/v1/responses/input_tokens", `{"model":"scripted/talk","input":"hi"}`)
	expect.Contains(t, "count", count.body, `"object":"response.input_tokens"`)
	compact := d.do(http.MethodPost, "/v1/responses/compact", `{"model":"scripted/talk","input":[
		{"role":"user","content":"hi"},{"role":"assistant","content":"ho"}]}`)
	expect.Contains(t, "compaction", compact.body, `"object":"response.compaction"`)
	expect.Equal(t, "status", compact.status, http.StatusOK)
	d.do(http.MethodPost, "/v1/responses/compact", `{"model":"scripted/talk"}`).
		is(t, 400, "missing_required_parameter", "input")
	expect.Contains(t, "models", d.do(http.MethodGet, "/v1/models", "").body, `"data":[{"id":"scripted/demo"`)
	expect.Equal(t, "model", d.do(http.MethodGet, "/v1/models/scripted/demo", "").status, http.StatusOK)
	expect.Equal(t, "escaped", d.do(http.MethodGet, "/v1/models/scripted%2Fdemo", "").status, http.StatusOK)
	expect.Contains(t, "models of who opens no session", d.do(http.MethodGet, "/v1/models", "", "Authorization",
		"Bearer none").body, `"data":[]`)
	d.do(http.MethodGet, "/v1/models/agent/x", "").is(t, 404, "model_not_found", "model")
}

// A turn in the background runs without its client.
func TestBackground(t *testing.T) {
	t.Parallel()
	d := open(t)
	queued := d.post(`{"model":"scripted/slow","input":"hi","background":true}`).response(t)
	cancelled := d.do(http.MethodPost, "/v1/responses/"+queued.ID+"/cancel", "").response(t)
	expect.Equal(t, "status", cancelled.Status, responses.StatusCancelled)
	d.turns.Wait()
}

// A client that goes is gone for agentd, which ends the turns that no one could fetch. A blocking request is accepted
// before it is answered.
func TestClientGoes(t *testing.T) {
	t.Parallel()
	d := open(t)
	for _, tc := range []struct {
		body string
		ends bool
	}{
		{`{"model":"scripted/slow","input":"hi","store":false}`, true},
		{`{"model":"scripted/slow","input":"hi","store":false,"stream":true}`, true},
		{`{"model":"scripted/slow","input":"hi","stream":true}`, false},
		{`{"model":"scripted/slow","input":"hi"}`, false},
	} {
		ctx, leave := context.WithCancel(t.Context())
		before := d.count()
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			if resp, err := d.request(ctx, http.MethodPost, "/v1/responses", tc.body); err == nil {
				_, _ = io.Copy(io.Discard, resp.Body) // until it leaves
				_ = resp.Body.Close()
			}
		}()
		id := d.accepted(before)
		leave()
		<-gone
		if !tc.ends {
			a := d.do(http.MethodPost, "/v1/responses/"+id+"/cancel", "").response(t)
			expect.Equal(t, "status", a.Status, responses.StatusCancelled)
		}
		d.turns.Wait() // the turn is watched to its end
	}
}

// accepted waits until the turn of session n is accepted, and returns its response.
func (d *door) accepted(n int) string {
	d.t.Helper()
	return eventually(d.t, "a turn is accepted", func() string {
		d.mu.Lock()
		defer d.mu.Unlock()
		if len(d.sessions) <= n {
			return ""
		}
		for id := range d.sessions[n].ids {
			if strings.HasPrefix(id, responses.PrefixResponse) {
				return id
			}
		}
		return ""
	})
}

func eventually(t *testing.T, what string, get func() string) string {
	t.Helper()
	until := time.NewTimer(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	defer until.Stop()
	for {
		if got := get(); got != "" {
			return got
		}
		select {
		case <-tick.C:
		case <-until.C:
			t.Fatalf("it never happened that %s", what)
		}
	}
}

// An agentd that dies cuts the stream off, and gives a blocking client an error that says the turn has run.
func TestAgentdDies(t *testing.T) {
	t.Parallel()
	d := open(t)
	resp, err := d.request(t.Context(), http.MethodPost, "/v1/responses",
		`{"model":"scripted/slow","input":"hi","stream":true}`)
	expect.NoError(t, err)
	line, err := bufio.NewReader(resp.Body).ReadString('\n')
	expect.NoError(t, err)
	expect.Contains(t, "line", line, "response.")
	d.session(0).host.Kill()
	if _, err := io.Copy(io.Discard, resp.Body); err == nil {
		t.Error("the stream ends as if it were whole")
	}
	expect.NoError(t, resp.Body.Close())

	answered := make(chan answer, 1)
	go func() { answered <- d.post(`{"model":"scripted/slow","input":"hi"}`) }()
	id := d.accepted(1)
	d.session(1).host.Kill()
	a := <-answered
	a.is(t, 502, "server_disconnected", "")
	expect.Contains(t, "error", a.body, fmt.Sprintf(`"response_id":%q`, id))
	expect.Equal(t, "retry", a.header.Get("X-Should-Retry"), "false")
	if strings.Contains(a.body, d.dir) {
		t.Errorf("the socket is shown: %s", a.body)
	}
}

// Closing leaves turns to go on, and nothing watches them.
func TestClose(t *testing.T) {
	t.Parallel()
	d := open(t)
	queued := d.post(`{"model":"scripted/slow","input":"hi","background":true}`).response(t)
	d.stop()
	got := d.session(0).direct(http.MethodGet, "/responses/"+queued.ID, nil)
	expect.Contains(t, "response", got.body, `"in_progress"`)
}
