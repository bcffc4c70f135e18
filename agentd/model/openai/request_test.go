package openai_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"holon/agentd/model"
	"holon/agentd/model/openai"
	"holon/responses"
	"holon/test/expect"
	"holon/test/modeltest"
)

// sentFor returns the body that is sent for a request, and its headers.
func sentFor(t *testing.T, unix bool, req model.Request, change ...func(*openai.Options)) (body string,
	header http.Header, target string) {
	t.Helper()
	tr := serve(t, unix, func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		body, header, target = string(b), r.Header, r.Method+" "+r.Host+r.URL.Path
		replay([]string{completed}, false)(w, r)
	}, change...)
	if _, e := ask(t.Context(), t, tr, req); e != nil {
		t.Fatal(e)
	}
	return body, header, target
}

func TestHeaders(t *testing.T) {
	_, h, target := sentFor(t, false, model.Request{}, func(o *openai.Options) {
		o.Headers = map[string]string{"X-Extra": "e"}
	})
	expect.Equal(t, "Authorization", h.Get("Authorization"), "Bearer "+sentinel)
	expect.Equal(t, "Accept", h.Get("Accept"), "text/event-stream")
	expect.Equal(t, "X-Extra", h.Get("X-Extra"), "e")
	expect.Equal(t, "the target ends with the path", strings.HasSuffix(target, "/v1/responses"), true)
	_, h, target = sentFor(t, true, model.Request{}, func(o *openai.Options) { o.APIKey = "" })
	if h.Get("Authorization") != "" || target != "POST model/openai/responses" {
		t.Errorf("to a gateway: %v %v", target, h)
	}
}

func text(role responses.Role, s string) *responses.Message {
	return &responses.Message{ID: "msg_ours", Role: role,
		Content: []responses.Part{{Type: responses.PartText, Text: s}}}
}

func TestInput(t *testing.T) {
	answer := &responses.Message{ID: "msg_ours", Role: responses.RoleAssistant, Phase: responses.PhaseCommentary,
		Content: []responses.Part{responses.OutputText("a <b>"), {Type: responses.PartRefusal, Refusal: "no"}}}
	input := []responses.Item{
		text(responses.RoleDeveloper, "d"), text(responses.RoleUser, "u"),
		&responses.Message{Role: responses.RoleUser,
			Content: []responses.Part{{Type: responses.PartInputImage, ImageURL: "data:x"},
				{Type: responses.PartInputFile, FileName: "f", FileData: "data:y"}}},
		&responses.Reasoning{ID: "rs_ours", Summary: []responses.Part{{Type: responses.PartSummaryText, Text: "s"}},
			EncryptedContent: "opaque"},
		&responses.Reasoning{ID: "rs_ours",
			Content: []responses.Part{{Type: responses.PartReasoningText, Text: "dropped"}}},
		answer,
		&responses.ToolCall{ID: "tc_ours", CallID: "c1", Name: "ExecCommand", Arguments: `{"cmd":"ls"}`, Output: "out",
			Result: json.RawMessage(`{"secret":1}`)},
		&responses.FunctionCall{ID: "fc_ours", CallID: "c2", Name: "weather", Arguments: `{`},
		&responses.FunctionCallOutput{ID: "fco_ours", CallID: "c2",
			Output: []responses.Part{responses.InputText("sunny")}},
		&responses.FunctionCall{CallID: "c3", Name: "left"},
		&responses.FunctionCallOutput{CallID: "c4",
			Output: []responses.Part{responses.InputText("a"),
				{Type: responses.PartInputImage, ImageURL: "https://i"}}},
		&responses.ToolCall{CallID: "c5", Name: "ViewImage", Arguments: `{}`, Output: "a picture",
			Media: []responses.Part{{Type: responses.PartInputImage, ImageURL: "data:i", Detail: "low"}}},
		&responses.Compaction{ID: "cmp_ours", EncryptedContent: "z"},
		&responses.OpaqueItem{Type: "x:y", Raw: json.RawMessage(`{"type":"x:y"}`)},
		&responses.Message{Role: responses.RoleAssistant},
	}
	body, _, _ := sentFor(t, false, model.Request{Model: "gpt-4.1", Instructions: "i", Input: input})
	want := `{"model":"gpt-4.1","instructions":"i","input":[` + strings.Join([]string{
		`{"type":"message","role":"developer","content":[{"type":"input_text","text":"d"}]}`,
		`{"type":"message","role":"user","content":[{"type":"input_text","text":"u"}]}`,
		`{"type":"message","role":"user","content":[{"type":"input_image","image_url":"data:x","detail":"auto"},` +
			`{"type":"input_file","filename":"f","file_data":"data:y"}]}`,
		`{"type":"reasoning","summary":[{"type":"summary_text","text":"s"}],"encrypted_content":"opaque"}`,
		`{"type":"message","role":"assistant","phase":"commentary","content":[{"type":"output_text","text":"a <b>"},` +
			`{"type":"refusal","refusal":"no"}]}`,
		`{"type":"function_call","call_id":"c1","name":"ExecCommand","arguments":"{\"cmd\":\"ls\"}"}`,
		`{"type":"function_call_output","call_id":"c1","output":"out"}`,
		`{"type":"function_call","call_id":"c2","name":"weather","arguments":"{"}`,
		`{"type":"function_call_output","call_id":"c2","output":"sunny"}`,
		`{"type":"function_call","call_id":"c3","name":"left","arguments":""}`,
		`{"type":"function_call_output","call_id":"c3","output":"There is no output: the call was not answered."}`,
		`{"type":"function_call_output","call_id":"c4","output":[{"type":"input_text","text":"a"},` +
			`{"type":"input_image","image_url":"https://i","detail":"auto"}]}`,
		`{"type":"function_call","call_id":"c5","name":"ViewImage","arguments":"{}"}`,
		`{"type":"function_call_output","call_id":"c5","output":[{"type":"input_text","text":"a picture"},` +
			`{"type":"input_image","image_url":"data:i","detail":"low"}]}`,
		`{"type":"compaction","encrypted_content":"z"}`,
	}, ",") + `],"store":false,"stream":true}` + "\n"
	if diff := cmp.Diff(canon(t, want), canon(t, body)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// The next round sends the items of the one before again, byte for byte.
	next, _, _ := sentFor(t, false, model.Request{Model: "gpt-4.1", Instructions: "i",
		Input: append(input, text(responses.RoleUser, "more"))})
	_, sent, _ := strings.Cut(body, `"input":[`)
	items := strings.TrimSuffix(sent, "]}")
	expect.Contains(t, "the next request", next, `"input":[`+items+",")
}

func TestParameters(t *testing.T) {
	ptr := func(s string) *string { return &s }
	limit, strict := 100, true
	req := model.Request{
		Model: "gpt-5", MaxOutputTokens: &limit, Temperature: 0, TopP: 1,
		Sampling: responses.Sampling{Temperature: true},
		Tools: []model.Tool{
			{Name: "a", Description: "does a", Parameters: json.RawMessage(`{"type":"object","z":1,"b":2}`)},
			{Name: "b", Strict: &strict},
		},
		ToolChoice: responses.ToolChoice{Allowed: []string{"a"}, Mode: "required"}, ParallelToolCalls: false,
		Reasoning: &responses.ReasoningConfig{Summary: ptr("auto")},
		Text: responses.TextConfig{Verbosity: "low",
			Format: responses.TextFormat{Type: "json_schema", Name: "n", Schema: json.RawMessage(`{"type":"object"}`),
				Strict: true}},
		ServiceTier: "flex", PromptCacheKey: "k", SafetyIdentifier: "s", Metadata: map[string]string{"m": "v"},
	}
	body, _, _ := sentFor(t, false, req)
	want := `{"model":"gpt-5","input":[],"tools":[` +
		`{"type":"function","name":"a","description":"does a","parameters":{"type":"object","z":1,"b":2},` +
		`"strict":false},` +
		`{"type":"function","name":"b","parameters":{"type":"object","properties":{}},"strict":true}],` +
		`"tool_choice":{"type":"allowed_tools","tools":[{"type":"function","name":"a"}],"mode":"required"},` +
		`"parallel_tool_calls":false,` +
		`"max_output_tokens":100,"temperature":0,"reasoning":{"summary":"auto"},` +
		`"text":{"format":{"type":"json_schema","name":"n","schema":{"type":"object"},"strict":true},` +
		`"verbosity":"low"},` +
		`"service_tier":"flex","prompt_cache_key":"k","safety_identifier":"s","metadata":{"m":"v"},` +
		`"include":["reasoning.encrypted_content"],"store":false,"stream":true}` + "\n"
	if diff := cmp.Diff(canon(t, want), canon(t, body)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	expect.Contains(t, "the keys of a schema in their order", body, `"parameters":{"type":"object","z":1,"b":2}`)
}

// Every form of content that the transport declares reaches the provider, in a
// message and in the output of a call.
func TestMedia(t *testing.T) {
	tr := serve(t, false, func(http.ResponseWriter, *http.Request) {})
	expect.Equal(t, "it declares", model.CapabilitiesOf(tr, "gpt-5"),
		(model.Capabilities{Images: true, Files: true, CacheKey: true}))
	for _, tt := range []struct {
		part responses.Part
		want string
	}{
		{responses.Part{Type: responses.PartInputImage, ImageURL: "https://x/i.png", Detail: "high"},
			`{"type":"input_image","image_url":"https://x/i.png","detail":"high"}`},
		{responses.Part{Type: responses.PartInputImage, ImageURL: "data:image/png;base64,AA=="},
			`{"type":"input_image","image_url":"data:image/png;base64,AA==","detail":"auto"}`},
		{responses.Part{Type: responses.PartInputFile, FileURL: "https://x/f.pdf"},
			`{"type":"input_file","file_url":"https://x/f.pdf"}`},
		{responses.Part{Type: responses.PartInputFile, FileName: "f.pdf", FileData: "data:application/pdf;base64,AA=="},
			`{"type":"input_file","filename":"f.pdf","file_data":"data:application/pdf;base64,AA=="}`},
	} {
		body, _, _ := sentFor(t, false, model.Request{Input: []responses.Item{
			&responses.Message{Role: responses.RoleUser,
				Content: []responses.Part{responses.InputText("look"), tt.part}},
			&responses.FunctionCall{CallID: "c", Name: "f"},
			&responses.FunctionCallOutput{CallID: "c", Output: []responses.Part{tt.part}},
		}})
		want := canon(t, tt.want)
		for _, want := range []string{`"content":[{"text":"look","type":"input_text"},` + want + `]`,
			`"call_id":"c","output":[` + want + `]`} {
			if body := canon(t, body); !strings.Contains(body, want) {
				t.Errorf("%s is not in %s", want, body)
			}
		}
	}
}

// What a provider of this API would refuse is said in the form that it takes.
func TestFormsThatTheProviderTakes(t *testing.T) {
	one := 1
	for want, req := range map[string]model.Request{
		`"max_output_tokens":16`: {MaxOutputTokens: &one},
		`"text":{"format":{"type":"json_object"}}`: {
			Text: responses.TextConfig{Format: responses.TextFormat{Type: "json_schema"}}},
		`"format":{"name":"answer","schema":{},"strict":false,"type":"json_schema"}`: {
			Text: responses.TextConfig{Format: responses.TextFormat{Type: "json_schema",
				Schema: json.RawMessage(`{}`)}}},
		`"include":["message.output_text.logprobs"],"input":[],"model":"gpt-test","store":false,"stream":true,` +
			`"top_logprobs":3}`: {Logprobs: true, TopLogprobs: 3},
		`"include":["message.output_text.logprobs"],"input":[],"model":"gpt-test","store":false,"stream":true}`: {
			Logprobs: true},
	} {
		if body, _, _ := sentFor(t, false, req); !strings.Contains(canon(t, body), want) {
			t.Errorf("%s is not in %s", want, body)
		}
	}
	expect.Equal(t, "the caller's limit", one, 1)
}

func TestLogprobs(t *testing.T) {
	const probs = `[{"token":"Hi","logprob":-0.5,"bytes":[72,105],"top_logprobs":[{"token":"Yo","logprob":-1,` +
		`"bytes":null}]}]`
	added := `{"type":"response.output_item.added","output_index":0,"item":{"type":"message","role":"assistant",` +
		`"content":[]}}`
	for name, events := range map[string][]string{
		"in deltas": {added, `{"type":"response.output_text.delta","output_index":0,"content_index":0,` +
			`"delta":"Hi","logprobs":` + probs + `}`, completed},
		"with a whole item": {`{"type":"response.output_item.done","output_index":0,"item":{"type":"message",` +
			`"role":"assistant","content":[{"type":"output_text","text":"Hi","logprobs":` + probs + `}]}}`, completed},
		"malformed": {added, `{"type":"response.output_text.delta","output_index":0,"content_index":0,` +
			`"delta":"Hi","logprobs":{"x":1}}`, completed},
	} {
		tr := serve(t, false, replay(events, false))
		var got []responses.LogProb
		said := ""
		for ev, err := range tr.Stream(t.Context(), model.Request{}) {
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			got, said = append(got, ev.Logprobs...), said+ev.Text
		}
		want := []responses.LogProb{{Token: "Hi", Logprob: -0.5, Bytes: []int{72, 105},
			TopLogprobs: []responses.TopLogProb{{Token: "Yo", Logprob: -1}}}}
		if name == "malformed" {
			want = nil
		}
		if diff := cmp.Diff(want, got); diff != "" || said != "Hi" {
			t.Errorf("%s: %q, (-want +got):\n%s", name, said, diff)
		}
	}
}

func TestAsksForReasoningWhereThereIsSome(t *testing.T) {
	for name, want := range map[string]bool{
		"gpt-5": true, "gpt-5.1-codex-max": true, "o3": true, "o4-mini": true, "gpt-5-mini-2025": true,
		"openai/gpt-oss-120b": true, "codex-mini-latest": true, "gpt-10": true,
		"gpt-4o": false, "gpt-4.1": false, "gpt-5-chat-latest": false, "llama-3": false, "o": false, "omni": false,
		"gpt-": false,
	} {
		body, _, _ := sentFor(t, false, model.Request{Model: name})
		expect.Equal(t, name, strings.Contains(body, "reasoning.encrypted_content"), want)
	}
	none := "none"
	if body, _, _ := sentFor(t, false, model.Request{Model: "gpt-5.1",
		Reasoning: &responses.ReasoningConfig{Effort: &none}}); strings.Contains(body, "encrypted") {
		t.Errorf("without effort: %s", body)
	}
}

func TestItemsThatCannotBeSent(t *testing.T) {
	tr := serve(t, false, func(http.ResponseWriter, *http.Request) { t.Error("the provider was called") })
	for _, item := range []responses.Item{
		&responses.ItemReference{ID: "msg_1"},
		&responses.Message{Role: responses.RoleUser,
			Content: []responses.Part{{Type: responses.PartInputVideo, VideoURL: "v"}}},
		&responses.FunctionCallOutput{CallID: "c", Output: []responses.Part{{Type: responses.PartInputVideo}}},
	} {
		_, e := ask(t.Context(), t, tr, model.Request{Input: []responses.Item{item}})
		modeltest.WantError(t, e, model.KindInvalidRequest, "item 0")
	}
}
