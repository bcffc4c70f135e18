package responses_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"holon/responses"
)

func text(role responses.Role, s string) *responses.Message {
	typ := responses.PartInputText
	if role == responses.RoleAssistant {
		typ = responses.PartOutputText
	}
	return &responses.Message{Status: responses.ItemCompleted, Role: role,
		Content: []responses.Part{{Type: typ, Text: s}}}
}

// Requests as clients really send them are understood.
func TestDecodeRequestInput(t *testing.T) {
	user := func(s string) responses.Items {
		m := text(responses.RoleUser, s)
		return responses.Items{m}
	}
	image := responses.Part{Type: responses.PartInputImage, ImageURL: "data:image/png;base64,iVBORw0KGgo=", Detail: "auto"}
	tests := []struct {
		name, input string
		want        responses.Items
	}{
		{"absent", ``, nil},
		{"null", `null`, nil},
		{"string", `"hi"`, responses.Items{&responses.Message{Status: responses.ItemCompleted, Role: responses.RoleUser,
			Content: []responses.Part{responses.InputText("hi")}}}},
		{"empty list", `[]`, nil},
		{"message", `[{"type":"message","role":"user","content":"hi"}]`, user("hi")},
		{"typeless message", `[{"role":"user","content":[{"type":"input_text","text":"hi"}]}]`, user("hi")},
		{"typeless system, developer and assistant",
			`[{"role":"system","content":"a"},{"role":"developer","content":"b"},{"role":"assistant","content":"c"}]`,
			responses.Items{text(responses.RoleSystem, "a"), text(responses.RoleDeveloper, "b"),
				text(responses.RoleAssistant, "c")}},
		{"phases", `[{"role":"assistant","content":"x","phase":"commentary"}]`,
			responses.Items{&responses.Message{Status: responses.ItemCompleted, Role: responses.RoleAssistant,
				Phase: responses.PhaseCommentary, Content: []responses.Part{responses.OutputText("x")}}}},
		{"image", `[{"role":"user","content":[{"type":"input_text","text":"look"},{"type":"input_image",` +
			`"image_url":"data:image/png;base64,iVBORw0KGgo="}]}]`,
			responses.Items{&responses.Message{Status: responses.ItemCompleted, Role: responses.RoleUser,
				Content: []responses.Part{responses.InputText("look"), image}}}},
		{"bare parts become one message", `[{"type":"input_text","text":"a"},{"type":"input_text","text":"b"}]`,
			responses.Items{&responses.Message{Status: responses.ItemCompleted, Role: responses.RoleUser,
				Content: []responses.Part{responses.InputText("a"), responses.InputText("b")}}}},
		{"call and output", `[{"type":"function_call","id":null,"call_id":"c1","name":"f","arguments":"{"},` +
			`{"type":"function_call_output","call_id":"c1","output":"42","status":null}]`,
			responses.Items{&responses.FunctionCall{Status: responses.ItemCompleted, CallID: "c1", Name: "f",
				Arguments: "{"},
				&responses.FunctionCallOutput{Status: responses.ItemCompleted, CallID: "c1",
					Output: []responses.Part{responses.InputText("42")}}}},
		{"output of parts", `[{"type":"function_call_output","call_id":"c1","output":[{"type":"input_image",` +
			`"image_url":"data:image/png;base64,iVBORw0KGgo="}]}]`,
			responses.Items{&responses.FunctionCallOutput{Status: responses.ItemCompleted, CallID: "c1",
				Output: []responses.Part{image}}}},
		{"reasoning with content null", `[{"type":"reasoning","summary":[],"content":null,"encrypted_content":null}]`,
			responses.Items{&responses.Reasoning{Status: responses.ItemCompleted}}},
		{"reasoning with content", `[{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"s"}],` +
			`"content":[{"type":"reasoning_text","text":"r"}],"encrypted_content":"e"}]`,
			responses.Items{&responses.Reasoning{ID: "rs_1", Status: responses.ItemCompleted,
				Summary: []responses.Part{{Type: responses.PartSummaryText, Text: "s"}},
				Content: []responses.Part{{Type: responses.PartReasoningText, Text: "r"}}, EncryptedContent: "e"}}},
		{"compaction", `[{"type":"compaction","encrypted_content":"e"}]`,
			responses.Items{&responses.Compaction{Status: responses.ItemCompleted, EncryptedContent: "e"}}},
		{"reference", `[{"type":"item_reference","id":"msg_1"}]`,
			responses.Items{&responses.ItemReference{ID: "msg_1"}}},
		{"typeless reference", `[{"id":"msg_1"},{"type":null,"id":"msg_2"}]`,
			responses.Items{&responses.ItemReference{ID: "msg_1"}, &responses.ItemReference{ID: "msg_2"}}},
		{"receipt of a tool", `[{"type":"holon:tool_call","id":"tc_1","call_id":"c","name":"ExecCommand",` +
			`"arguments":"{}","result":null,"output":"ok"}]`,
			responses.Items{&responses.ToolCall{ID: "tc_1", Status: responses.ItemCompleted, CallID: "c",
				Name: "ExecCommand", Arguments: "{}", Output: "ok"}}},
		{"item of another server", `[{"type":"web_search_call","id":"ws_1","x": 1}]`,
			responses.Items{&responses.OpaqueItem{Type: "web_search_call", ID: "ws_1",
				Raw: []byte(`{"type":"web_search_call","id":"ws_1","x":1}`)}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			body := `{"model":"m","input":` + tt.input + `}`
			if tt.input == "" {
				body = `{"model":"m"}`
			}
			r, err := responses.DecodeRequest([]byte(body))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, r.Input, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("input (-want +got):\n%s", diff)
			}
			roundTrip(t, r)
		})
	}
}

func TestDecodeRequestDefaults(t *testing.T) {
	nulls := `{"model":null,"input":null,"previous_response_id":null,"instructions":null,"tools":null,` +
		`"tool_choice":null,"parallel_tool_calls":null,
		"max_tool_calls":null,"max_output_tokens":null,"temperature":null,"top_p":null,"presence_penalty":null,` +
		`"frequency_penalty":null,"top_logprobs":null,
		"reasoning":null,"text":null,"stream_options":null,"metadata":null,"prompt_cache_key":null,` +
		`"safety_identifier":null,"holon":null}`
	want := &responses.Request{ParallelToolCalls: true, Temperature: 1, TopP: 1, Truncation: "disabled", Store: true,
		ServiceTier: "default", Metadata: map[string]string{}}
	for _, body := range []string{`{}`, nulls} {
		got, err := responses.DecodeRequest([]byte(body))
		if err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		got.Digest = ""
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("defaults of %s (-want +got):\n%s", body, diff)
		}
		roundTrip(t, got)
	}
}

func TestDecodeRequestFields(t *testing.T) {
	body := `{"model":"scripted/demo","input":"x","previous_response_id":"resp_1","instructions":"be brief",` +
		`"include":["holon:tool_calls","unknown.value"],
		"tools":[{"type":"function","name":"f","description":"d","parameters":{"type":"object"},"strict":true},` +
		`{"type":"web_search"},{"type":"function","name":"g"}],
		"tool_choice":{"type":"allowed_tools","mode":"required","tools":[{"type":"function","name":"f"}]},` +
		`"parallel_tool_calls":false,"max_tool_calls":3,
		"max_output_tokens":1,"temperature":1,"top_logprobs":2,"reasoning":{"effort":"minimal"},"text":{"format":` +
		`{"type":"json_schema","name":"n","schema":{"type":"object"}},"verbosity":"low"},
		"truncation":"auto","stream":true,"store":false,"metadata":{"a":"b"},"service_tier":"flex","user":"u",` +
		`"conversation":{"id":"c"},"unheard_of":[1,2],
		"holon":{"session_id":"sess_1","turn_id":"turn_1","output_dir":"/o","isolation":"none","on_disconnect":` +
		`"cancel","limits":{"max_rounds":5,"timeout_ms":1000}}}`
	got, err := responses.DecodeRequest([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	got.Digest, got.Input = "", nil
	description, strict, effort, instructions, three, one := "d", true, "minimal", "be brief", 3, 1
	want := &responses.Request{
		Model: "scripted/demo", PreviousResponseID: "resp_1", Instructions: &instructions,
		Include:      []string{"holon:tool_calls", "unknown.value"},
		IgnoredTools: []string{"web_search"},
		Tools: []responses.Tool{{Name: "f", Description: &description, Parameters: []byte(`{"type":"object"}`),
			Strict: &strict}, {Name: "g"}},
		ShowToolCalls: true, ToolChoice: responses.ToolChoice{Mode: "required", Allowed: []string{"f"}},
		MaxToolCalls: &three, MaxOutputTokens: &one,
		Temperature: 1, TopP: 1, Sampling: responses.Sampling{Temperature: true}, TopLogprobs: 2,
		Reasoning: &responses.ReasoningConfig{Effort: &effort},
		Text: responses.TextConfig{Verbosity: "low",
			Format: responses.TextFormat{Type: "json_schema", Name: "n", Schema: []byte(`{"type":"object"}`)}},
		Truncation: "auto", Stream: true, Metadata: map[string]string{"a": "b"}, ServiceTier: "flex",
		Holon: responses.Holon{SessionID: "sess_1", TurnID: "turn_1", OutputDir: "/o", Isolation: "none",
			OnDisconnect: "cancel", Limits: &responses.Limits{MaxRounds: 5, TimeoutMS: 1000}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
	roundTrip(t, got)
}

// A client's request has the documented defaults, and says nothing but what was set.
func TestNewRequest(t *testing.T) {
	decoded, err := responses.DecodeRequest([]byte(`{"model":"m","input":"hi"}`))
	if err != nil {
		t.Fatal(err)
	}
	decoded.Digest = ""
	r := responses.NewRequest("m", responses.UserMessage("hi"))
	if diff := cmp.Diff(decoded, r); diff != "" {
		t.Errorf("request (-decoded +new):\n%s", diff)
	}
	r.Holon.TurnID = "turn_1"
	got, err := json.Marshal(r)
	const want = `{"model":"m","input":[{"type":"message","status":"completed","role":"user",` +
		`"content":[{"type":"input_text","text":"hi"}]}],"holon":{"turn_id":"turn_1"}}`
	if err != nil || string(got) != want {
		t.Errorf("encoded: %s, %v; want %s", got, err, want)
	}
}

// Every refusal names the field, in the words of the client's own JSON.
func TestDecodeRequestRefuses(t *testing.T) {
	long := strings.Repeat("x", 513)
	pairs := make([]string, 17)
	for i := range pairs {
		pairs[i] = fmt.Sprintf(`"k%d":"v"`, i)
	}
	tests := []struct{ body, code, param string }{
		{``, responses.CodeInvalidJSON, ""},
		{`{`, responses.CodeInvalidJSON, ""},
		{`null`, responses.CodeInvalidJSON, ""},
		{" \n", responses.CodeInvalidJSON, ""},
		{`[]`, responses.CodeInvalidJSON, ""},
		{`{} {}`, responses.CodeInvalidJSON, ""},
		{"{\"model\":\"\xff\"}", responses.CodeInvalidJSON, ""},
		{strings.Repeat(`{"input":[`, 200), responses.CodeInvalidJSON, ""},
		{`{"model":5}`, responses.CodeInvalidValue, "model"},
		{`{"stream":"yes"}`, responses.CodeInvalidValue, "stream"},
		{`{"temperature":"hot"}`, responses.CodeInvalidValue, "temperature"},
		{`{"max_output_tokens":1.5}`, responses.CodeInvalidValue, "max_output_tokens"},
		{`{"max_output_tokens":0}`, responses.CodeInvalidValue, "max_output_tokens"},
		{`{"max_tool_calls":-1}`, responses.CodeInvalidValue, "max_tool_calls"},
		{`{"top_logprobs":21}`, responses.CodeInvalidValue, "top_logprobs"},
		{`{"truncation":"sometimes"}`, responses.CodeInvalidValue, "truncation"},
		{`{"reasoning":{"effort":3}}`, responses.CodeInvalidValue, "reasoning.effort"},
		{`{"text":{"format":{"type":"xml"}}}`, responses.CodeInvalidValue, "text.format.type"},
		{`{"text":{"format":{"name":1}}}`, responses.CodeInvalidValue, "text.format.name"},
		{`{"input":5}`, responses.CodeInvalidValue, "input"},
		{`{"input":{}}`, responses.CodeInvalidValue, "input"},
		{`{"input":["x"]}`, responses.CodeInvalidValue, "input[0]"},
		{`{"input":[null]}`, responses.CodeMissingParameter, "input[0].type"},
		{`{"input":[{"role":"user","content":"a"},{"content":"b"}]}`, responses.CodeMissingParameter, "input[1].type"},
		{`{"input":[{"type":"message","content":"b"}]}`, responses.CodeMissingParameter, "input[0].role"},
		{`{"input":[{"role":"wizard","content":"b"}]}`, responses.CodeInvalidValue, "input[0].role"},
		{`{"input":[{"role":"assistant","content":"b","phase":"early"}]}`, responses.CodeInvalidValue,
			"input[0].phase"},
		{`{"input":[{"role":"user","content":7}]}`, responses.CodeInvalidValue, "input[0].content"},
		{`{"input":[{"role":"user","content":[{"type":"input_text","text":"a"},{"text":"b"}]}]}`,
			responses.CodeMissingParameter, "input[0].content[1].type"},
		{`{"input":[{"role":"user","content":[{"type":"input_song"}]}]}`, responses.CodeInvalidValue,
			"input[0].content[0].type"},
		{`{"input":[{"role":"user","content":[{"type":"input_text","text":1}]}]}`, responses.CodeInvalidValue,
			"input[0].content[0].text"},
		{`{"input":[{"type":"input_image","detail":"huge"}]}`, responses.CodeInvalidValue, "input[0].detail"},
		{`{"input":[{"type":"function_call","name":"f","arguments":""}]}`, responses.CodeInvalidValue,
			"input[0].call_id"},
		{`{"input":[{"type":"function_call","call_id":"c","arguments":""}]}`, responses.CodeMissingParameter,
			"input[0].name"},
		{`{"input":[{"type":"function_call_output","call_id":"` + strings.Repeat("c", 65) + `","output":""}]}`,
			responses.CodeInvalidValue, "input[0].call_id"},
		{`{"input":[{"type":"function_call_output","call_id":"c"}]}`, responses.CodeMissingParameter,
			"input[0].output"},
		{`{"input":[{"type":"function_call_output","call_id":"c","output":[3]}]}`, responses.CodeInvalidValue,
			"input[0].output[0]"},
		{`{"input":[{"type":"reasoning","summary":[{"type":"x"}]}]}`, responses.CodeInvalidValue,
			"input[0].summary[0].type"},
		{`{"input":[{"type":"compaction"}]}`, responses.CodeMissingParameter, "input[0].encrypted_content"},
		{`{"input":[{"type":"item_reference"}]}`, responses.CodeMissingParameter, "input[0].id"},
		{`{"input":[{"type":"holon:tool_call","output":{}}]}`, responses.CodeInvalidValue, "input[0].output"},
		{`{"tools":[5]}`, responses.CodeInvalidValue, "tools[0]"},
		{`{"tools":[{"type":"function"}]}`, responses.CodeMissingParameter, "tools[0].name"},
		{`{"tools":[{"type":"x"},{"type":"function","name":"a b"}]}`, responses.CodeInvalidValue, "tools[1].name"},
		{`{"tools":[{"type":"function","name":"ü"}]}`, responses.CodeInvalidValue, "tools[0].name"},
		{`{"tools":[{"type":"function","name":"f"},{"type":"function","name":"f"}]}`, responses.CodeInvalidValue,
			"tools[1].name"},
		{`{"tools":[{"type":"function","name":"f","parameters":[]}]}`, responses.CodeInvalidValue,
			"tools[0].parameters"},
		{`{"tools":[` + strings.Repeat(`{"type":"x"},`, 1024) + `{"type":"x"}]}`, responses.CodeInvalidValue, "tools"},
		{`{"tool_choice":"maybe"}`, responses.CodeInvalidValue, "tool_choice"},
		{`{"tool_choice":{"type":"function"}}`, responses.CodeMissingParameter, "tool_choice.name"},
		{`{"tool_choice":{"type":"function","name":5}}`, responses.CodeInvalidValue, "tool_choice.name"},
		{`{"tool_choice":{"type":"function","name":"a b"}}`, responses.CodeInvalidValue, "tool_choice.name"},
		{`{"tool_choice":{"type":"hosted"}}`, responses.CodeInvalidValue, "tool_choice"},
		{`{"tool_choice":{"type":"allowed_tools","tools":[]}}`, responses.CodeInvalidValue, "tool_choice.tools"},
		{`{"tool_choice":{"type":"allowed_tools","tools":[{"type":"function"}]}}`, responses.CodeMissingParameter,
			"tool_choice.tools[0].name"},
		{`{"tool_choice":{"type":"allowed_tools","tools":[{"name":"f"},5]}}`, responses.CodeInvalidValue,
			"tool_choice.tools[1]"},
		{`{"include":["a",5]}`, responses.CodeInvalidValue, "include[1]"},
		{`{"holon":{"skills":["a",5]}}`, responses.CodeInvalidValue, "holon.skills[1]"},
		{`{"input":[{"role":"assistant","content":[{"type":"output_text","text":"x","logprobs":[{},{"bytes":[1,"x"]}]}]}]}`,
			responses.CodeInvalidValue, "input[0].content[0].logprobs[1].bytes[1]"},
		{`{"tool_choice":{"type":"allowed_tools","mode":"x","tools":[{"name":"f"}]}}`, responses.CodeInvalidValue,
			"tool_choice.mode"},
		{`{"metadata":{"a":1}}`, responses.CodeInvalidValue, "metadata.a"},
		{`{"metadata":{"a":"` + long + `"}}`, responses.CodeInvalidValue, "metadata.a"},
		{`{"metadata":{"` + long + `":"a"}}`, responses.CodeInvalidValue, "metadata"},
		{`{"metadata":{` + strings.Join(pairs, ",") + `}}`, responses.CodeInvalidValue, "metadata"},
		{`{"prompt_cache_key":"` + long + `"}`, responses.CodeInvalidValue, "prompt_cache_key"},
		{`{"safety_identifier":"` + long + `"}`, responses.CodeInvalidValue, "safety_identifier"},
		{`{"previous_response_id":"../../etc/passwd"}`, responses.CodePreviousNotFound, "previous_response_id"},
		{`{"holon":{"turn_id":"a/b"}}`, responses.CodeInvalidValue, "holon.turn_id"},
		{`{"holon":{"session_id":"` + long + `"}}`, responses.CodeInvalidValue, "holon.session_id"},
		{`{"holon":{"session_id":5}}`, responses.CodeInvalidValue, "holon.session_id"},
		{`{"holon":{"sesion_id":"x"}}`, responses.CodeUnsupportedParameter, "holon.sesion_id"},
		{`{"holon":[]}`, responses.CodeInvalidValue, "holon"},
		{`{"holon":{"isolation":"vm"}}`, responses.CodeInvalidValue, "holon.isolation"},
		{`{"holon":{"skills":"pdf"}}`, responses.CodeInvalidValue, "holon.skills"},
		{`{"holon":{"on_disconnect":"wait"}}`, responses.CodeInvalidValue, "holon.on_disconnect"},
		{`{"holon":{"limits":{"timeout_ms":-1}}}`, responses.CodeInvalidValue, "holon.limits.timeout_ms"},
		{`{"holon":{"limits":{"max_turns":1}}}`, responses.CodeUnsupportedParameter, "holon.limits.max_turns"},
		{`{"holon":{"limits":{"MAX_ROUNDS":1}}}`, responses.CodeUnsupportedParameter, "holon.limits.MAX_ROUNDS"},
		{`{"holon":{"limits":5}}`, responses.CodeInvalidValue, "holon.limits"},
		{`{"holon":{"limits":{"max_rounds":"5"}}}`, responses.CodeInvalidValue, "holon.limits.max_rounds"},
	}
	for _, tt := range tests {
		_, err := responses.DecodeRequest([]byte(tt.body))
		e, ok := errors.AsType[*responses.Error](err)
		if !ok {
			t.Errorf("%.100s: error %v, want one with the code %s", tt.body, err, tt.code)
			continue
		}
		switch {
		case e.Code != tt.code:
			t.Errorf("%+v: e.Code = %q, want %q", tt, e.Code, tt.code)
		case e.Param != tt.param:
			t.Errorf("%+v: e.Param = %q, want %q", tt, e.Param, tt.param)
		case e.Message == "":
			t.Errorf(`%+v: e.Message = "", want another value`, tt)
		case len(e.Message) > 400:
			t.Errorf("%+v: len(e.Message) = %d (%q), want at most 400", tt, len(e.Message), e.Message)
		case strings.Contains(e.Message, "\n"):
			t.Errorf("%+v: e.Message = %q, want it without %q", tt, e.Message, "\n")
		}
		if s := e.Status(); s != 400 && s != 404 {
			t.Errorf("%.100s: HTTP status %d", tt.body, s)
		}
	}
}

func TestDigest(t *testing.T) {
	digest := func(body string) string {
		t.Helper()
		r, err := responses.DecodeRequest([]byte(body))
		if err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		return r.Digest
	}
	base := digest(`{"input":"hi","temperature":0.5,"holon":{"turn_id":"t"}}`)
	for _, same := range []string{
		`{ "holon" : {"turn_id":"t"}, "temperature":0.5, "input":"\u0068i" }`,
		`{"input":"hi","temperature":0.5,"holon":{"turn_id":"t"},"stream":true,"stream_options":` +
			`{"include_obfuscation":false}}`,
	} {
		if digest(same) != base {
			t.Errorf("%s has another digest", same)
		}
	}
	for _, other := range []string{`{"input":"ho","temperature":0.5,"holon":{"turn_id":"t"}}`,
		`{"input":"hi","temperature":0.5}`, `{"input":"hi","temperature":0.5,"holon":{"turn_id":"t"},"user":"u"}`} {
		if digest(other) == base {
			t.Errorf("%s has the same digest", other)
		}
	}
	if a, b := digest(`{"metadata":{"n":"1"},"x":12345678901234567890}`),
		digest(`{"metadata":{"n":"1"},"x":12345678901234567891}`); a == b {
		t.Error("large numbers are rounded before they are hashed")
	}
}

func TestCheckID(t *testing.T) {
	for id, ok := range map[string]bool{"a": true, "turn_01-Z": true, strings.Repeat("x", 128): true, "": false,
		".": false, "..": false, "a/b": false, "a.b": false, "a\x00": false, "ä": false,
		strings.Repeat("x", 129): false} {
		if err := responses.CheckID("p", id); (err == nil) != ok {
			t.Errorf("CheckID(%q): %v", id, err)
		}
	}
	switch a, b := responses.NewID("x_"), responses.NewID("x_"); {
	case a == b:
		t.Errorf("a = %q, want another value", b)
	case responses.CheckID("", a) != nil:
		t.Errorf(`responses.CheckID("", a) = %v, want nil`, responses.CheckID("", a))
	case !strings.HasPrefix(a, "x_"):
		t.Errorf(`a = %q, want it to begin with "x_"`, a)
	case len(a) != 28:
		t.Errorf("len(a) = %d (%q), want 28", len(a), a)
	}
}

// Messages name the field, what it may be and what it is, in words of JSON.
func TestMessagesOfRefusals(t *testing.T) {
	for body, want := range map[string]string{
		``:                              "the body is empty; send a JSON object",
		" \t ":                          "the body is empty; send a JSON object",
		`null`:                          "the body must be a JSON object, not null",
		`[]`:                            "the body must be a JSON object, not an array",
		`5`:                             "the body must be a JSON object, not a number",
		`{"input":"x","tool_choice":5}`: "tool_choice must be a string or an object, not a number",
		`{"input":[5]}`:                 "input[0] must be an object, not a number",
		`{"input":[{"role":"user","content":7}]}`: "input[0].content must be a string or an array of content parts",
		`{"input":[{"type":"function_call_output","call_id":"c","output":7}]}`: "input[0].output must be a string or " +
			"an array of content parts",
		`{"input":[{"type":"reasoning","summary":"s"}]}`: "input[0].summary must be an array, not a string",
		`{"input":"x","reasoning":{"summary":5}}`:        "reasoning.summary must be a string, not a number",
		`{"input":"x","tools":[{"type":"function"}]}`:    "a function needs a name",
		`{"input":"x","metadata":{"` + strings.Repeat("k", 65) + `":"v"}}`: "a key of metadata may have at most 64 " +
			`characters, "` + strings.Repeat("k", 64) + `…" has 65`,
		`{"input":"x","metadata":{"k":"` + strings.Repeat("v", 513) + `"}}`: "metadata.k may have at most 512 " +
			"characters, this has 513",
	} {
		_, err := responses.DecodeRequest([]byte(body))
		if got := fmt.Sprint(err); got != want {
			t.Errorf("%.80s: error %q, want %q", body, got, want)
		}
	}
}

// A member counts only under its exact name; what differs in case is unknown, and unknown members are ignored, or
// refused where all are known.
func TestNamesOfMembersAreExact(t *testing.T) {
	const exact = `{"input":[{"role":"user","content":"x"}],"tools":[{"type":"function","name":"f","parameters":` +
		`{"type":"object","properties":{"INPUT":{"type":"string"}}}}],"reasoning":{"effort":"low"},"store":true`
	want, err := responses.DecodeRequest([]byte(exact + `}`))
	if err != nil {
		t.Fatal(err)
	}
	got, err := responses.DecodeRequest([]byte(strings.NewReplacer(`"role":`, `"ROLE":"system","role":`, `"effort":`,
		`"Effort":"high","effort":`, `"name":`, `"Name":5,"name":`).Replace(exact) +
		`,"INPUT":"y","\u0053tore":false,"ſtore":false,"Text":{"format":5},"tool_Choice":"none"}`))
	if err != nil {
		t.Fatal(err)
	}
	got.Digest = want.Digest
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("other names act as the known ones:\n%s", diff)
	}
	_, err = responses.DecodeRequest([]byte(`{"input":"x","holon":{"TURN_ID":"a"}}`))
	if param := responses.AsError(err).Param; param != "holon.TURN_ID" {
		t.Errorf("param = %q, want holon.TURN_ID", param)
	}
}
