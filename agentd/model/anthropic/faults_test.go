package anthropic_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"holon/agentd/model"
	"holon/agentd/model/anthropic"
	"holon/responses"
	"holon/test/modeltest"
)

func TestStatuses(t *testing.T) {
	failure := func(kind, message string) string {
		b, err := json.Marshal(message)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf(`{"type":"error","error":{"type":%q,"message":%s},"request_id":"req_1"}`, kind, b)
	}
	tests := []struct {
		status    int
		header    string // Name: value
		body      string
		kind      model.ErrorKind
		code      string
		says      string
		wait      time.Duration
		retryable bool
	}{
		{401, "", failure("authentication_error", "invalid x-api-key "+modeltest.Sentinel), model.KindAuthentication,
			responses.CodeProviderAuthentication, "invalid x-api-key [redacted]", 0, false},
		{403, "", failure("permission_error", "not yours"), model.KindAuthentication,
			responses.CodeProviderAuthentication, "not yours", 0, false},
		{402, "", failure("billing_error", "pay"), model.KindRateLimited, responses.CodeRateLimit, "pay", 0, false},
		{400, "", failure("invalid_request_error", "Your credit balance is too low to access the API"),
			model.KindRateLimited, responses.CodeRateLimit, "balance", 0, false},
		{404, "", failure("not_found_error", "model: claude-nine"), model.KindInvalidRequest,
			responses.CodeModelNotFound, "404 Not Found: model: claude-nine", 0, false},
		{400, "", failure("invalid_request_error", "prompt is too long: 200001 tokens > 200000 maximum"),
			model.KindContextLength, responses.CodeContextLength, "too long", 0, false},
		{400, "", failure("invalid_request_error",
			"input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000"),
			model.KindContextLength, responses.CodeContextLength, "exceed", 0, false},
		{413, "", failure("request_too_large", "Request exceeds the maximum size"), model.KindContextLength,
			responses.CodeContextLength, "maximum size", 0, false},
		{400, "", failure("invalid_request_error", "messages.0: bad"), model.KindInvalidRequest,
			responses.CodeModelError, "messages.0: bad", 0, false},
		{429, "Retry-After: 2", failure("rate_limit_error", "slow down"), model.KindRateLimited,
			responses.CodeRateLimit, "slow down", 2 * time.Second, true},
		{429, "X-Should-Retry: false", failure("rate_limit_error", "enough"), model.KindRateLimited,
			responses.CodeRateLimit, "enough", 0, false},
		{500, "", failure("api_error", "Internal server error"), model.KindOverloaded,
			responses.CodeProviderUnavailable, "500 Internal Server Error", 0, true},
		{502, "Content-Type: text/html", "<html>secret page</html>", model.KindOverloaded,
			responses.CodeProviderUnavailable, "502 Bad Gateway", 0, true},
		{503, "", strings.Repeat("x", 1<<20), model.KindOverloaded, responses.CodeProviderUnavailable,
			"503 Service Unavailable", 0, true},
		{504, "", failure("timeout_error", "Request timed out"), model.KindOverloaded,
			responses.CodeProviderUnavailable, "timed out", 0, true},
		{529, "", failure("overloaded_error", "Overloaded"), model.KindOverloaded, responses.CodeProviderUnavailable,
			"answered 529: Overloaded", 0, true},
		{408, "", ``, model.KindTransport, responses.CodeProviderUnavailable, "408", 0, true},
		{500, "", failure("api_error", "line\none\u0007 "+strings.Repeat("é", 5000)), model.KindOverloaded,
			responses.CodeProviderUnavailable, "line one", 0, true},
		{307, "Location: /v1/elsewhere", ``, model.KindProtocol, responses.CodeModelError, "307", 0, false},
		{204, "", ``, model.KindProtocol, responses.CodeModelError, "204", 0, false},
		{200, "Content-Type: application/json", `{}`, model.KindProtocol, responses.CodeModelError, "application/json",
			0, false},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.status, " ", tt.says), func(t *testing.T) {
			var calls atomic.Int32
			tr := serve(t, false, func(w http.ResponseWriter, r *http.Request) {
				calls.Add(1)
				w.Header().Set("Content-Type", "application/json")
				if name, value, ok := strings.Cut(tt.header, ": "); ok {
					w.Header().Set(name, value)
				}
				w.WriteHeader(tt.status)
				_, _ = io.WriteString(w, tt.body) // a client that has enough hangs up
			})
			_, e := modeltest.Ask(t.Context(), t, tr, model.Request{Model: "claude-opus-4-5"})
			modeltest.Refusal{Kind: tt.kind, Code: tt.code, Says: tt.says, Status: tt.status, Wait: tt.wait,
				Retryable: tt.retryable}.Check(t, e)
			if n := calls.Load(); n != 1 {
				t.Errorf("the provider was called %d times", n)
			}
		})
	}
}

func TestStreamFaults(t *testing.T) {
	failure := func(kind string) string {
		return fmt.Sprintf(`{"type":"error","error":{"type":%q,"message":"oops"}}`, kind)
	}
	call := `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"toolu_1","name":"f",` +
		`"input":{}}}`
	tests := []struct {
		name   string
		events []string
		text   string
		kind   model.ErrorKind
		says   string
	}{
		{"no end", []string{begin, text0, hello}, "hello", model.KindTransport, "ended before"},
		{"no message_stop", []string{begin, text0, hello, stop0, endTurn}, "hello", model.KindTransport,
			"ended before"},
		{"nothing at all", nil, "", model.KindTransport, "ended before"},
		{"no reason to stop", []string{begin, text0, hello, stop0, stopped}, "hello", model.KindProtocol,
			"without a reason"},
		{"an unknown reason to stop", answer("bored", text0, hello, stop0), "hello", model.KindProtocol, `"bored"`},
		{"garbage", []string{begin, text0, hello, `{"type":`}, "hello", model.KindProtocol, "no JSON object"},
		{"no type", []string{`{"index":0}`}, "", model.KindProtocol, "no JSON object with a type"},
		{"a wrong type of a key", []string{begin, text0, `{"type":"content_block_delta","index":"x"}`}, "",
			model.KindProtocol, "can't be read"},
		{"two answers", []string{begin, strings.Replace(begin, `"msg_1"`, `"msg_2"`, 1)}, "", model.KindProtocol, "twice"},
		{"not begun", []string{text0}, "", model.KindProtocol, "before message_start"},
		{"ended before it began", []string{stopped}, "", model.KindProtocol, "before message_start"},
		{"a block twice", []string{begin, text0, stop0, text0}, "", model.KindProtocol, "block 0 after block 0"},
		{"blocks out of order", []string{begin, strings.Replace(text0, `"index":0`, `"index":2`, 1),
			strings.Replace(text0, `"index":0`, `"index":1`, 1)}, "", model.KindProtocol, "block 1 after block 2"},
		{"a piece of a block that did not begin", []string{begin, hello}, "", model.KindProtocol, "not open"},
		{"a piece of a block that ended", []string{begin, text0, stop0, hello}, "", model.KindProtocol, "not open"},
		{"a piece of another block", []string{begin, text0, strings.Replace(hello, `"index":0`, `"index":1`, 1)}, "",
			model.KindProtocol, "not open"},
		{"a piece without content", []string{begin, text0, `{"type":"content_block_delta","index":0}`}, "",
			model.KindProtocol, "empty"},
		{"a block without content", []string{begin, `{"type":"content_block_start","index":0}`}, "", model.KindProtocol,
			"without saying"},
		{"a call without a name", []string{begin, strings.Replace(call, `"name":"f"`, `"name":""`, 1)}, "",
			model.KindProtocol, "names no tool"},
		{"overloaded", []string{begin, text0, hello, failure("overloaded_error")}, "hello", model.KindOverloaded,
			"oops"},
		{"overloaded at once", []string{failure("overloaded_error")}, "", model.KindOverloaded, "oops"},
		{"broken", []string{failure("api_error")}, "", model.KindOverloaded, "oops"},
		{"limited", []string{failure("rate_limit_error")}, "", model.KindRateLimited, "oops"},
		{"refused", []string{failure("invalid_request_error")}, "", model.KindInvalidRequest, "oops"},
		{"locked out", []string{failure("permission_error")}, "", model.KindAuthentication, "oops"},
		{"unknown failure", []string{failure("moon_error")}, "", model.KindOverloaded, "oops"},
		{"malformed failure", []string{`{"type":"error","error":"odd"}`}, "", model.KindOverloaded, "failed"},
		{"no failure", []string{`{"type":"error"}`}, "", model.KindOverloaded, "failed"},
		{"no room", answer("model_context_window_exceeded"), "", model.KindContextLength, "no room"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a, e := modeltest.Ask(t.Context(), t, serve(t, false, replay(tt.events)),
				model.Request{Model: "claude-opus-5"})
			modeltest.WantError(t, e, tt.kind, tt.says)
			if a.Text != tt.text {
				t.Errorf("the text before the error is %q, want %q", a.Text, tt.text)
			}
			if wrong := tt.name == "unknown failure"; wrong && e.Retryable() {
				t.Error("it would be tried again")
			}
		})
	}
}

// For any order, number and cut of the events, an attempt ends exactly once, and its
// own events are in order: modeltest.Ask checks them.
func TestAnyOrderOfEvents(t *testing.T) {
	pool := []string{
		begin, text0, hello, stop0, endTurn, stopped, `{"type":"ping"}`,
		`{"type":"error","error":{"type":"api_error"}}`, `{"type":"new"}`,
		`{"type":"content_block_start","index":1,"content_block":{"type":"thinking","thinking":"","signature":""}}`,
		`{"type":"content_block_delta","index":1,"delta":{"type":"thinking_delta","thinking":"hm"}}`,
		`{"type":"content_block_delta","index":1,"delta":{"type":"signature_delta","signature":"sig"}}`,
		`{"type":"content_block_stop","index":1}`,
		`{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"toolu_1","name":"f",` +
			`"input":{}}}`,
		`{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"a\":"}}`,
		`{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"1}"}}`,
		`{"type":"content_block_stop","index":2}`,
		`{"type":"content_block_start","index":3,"content_block":{"type":"redacted_thinking","data":"d"}}`,
		`{"type":"content_block_start","index":4,"content_block":{"type":"server_tool_use","id":"s",` +
			`"name":"web_search","input":{}}}`,
		ending("tool_use")[0], ending("max_tokens")[0], ending("refusal")[0],
		ending("model_context_window_exceeded")[0],
	}
	events := make(chan []string, 1)
	tr := serve(t, true, func(w http.ResponseWriter, r *http.Request) { replay(<-events)(w, r) })
	rapid.Check(t, func(rt *rapid.T) {
		list := rapid.SliceOfN(rapid.SampledFrom(pool), 0, 25).Draw(rt, "events")
		if rapid.Bool().Draw(rt, "begun") {
			list = slices.Insert(slices.DeleteFunc(list, func(ev string) bool { return ev == begin }), 0, begin)
		}
		if rapid.Bool().Draw(rt, "sorted") { // a legal order, mostly
			slices.SortStableFunc(list, func(a, b string) int { return slices.Index(pool, a) - slices.Index(pool, b) })
		}
		events <- list
		modeltest.Ask(t.Context(), t, tr, model.Request{Model: "claude-opus-5"})
	})
}

func TestBrokenConnections(t *testing.T) {
	reset := serve(t, false, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, stream(begin, text0, hello)+"event: message_stop\ndata: {\"type\":\"mess")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})
	a, e := modeltest.Ask(t.Context(), t, reset, model.Request{})
	switch {
	case e == nil:
		t.Error("reset: e = nil, want a value")
	case e.Kind != model.KindTransport:
		t.Errorf("reset: e.Kind = %q, want %q", e.Kind, model.KindTransport)
	case a.Text != "hello":
		t.Errorf(`reset: a.Text = %q, want "hello"`, a.Text)
	case !e.Retryable():
		t.Error("reset: e.Retryable() = false, want true")
	}
	gone, err := anthropic.New(anthropic.Options{SocketPath: filepath.Join(t.TempDir(), "gone.sock"),
		Headers: map[string]string{"X-Token": modeltest.Sentinel}})
	if err != nil {
		t.Fatal(err)
	}
	switch _, e := modeltest.Ask(t.Context(), t, gone, model.Request{}); {
	case e == nil:
		t.Error("no socket: e = nil, want a value")
	case e.Kind != model.KindTransport:
		t.Errorf("no socket: e.Kind = %q, want %q", e.Kind, model.KindTransport)
	case !e.Retryable():
		t.Error("no socket: e.Retryable() = false, want true")
	}
}

func TestMissingKey(t *testing.T) {
	t.Setenv("ANTHROPIC_API_KEY", "sk-of-the-environment") // must not be read
	t.Setenv("ANTHROPIC_AUTH_TOKEN", "token-of-the-environment")
	t.Setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:1")
	tr, err := anthropic.New(anthropic.Options{BaseURL: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	check, ok := errors.AsType[*responses.Error](tr.Check("claude-opus-5"))
	switch {
	case !ok:
		t.Errorf("%#v", check)
	case check.Code != responses.CodeMissingCredentials:
		t.Errorf("check.Code = %q, want %q", check.Code, responses.CodeMissingCredentials)
	case !strings.Contains(check.Error(), "ANTHROPIC_API_KEY"):
		t.Errorf(`check.Error() = %q, want it to contain "ANTHROPIC_API_KEY"`, check.Error())
	}
	_, e := modeltest.Ask(t.Context(), t, tr, model.Request{})
	switch {
	case e == nil:
		t.Error("e = nil, want a value")
	case e.Code != responses.CodeMissingCredentials:
		t.Errorf("e.Code = %q, want %q", e.Code, responses.CodeMissingCredentials)
	case !strings.Contains(e.Message, "ANTHROPIC_API_KEY"):
		t.Errorf(`e.Message = %q, want it to contain "ANTHROPIC_API_KEY"`, e.Message)
	case e.Retryable():
		t.Error("e.Retryable() = true, want false")
	}
	for _, bad := range []string{"api.anthropic.com", "ftp://x/", "http://", "http://%zz"} {
		_, err := anthropic.New(anthropic.Options{BaseURL: bad})
		if e, ok := errors.AsType[*responses.Error](err); !ok || e.Param != "ANTHROPIC_BASE_URL" {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// The rounds of a turn share a connection.
func TestConnectionIsKept(t *testing.T) {
	var mu sync.Mutex
	peers := make(map[string]bool)
	whole := replay(answer("end_turn", text0, hello, stop0))
	tr := serve(t, false, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		peers[r.RemoteAddr] = true
		mu.Unlock()
		whole(w, r)
	})
	for range 5 {
		if _, e := modeltest.Ask(t.Context(), t, tr, model.Request{}); e != nil {
			t.Fatal(e)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(peers) != 1 {
		t.Errorf("5 requests took %d connections", len(peers))
	}
}

func TestFaults(t *testing.T) {
	modeltest.Faults(t, modeltest.Wire{
		Serve: func(t *testing.T, h http.HandlerFunc, idle time.Duration) model.Transport {
			return serve(t, false, h, func(o *anthropic.Options) { o.IdleTimeout = idle })
		},
		Begin: stream(begin, text0, hello), Half: "event: message_stop\ndata: {\"type\":\"mess",
		End: stream(stop0, endTurn, stopped),
	})
}
