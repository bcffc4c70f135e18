package chat_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"holon/agentd/model"
	"holon/agentd/model/chat"
	"holon/agentd/model/endpoint"
	"holon/responses"
	"holon/test/expect"
	"holon/test/modeltest"
)

// said is a chunk with a delta, end one that says why the model stopped.
func said(delta string) string { return `{"id":"c1","choices":[{"index":0,"delta":` + delta + `}]}` }
func end(reason string) string {
	return `{"id":"c1","choices":[{"index":0,"delta":{},"finish_reason":"` + reason + `"}]}`
}

const (
	hello = `{"id":"c1","choices":[{"index":0,"delta":{"role":"assistant","content":"hello"}}]}`
	done  = "[DONE]"
)

// Known deviations of servers from the API are read correctly.
func TestDialects(t *testing.T) {
	tests := []struct {
		name   string
		chunks []string
		want   modeltest.Answer
	}{
		{"text", []string{hello, end("stop"), done}, modeltest.Answer{Text: "hello"}},
		{"a reason of its own", []string{hello, end("bored"), done}, modeltest.Answer{Text: "hello"}},
		{"no end mark", []string{hello, end("stop")}, modeltest.Answer{Text: "hello"}},
		{"only an end mark", []string{hello, done}, modeltest.Answer{Text: "hello"}},
		{"usage after the end", []string{hello, end("stop"),
			`{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5,` +
				`"prompt_tokens_details":null}}`, done},
			modeltest.Answer{Text: "hello", Usage: responses.Usage{InputTokens: 3, OutputTokens: 2, TotalTokens: 5}}},
		{"usage that cannot be read", []string{hello,
			`{"choices":[],"usage":{"prompt_tokens":"many","completion_tokens":-2}}`, end("stop"),
			done}, modeltest.Answer{Text: "hello"}},
		{"usage in the choice", []string{hello,
			`{"choices":[{"index":0,"delta":{},"finish_reason":"stop","usage":{"prompt_tokens":1,` +
				`"completion_tokens":1,"cached_tokens":1}}]}`, done},
			modeltest.Answer{Text: "hello", Usage: usageOf(1, 1, 1, 0)}},
		{"usage of groq", []string{hello, `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],` +
			`"x_groq":{"usage":{"prompt_tokens":1,"completion_tokens":1}}}`, done},
			modeltest.Answer{Text: "hello", Usage: usageOf(1, 1, 0, 0)}},
		{"reasoning that is not part of the completion",
			[]string{hello, end("stop"), `{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1,` +
				`"total_tokens":9,"completion_tokens_details":{"reasoning_tokens":7}}}`, done},
			modeltest.Answer{Text: "hello", Usage: usageOf(1, 8, 0, 7)}},
		{"comments and other choices", []string{hello,
			`{"choices":[{"index":1,"delta":{"content":"x"},"finish_reason":"stop"}]}`, end("eos"),
			done}, modeltest.Answer{Text: "hello"}},
		{"reasoning_content", []string{said(`{"reasoning_content":"hm"}`), said(`{"reasoning_content":"m"}`), hello,
			end("stop"), done},
			modeltest.Answer{Text: "hello", Summary: []string{"hmm"}}},
		{"reasoning", []string{said(`{"reasoning":"hm"}`), hello, end("stop"), done},
			modeltest.Answer{Text: "hello", Summary: []string{"hm"}}},
		{"reasoning in both keys", []string{said(`{"reasoning_content":"hm","reasoning":"hm"}`), hello, end("stop"),
			done}, modeltest.Answer{Text: "hello", Summary: []string{"hm"}}},
		{"reasoning_details", []string{said(
			`{"reasoning":"hm","reasoning_details":[{"type":"reasoning.encrypted","data":"abc"}]}`), said(
			`{"reasoning_details":[{"type":"x"}]}`), hello, end("stop"), done},
			modeltest.Answer{Text: "hello", Summary: []string{"hm"}}},
		{"thinking parts", []string{said(`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]}]}`),
			said(`{"content":[{"type":"text","text":"hello"}]}`), end("stop"), done},
			modeltest.Answer{Text: "hello", Summary: []string{"hm"}}},
		{"thinking again", []string{said(`{"reasoning":"a"}`), hello, said(`{"reasoning":"b"}`),
			said(`{"content":"!"}`), end("stop"), done}, modeltest.Answer{Text: "hello!", Summary: []string{"ab"}}},
		{"refusal", []string{said(`{"refusal":"I won't"}`), said(`{"refusal":"."}`), end("stop"), done},
			modeltest.Answer{Refusal: "I won't."}},
		{"citation", []string{hello, said(`{"annotations":[{"type":"url_citation","url_citation":{"url":"https://x",` +
			`"title":"t","start_index":0,"end_index":2}}]}`), end("stop"), done},
			modeltest.Answer{Text: "hello", Notes: []string{"https://x"}}},
		{"a call in one chunk", []string{said(
			`{"tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":"f",` +
				`"arguments":"{\"a\":1}"}}]}`), end("tool_calls"), done},
			modeltest.Answer{Calls: []string{`c f {"a":1}`}}},
		{"parallel calls, interleaved", []string{
			said(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":""}},{"index":1,"id":"b",` +
				`"function":{"name":"g","arguments":"{"}}]}`),
			said(`{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]}`),
			said(`{"tool_calls":[{"index":1,"function":{"arguments":"}"}}]}`), end("tool_calls"), done,
		}, modeltest.Answer{Calls: []string{"a f {}", "b g {}"}}},
		{"calls without index", []string{
			said(`{"tool_calls":[{"id":"a","function":{"name":"f","arguments":"{"}}]}`),
			said(`{"tool_calls":[{"function":{"arguments":"}"}}]}`),
			said(`{"tool_calls":[{"id":"b","function":{"name":"f","arguments":"{}"}}]}`), end("tool_calls"), done,
		}, modeltest.Answer{Calls: []string{"a f {}", "b f {}"}}},
		{"calls that share an index", []string{
			said(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]}`),
			said(`{"tool_calls":[{"index":0,"id":"b","function":{"name":"g","arguments":"{}"}}]}`), end("stop"), done,
		}, modeltest.Answer{Calls: []string{"a f {}", "b g {}"}}},
		{"the name in every chunk", []string{
			said(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{"}}]}`),
			said(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"}"}}]}`), end("stop"), done,
		}, modeltest.Answer{Calls: []string{"a f {}"}}},
		{"the name after the arguments", []string{
			said(`{"tool_calls":[{"index":0,"id":"a","function":{"arguments":"{"}}]}`),
			said(`{"tool_calls":[{"index":0,"function":{"name":"f","arguments":"}"}}]}`), end("stop"), done},
			modeltest.Answer{Calls: []string{"a f {}"}}},
		{"arguments as an object", []string{
			said(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":{"a": [1]}}}]}`), end("stop"),
			done}, modeltest.Answer{Calls: []string{`a f {"a":[1]}`}}},
		{"halves of characters", []string{said(`{"reasoning":"\ud83d"}`), said(`{"reasoning":"\ude00"}`),
			said(`{"content":"\ud83d"}`), said(`{"content":[{"type":"text","text":"\ude00!\ud83d"}]}`),
			said(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"a\":\"\ud83d"}}]}`),
			said(`{"tool_calls":[{"index":0,"function":{"arguments":"\ude00\"}"}}]}`), end("stop"), done},
			modeltest.Answer{Text: "😀!\ufffd", Summary: []string{"😀"}, Calls: []string{`a f {"a":"😀"}`}}},
		{"an empty object before the arguments", []string{
			said(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]}`),
			said(`{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\":"}}]}`),
			said(`{"tool_calls":[{"index":0,"function":{"arguments":"1}"}}]}`), end("stop"), done},
			modeltest.Answer{Calls: []string{`a f {"a":1}`}}},
		{"ids as numbers and indices as strings", []string{strings.Replace(hello, `"index":0`, `"index":"0"`, 1),
			said(`{"tool_calls":[{"index":"0","id":7,"function":{"name":"f","arguments":"{"}}]}`),
			said(`{"tool_calls":[{"index":"1","id":8,"function":{"name":"f","arguments":"{}"}}]}`),
			said(`{"tool_calls":[{"index":"0","function":{"arguments":"}"}}]}`), end("stop"), done},
			modeltest.Answer{Text: "hello", Calls: []string{"7 f {}", "8 f {}"}}},
		{"fields of other types", []string{`{"id":{},"choices":[{"index":0,"delta":{"content":"hello","annotations":7,` +
			`"tool_calls":{}},"logprobs":3}],"error":{}}`, end("stop"), done}, modeltest.Answer{Text: "hello"}},
		{"malformed arguments", []string{said(
			`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"a\": nope"}}]}`), end(
			"stop"), done}, modeltest.Answer{Calls: []string{`a f {"a": nope`}}},
		{"text behind a call", []string{said(
			`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{"}}]}`), hello, said(
			`{"tool_calls":[{"index":0,"function":{"arguments":"}"}}]}`), end("stop"), done},
			modeltest.Answer{Text: "hello", Calls: []string{"a f {}"}}},
		{"nothing counts after the end", []string{hello, end("stop"), hello, end("length"), done},
			modeltest.Answer{Text: "hello"}},
		{"length", []string{hello, end("length"), done}, modeltest.Answer{Text: "hello", Stop: model.StopMaxTokens}},
		{"half a call, for a reason of its own", []string{hello, said(
			`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x"}}]}`), end("bored"), done},
			modeltest.Answer{Text: "hello", Stop: model.StopMaxTokens}},
		{"half a call", []string{said(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]}`),
			said(`{"tool_calls":[{"index":1,"id":"b","function":{"name":"f","arguments":"{\"x"}}]}`), end("length"),
			done},
			modeltest.Answer{Calls: []string{"a f {}"}, Stop: model.StopMaxTokens}},
		{"content filter", []string{hello, end("content_filter"), done},
			modeltest.Answer{Text: "hello", Stop: model.StopContentFilter}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tr := serve(t, pieces("text/event-stream", ": processing\n\n", streamOf(tt.chunks...)))
			got, e := ask(t.Context(), t, tr, model.Request{})
			if e != nil {
				t.Fatal(e)
			}
			if tt.want.Stop == "" {
				tt.want.Stop = model.StopEnd
			}
			tt.want.RequestID = "req_header"
			if len(got.Summary) > 0 {
				got.Summary = []string{strings.Join(got.Summary, "")}
			}
			if tt.want.Opaque = got.Opaque; len(tt.want.Summary) == 0 && len(got.Opaque) > 0 {
				t.Error("opaque content without reasoning")
			}
			if fmt.Sprint(got) != fmt.Sprint(tt.want) {
				t.Errorf("got  %+v\nwant %+v", got, tt.want)
			}
		})
	}
}

func usageOf(in, out, cached, reasoning int64) responses.Usage {
	u := responses.Usage{InputTokens: in, OutputTokens: out, TotalTokens: in + out}
	u.InputTokenDetails.CachedTokens, u.OutputTokenDetails.ReasoningTokens = cached, reasoning
	return u
}

func TestStreamFaults(t *testing.T) {
	tests := []struct {
		name   string
		chunks []string
		text   string
		kind   model.ErrorKind
		says   string
		again  bool
	}{
		{"no end at all", []string{hello}, "hello", model.KindTransport, "ended before", true},
		{"nothing", nil, "", model.KindTransport, "ended before", true},
		{"garbage", []string{hello, `{"choices":`}, "hello", model.KindProtocol, "can't be read", false},
		{"no JSON", []string{`upstream timeout`}, "", model.KindProtocol, "can't be read", false},
		{"a wrong type of a key", []string{`{"choices":7}`}, "", model.KindProtocol, "can't be read", false},
		{"a call without a name", []string{said(`{"tool_calls":[{"index":0,"id":"a","function":{"arguments":"{}"}}]}`),
			end("tool_calls"), done}, "", model.KindProtocol, "names no tool", false},
		{"a reason that is a failure", []string{end("insufficient_system_resource"), done}, "", model.KindOverloaded,
			"insufficient_system_resource", true},
		{"an error object", []string{hello, `{"error":{"message":"upstream is gone","code":502}}`}, "hello",
			model.KindOverloaded, "upstream is gone", true},
		{"an error of limits", []string{`{"error":{"message":"slow down","code":"429"},"choices":[]}`}, "",
			model.KindRateLimited, "slow down", true},
		{"an error of words", []string{`{"error":"overdone"}`}, "", model.KindOverloaded, "overdone", false},
		{"a conversation that is too long",
			[]string{`{"error":{"message":"the request exceeds the available context size",` +
				`"type":"exceed_context_size_error","code":400}}`}, "", model.KindContextLength, "context size", false},
		{"too many calls", []string{manyCalls(5000)}, "", model.KindProtocol, "more than 4096", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a, e := ask(t.Context(), t, serve(t, sse(streamOf(tt.chunks...))), model.Request{})
			modeltest.WantError(t, e, tt.kind, tt.says)
			expect.Equal(t, "the text before the error", a.Text, tt.text)
			expect.Equal(t, "retryable", e.Retryable(), tt.again)
			if e.Diagnostics == nil || !strings.HasPrefix(e.Diagnostics.URL, "http://127.0.0.1") {
				t.Errorf("diagnostics %+v", e.Diagnostics)
			}
		})
	}
}

func manyCalls(n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"index":%d,"id":"c%d","function":{"name":"f","arguments":"{}"}}`, i, i)
	}
	return said(`{"tool_calls":[` + b.String() + `]}`)
}

func TestBrokenConnections(t *testing.T) {
	// The way in which the connection ends after a complete answer does not matter.
	late := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, streamOf(hello, end("stop"))+"data: {\"cho")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})
	if a, e := ask(t.Context(), t, late, model.Request{}); e != nil || a.Text != "hello" {
		t.Errorf("after the end: %+v %v", a, e)
	}
	refused := serve(t, sse(""), func(o *chat.Options) {
		o.BaseURL = "http://user:hidden-word@127.0.0.1:1/v1?key=hidden-word"
	})
	_, e := ask(t.Context(), t, refused, model.Request{})
	modeltest.WantError(t, e, model.KindTransport, "")
	if shown := fmt.Sprintf("%+v %+v", e, e.Diagnostics); strings.Contains(shown, "hidden-word") {
		t.Errorf("the error shows a secret of the address: %s", shown)
	}
}

// Some servers end a stream with the whole message. What is new in it is said, and nothing twice.
func TestWholeMessageBehindItsDeltas(t *testing.T) {
	whole := func(message string) string {
		return `{"choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant",` + message + `}}]}`
	}
	noID := `"tool_calls":[{"index":0,"type":"function","function":{"name":"f","arguments":"{}"}}]`
	thought := `{"choices":[{"index":0,"delta":{"reasoning_content":"hm"}}]}`
	call := `"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]`
	for name, tt := range map[string]struct {
		events []string
		text   string
		calls  int
	}{
		"the same":       {[]string{hello, whole(`"content":"hello"`)}, "hello", 0},
		"with more":      {[]string{hello, whole(`"content":"hello you"`)}, "hello you", 0},
		"another":        {[]string{hello, whole(`"content":"bye"`)}, "hello", 0},
		"without a text": {[]string{hello, whole(`"content":null`)}, "hello", 0},
		"with a call":    {[]string{hello, whole(`"content":"hello",` + call)}, "hello", 1},
		"with an empty piece": {[]string{hello, strings.Replace(whole(`"content":"hello you"`), `"message"`,
			`"delta":{},"message"`, 1)}, "hello you", 0},
		"a call without an id twice": {[]string{strings.Replace(whole(noID), "message", "delta", 1),
			strings.Replace(whole(noID), "message", "delta", 1)}, "", 1},
		"behind a thought": {[]string{thought, whole(`"content":"hello"`)}, "hello", 0},
		"a whole call twice": {[]string{strings.Replace(whole(call), "message", "delta", 1),
			strings.Replace(whole(call), "message", "delta", 1)}, "", 1},
		"alone": {[]string{whole(`"content":"hello",` + call)}, "hello", 1},
	} {
		a, e := ask(t.Context(), t, serve(t, sse(streamOf(append(tt.events, done)...))), model.Request{})
		if e != nil || a.Text != tt.text || len(a.Calls) != tt.calls {
			t.Errorf("%s: %q, %d calls, %v, want %q, %d", name, a.Text, len(a.Calls), e, tt.text, tt.calls)
		}
	}
}

func wire() modeltest.Wire {
	return modeltest.Wire{
		New: func(o endpoint.Options) (model.Transport, error) {
			o.Provider = "lab"
			return chat.New(chat.Options{Options: o})
		},
		Prefix: "LAB", Begin: streamOf(hello), Half: "data: {\"choices\":[", End: streamOf(end("stop"), done),
	}
}

func TestFaults(t *testing.T) { modeltest.Faults(t, wire()) }

func TestStatuses(t *testing.T) {
	overloaded := func(says string, again bool) modeltest.Refusal {
		return modeltest.Refusal{Kind: model.KindOverloaded, Code: responses.CodeProviderUnavailable, Says: says,
			Retryable: again}
	}
	wire().Statuses(t, []modeltest.Status{
		{Status: 402, Body: `{"error":{"message":"Insufficient Balance"}}`, Want: modeltest.Refusal{
			Kind: model.KindRateLimited, Code: responses.CodeRateLimit, Says: "Insufficient Balance"}},
		{Status: 422, Body: `{"detail":"extra fields"}`, Want: modeltest.Refusal{
			Kind: model.KindInvalidRequest, Code: responses.CodeModelError, Says: "extra fields"}},
		{Status: 400, Body: `{"error":{"message":"This model's maximum context length is 8 tokens"}}`,
			Want: modeltest.Refusal{Kind: model.KindContextLength, Code: responses.CodeContextLength}},
		{Status: 501, Body: "", Want: overloaded("501", false)},
		{Status: 529, Body: "", Want: overloaded("529", true)},
	})
}
