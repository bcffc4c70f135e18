package chat_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"holon/agentd/model"
	"holon/agentd/model/chat"
	"holon/internal/providers"
	"holon/responses"
	"holon/test/expect"
	"holon/test/modeltest"
)

// sentFor returns the body that is sent for a request, and its headers.
func sentFor(t testing.TB, req model.Request, change ...func(*chat.Options)) (body string, header http.Header,
	target string) {
	t.Helper()
	tr := serve(t, func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		body, header, target = string(b), r.Header, r.Method+" "+r.URL.Path
		sse(streamOf(hello, end("stop"), done))(w, r)
	}, change...)
	if _, e := ask(t.Context(), t, tr, req); e != nil {
		t.Fatal(e)
	}
	return body, header, target
}

func text(role responses.Role, s string) *responses.Message {
	return &responses.Message{Role: role, Content: []responses.Part{responses.InputText(s)}}
}

func thought(provider, s, opaque string) *responses.Reasoning {
	return &responses.Reasoning{Summary: []responses.Part{{Type: responses.PartSummaryText, Text: s}},
		EncryptedContent: model.Seal(provider, opaque)}
}

func TestHeaders(t *testing.T) {
	body, h, target := sentFor(t, model.Request{Model: "m"}, func(o *chat.Options) {
		o.Headers = map[string]string{"X-Extra": "e"}
	})
	expect.Equal(t, "Authorization", h.Get("Authorization"), "Bearer "+modeltest.Sentinel)
	expect.Equal(t, "Accept", h.Get("Accept"), "text/event-stream")
	expect.Equal(t, "X-Extra", h.Get("X-Extra"), "e")
	expect.Equal(t, "target", target, "POST /v1/chat/completions")
	want := `{"messages":[],"model":"m","stream":true,"stream_options":{"include_usage":true}}`
	expect.Equal(t, "the least request", strings.TrimSpace(body), want)
}

// conversation has an item of every kind that is told.
func conversationOf() []responses.Item {
	image := responses.Part{Type: responses.PartInputImage, ImageURL: "data:image/png;base64,AA==", Detail: "low"}
	return []responses.Item{
		text(responses.RoleDeveloper, "d"), text(responses.RoleUser, "look"),
		&responses.Message{Role: responses.RoleUser,
			Content: []responses.Part{responses.InputText("at"), image,
				{Type: responses.PartInputFile, FileName: "f.pdf", FileData: "data:y"}}},
		thought("lab", "hm", "eyJrIjoicmVhc29uaW5nX2NvbnRlbnQifQ"), // {"k":"reasoning_content"}
		&responses.Message{Role: responses.RoleAssistant,
			Content: []responses.Part{responses.OutputText("I look <here>."),
				{Type: responses.PartRefusal, Refusal: "No."}}},
		&responses.ToolCall{CallID: "c1", Name: "ViewImage", Arguments: `{"path":"a"}`, Output: "shown",
			Media: []responses.Part{image}},
		// {"d":[{"type":"reasoning.encrypted","data":"x"}]}
		thought("lab", "so", "eyJkIjpbeyJ0eXBlIjoicmVhc29uaW5nLmVuY3J5cHRlZCIsImRhdGEiOiJ4In1dfQ"),
		&responses.ToolCall{CallID: "c2", Name: "ExecCommand", Arguments: `{"cmd": nope`,
			Output: "the arguments are malformed"},
		&responses.FunctionCall{CallID: "c3", Name: "weather", Arguments: ""},
		&responses.FunctionCall{CallID: "c4", Name: "weather", Arguments: `{}`},
		&responses.ToolCall{CallID: "c5", Name: "ExecCommand", Arguments: `{"cmd":"ls"}`, Output: "out"},
		&responses.FunctionCallOutput{CallID: "c3", Output: []responses.Part{responses.InputText("sunny"), image}},
		thought("another", "theirs", "zzz"),
		&responses.Message{Role: responses.RoleAssistant, Content: []responses.Part{responses.OutputText("Sunny.")}},
		&responses.FunctionCallOutput{CallID: "lost", Output: []responses.Part{responses.InputText("late")}},
		text(responses.RoleUser, "thanks"),
	}
}

func fullRequest() model.Request {
	limit, effort, strict, yes := 100, "high", true, "what it is"
	return model.Request{
		Model: "m", Instructions: "Be brief.", Input: conversationOf(), MaxOutputTokens: &limit, Temperature: 0.5,
		Sampling: responses.Sampling{Temperature: true},
		Tools: []model.Tool{{Name: "f", Description: "d", Parameters: json.RawMessage(`{"type":"object"}`),
			Strict: &strict}, {Name: "g"}, {Name: "hidden"}},
		ToolChoice: responses.ToolChoice{Mode: "required", Allowed: []string{"f", "g"}},
		Reasoning:  &responses.ReasoningConfig{Effort: &effort},
		Text: responses.TextConfig{Format: responses.TextFormat{Type: "json_schema", Name: "n",
			Description: &yes, Schema: json.RawMessage(`{"type":"object"}`), Strict: true}},
		ServiceTier: "flex", Logprobs: true, TopLogprobs: 2, Metadata: map[string]string{"k": "v"}, PromptCacheKey: "p",
	}
}

func TestRequests(t *testing.T) {
	dialects := map[string]providers.Dialect{
		"request-plain.json": {Images: true, Files: true},
		"request-strict.json": {Images: true, Files: true, Thoughts: providers.ThoughtsDropped, ShortCallIDs: true,
			Omit:         []string{"stream_options", "strict", "logprobs", "top_logprobs"},
			MaxTokensKey: "max_completion_tokens"},
		"request-demanding.json": {Images: true, Files: true, Thoughts: providers.ThoughtsDemanded,
			Structured: providers.StructuredObject, EffortKey: "reasoning"},
	}
	for name, d := range dialects {
		body, _, _ := sentFor(t, fullRequest(), func(o *chat.Options) { o.Dialect = d })
		modeltest.Golden(t, name, json.RawMessage(body))
	}
}

// Content that a provider cannot be sent is an error that names it, and nothing is sent.
func TestRequestRefusals(t *testing.T) {
	tr := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("it was asked") })
	for _, item := range []responses.Item{
		&responses.Message{Role: responses.RoleUser,
			Content: []responses.Part{{Type: responses.PartInputImage, ImageURL: "data:x"}}},
		&responses.Message{Role: responses.RoleUser,
			Content: []responses.Part{{Type: responses.PartInputFile, FileURL: "https://x"}}},
		&responses.Compaction{EncryptedContent: "z"}, &responses.ItemReference{ID: "msg_1"},
	} {
		_, e := ask(t.Context(), t, tr, model.Request{Input: []responses.Item{item}})
		modeltest.WantError(t, e, model.KindInvalidRequest, "item 0")
	}
}

// A conversation that grows at its end, round by round, becomes messages that
// grow at their end, so that a provider's cache holds.
func TestMessagesAreAppendOnly(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var input []responses.Item
		var before []json.RawMessage
		calls := 0
		for range rapid.IntRange(1, 5).Draw(rt, "rounds") {
			if len(input) == 0 || rapid.Bool().Draw(rt, "user") {
				input = append(input, text(responses.RoleUser, "u"))
			}
			if rapid.Bool().Draw(rt, "thinks") {
				input = append(input, thought("lab", "hm", "eyJrIjoicmVhc29uaW5nIn0"))
			}
			if rapid.Bool().Draw(rt, "says") {
				input = append(input, &responses.Message{Role: responses.RoleAssistant,
					Content: []responses.Part{responses.OutputText("t")}})
			}
			var waiting []responses.Item
			for range rapid.IntRange(1, 3).Draw(rt, "calls") {
				calls++
				id := fmt.Sprint("c", calls)
				if rapid.Bool().Draw(rt, "own") {
					input = append(input, &responses.ToolCall{CallID: id, Name: "f", Arguments: "{}", Output: "o"})
				} else {
					input = append(input, &responses.FunctionCall{CallID: id, Name: "f", Arguments: "{}"})
					waiting = append(waiting, &responses.FunctionCallOutput{CallID: id,
						Output: []responses.Part{responses.InputText("o")}})
				}
			}
			input = append(input, waiting...)
			body, _, _ := sentFor(t, model.Request{Input: input})
			var sent struct{ Messages []json.RawMessage }
			expect.NoError(rt, json.Unmarshal([]byte(body), &sent))
			for i, m := range before {
				if string(sent.Messages[i]) != string(m) {
					rt.Fatalf("message %d was %s and is %s", i, m, sent.Messages[i])
				}
			}
			checkAdjacent(rt, sent.Messages)
			before = sent.Messages
		}
	})
}

// checkAdjacent checks that every message with calls is followed by their
// results, and that there are no others.
func checkAdjacent(rt *rapid.T, messages []json.RawMessage) {
	open := map[string]bool{}
	for _, raw := range messages {
		var m struct {
			Role       string
			ToolCallID string                `json:"tool_call_id"`
			ToolCalls  []struct{ ID string } `json:"tool_calls"`
		}
		expect.NoError(rt, json.Unmarshal(raw, &m))
		if m.Role == "tool" {
			if !open[m.ToolCallID] {
				rt.Fatalf("the result of %s has no place", m.ToolCallID)
			}
			delete(open, m.ToolCallID)
			continue
		}
		if len(open) > 0 {
			rt.Fatalf("calls without results before %s", raw)
		}
		for _, c := range m.ToolCalls {
			open[c.ID] = true
		}
	}
	if len(open) > 0 {
		rt.Fatal("calls without results at the end")
	}
}

// Reasoning returns to the provider that wrote it, in its own form, and to no other.
func TestThoughtsComeBack(t *testing.T) {
	chunks := []string{said(`{"reasoning":"hm","reasoning_details":[{"type":"x","data":"d"}]}`),
		said(`{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"{}"}}]}`), end("tool_calls"), done}
	a, e := ask(t.Context(), t, serve(t, sse(streamOf(chunks...))), model.Request{})
	if e != nil || len(a.Opaque) != 1 {
		t.Fatalf("%+v %v", a, e)
	}
	kept := &responses.Reasoning{Summary: []responses.Part{{Type: responses.PartSummaryText, Text: a.Summary[0]}},
		EncryptedContent: a.Opaque[0]}
	input := []responses.Item{kept, &responses.ToolCall{CallID: "c", Name: "f", Arguments: "{}"}}
	body, _, _ := sentFor(t, model.Request{Input: input})
	expect.Contains(t, "body", body, `"reasoning":"hm","reasoning_details":[{"type":"x","data":"d"}],"tool_calls"`)
	if body, _, _ = sentFor(t, model.Request{Input: input}, func(o *chat.Options) {
		o.Provider = "other"
	}); strings.Contains(body, "reasoning") {
		t.Errorf("another provider is told %s", body)
	}
}

// Gemini signs the thought that led to a call within the first call of an answer,
// and refuses the call without it.
func TestSignaturesOfCallsComeBack(t *testing.T) {
	const signature = `{"google":{"thought_signature":"c2ln"}}`
	for name, chunks := range map[string][]string{
		"in one piece": {said(`{"tool_calls":[{"index":0,"id":"a","extra_content":` + signature +
			`,"function":{"name":"f","arguments":"{}"}},{"index":1,"id":"b","function":{"name":"g",` +
			`"arguments":"{}"}}]}`)},
		"after a thought": {said(`{"reasoning":"hm"}`),
			said(`{"tool_calls":[{"index":0,"id":"a","extra_content":` + signature +
				`,"function":{"name":"f","arguments":""}}]}`),
			said(`{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]}`),
			said(`{"tool_calls":[{"index":1,"id":"b","extra_content":{"x":1},"function":{"name":"g",` +
				`"arguments":"{}"}}]}`)},
	} {
		t.Run(name, func(t *testing.T) {
			a, e := ask(t.Context(), t, serve(t, sse(streamOf(append(chunks, end("tool_calls"), done)...))),
				model.Request{})
			switch {
			case e != nil:
				t.Fatalf("e = %v, want nil", e)
			case len(a.Opaque) != 1:
				t.Fatalf("len(a.Opaque) = %d (%q), want 1", len(a.Opaque), a.Opaque)
			case len(a.Calls) != 2:
				t.Fatalf("len(a.Calls) = %d (%q), want 2", len(a.Calls), a.Calls)
			}
			input := []responses.Item{
				&responses.Reasoning{EncryptedContent: a.Opaque[0]},
				&responses.ToolCall{CallID: "a", Name: "f", Arguments: "{}", Round: "r"},
				&responses.ToolCall{CallID: "b", Name: "g", Arguments: "{}", Round: "r"},
			}
			for _, thoughts := range []providers.Thoughts{0, providers.ThoughtsDropped} {
				body, _, _ := sentFor(t, model.Request{Input: input}, func(o *chat.Options) {
					o.Dialect.Thoughts = thoughts
				})
				if want := `{"id":"a","type":"function","function":{"name":"f","arguments":"{}"},"extra_content":` +
					signature + `},{"id":"b","type":"function","function":{"name":"g",` +
					`"arguments":"{}"}}]`; !strings.Contains(body, want) {
					t.Errorf("%s lacks %s", body, want)
				}
			}
			if body, _, _ := sentFor(t, model.Request{Input: input}, func(o *chat.Options) {
				o.Provider = "other"
			}); strings.Contains(body, "extra_content") {
				t.Errorf("another provider is told %s", body)
			}
		})
	}
}

func FuzzChunks(f *testing.F) {
	f.Add(hello + "\n" + end("stop"))
	f.Add(said(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}},{"index":-1,`+
		`"function":{"arguments":{}}}]}`) + "\n" + end("length"))
	f.Add(said(`{"content":[{"type":"thinking","thinking":[{"thinking":[]}]}],"reasoning_details":[1,null]}`) + "\n" +
		`{"error":[]}`)
	f.Add(`{"choices":[{"delta":{"function_call":{"arguments":7}},"finish_reason":"stop",` +
		`"usage":{"total_tokens":1e30}}]}`)
	f.Fuzz(func(t *testing.T, chunks string) {
		tr := serve(t, sse(streamOf(append(strings.Split(chunks, "\n"), done)...)))
		a, _ := ask(t.Context(), t, tr, model.Request{}) // which checks that the events are legal
		if a.Usage.TotalTokens < 0 {
			t.Errorf("%+v", a.Usage)
		}
	})
}
