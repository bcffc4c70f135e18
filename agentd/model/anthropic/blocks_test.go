package anthropic_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"holon/agentd/model"
	"holon/agentd/model/anthropic"
	"holon/responses"
	"holon/test/expect"
	"holon/test/modeltest"
)

// Events of a block.
func blockStart(index int, block string) string {
	return fmt.Sprintf(`{"type":"content_block_start","index":%d,"content_block":%s}`, index, block)
}
func blockDelta(index int, kind, key, text string) string {
	return fmt.Sprintf(`{"type":"content_block_delta","index":%d,"delta":{"type":%q,%q:%q}}`, index, kind, key, text)
}
func blockStop(index int) string {
	return fmt.Sprintf(`{"type":"content_block_stop","index":%d}`, index)
}

// toolUse returns a whole call whose arguments come in pieces.
func toolUse(index int, id string, pieces ...string) (events []string) {
	events = append(events, blockStart(index, `{"type":"tool_use","id":"`+id+`","name":"f","input":{}}`))
	for _, p := range append([]string{""}, pieces...) {
		events = append(events, blockDelta(index, "input_json_delta", "partial_json", p))
	}
	return append(events, blockStop(index))
}

func join(lists ...[]string) (all []string) {
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}

func id(toolID string) string { return anthropic.TagCallID(toolID, "msg_1") }

// Every kind of block and every end becomes what it should.
func TestBlocks(t *testing.T) {
	citation := func(index int, url string) string {
		return fmt.Sprintf(`{"type":"content_block_delta","index":%d,"delta":{"type":"citations_delta",`+
			`"citation":{"type":"web_search_result_location","url":%q,"title":"T","cited_text":"c"}}}`, index, url)
	}
	thought := []string{
		blockStart(0, `{"type":"thinking","thinking":"","signature":""}`),
		blockDelta(0, "thinking_delta", "thinking", "Let me "), blockDelta(0, "thinking_delta", "thinking", "see."),
		blockDelta(0, "signature_delta", "signature", "ab"), blockDelta(0, "signature_delta", "signature", "cd"),
		blockStop(0),
	}
	const sealed = `anthropic:{"type":"thinking","thinking":"Let me see.","signature":"abcd"}`
	tests := []struct {
		name   string
		events []string
		want   modeltest.Answer
	}{
		{"unknown events, blocks and pieces", answer("end_turn",
			`{"type":"ping"}`, `{"type":"news","index":"x"}`, text0,
			`{"type":"content_block_delta","index":0,"delta":{"type":"sound_delta","text":""}}`, hello, stop0,
			blockStart(1, `{"type":"sculpture","input":7}`), blockDelta(1, "chisel_delta", "text", "lost"),
			blockStop(1), `{"type":"ping"}`,
		), modeltest.Answer{Text: "hello"}},
		{"the provider's own tools", answer("end_turn",
			blockStart(0, `{"type":"server_tool_use","id":"srv","name":"web_search","input":{}}`),
			blockDelta(0, "input_json_delta", "partial_json", `{"query":"x"}`), blockStop(0),
			blockStart(1, `{"type":"web_search_tool_result","tool_use_id":"srv",`+
				`"content":[{"type":"web_search_result","url":"https://x"}]}`), blockStop(1),
			blockStart(2, `{"type":"text","text":"So: "}`), blockStop(2), blockStart(3, `{"type":"text","text":""}`),
			blockDelta(3, "text_delta", "text", "it is."), citation(3, "https://x"), citation(3, "javascript:alert(1)"),
			citation(3, ""), blockStop(3),
		), modeltest.Answer{Text: "So: it is.", Notes: []string{"https://x"}}},
		{"thinking and calls", answer("tool_use",
			join(thought, toolUse(1, "toolu_1", `{"a"`, `:1}`), toolUse(2, "toolu_2"))...),
			modeltest.Answer{Summary: []string{"Let me see."}, Opaque: []string{sealed},
				Calls: []string{id("toolu_1") + ` f {"a":1}`, id("toolu_2") + " f {}"}}},
		{"hidden thoughts", answer("end_turn", blockStart(0, `{"type":"redacted_thinking","data":"XYZ"}`), blockStop(0),
			blockStart(1, `{"type":"thinking","thinking":"","signature":"s"}`), blockStop(1)),
			modeltest.Answer{Opaque: []string{`anthropic:{"type":"redacted_thinking","data":"XYZ"}`,
				`anthropic:{"type":"thinking","thinking":"","signature":"s"}`}}},
		{"a thought without signature", answer("end_turn", blockStart(0, `{"type":"thinking","thinking":"hm"}`),
			blockStop(0)), modeltest.Answer{Summary: []string{"hm"}}},
		{"malformed arguments", answer("tool_use", toolUse(0, "toolu_1", `{"a": nope`)...),
			modeltest.Answer{Calls: []string{id("toolu_1") + ` f {"a": nope`}}},
		{"arguments at once", answer("tool_use",
			blockStart(0, `{"type":"tool_use","id":"toolu_1","name":"f","input":{"a":1}}`),
			blockStop(0)), modeltest.Answer{Calls: []string{id("toolu_1") + ` f {"a":1}`}}},
		{"blocks without an end", answer("tool_use", blockStart(0, `{"type":"text","text":"a"}`),
			blockStart(1, `{"type":"tool_use","id":"toolu_1","name":"f"}`),
			blockStart(2, `{"type":"tool_use","id":"toolu_2","name":"g"}`)),
			modeltest.Answer{Text: "a", Calls: []string{id("toolu_1") + " f {}", id("toolu_2") + " g {}"}}},
		{"nothing", answer("end_turn"), modeltest.Answer{}},
		{"stop_sequence", answer("stop_sequence", text0, hello, stop0), modeltest.Answer{Text: "hello"}},
		{"pause_turn", answer("pause_turn", text0, hello, stop0), modeltest.Answer{Text: "hello"}},
		{"max_tokens", answer("max_tokens", text0, hello, stop0),
			modeltest.Answer{Text: "hello", Stop: model.StopMaxTokens}},
		{"max_tokens in a thought", answer("max_tokens", thought[:4]...),
			modeltest.Answer{Summary: []string{"Let me see."}, Stop: model.StopMaxTokens}},
		{"max_tokens in a call", answer("max_tokens", join(toolUse(0, "toolu_1"), toolUse(1, "toolu_2", `{"a":`))...),
			modeltest.Answer{Calls: []string{id("toolu_1") + " f {}"}, Stop: model.StopMaxTokens}},
		{"max_tokens in a call without an end", answer("max_tokens", toolUse(1, "toolu_2", `{"a":`)[:2]...),
			modeltest.Answer{Stop: model.StopMaxTokens}},
		{"no room for more", answer("model_context_window_exceeded", text0, hello, stop0),
			modeltest.Answer{Text: "hello", Stop: model.StopMaxTokens}},
		{"refusal", answer("refusal"), modeltest.Answer{Refusal: "The model declined to answer."}},
		{"refusal in a text", answer("refusal", text0, hello),
			modeltest.Answer{Text: "hello", Refusal: "The model declined to answer."}},
		{"refusal after a thought", answer("refusal", thought...),
			modeltest.Answer{Summary: []string{"Let me see."}, Opaque: []string{sealed},
				Refusal: "The model declined to answer."}},
		{"refusal after a call", answer("refusal", toolUse(0, "toolu_1")...),
			modeltest.Answer{Stop: model.StopContentFilter}},
		{"a named refusal", []string{begin,
			`{"type":"message_delta","delta":{"stop_reason":"refusal","stop_details":{"type":"refusal",` +
				`"category":"bio","explanation":null}}}`,
			stopped}, modeltest.Answer{Refusal: "The model declined to answer (bio)."}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, e := modeltest.Ask(t.Context(), t, serve(t, false, replay(tt.events, 7, 100, 3)),
				model.Request{Model: "claude-opus-5"})
			if e != nil || got.RequestID != "req_header" {
				t.Errorf("%v, request %q", e, got.RequestID)
			}
			got.RequestID, got.Usage = "", responses.Usage{}
			if tt.want.Stop == "" {
				tt.want.Stop = model.StopEnd
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Thoughts of models that sign nothing are kept all the same.
func TestUnsignedThoughts(t *testing.T) {
	a, e := modeltest.Ask(t.Context(), t,
		serve(t, false, replay(answer("end_turn", blockStart(0, `{"type":"thinking","thinking":"hm"}`), blockStop(0)))),
		model.Request{Model: "kimi-k2"})
	expect.Equal(t, "e", e, nil)
	if len(a.Opaque) != 1 {
		t.Fatalf("len(a.Opaque) = %d (%q), want 1", len(a.Opaque), a.Opaque)
	}
	expect.Equal(t, "a.Opaque[0]", a.Opaque[0], `anthropic:{"type":"thinking","thinking":"hm","signature":""}`)
}

func TestUsage(t *testing.T) {
	a, e := modeltest.Ask(t.Context(), t,
		serve(t, false, replay([]string{begin, text0, hello, stop0, endTurn, stopped})), model.Request{})
	want := responses.Usage{InputTokens: 125, OutputTokens: 7, TotalTokens: 132,
		InputTokenDetails:  responses.InputTokenDetails{CachedTokens: 100},
		OutputTokenDetails: responses.OutputTokenDetails{ReasoningTokens: 3}}
	if e != nil || a.Usage != want {
		t.Errorf("%+v %v", a.Usage, e)
	}
	odd := `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":-4,` +
		`"cache_read_input_tokens":null,"output_tokens_details":{"thinking_tokens":9}}}`
	a, e = modeltest.Ask(t.Context(), t, serve(t, false, replay([]string{begin, odd, stopped})), model.Request{})
	expect.Equal(t, "odd: e", e, nil)
	expect.Equal(t, "odd: a.Usage.OutputTokens", a.Usage.OutputTokens, 0)
	expect.Equal(t, "odd: a.Usage.InputTokens", a.Usage.InputTokens, 125)
	expect.Equal(t, "odd: a.Usage.OutputTokenDetails.ReasoningTokens", a.Usage.OutputTokenDetails.ReasoningTokens, 0)
}

// A citation marks the text that it supports, in characters of the message.
func TestCitationPlaces(t *testing.T) {
	tr := serve(t, false, replay(answer("end_turn",
		blockStart(0, `{"type":"text","text":"Grüße. "}`), blockStop(0),
		blockStart(1, `{"type":"text","text":""}`),
		`{"type":"content_block_delta","index":1,"delta":{"type":"citations_delta",`+
			`"citation":{"type":"web_search_result_location","url":"https://x",`+
			`"title":"T"}}}`, blockDelta(1, "text_delta", "text", "Ja."), blockStop(1),
	)))
	var got []responses.Annotation
	for ev, err := range tr.Stream(t.Context(), model.Request{}) {
		expect.NoError(t, err)
		if ev.Kind == model.AnnotationAdded {
			got = append(got, *ev.Annotation)
		}
	}
	want := []responses.Annotation{{Type: "url_citation", URL: "https://x", Title: "T", StartIndex: 7, EndIndex: 10}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A character that is cut in two comes whole.
func TestHalvesOfCharacters(t *testing.T) {
	half := func(index int, kind, key, text string) string {
		return fmt.Sprintf(`{"type":"content_block_delta","index":%d,"delta":{"type":%q,%q:"%s"}}`, index, kind, key,
			text)
	}
	a, e := modeltest.Ask(t.Context(), t, serve(t, false, replay(answer("tool_use",
		text0, half(0, "text_delta", "text", `a\ud83d`), half(0, "text_delta", "text", `\ude00b\ud83d`), stop0,
		blockStart(1, `{"type":"tool_use","id":"toolu_1","name":"f"}`),
		half(1, "input_json_delta", "partial_json", `{\"a\":\"\ud83d`),
		half(1, "input_json_delta", "partial_json", `\ude00\"}`), blockStop(1),
	))), model.Request{})
	expect.Equal(t, "e", e, nil)
	expect.Equal(t, "a.Text", a.Text, "a😀b\uFFFD")
	if len(a.Calls) != 1 {
		t.Fatalf("len(a.Calls) = %d (%q), want 1", len(a.Calls), a.Calls)
	}
	expect.Equal(t, "a.Calls[0]", a.Calls[0], id("toolu_1")+` f {"a":"😀"}`)
}

// An answer that is begun again is the same answer, and costs the same.
func TestBegunAgain(t *testing.T) {
	events := []string{begin, begin, text0, begin, hello, stop0, endTurn, stopped}
	got, e := modeltest.Ask(t.Context(), t, serve(t, false, replay(events)), model.Request{Model: "claude-opus-5"})
	once := []string{begin, text0, hello, stop0, endTurn, stopped}
	want, _ := modeltest.Ask(t.Context(), t, serve(t, false, replay(once)), model.Request{Model: "claude-opus-5"})
	if e != nil || got.Text != "hello" || got.Usage != want.Usage {
		t.Errorf("got %q, %+v, %v, want \"hello\", %+v, nil", got.Text, got.Usage, e, want.Usage)
	}
}

// A block that begins twice is one, and arguments that come twice are said once.
func TestBlocksBegunAgain(t *testing.T) {
	call := func(input string) string {
		return `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"toolu_1","name":"f",` +
			`"input":` + input + `}}`
	}
	args := `{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"q\":1}"}}`
	for name, tt := range map[string]struct {
		events []string
		text   string
		call   string
	}{
		"a text":                       {answer("end_turn", text0, text0, hello, stop0), "hello", ""},
		"a call":                       {answer("tool_use", call(`{}`), call(`{}`), args, stop0), "", `{"q":1}`},
		"input at the beginning":       {answer("tool_use", call(`{"q":1}`), stop0), "", `{"q":1}`},
		"input again in deltas":        {answer("tool_use", call(`{"q": 1}`), args, stop0), "", `{"q":1}`},
		"no input":                     {answer("tool_use", call(`{}`), stop0), "", `{}`},
		"input and the end of a block": {answer("tool_use", call(`{"q":1}`)), "", `{"q":1}`},
	} {
		a, e := modeltest.Ask(t.Context(), t, serve(t, false, replay(tt.events)), model.Request{Model: "claude-opus-4-5"})
		calls := strings.Join(a.Calls, ",")
		if e != nil || a.Text != tt.text || !strings.HasSuffix(calls, tt.call) || (calls == "") != (tt.call == "") {
			t.Errorf("%s: %q, %q, %v, want %q, %q", name, a.Text, calls, e, tt.text, tt.call)
		}
	}
}

// A call id that cannot tell calls apart is replaced; all keep the answer's tag.
func TestCallIDs(t *testing.T) {
	var events []string
	for i, id := range []string{"same", "same", "", strings.Repeat("x", 60)} {
		events = append(events, toolUse(i, id)...)
	}
	a, e := modeltest.Ask(t.Context(), t, serve(t, false, replay(answer("tool_use", events...))), model.Request{})
	if e != nil {
		t.Fatal(e)
	}
	modeltest.CallIDs(t, a.Calls, 4, id("same"))
	for _, call := range a.Calls {
		callID, _, _ := strings.Cut(call, " ")
		if tag := strings.TrimPrefix(id("x"), "x"); !strings.HasSuffix(callID, tag) {
			t.Errorf("the id %q lacks the tag %q", callID, tag)
		}
	}
}
