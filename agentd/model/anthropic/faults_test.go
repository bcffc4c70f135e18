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
		{"nothing at all", nil, "", model.KindTransport, "ended before"},
		{"garbage", []string{begin, text0, hello, `{"type":`}, "hello", model.KindProtocol, "not JSON"},
		{"no type", []string{`{"index":0}`}, "", model.KindProtocol, `can't be read: {"index":0}`},
		{"two answers", []string{begin, strings.Replace(begin, `"msg_1"`, `"msg_2"`, 1)}, "", model.KindProtocol, "twice"},
		{"arguments of no call", []string{begin, `{"type":"content_block_delta","index":0,"delta":{"type":` +
			`"input_json_delta","partial_json":"{}"}}`}, "", model.KindProtocol, "not open"},
		{"a piece of another block", []string{begin, text0, strings.Replace(hello, `"index":0`, `"index":1`, 1)}, "",
			model.KindProtocol, "not open"},
		{"a piece without content", []string{begin, text0, `{"type":"content_block_delta","index":0}`}, "",
			model.KindProtocol, "empty"},
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
		{"malformed failure", []string{`{"type":"error","error":"odd"}`}, "", model.KindOverloaded,
			"failed while it answered: odd"},
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

// What servers of the API do differently does no harm.
func TestTolerance(t *testing.T) {
	toolUse := func(input string) string {
		return `{"type":"content_block_start","content_block":{"type":"tool_use","id":7,"name":"f","input":` + input + `}}`
	}
	args := func(text string) string {
		return fmt.Sprintf(`{"type":"content_block_delta","delta":{"type":"input_json_delta","partial_json":%q}}`, text)
	}
	unplaced := func(list ...string) []string {
		for i := range list {
			list[i] = strings.Replace(list[i], `"index":0,`, "", 1)
		}
		return append(list, ending("end_turn")...)
	}
	for name, tt := range map[string]struct {
		events []string
		text   string
		calls  []string // without their ids
	}{
		"no message_stop":          {[]string{begin, text0, hello, stop0, endTurn}, "hello", nil},
		"no reason to stop":        {[]string{begin, text0, hello, stop0, stopped}, "hello", nil},
		"a reason of its own":      {answer("bored", text0, hello, stop0), "hello", nil},
		"only an end mark":         {[]string{begin, text0, hello, "[DONE]"}, "hello", nil},
		"no message_start":         {[]string{text0, hello, stop0, endTurn, stopped}, "hello", nil},
		"no beginning of a block":  {answer("end_turn", hello, stop0), "hello", nil},
		"a beginning without type": {answer("end_turn", `{"type":"content_block_start","index":0}`, hello), "hello", nil},
		"an index twice":           {answer("end_turn", text0, hello, stop0, text0, hello, stop0), "hellohello", nil},
		"indices as strings": {answer("end_turn", strings.Replace(text0, ":0", `:"0"`, 1),
			strings.Replace(hello, ":0", `:"0"`, 1)), "hello", nil},
		"no index": {unplaced(begin, text0, hello, `{"type":"content_block_stop"}`, toolUse("{}"), args(`{"a":`),
			args(`1}`), toolUse(`{"b":1}`), text0, hello), "hellohello", []string{`f {"a":1}`, `f {"b":1}`}},
		"an empty object before the arguments": {unplaced(begin, toolUse("{}"), args("{}"), args(`{"a":1}`),
			toolUse(`{"b":1}`), args("{}"), toolUse("{}"), args("{}")), "", []string{`f {"a":1}`, `f {"b":1}`, "f {}"}},
		"a field of another type": {answer("end_turn", text0,
			strings.Replace(hello, `"delta"`, `"usage":[],"delta"`, 1)), "hello", nil},
		"half a call without a reason": {[]string{begin, text0, hello, toolUse("{}"), args(`{"a`), stopped}, "hello", nil},
		"one object": {[]string{`{"type":"message","content":[{"type":"text","text":"hello"},{"type":"tool_use",` +
			`"id":"t","name":"f","input":{"a":1}}],"stop_reason":"tool_use"}`}, "hello", []string{`f {"a":1}`}},
	} {
		handler := replay(tt.events)
		if strings.HasPrefix(tt.events[0], `{"type":"message",`) {
			handler = func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, tt.events[0]) }
		}
		a, e := modeltest.Ask(t.Context(), t, serve(t, false, handler), model.Request{Model: "claude-opus-5"})
		if e != nil {
			t.Errorf("%s: %v", name, e)
			continue
		}
		for i, call := range a.Calls {
			_, a.Calls[i], _ = strings.Cut(call, " ")
		}
		expect.Equal(t, name+": the text", strings.ReplaceAll(a.Text, modeltest.PartMark, ""), tt.text)
		expect.Equal(t, name+": the calls", fmt.Sprint(a.Calls), fmt.Sprint(tt.calls))
		want := model.StopEnd
		if strings.HasPrefix(name, "half a call") {
			want = model.StopMaxTokens
		}
		expect.Equal(t, name+": the end", a.Stop, want)
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
