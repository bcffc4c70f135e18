package responses_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"holon/responses"
	"holon/test/expect"
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
	image := responses.Part{Type: responses.PartInputImage, ImageURL: "data:image/png;base64," + png,
		Detail: "auto"}
	tests := []struct {
		name, input string
		want        responses.Items
	}{
		{"absent", ``, nil},
		{"null", `null`, nil},
		{"string", `"hi"`, responses.Items{&responses.Message{Status: responses.ItemCompleted, Role: responses.RoleUser,
			Content: []responses.Part{responses.InputText("hi")}}}},
		{"half of a pair", `"a\ud83d"`, user("a\ufffd")},
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
			`"image_url":"data:image/png;base64,` + png + `"}]}]`,
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
			`"image_url":"data:image/png;base64,` + png + `"}]}]`,
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
			expect.NoError(t, err)
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
	expect.NoError(t, err)
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
	expect.NoError(t, err)
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

// Every refusal names the field, what it may be and what it is, in words of the client's own JSON. A line of the file
// is a body, and after an arrow what is wrong with it.
func TestRefusals(t *testing.T) {
	const name, arrow = "refusals.txt", "  →  "
	file, err := os.ReadFile(filepath.Join("testdata", name))
	expect.NoError(t, err)
	var got bytes.Buffer
	for line := range strings.Lines(string(file)) {
		body, _, _ := strings.Cut(strings.TrimSuffix(line, "\n"), arrow)
		e := refusal(t, body)
		fmt.Fprintf(&got, "%s%s%s %s: %s\n", body, arrow, e.Code, e.Param, e)
	}
	golden(t, name, got.Bytes())
	for _, body := range []string{"", " \n", " \t ", "{", "{} {}", "{\"model\":\"\xff\"}", strings.Repeat(`{"input":[`, 200),
		`{"temperature":NaN}`, `{"temperature":Infinity}`, `{"temperature":+1}`, `{"temperature":01}`} {
		if e := refusal(t, body); e.Code != responses.CodeInvalidJSON || e.Param != "" {
			t.Errorf("%.20q: %s about %q, want the code %s", body, e.Code, e.Param, responses.CodeInvalidJSON)
		}
	}
}

// refusal demands an error that is fit for the client whose request it was.
func refusal(t *testing.T, body string) *responses.Error {
	t.Helper()
	_, err := responses.DecodeRequest([]byte(body))
	e, ok := errors.AsType[*responses.Error](err)
	if !ok {
		t.Fatalf("%.100s: error %v, want a refusal", body, err)
	}
	if s := e.Status(); s != 400 && s != 404 || e.Message == "" || len(e.Message) > 400 ||
		strings.Contains(e.Message, "\n") {
		t.Errorf("%.100s: HTTP status %d and message %q", body, s, e.Message)
	}
	return e
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
}

// Ids are valid, and those of one process sort as they were made, also within a millisecond.
func TestNewID(t *testing.T) {
	last := ""
	for range 10_000 {
		id := responses.NewID("x_")
		if id <= last || responses.CheckID("", id) != nil || !strings.HasPrefix(id, "x_") || len(id) != 28 {
			t.Fatalf("%s was made after %s", id, last)
		}
		last = id
	}
}

// A member counts only under its exact name; what differs in case is unknown, and unknown members are ignored, or
// refused where all are known.
func TestNamesOfMembersAreExact(t *testing.T) {
	const exact = `{"input":[{"role":"user","content":"x"}],"tools":[{"type":"function","name":"f","parameters":` +
		`{"type":"object","properties":{"INPUT":{"type":"string"}}}}],"reasoning":{"effort":"low"},"store":true`
	want, err := responses.DecodeRequest([]byte(exact + `}`))
	expect.NoError(t, err)
	got, err := responses.DecodeRequest([]byte(strings.NewReplacer(`"role":`, `"ROLE":"system","role":`, `"effort":`,
		`"Effort":"high","effort":`, `"name":`, `"Name":5,"name":`).Replace(exact) +
		`,"INPUT":"y","\u0053tore":false,"ſtore":false,"Text":{"format":5},"tool_Choice":"none"}`))
	expect.NoError(t, err)
	got.Digest = want.Digest
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("other names act as the known ones:\n%s", diff)
	}
	_, err = responses.DecodeRequest([]byte(`{"input":"x","holon":{"TURN_ID":"a"}}`))
	expect.Equal(t, "param", responses.AsError(err).Param, "holon.TURN_ID")
}
