package anthropic_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"holon/agentd/model"
	"holon/agentd/model/anthropic"
	"holon/agentd/model/endpoint"
	"holon/responses"
	"holon/test/expect"
	"holon/test/modeltest"
)

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
		{"garbage", []string{begin, text0, hello, `{"type":`}, "hello", model.KindProtocol, "not a JSON object"},
		{"no type", []string{`{"index":0}`}, "", model.KindProtocol, "not a JSON object with a type"},
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
			expect.Equal(t, "the text before the error", a.Text, tt.text)
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

func wire() modeltest.Wire {
	return modeltest.Wire{
		New:    func(o endpoint.Options) (model.Transport, error) { return anthropic.New(o) },
		Prefix: "ANTHROPIC",
		Begin:  stream(begin, text0, hello), Half: "event: message_stop\ndata: {\"type\":\"mess",
		End: stream(stop0, endTurn, stopped),
	}
}

func TestFaults(t *testing.T) { modeltest.Faults(t, wire()) }

func TestStatuses(t *testing.T) {
	failure := func(kind, message string) string {
		return fmt.Sprintf(`{"type":"error","error":{"type":%q,"message":%q},"request_id":"req_1"}`, kind, message)
	}
	tooLong := modeltest.Refusal{Kind: model.KindContextLength, Code: responses.CodeContextLength}
	limited := modeltest.Refusal{Kind: model.KindRateLimited, Code: responses.CodeRateLimit}
	overloaded := func(says string) modeltest.Refusal {
		return modeltest.Refusal{Kind: model.KindOverloaded, Code: responses.CodeProviderUnavailable, Says: says,
			Retryable: true}
	}
	wire().Statuses(t, []modeltest.Status{
		{Status: 402, Body: failure("billing_error", "pay"), Want: limited},
		{Status: 400, Body: failure("invalid_request_error", "Your credit balance is too low to access the API"),
			Want: limited},
		{Status: 404, Body: failure("not_found_error", "model: claude-nine"), Want: modeltest.Refusal{
			Kind: model.KindInvalidRequest, Code: responses.CodeModelNotFound, Says: "404 Not Found: model: claude-nine"}},
		{Status: 400, Body: failure("invalid_request_error", "prompt is too long: 200001 tokens > 200000 maximum"),
			Want: tooLong},
		{Status: 400, Body: failure("invalid_request_error",
			"input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000"), Want: tooLong},
		{Status: 413, Body: failure("request_too_large", "Request exceeds the maximum size"), Want: tooLong},
		{Status: 400, Body: failure("invalid_request_error", "messages.0: bad"), Want: modeltest.Refusal{
			Kind: model.KindInvalidRequest, Code: responses.CodeModelError, Says: "messages.0: bad"}},
		{Status: 429, Header: "X-Should-Retry: false", Body: failure("rate_limit_error", "enough"), Want: limited},
		{Status: 500, Body: failure("api_error", "Internal server error"), Want: overloaded("500 Internal Server Error")},
		{Status: 504, Body: failure("timeout_error", "Request timed out"), Want: overloaded("timed out")},
		{Status: 529, Body: failure("overloaded_error", "Overloaded"), Want: overloaded("answered 529: Overloaded")},
	})
}
