package anthropic_test

import (
	"encoding/json"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/google/go-cmp/cmp"

	"holon/agentd/model"
	"holon/agentd/model/anthropic"
	"holon/responses"
	"holon/test/expect"
	"holon/test/modeltest"
)

// sentFor returns the body that is sent for a request, and its headers. The body
// is one that the official client could have made.
func sentFor(t *testing.T, unix bool, req model.Request, change ...func(*anthropic.Options)) (body string,
	header http.Header, target string) {
	t.Helper()
	whole := replay(answer("end_turn"))
	if req.Model == "" {
		req.Model = "m"
	}
	if req.Input == nil {
		req.Input = []responses.Item{text(responses.RoleUser, "u")}
	}
	tr := serve(t, unix, func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		body, header, target = string(b), r.Header, r.Method+" "+r.Host+r.URL.String()
		whole(w, r)
	}, change...)
	if _, e := modeltest.Ask(t.Context(), t, tr, req); e != nil {
		t.Fatal(e)
	}
	checkBody(t, body)
	return body, header, target
}

// checkBody holds a body against the official client's types: what they read of
// it and write again is the same.
func checkBody(t *testing.T, body string) {
	t.Helper()
	var params sdk.MessageNewParams
	if err := json.Unmarshal([]byte(body), &params); err != nil {
		t.Fatalf("%v\n%s", err, body)
	}
	again, err := json.Marshal(params)
	expect.NoError(t, err)
	var want, got map[string]any
	expect.NoError(t, json.Unmarshal([]byte(body), &want))
	expect.NoError(t, json.Unmarshal(again, &got))
	delete(want, "stream") // the client adds it to the call
	if thinking, ok := want["thinking"].(map[string]any); ok {
		delete(thinking, "block_binding") // the client has it among its beta types
	}
	for _, m := range want["messages"].([]any) { // the client writes every content as a list
		for _, b := range m.(map[string]any)["content"].([]any) {
			if b := b.(map[string]any); b["type"] == "tool_result" {
				if text, ok := b["content"].(string); ok {
					b["content"] = []any{map[string]any{"type": "text", "text": text}}
				}
			}
		}
	}
	if !reflect.DeepEqual(want, got) {
		t.Errorf("the client's types make another body (-ours +theirs):\n%s", cmp.Diff(want, got))
	}
}

func TestHeaders(t *testing.T) {
	_, h, target := sentFor(t, false, model.Request{Model: "m"}, func(o *anthropic.Options) {
		o.BaseURL += "/prefix/"
		o.Headers = map[string]string{"X-Extra": "e"}
	})
	wantHeaders(t, h, map[string]string{"X-Api-Key": modeltest.Sentinel, "Authorization": "",
		"Accept": "text/event-stream", "Content-Type": "application/json", "Anthropic-Version": "2023-06-01",
		"Anthropic-Beta": "", "X-Extra": "e"})
	if want := "/prefix/v1/messages"; !strings.HasSuffix(target, want) {
		t.Errorf("asked for %s, want it to end with %s", target, want)
	}
	_, h, target = sentFor(t, true, model.Request{Model: "claude-opus-5-5"}, func(o *anthropic.Options) {
		o.APIKey = ""
	})
	wantHeaders(t, h, map[string]string{"X-Api-Key": "", "Authorization": "",
		"Anthropic-Beta": "thinking-binding-controls-2026-08-01"})
	expect.Equal(t, "the gateway was asked for", target, "POST model/anthropic/v1/messages")
}

func wantHeaders(t *testing.T, got http.Header, want map[string]string) {
	t.Helper()
	for name, value := range want {
		expect.Equal(t, "header", got.Get(name), value)
	}
}

// parameters returns a body without its messages and markers.
func parameters(body string) string {
	at := strings.Index(body, `,"messages":[`)
	return strings.ReplaceAll(body[:at], marker, "")
}

const marker = `,"cache_control":{"type":"ephemeral"}`

func TestParameters(t *testing.T) {
	limit, strict := 100, true
	req := model.Request{
		Model: "claude-opus-4-6", Instructions: "i", MaxOutputTokens: &limit, Temperature: 1.5, TopP: 0.5,
		Sampling:        responses.Sampling{Temperature: true, TopP: true},
		PresencePenalty: 1, Logprobs: true, PromptCacheKey: "k",
		Tools: []model.Tool{
			{Name: "a", Description: "does a", Parameters: json.RawMessage(`{"type":"object","z":1,"b":2}`)},
			{Name: "b", Strict: &strict, Parameters: json.RawMessage(
				`{"properties":{"n":{"type":"integer","minimum":1}}}`)},
			{Name: "c", Parameters: json.RawMessage(`null`)},
		},
		ToolChoice: responses.ToolChoice{Mode: "required"}, ServiceTier: "auto", SafetyIdentifier: "s",
		Metadata: map[string]string{"m": "v"},
		Text: responses.TextConfig{Verbosity: "low",
			Format: responses.TextFormat{Type: "json_schema", Name: "n",
				Schema: json.RawMessage(`{"type":"object","properties":{"a":{"type":["string","null"]}}}`)}},
	}
	body, _, _ := sentFor(t, false, req)
	want := `{"model":"claude-opus-4-6","max_tokens":100,"stream":true,"temperature":1,"service_tier":"auto",` +
		`"metadata":{"user_id":"s"},` +
		`"output_config":{"format":{"type":"json_schema","schema":{"additionalProperties":false,` +
		`"properties":{"a":{"type":["string","null"]}},"type":"object"}}},` +
		`"tool_choice":{"type":"any","disable_parallel_tool_use":true},` +
		`"tools":[{"name":"a","description":"does a","input_schema":{"type":"object","z":1,"b":2}},` +
		`{"name":"b","input_schema":{"additionalProperties":false,` +
		`"properties":{"n":{"description":"{\"minimum\":1}","type":"integer"}},"type":"object"},"strict":true},` +
		`{"name":"c","input_schema":{"type":"object","properties":{}}}],"system":[{"type":"text","text":"i"}]`
	if diff := cmp.Diff(want, parameters(body)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if n := strings.Count(body, marker); n != 3 {
		t.Errorf("%d markers in %s", n, body)
	}
}

// A prefix that other conversations share ends with a marker of its own, which
// keeps the tools as well: they come before. There are never more than four.
func TestSharedInstructions(t *testing.T) {
	user := func(text string) responses.Item {
		return &responses.Message{Role: responses.RoleUser,
			Content: []responses.Part{{Type: responses.PartInputText, Text: text}}}
	}
	answer := &responses.Message{Role: responses.RoleAssistant,
		Content: []responses.Part{{Type: responses.PartOutputText, Text: "a"}}}
	for _, test := range []struct {
		breakpoints []int
		want        string // of tools and system
		markers     int
	}{
		{nil, `"input_schema":{"type":"object","properties":{}}` + marker +
			`}],"system":[{"type":"text","text":"policy\n\nrest"` + marker + `}]`, 4},
		{[]int{6}, `"input_schema":{"type":"object","properties":{}}}],"system":[{"type":"text","text":"policy"` +
			marker + `},{"type":"text","text":"\n\nrest"` + marker + `}]`, 4},
		{[]int{2, 6}, `"system":[{"type":"text","text":"policy"` + marker + `},{"type":"text","text":"\n\nrest"` +
			marker + `}]`, 4},
		{[]int{12}, `"system":[{"type":"text","text":"policy\n\nrest"` + marker + `}]`, 4}, // nothing follows
	} {
		body, _, _ := sentFor(t, false, model.Request{Model: "claude-opus-4-6", Instructions: "policy\n\nrest",
			Breakpoints: test.breakpoints,
			Tools:       []model.Tool{{Name: "a"}}, Input: []responses.Item{user("1"), answer, user("2")}})
		if !strings.Contains(body, test.want) || strings.Count(body, marker) != test.markers {
			t.Errorf("%v: %s\nwant %s and %d markers", test.breakpoints, body, test.want, test.markers)
		}
	}
}

// Which calls a model may make.
func TestToolChoice(t *testing.T) {
	a, b := model.Tool{Name: "a"}, model.Tool{Name: "b"}
	const schema = `,"input_schema":{"type":"object","properties":{}}}`
	both := `"tools":[{"name":"a"` + schema + `,{"name":"b"` + schema + `]`
	called := []responses.Item{&responses.ToolCall{CallID: "c", Name: "old", Output: "x"}}
	tests := []struct {
		name, model string
		req         model.Request
		want        string
	}{
		{"auto", "claude-opus-5", model.Request{Tools: []model.Tool{a, b}, ParallelToolCalls: true}, both},
		{"one at a time", "claude-opus-5", model.Request{Tools: []model.Tool{a, b}},
			`"tool_choice":{"type":"auto","disable_parallel_tool_use":true},` + both},
		{"none", "claude-opus-5", model.Request{Tools: []model.Tool{a, b},
			ToolChoice: responses.ToolChoice{Mode: "none"}}, `"tool_choice":{"type":"none"},` + both},
		{"a certain one", "claude-opus-4-8",
			model.Request{Tools: []model.Tool{a, b}, ParallelToolCalls: true,
				ToolChoice: responses.ToolChoice{Name: "a"}}, `"tool_choice":{"type":"tool","name":"a"},` + both},
		{"one that can't be forced", "claude-opus-5-5",
			model.Request{Tools: []model.Tool{a, b}, ParallelToolCalls: true,
				ToolChoice: responses.ToolChoice{Name: "a"}}, both},
		{"allowed", "claude-opus-5", model.Request{Tools: []model.Tool{a, b}, ParallelToolCalls: true,
			ToolChoice: responses.ToolChoice{Allowed: []string{"b"},
				Mode: "required"}}, `"tool_choice":{"type":"any"},"tools":[{"name":"b"` + schema + `]`},
		{"none allowed", "claude-opus-5", model.Request{Tools: []model.Tool{a, b},
			ToolChoice: responses.ToolChoice{Allowed: []string{}}}, `"tool_choice":{"type":"none"},` + both},
		{"no tools", "claude-opus-5", model.Request{ToolChoice: responses.ToolChoice{Mode: "required"}}, ""},
		{"no tools any more", "claude-opus-5", model.Request{Input: called},
			`"tool_choice":{"type":"none"},"tools":[{"name":"old","description":"No longer offered."` + schema + `]`},
	}
	for _, tt := range tests {
		tt.req.Model = tt.model
		body, _, _ := sentFor(t, true, tt.req)
		_, got, _ := strings.Cut(parameters(body), `"stream":true`)
		got = strings.TrimPrefix(strings.ReplaceAll(got, `,"thinking":{"type":"adaptive","display":"summarized"}`, ""),
			`,"thinking":{"type":"adaptive","display":"summarized",`+
				`"block_binding":{"prefix_mismatch_behavior":"drop_block"}}`)
		if got = strings.TrimPrefix(got, ","); got != tt.want {
			t.Errorf("%s:\n%s\nwant\n%s", tt.name, got, tt.want)
		}
	}
}

// How much a model thinks, by what it takes.
func TestThinking(t *testing.T) {
	const summarized, bound = `"thinking":{"type":"adaptive","display":"summarized"}`,
		`"thinking":{"type":"adaptive","display":"summarized",` +
			`"block_binding":{"prefix_mismatch_behavior":"drop_block"}}`
	effort := func(e string) string { return `,"output_config":{"effort":"` + e + `"}` }
	tests := []struct{ model, effort, want string }{
		{"claude-opus-4-8", "", ""}, {"claude-opus-4-8", "none", ""},
		{"claude-opus-4-8", "low", summarized + effort("low")},
		{"claude-opus-4-8", "xhigh", summarized + effort("xhigh")},
		{"claude-opus-4-6", "max", summarized + effort("max")},
		{"claude-opus-4-6", "xhigh", summarized + effort("max")},
		{"claude-sonnet-4-6", "xhigh", summarized + effort("high")},
		{"claude-opus-5", "", summarized}, {"claude-opus-5", "none", `"thinking":{"type":"disabled"}`},
		{"claude-opus-5", "minimal", summarized + effort("low")}, {"claude-opus-5", "odd", summarized},
		{"claude-sonnet-5-5", "none", `"thinking":{"type":"between_tools"}`},
		{"claude-haiku-5-5", "none", `"thinking":{"type":"disabled"}`},
		{"claude-fable-5-1", "none", bound + effort("low")},
		{"claude-opus-5-5-20261001", "medium", bound + effort("medium")},
		{"claude-next", "high", bound + effort("high")},
		{"claude-haiku-4-5-20251001", "", ""},
		{"claude-haiku-4-5-20251001", "medium", `"thinking":{"type":"enabled","budget_tokens":10240}`},
		{"claude-opus-4-20250514", "max", `"thinking":{"type":"enabled","budget_tokens":24576}`},
		{"claude-3-7-sonnet-latest", "low", `"thinking":{"type":"enabled","budget_tokens":4096}`},
		{"claude-3-5-haiku-latest", "high", ""},
		{"kimi-k2", "low", `"thinking":{"type":"enabled","budget_tokens":4096}`}, {"kimi-k2", "", ""},
	}
	for _, tt := range tests {
		req := model.Request{Model: tt.model, Temperature: 0.5, Sampling: responses.Sampling{Temperature: true}}
		if tt.effort != "" {
			req.Reasoning = &responses.ReasoningConfig{Effort: &tt.effort}
		}
		body, _, _ := sentFor(t, true, req)
		_, got, _ := strings.Cut(parameters(body), `"stream":true`)
		got = strings.TrimPrefix(got, ",")
		if warm := strings.HasPrefix(got, `"temperature":0.5`); warm == (strings.Contains(tt.want, "thinking") ||
			anthropic.RefusesSampling(tt.model)) {
			t.Errorf("%s, %q: %s", tt.model, tt.effort, got)
		}
		got = strings.TrimPrefix(strings.TrimPrefix(got, `"temperature":0.5`), ",")
		if got != tt.want {
			t.Errorf("%s, %q:\n%s\nwant\n%s", tt.model, tt.effort, got, tt.want)
		}
	}
}

// A budget needs room, and such a model does not begin to think in the midst of a
// turn or when it is forced to call.
func TestNoBudget(t *testing.T) {
	effort, small := "high", 2000
	base := model.Request{Model: "claude-sonnet-4-5", Reasoning: &responses.ReasoningConfig{Effort: &effort},
		Tools: []model.Tool{{Name: "f"}}, ParallelToolCalls: true}
	user := text(responses.RoleUser, "u")
	thought := &responses.Reasoning{EncryptedContent: `anthropic:{"type":"thinking","thinking":"t","signature":"s"}`}
	call := &responses.ToolCall{CallID: "c", Name: "f", Output: "o"}
	for name, tt := range map[string]struct {
		change func(*model.Request)
		thinks bool
	}{
		"as asked": {func(*model.Request) {}, true},
		"no room":  {func(r *model.Request) { r.MaxOutputTokens = &small }, false},
		"forced":   {func(r *model.Request) { r.ToolChoice.Mode = "required" }, false},
		"the turn began with a thought": {func(r *model.Request) {
			r.Input = []responses.Item{user, thought, call}
		}, true},
		"the turn began without": {func(r *model.Request) { r.Input = []responses.Item{user, call} }, false},
		"an earlier turn was without": {func(r *model.Request) {
			r.Input = []responses.Item{user, call, text(responses.RoleAssistant, "a"), user}
		}, true},
		"it began before the notice as well": {func(r *model.Request) {
			r.Input = []responses.Item{user, call, text(responses.RoleDeveloper, "d")}
		}, false},
	} {
		req := base
		tt.change(&req)
		body, _, _ := sentFor(t, true, req)
		if got := strings.Contains(body, `"thinking":{"type":"enabled","budget_tokens":24576}`); got != tt.thinks {
			t.Errorf("%s: %s", name, body)
		}
	}
}

// A form is asked for in words where a model can't be held to one.
func TestForms(t *testing.T) {
	form := func(kind, schema string) responses.TextConfig {
		return responses.TextConfig{Format: responses.TextFormat{Type: kind, Schema: json.RawMessage(schema)}}
	}
	for _, tt := range []struct {
		model string
		text  responses.TextConfig
		want  string
	}{
		{"claude-haiku-4-5", form("json_schema", `{"type":"object"}`),
			`"output_config":{"format":{"type":"json_schema","schema":{"additionalProperties":false,"properties":{},` +
				`"type":"object"}}}`},
		{"claude-sonnet-4-20250514", form("json_schema", `{"type":"object"}`),
			`fits this JSON Schema and nothing else, no code fence either:\n{\"type\":\"object\"}"`},
		{"claude-opus-5", form("json_object", ""), `write one JSON object and nothing else`},
		{"claude-opus-5", form("json_schema", ""), `write one JSON object and nothing else`},
	} {
		if body, _, _ := sentFor(t, true, model.Request{Model: tt.model, Text: tt.text}); !strings.Contains(body,
			tt.want) {
			t.Errorf("%s is not in %s", tt.want, body)
		}
	}
}

func TestSchemas(t *testing.T) {
	for in, want := range map[string]string{
		`true`:                             `true`,
		`{"$ref":"#/$defs/a","title":"x"}`: `{"$ref":"#/$defs/a"}`,
		`{"type":["object","null"]}`:       `{"additionalProperties":false,"properties":{},"type":["object","null"]}`,
		`{"type":"object",` +
			`"additionalProperties":{"type":"object"}}`: `{"additionalProperties":{"additionalProperties":false,` +
			`"properties":{},"type":"object"},"type":"object"}`,
		`{"type":"array","minItems":2,` +
			`"items":{"oneOf":[{"type":"x"}]}}`: `{"description":"{\"minItems\":2}",` +
			`"items":{"anyOf":[{"type":"x"}]},"type":"array"}`,
		`{"type":"array","minItems":1}`: `{"minItems":1,"type":"array"}`,
		`{"type":"string","format":"uuid","pattern":"^a",` +
			`"description":"D"}`: `{"description":"D\n\n{\"pattern\":\"^a\"}","format":"uuid","type":"string"}`,
		`{"type":"string",` +
			`"format":"color"}`: `{"description":"{\"format\":\"color\"}",` +
			`"type":"string"}`,
		`{"type":"number",` +
			`"maximum":1e400}`: `{"description":"{\"maximum\":1e400}",` +
			`"type":"number"}`,
		`{"$defs":{"a":{"properties":{"b":{"allOf":[{"const":1}]}}}},` +
			`"$schema":"s"}`: `{"$defs":{"a":{"additionalProperties":false,` +
			`"properties":{"b":{"allOf":[{"const":1}]}}}}}`,
	} {
		got, err := anthropic.ClosedSchema(json.RawMessage(in))
		if err != nil || string(got) != want {
			t.Errorf("%s:\n%s, %v\nwant\n%s", in, got, err, want)
		}
	}
	if _, err := anthropic.ClosedSchema(json.RawMessage(`{`)); err == nil {
		t.Error("broken JSON is accepted")
	}
}

// The limit of an answer is one that the model takes.
func TestOutputLimit(t *testing.T) {
	for name, want := range map[string][3]int{ // without a limit, of 0, of a million
		"claude-opus-5": {64_000, 1, 128_000}, "claude-opus-4-1-20250805": {32_000, 1, 32_000},
		"claude-sonnet-4@20250514":                    {64_000, 1, 64_000},
		"us.anthropic.claude-haiku-4-5-20251001-v1:0": {64_000, 1, 64_000},
		"claude-3-5-sonnet-20241022":                  {8_192, 1, 8_192}, "claude-3-opus-20240229": {4_096, 1, 4_096},
		"claude-2.1": {64_000, 1, 128_000}, "deepseek-chat": {8_192, 1, 1_000_000},
	} {
		c := anthropic.ContractOf(name)
		zero, million := 0, 1_000_000
		expect.Equal(t, name, [3]int{c.Output(nil), c.Output(&zero), c.Output(&million)}, want)
	}
}
