package openai_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"holon/agentd/model"
	"holon/agentd/model/endpoint"
	"holon/agentd/model/openai"
	"holon/responses"
	"holon/test/expect"
	"holon/test/modeltest"
)

const (
	added = `{"type":"response.output_item.added","output_index":0,"item":{"type":"message","role":"assistant",` +
		`"content":[]}}`
	hello = `{"type":"response.output_text.delta","output_index":0,"content_index":0,"item_id":"m",` +
		`"delta":"hel\u006co","logprobs":[]}`
	completed = `{"type":"response.completed","response":{"id":"resp_1","output":[],"usage":{"input_tokens":1,` +
		`"output_tokens":2,"total_tokens":3}}}`
	incident = `{"type":"response.%s","response":{"id":"r","output":[],%s}}`
)

func TestStreamFaults(t *testing.T) {
	tests := []struct {
		name   string
		events []string
		text   string
		kind   model.ErrorKind
		says   string
	}{
		{"no terminal event", []string{added, hello}, "hello", model.KindTransport, "ended before"},
		{"garbage", []string{added, hello, `{"type":`}, "hello", model.KindProtocol, "not JSON"},
		{"no type", []string{`{"delta":"x"}`}, "", model.KindProtocol, `can't be read: {"delta":"x"}`},
		{"another answer", []string{`{"type":"response.created","response":{"id":"a"}}`, added, hello,
			`{"type":"response.created","response":{"id":"b"}}`}, "hello", model.KindProtocol, "another answer"},
		{"a call without a name", []string{
			`{"type":"response.output_item.added","output_index":0,` +
				`"item":{"type":"function_call"}}`}, "", model.KindProtocol, "names no tool"},
		{"terminal without response", []string{`{"type":"response.completed"}`}, "", model.KindProtocol, "no response"},
		{"error, nested", []string{`{"type":"error","error":{"code":"server_error","message":"oops"}}`}, "",
			model.KindOverloaded, "oops"},
		{"error, flat", []string{added, hello, `{"type":"error","code":"rate_limit_exceeded","message":"slow"}`},
			"hello", model.KindRateLimited, "slow"},
		{"failed: too long", []string{fmt.Sprintf(incident, "failed",
			`"error":{"code":"context_length_exceeded","message":"long"}`)}, "", model.KindContextLength, "long"},
		{"failed: policy", []string{fmt.Sprintf(incident, "failed", `"error":{"code":"cyber_policy","message":"no"}`)},
			"", model.KindInvalidRequest, "no"},
		{"failed for no reason", []string{fmt.Sprintf(incident, "failed", `"error":null`)}, "", model.KindOverloaded,
			"failed"},
		{"incomplete for no reason", []string{fmt.Sprintf(incident, "incomplete", `"incomplete_details":null`)}, "",
			model.KindProtocol, "incomplete"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a, e := ask(t.Context(), t, serve(t, false, replay(tt.events, false)), model.Request{})
			modeltest.WantError(t, e, tt.kind, tt.says)
			expect.Equal(t, "the text before the error", a.Text, tt.text)
		})
	}
}

// What servers of the API do differently, or will do, does no harm.
func TestTolerance(t *testing.T) {
	call := func(index int, id, rest string) string {
		return fmt.Sprintf(`{"type":"response.output_item.added","output_index":%d,"item":{"type":"function_call",`+
			`"call_id":%q,"name":"f","arguments":""%s}}`, index, id, rest)
	}
	args := func(index int, text string) string {
		return fmt.Sprintf(`{"type":"response.function_call_arguments.delta","output_index":%d,"delta":%q}`, index,
			text)
	}
	named := func(index int, kind, id string) string {
		return fmt.Sprintf(`{"type":"response.output_item.added","output_index":%d,"item":{"type":%q,"id":%q}}`, index,
			kind, id)
	}
	text := func(index int, text string) string {
		return fmt.Sprintf(`{"type":"response.output_text.delta","output_index":%d,"delta":%q}`, index, text)
	}
	whole := func(id, text string) string {
		return fmt.Sprintf(`{"type":"message","id":%q,"content":[{"type":"output_text","text":%q}]}`, id, text)
	}
	doneCall := func(index int, status, text string) string {
		return fmt.Sprintf(`{"type":"response.output_item.done","output_index":%d,"item":{"type":"function_call",`+
			`"call_id":"c","name":"f","status":%q,"arguments":%q}}`, index, status, text)
	}
	unplaced := func(ev string) string { return strings.Replace(ev, `"output_index":0,`, "", 1) }
	tests := []struct {
		name   string
		events []string
		want   modeltest.Answer
	}{
		{"unknown events, items and parts", []string{
			`{"type":"response.new_thing","delta":{"a":1},"output_index":"x"}`,
			`{"type":"keepalive","sequence_number":3}`,
			`{"type":"response.output_item.added","output_index":1,"item":{"type":"tool_search_call",` +
				`"arguments":{"a":1}}}`,
			`{"type":"response.output_text.delta","output_index":1,"delta":"lost"}`,
			`{"type":"response.output_item.done","output_index":1,"item":{"type":"tool_search_call",` +
				`"arguments":{"a":1}}}`,
			added, hello, completed,
		}, modeltest.Answer{Text: "hello"}},
		{"everything in the terminal event", []string{
			`{"type":"response.completed","response":{"id":"resp_1","output":[{"type":"reasoning",` +
				`"encrypted_content":"abc","summary":[{"type":"summary_text","text":"s"}]},{"type":"message",` +
				`"content":[{"type":"output_text","text":"a"},{"type":"refusal","refusal":"b"}]},` +
				`{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}]}}`,
		}, modeltest.Answer{Text: "a¶", Refusal: "b", Summary: []string{"s"}, Opaque: []string{"abc"},
			Calls: []string{"c f {}"}}},
		{"text only in done events", []string{added,
			`{"type":"response.output_text.done","output_index":0,"text":"all"}`,
			`{"type":"response.output_text.done","output_index":0,"text":"all"}`,
			completed}, modeltest.Answer{Text: "all"}},
		{"text that its end completes", []string{added, hello,
			`{"type":"response.output_text.done","output_index":0,"text":"hello you"}`, completed},
			modeltest.Answer{Text: "hello you"}},
		{"text that its end contradicts", []string{added, hello,
			`{"type":"response.output_text.done","output_index":0,"text":"bye"}`, completed},
			modeltest.Answer{Text: "hello"}},
		{"openings again", []string{`{"type":"response.created","response":{}}`,
			`{"type":"response.created","response":{}}`, `{"type":"response.in_progress","response":{}}`, added, added,
			hello, completed}, modeltest.Answer{Text: "hello"}},
		{"a terminal event that leaves out and moves items", []string{
			named(0, "reasoning", "r"), named(1, "message", "a"), text(1, "Hel"), named(2, "message", "b"),
			text(2, "Wor"), `{"type":"response.completed","response":{"id":"resp_1","output":[` + whole("b", "World") + `,` +
				whole("a", "Hello") + `]}}`}, modeltest.Answer{Text: "HelloWorld"}},
		{"a thought that only the terminal event has", []string{
			named(0, "message", "a"), text(0, "Hel"), `{"type":"response.completed","response":{"id":"resp_1","output":[` +
				`{"type":"reasoning","id":"r","summary":[]},` + whole("a", "Hello") + `]}}`},
			modeltest.Answer{Text: "Hello"}},
		{"parts told apart by their index alone", []string{named(0, "message", "a"), text(0, "one"),
			strings.Replace(text(0, "two"), `"delta"`, `"content_index":1,"delta"`, 1),
			`{"type":"response.output_item.done","output_index":0,"item":{"type":"message","id":"a","content":[` +
				`{"type":"output_text","text":"one"},{"type":"output_text","text":"two and more"}]}}`, completed},
			modeltest.Answer{Text: "one¶two and more"}},
		{"text that its item completes, with a part more", []string{added, hello,
			`{"type":"response.output_item.done","output_index":0,"item":{"type":"message","content":[` +
				`{"type":"output_text","text":"hello you"},{"type":"refusal","refusal":"no"}]}}`, completed},
			modeltest.Answer{Text: "hello you¶", Refusal: "no"}},
		{"text that the answer completes", []string{added, hello,
			`{"type":"response.completed","response":{"id":"resp_1","output":[{"type":"message","content":[` +
				`{"type":"output_text","text":"hello you"}]}]}}`}, modeltest.Answer{Text: "hello you"}},
		{"interleaved calls", []string{
			call(0, "c0", ""), call(1, "c1", ""), args(1, `{"b"`), args(0, `{"a"`), args(1, `:1}`),
			doneCall(1, "completed", `{"b":1}`), args(0, `:1}`), doneCall(0, "completed", `{"a":1}`), completed,
		}, modeltest.Answer{Calls: []string{`c0 f {"a":1}`, `c1 f {"b":1}`}}},
		{"malformed arguments", []string{call(0, "c0", ""), args(0, `{"a": nope`),
			doneCall(0, "completed", `{"a": nope`), completed}, modeltest.Answer{Calls: []string{`c0 f {"a": nope`}}},
		{"arguments that the end completes",
			[]string{call(0, "c0", ""), args(0, `{"a"`), doneCall(0, "completed", `{"a":1}`), completed},
			modeltest.Answer{Calls: []string{`c0 f {"a":1}`}}},
		{"arguments that the end contradicts",
			[]string{call(0, "c0", ""), args(0, `{"a":1}`), doneCall(0, "completed", `{ "a": 1 }`), completed},
			modeltest.Answer{Calls: []string{`c0 f {"a":1}`}}},
		{"arguments that the end replaces",
			[]string{call(0, "c0", ""), args(0, `{"a":1}`), doneCall(0, "completed", `{"a":2}`), completed},
			modeltest.Answer{Calls: []string{`c0 f {"a":1}`}}},
		{"calls that never end", []string{call(0, "c0", ""), args(0, `{}`), call(1, "c1", ""), args(1, `[]`),
			completed}, modeltest.Answer{Calls: []string{`c0 f {}`, `c1 f []`}}},
		{"items that share an index", []string{named(0, "message", "m"), text(0, "a"),
			`{"type":"response.output_item.done","output_index":0,"item":` + whole("m", "a") + `}`,
			strings.Replace(call(0, "c0", `,"id":"f"`), `""`, `"{}"`, 1), doneCall(0, "completed", "{}"), completed},
			modeltest.Answer{Text: "a", Calls: []string{"c0 f {}"}}},
		{"arguments as an object", []string{
			`{"type":"response.output_item.done","output_index":0,"item":{"type":"function_call","call_id":"c",` +
				`"name":"f","arguments":{"a":1}}}`, completed}, modeltest.Answer{Calls: []string{`c f {"a":1}`}}},
		{"items without an index", []string{unplaced(named(0, "message", "")), unplaced(text(0, "one")),
			unplaced(call(0, "c0", "")), unplaced(args(0, `{"a":1}`)), unplaced(named(0, "message", "")),
			unplaced(text(0, "two")), completed}, modeltest.Answer{Text: "onetwo", Calls: []string{`c0 f {"a":1}`}}},
		{"an id that every item has", []string{named(0, "message", "m"), text(0, "one"),
			`{"type":"response.output_item.done","output_index":0,"item":` + whole("m", "one") + `}`,
			named(1, "message", "m"), text(1, "two"), completed}, modeltest.Answer{Text: "onetwo"}},
		{"ids as numbers and indices as strings", []string{
			`{"type":"response.output_item.added","output_index":"0","item":{"type":"message","id":7}}`,
			`{"type":"response.output_item.added","output_index":"1","item":{"type":"message","id":8}}`,
			`{"type":"response.output_text.delta","output_index":"1","item_id":8,"delta":"two"}`,
			`{"type":"response.output_text.delta","item_id":7,"content_index":"0","delta":"one"}`, completed},
			modeltest.Answer{Text: "onetwo"}},
		{"an empty object before the arguments", []string{call(0, "c0", ""), args(0, `{}`), args(0, `{"a"`), args(0, `:1}`),
			call(1, "c1", ""), args(1, `{}`), doneCall(1, "completed", `{"b":1}`), call(2, "c2", ""), args(2, `{}`),
			completed}, modeltest.Answer{Calls: []string{`c0 f {"a":1}`, `c1 f {"b":1}`, "c2 f {}"}}},
		{"incomplete for a reason of its own", []string{added, hello,
			`{"type":"response.incomplete","response":{"id":"resp_1","incomplete_details":{"reason":"bored"}}}`},
			modeltest.Answer{Text: "hello"}},
		{"another terminal event", []string{added, hello,
			`{"type":"response.done","response":{"id":"resp_1","status":"completed"}}`}, modeltest.Answer{Text: "hello"}},
		{"raw reasoning, also summed up", []string{named(0, "reasoning", "r"),
			`{"type":"response.reasoning_text.delta","item_id":"r","output_index":0,"content_index":0,"delta":"h\ud83d"}`,
			`{"type":"response.reasoning_text.delta","item_id":"r","output_index":0,"content_index":0,"delta":"\ude00m"}`,
			`{"type":"response.reasoning_summary_text.delta","item_id":"r","output_index":0,"delta":"short"}`, named(1,
				"message", "m"), text(1, "a"), completed}, modeltest.Answer{Text: "a", Summary: []string{"h😀m"},
			Opaque: []string{"openai:reasoning_text"}}},
		{"phases and citations", []string{
			`{"type":"response.output_item.added","output_index":0,"item":{"type":"message","phase":"odd"}}`, hello,
			`{"type":"response.output_text.annotation.added","output_index":0,"annotation":{"type":"url_citation",` +
				`"url":"https://x","title":"t","start_index":0,"end_index":2}}`,
			`{"type":"response.output_text.annotation.added","output_index":0,"annotation":{"type":"file_citation",` +
				`"index":"odd"}}`, completed,
		}, modeltest.Answer{Text: "hello", Notes: []string{"https://x"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, e := ask(t.Context(), t, serve(t, false, replay(tt.events, true)), model.Request{})
			expect.Equal(t, "e", e, nil)
			expect.Equal(t, "got.Stop", got.Stop, model.StopEnd)
			expect.Equal(t, "got.RequestID", got.RequestID, "resp_1")
			got.Stop, got.RequestID, got.Usage = "", "", responses.Usage{}
			if fmt.Sprint(got) != fmt.Sprint(tt.want) {
				t.Errorf("got %+v\nwant %+v", got, tt.want)
			}
		})
	}
}

// A call that the output limit cut off is not run.
func TestIncomplete(t *testing.T) {
	cut := `{"type":"response.output_item.added","output_index":1,"item":{"type":"function_call","call_id":"c",` +
		`"name":"f"}}`
	half := `{"type":"response.function_call_arguments.delta","output_index":1,"delta":"{\"a"}`
	for _, end := range []string{"", `{"type":"response.output_item.done","output_index":1,` +
		`"item":{"type":"function_call","call_id":"c","name":"f","status":"incomplete","arguments":"{\"a"}}`} {
		events := []string{added, hello, cut, half}
		if end != "" {
			events = append(events, end)
		}
		events = append(events, fmt.Sprintf(incident, "incomplete",
			`"incomplete_details":{"reason":"max_output_tokens"}`))
		a, e := ask(t.Context(), t, serve(t, false, replay(events, false)), model.Request{})
		expect.Equal(t, "e", e, nil)
		expect.Equal(t, "a.Stop", a.Stop, model.StopMaxTokens)
		expect.Equal(t, "len(a.Calls)", len(a.Calls), 0)
		expect.Equal(t, "a.Text", a.Text, "hello")
	}
	a, e := ask(t.Context(), t, serve(t, false,
		replay([]string{fmt.Sprintf(incident, "incomplete", `"incomplete_details":{"reason":"content_filter"}`)},
			false)), model.Request{})
	expect.Equal(t, "e", e, nil)
	expect.Equal(t, "a.Stop", a.Stop, model.StopContentFilter)
	expect.Equal(t, "a.RequestID", a.RequestID, "r")
}

// A reader that takes its time does not make the provider silent.
func TestSlowReader(t *testing.T) {
	// Each event is larger than what one read takes in.
	large := strings.Replace(hello, `"logprobs":[]`, `"obfuscation":"`+strings.Repeat("x", 1<<18)+`"`, 1)
	tr := serve(t, false, replay([]string{added, large, large, large, completed}, false), func(o *openai.Options) {
		o.IdleTimeout = 200 * time.Millisecond
	})
	slow := sync.OnceFunc(func() { time.Sleep(300 * time.Millisecond) })
	for _, err := range tr.Stream(t.Context(), model.Request{}) {
		expect.NoError(t, err)
		slow()
	}
}

// A character that the provider cuts in two arrives whole, in texts, in
// arguments, and at an end where its other half never comes.
func TestSplitCharacters(t *testing.T) {
	message := []string{
		`{"type":"response.output_item.added","output_index":0,"item":{"type":"message"}}`,
		`{"type":"response.output_text.delta","output_index":0,"delta":"a\ud83d"}`,
		`{"type":"response.output_text.delta","output_index":0,"delta":"\ude00b"}`,
		`{"type":"response.output_text.delta","output_index":0,"delta":"\ud83d","logprobs":[],"extra":1}`,
		`{"type":"response.output_text.delta","output_index":0,"delta":"\ude01","extra":1}`,
		`{"type":"response.output_text.delta","output_index":0,"delta":"\ud83d"}`,
		`{"type":"response.output_text.done","output_index":0,"text":"a😀b😁?"}`,
		`{"type":"response.content_part.done","output_index":0}`,
		`{"type":"response.output_text.delta","output_index":0,"content_index":1,"delta":"\ud83d"}`,
		`{"type":"response.refusal.delta","output_index":0,"content_index":2,"delta":"\ude00no"}`,
		`{"type":"response.output_item.done","output_index":0,"item":{"type":"message"}}`,
	}
	call := []string{
		`{"type":"response.output_item.added","output_index":1,"item":{"type":"function_call","call_id":"c",` +
			`"name":"f"}}`,
		`{"type":"response.function_call_arguments.delta","output_index":1,"delta":"{\"a\":\"\ud83d"}`,
		`{"type":"response.function_call_arguments.delta","output_index":1,"delta":"\ude00\"}"}`,
		`{"type":"response.output_item.added","output_index":2,"item":{"type":"function_call","call_id":"d",` +
			`"name":"f"}}`,
		`{"type":"response.function_call_arguments.delta","output_index":2,"delta":"{\"a\":\"\ud83d"}`,
		`{"type":"response.function_call_arguments.done","output_index":2,"arguments":"{\"a\":\"😀\"}"}`,
		`{"type":"response.output_item.added","output_index":3,"item":{"type":"message"}}`,
		`{"type":"response.output_text.delta","output_index":3,"delta":"\ud83d"}`,
		`{"type":"response.completed","response":{"id":"r","output":[]}}`,
	}
	tr := serve(t, false, replay(append(message, call...), true))
	got, failed := ask(t.Context(), t, tr, model.Request{})
	if failed != nil {
		t.Fatal(failed)
	}
	if got.Text != "a😀b😁?¶\ufffd¶\ufffd" || got.Refusal != "\ufffdno" {
		t.Errorf("the text is %q, the refusal %q", got.Text, got.Refusal)
	}
	if want := []string{`c f {"a":"😀"}`, `d f {"a":"😀"}`}; !slices.Equal(got.Calls, want) {
		t.Errorf("the calls are %q", got.Calls)
	}
}

// A call id that cannot tell calls apart is replaced.
func TestCallIDs(t *testing.T) {
	var events []string
	for i, id := range []string{"same", "same", "", strings.Repeat("x", 65)} {
		events = append(events, fmt.Sprintf(
			`{"type":"response.output_item.done","output_index":%d,"item":{"type":"function_call","call_id":%q,`+
				`"name":"f","arguments":"{}"}}`, i, id))
	}
	a, e := ask(t.Context(), t, serve(t, false, replay(append(events, completed), false)), model.Request{})
	if e != nil {
		t.Fatal(e)
	}
	modeltest.CallIDs(t, a.Calls, 4, "same")
}

func wire() modeltest.Wire {
	return modeltest.Wire{
		New:    func(o endpoint.Options) (model.Transport, error) { return openai.New(openai.Options{Options: o}) },
		Prefix: "OPENAI",
		Begin:  "data: " + added + "\n\ndata: " + hello + "\n\n", Half: "data: {\"type\":\"response.comp",
		End: "data: " + completed + "\n\n",
	}
}

func TestFaults(t *testing.T) { modeltest.Faults(t, wire()) }

func TestStatuses(t *testing.T) {
	tooLong := modeltest.Refusal{Kind: model.KindContextLength, Code: responses.CodeContextLength}
	limited := modeltest.Refusal{Kind: model.KindRateLimited, Code: responses.CodeRateLimit}
	again := limited
	again.Wait, again.Retryable = 1500*time.Millisecond, true
	wire().Statuses(t, []modeltest.Status{
		{Status: 404, Body: `{"error":{"message":"no such model","code":"model_not_found"}}`, Want: modeltest.Refusal{
			Kind: model.KindInvalidRequest, Code: responses.CodeModelNotFound, Says: "404 Not Found: no such model"}},
		{Status: 400, Body: `{"error":{"message":"too long","code":"context_length_exceeded"}}`, Want: tooLong},
		{Status: 400, Body: `{"error":{"message":"This model's maximum context length is 8 tokens"}}`, Want: tooLong},
		{Status: 422, Body: `{"detail":"bad field"}`, Want: modeltest.Refusal{
			Kind: model.KindInvalidRequest, Code: responses.CodeModelError, Says: "bad field"}},
		{Status: 429, Header: "Retry-After-Ms: 1500", Body: `{"error":"slow"}`, Want: again},
		{Status: 429, Body: `{"error":{"message":"pay","code":"insufficient_quota"}}`, Want: limited},
		{Status: 500, Body: `{"error":{"message":null,"code":17}}`, Want: modeltest.Refusal{Kind: model.KindOverloaded,
			Code: responses.CodeProviderUnavailable, Says: "500 Internal Server Error", Retryable: true}},
	})
}
