package conform

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// accepted are requests that clients send and a server must complete.
var accepted = map[string]string{
	"string": `{"input":"Say hello."}`,
	"parts": `{"input":[{"type":"message","role":"user","content":[{"type":"input_text",` +
		`"text":"Say hello."}]}]}`,
	"typeless messages": `{"input":[{"role":"system","content":"Be brief."},{"role":"user","content":"Hi."},` +
		`{"role":"assistant","content":"Hello."},{"role":"user","content":[{"type":"input_text","text":"Again."}]}]}`,
	"developer message": `{"input":[{"type":"message","role":"developer","content":"Be brief."},{"type":"message",` +
		`"role":"user","content":"Hi."}]}`,
	"tools in history": `{"input":[{"role":"user","content":"Weather?"},{"type":"function_call","call_id":"call_1",` +
		`"name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"call_1","output":"rain"},` +
		`{"role":"user","content":"And?"}]}`,
	"reasoning in input": `{"input":[{"type":"reasoning","summary":[],"content":null,"encrypted_content":null},` +
		`{"role":"user","content":"Hi."}]}`,
	"unknown fields": `{"input":"Hi.","user":"u","prompt":null,"conversation":null,"context_management":[],` +
		`"something_new":{"a":1},"include":["web_search_call.results"]}`,
	"unknown tools": `{"input":"Hi.","tools":[{"type":"web_search"},{"type":"acme:tool","x":1},` +
		`{"type":"function","name":"f"}]}`,
	"nulls": `{"input":"Hi.","instructions":null,"tools":null,"tool_choice":null,"temperature":null,` +
		`"metadata":null,"reasoning":null,"text":null,"previous_response_id":null,"max_output_tokens":null}`,
	"small output limit": `{"input":"Hi.","max_output_tokens":16,"stream":false}`,
}

func acceptance() (cases []Case) {
	for _, name := range slices.Sorted(maps.Keys(accepted)) {
		cases = append(cases, completing("accepts/"+name, Protocol, "a sloppy or unusual request is completed",
			accepted[name]))
	}
	return append(cases,
		Case{"echo", Protocol, "a response repeats what was asked for", echo},
		Case{"echo/schema", Protocol, "the schema of structured output is echoed as null, which is all that the " +
			"protocol allows", echoSchema})
}

// completing is a case of one request that has to complete.
func completing(id string, kind Kind, about, body string) Case {
	return Case{id, kind, about, func(t *trial) { t.completes("%s", body) }}
}

func echo(t *trial) {
	got := t.completes(`{"input":"Hi.","instructions":"Be brief.","metadata":{"k":"v"},"temperature":0.5,` +
		`"truncation":"auto","parallel_tool_calls":false,"max_output_tokens":64,"prompt_cache_key":"key",` +
		`"safety_identifier":"user","tool_choice":"auto",` +
		`"tools":[{"type":"function","name":"f","description":"d","parameters":{"type":"object"}}]}`)
	for key, want := range map[string]any{
		"instructions": "Be brief.", "truncation": "auto", "parallel_tool_calls": false, "tool_choice": "auto",
		"prompt_cache_key": "key", "safety_identifier": "user", "temperature": json.Number("0.5"),
		"max_output_tokens": json.Number("64"),
		"metadata":          map[string]any{"k": "v"},
		"tools": []any{map[string]any{"type": "function", "name": "f", "description": "d",
			"parameters": map[string]any{"type": "object"}, "strict": nil}},
	} {
		t.expect(equal(got[key], want), "%s is %v, want %v", key, got[key], want)
	}
}

// echoSchema asks for JSON that a model which only talks does not give; how the
// response ends is not its subject.
func echoSchema(t *trial) {
	got, _ := t.streamed(`{"input":"Answer in JSON.","stream":true,"text":{"format":{"type":"json_schema",` +
		`"name":"n","schema":{"type":"object"},"strict":true}}}`)
	text, _ := got["text"].(map[string]any)
	want := map[string]any{"type": "json_schema", "name": "n", "description": nil, "schema": nil, "strict": true}
	t.expect(equal(text["format"], want), "text.format is %v, want %v", text["format"], want)
}

type refusal struct {
	name, body string
	statuses   []int
	code       string // "" for any
	param      string // or what it begins with, "" for any
}

// refused are requests that a server must not run.
var refused = []refusal{
	{"bounds", `{"input":"x","top_logprobs":21}`, []int{400}, "", "top_logprobs"},
	{"too much metadata", `{"input":"x","metadata":{"k":"` + strings.Repeat("v", 513) + `"}}`, []int{400}, "", ""},
	{"choice of a tool that is not there", `{"input":"x","tool_choice":{"type":"function","name":"nowhere"}}`,
		[]int{400}, "", "tool_choice"},
	{"background without store", `{"input":"x","background":true,"store":false}`, []int{400}, "unsupported_parameter",
		"background"},
	{"unknown item reference", `{"input":[{"type":"item_reference","id":"msg_nowhere"},{"role":"user","content":"x"}]}`,
		[]int{400, 404}, "", ""},
	{"malformed json", `{"input":`, []int{400}, "", ""},
	{"no object", `["input"]`, []int{400}, "", ""},
	{"input of a wrong type", `{"input":5}`, []int{400}, "", "input"},
	{"role unknown", `{"input":[{"type":"message","role":"wizard","content":"x"}]}`, []int{400}, "", ""},
	{"temperature of a wrong type", `{"input":"x","temperature":"hot"}`, []int{400}, "", "temperature"},
	{"unknown previous response", `{"input":"x","previous_response_id":"resp_000000000000000000000000000"}`, []int{404},
		"previous_response_not_found", "previous_response_id"},
	{"unknown previous response, streamed",
		`{"input":"x","previous_response_id":"resp_000000000000000000000000000","stream":true}`, []int{404},
		"previous_response_not_found", "previous_response_id"},
	{"hostile previous response", `{"input":"x","previous_response_id":"../../../etc/passwd"}`, []int{404},
		"previous_response_not_found", "previous_response_id"},
	{"output of an unknown call", `{"input":[{"type":"function_call_output","call_id":"call_never_made",` +
		`"output":"x"}]}`, []int{400, 404}, "", ""},
}

func refusals() []Case {
	cases := []Case{
		{"errors/unknown path", Protocol, "an unknown path has the error envelope", func(t *trial) {
			t.fails(t.get("/no/such/path"), http.StatusNotFound)
		}},
		{"errors/content type", Protocol, "a body that is not JSON is refused", func(t *trial) {
			t.fails(t.post([]byte(`{"input":"hi"}`), "Content-Type", "text/plain"), 400, 415)
		}},
	}
	for _, r := range refused {
		cases = append(cases, Case{"errors/" + r.name, Protocol,
			"a request that cannot be understood or done is refused by name", func(t *trial) {
				e := t.fails(t.post(t.request("%s", r.body)), r.statuses...)
				t.expect(r.code == "" || e["code"] == r.code, "code %q, want %q", e["code"], r.code)
				t.expect(strings.HasPrefix(fmt.Sprint(e["param"]), r.param), "param %q, want %q", e["param"], r.param)
			}})
	}
	return cases
}
