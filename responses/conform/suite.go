package conform

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strings"
	"testing"

	"holon/responses/stream"
)

// maxBody bounds what the suite reads of one answer.
const maxBody = 64 << 20

// Run puts the server at baseURL through the shapes that clients rely on, one
// subtest a case, through hc. model must answer any request with a completed
// message; what it says does not matter. The cases that continue a response
// need a server that stores them. Run only calls POST /responses and one path
// that no server has.
func Run(t *testing.T, baseURL string, hc *http.Client, model string) {
	s := &suite{base: strings.TrimRight(baseURL, "/"), http: hc, model: model}
	for _, c := range s.cases() {
		t.Run(c.name, func(t *testing.T) { c.run(t) })
	}
}

type suite struct {
	base, model string
	http        *http.Client
}

type testCase struct {
	name string
	run  func(t *testing.T)
}

func (s *suite) cases() []testCase {
	cases := []testCase{
		{"streams/sse", func(t *testing.T) { s.streams(t, stream.SSE, "application/json") }},
		{"streams/ndjson", func(t *testing.T) { s.streams(t, stream.NDJSON, stream.TypeNDJSON) }},
		{"continuation", s.continuation},
		{"continuation/streamed", s.continuationStreamed},
		{"echo", s.echo},
		{"echo/schema is null", s.echoSchema},
		{"errors/unknown path", func(t *testing.T) { s.fails(t, s.do(t, http.MethodGet, "/no/such/path", "", nil), http.StatusNotFound) }},
		{"errors/content type", func(t *testing.T) {
			s.fails(t, s.do(t, http.MethodPost, "/responses", "text/plain", []byte(`{"input":"hi"}`)), 400, 415)
		}},
	}
	for _, name := range slices.Sorted(maps.Keys(accepted)) {
		cases = append(cases, testCase{"accepts/" + name, func(t *testing.T) { s.completes(t, s.body(accepted[name])) }})
	}
	for _, r := range refused {
		cases = append(cases, testCase{"errors/" + r.name, func(t *testing.T) { s.refuses(t, r) }})
	}
	return cases
}

// accepted are requests that clients send and a server must complete.
var accepted = map[string]string{
	"message":            `{"input":[{"type":"message","role":"user","content":"Say hello."}]}`,
	"string":             `{"input":"Say hello."}`,
	"parts":              `{"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"Say hello."}]}]}`,
	"typeless messages":  `{"input":[{"role":"system","content":"Be brief."},{"role":"user","content":"Hi."},{"role":"assistant","content":"Hello."},{"role":"user","content":[{"type":"input_text","text":"Again."}]}]}`,
	"developer message":  `{"input":[{"type":"message","role":"developer","content":"Be brief."},{"type":"message","role":"user","content":"Hi."}]}`,
	"phases in history":  `{"input":[{"type":"message","role":"assistant","phase":"commentary","content":"Looking."},{"type":"message","role":"assistant","phase":"final_answer","content":"Done."},{"type":"message","role":"user","content":"Thanks."}]}`,
	"tools in history":   `{"input":[{"role":"user","content":"Weather?"},{"type":"function_call","call_id":"call_1","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"call_1","output":"rain"},{"role":"user","content":"And?"}]}`,
	"reasoning in input": `{"input":[{"type":"reasoning","summary":[],"content":null,"encrypted_content":null},{"role":"user","content":"Hi."}]}`,
	"unknown fields":     `{"input":"Hi.","user":"u","prompt":null,"conversation":null,"context_management":[],"something_new":{"a":1},"include":["web_search_call.results"]}`,
	"unknown tools":      `{"input":"Hi.","tools":[{"type":"web_search"},{"type":"acme:tool","x":1},{"type":"function","name":"f"}]}`,
	"nulls":              `{"input":"Hi.","instructions":null,"tools":null,"tool_choice":null,"temperature":null,"metadata":null,"reasoning":null,"text":null,"previous_response_id":null,"max_output_tokens":null}`,
	"small output limit": `{"input":"Hi.","max_output_tokens":16,"stream":false}`,
}

type refusal struct {
	name, body string
	statuses   []int
	code       string // "" for any
	param      string // "" for any
}

// refused are requests that a server must not run.
var refused = []refusal{
	{"malformed json", `{"input":`, []int{400}, "", ""},
	{"no object", `["input"]`, []int{400}, "", ""},
	{"input of a wrong type", `{"input":5}`, []int{400}, "", "input"},
	{"role unknown", `{"input":[{"type":"message","role":"wizard","content":"x"}]}`, []int{400}, "", ""},
	{"temperature of a wrong type", `{"input":"x","temperature":"hot"}`, []int{400}, "", "temperature"},
	{"unknown previous response", `{"input":"x","previous_response_id":"resp_000000000000000000000000000"}`, []int{404}, "previous_response_not_found", "previous_response_id"},
	{"unknown previous response, streamed", `{"input":"x","previous_response_id":"resp_000000000000000000000000000","stream":true}`, []int{404}, "previous_response_not_found", "previous_response_id"},
	{"hostile previous response", `{"input":"x","previous_response_id":"../../../etc/passwd"}`, []int{404}, "previous_response_not_found", "previous_response_id"},
	{"output of an unknown call", `{"input":[{"type":"function_call_output","call_id":"call_never_made","output":"x"}]}`, []int{400, 404}, "", ""},
}

// body fills in the model.
func (s *suite) body(raw string) []byte {
	var m map[string]any
	if err := json.Unmarshal([]byte(raw), &m); err != nil {
		return []byte(raw) // it is meant to be malformed
	}
	m["model"] = s.model
	b, err := json.Marshal(m)
	if err != nil {
		return []byte(raw)
	}
	return b
}

// answer is an answer read whole.
type answer struct {
	status      int
	contentType string
	body        []byte
}

func (s *suite) do(t *testing.T, method, path, contentType string, body []byte, header ...string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.base+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer conformance")
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := s.http.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if err != nil {
		t.Fatalf("%s %s: read the answer: %v", method, path, err)
	}
	media, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil {
		t.Errorf("%s %s: content type %q: %v", method, path, resp.Header.Get("Content-Type"), err)
	}
	return answer{resp.StatusCode, media, data}
}

func (s *suite) post(t *testing.T, body []byte, header ...string) answer {
	t.Helper()
	return s.do(t, http.MethodPost, "/responses", "application/json", body, header...)
}

// completes makes a request that must give a completed response, and returns it.
func (s *suite) completes(t *testing.T, body []byte) map[string]any {
	t.Helper()
	a := s.post(t, body)
	if a.status != http.StatusOK || a.contentType != "application/json" {
		t.Fatalf("answered %d, %s: %.500s", a.status, a.contentType, a.body)
	}
	return checkCompleted(t, a.body)
}

// checkCompleted checks a response object that must be completed and have output.
func checkCompleted(t *testing.T, data []byte) map[string]any {
	t.Helper()
	ev := &event{}
	ev.object = object{ev: ev}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	if err := dec.Decode(&ev.keys); err != nil {
		t.Fatalf("the response is no JSON object: %v", err)
	}
	checkResponse(&ev.object)
	if ev.fault != nil {
		t.Fatalf("the response breaks the rule %s: %s", ev.fault.Rule, ev.fault.Detail)
	}
	if s := ev.str("status"); s != "completed" {
		t.Errorf("the response is %s: %v", s, ev.keys["error"])
	}
	if len(ev.list("output")) == 0 {
		t.Error("the response has no output")
	}
	if ev.isNull("usage") {
		t.Error("usage is null")
	}
	return ev.keys
}

// streams checks a stream to the byte, and that it ends with the response that
// the same request gives as JSON, as far as a model repeats itself.
func (s *suite) streams(t *testing.T, f stream.Framing, accept string) {
	a := s.post(t, s.body(`{"input":"Count from 1 to 5.","stream":true,"stream_options":{"include_obfuscation":false}}`), "Accept", accept)
	if a.status != http.StatusOK || a.contentType != f.ContentType() {
		t.Fatalf("answered %d, %s, want %s: %.500s", a.status, a.contentType, f.ContentType(), a.body)
	}
	if err := CheckStream(bytes.NewReader(a.body), f); err != nil {
		t.Fatalf("%v\n%.5000s", err, a.body)
	}
	streamed := checkCompleted(t, lastResponse(t, a.body, f))
	plain := s.completes(t, s.body(`{"input":"Count from 1 to 5."}`))
	for _, key := range slices.Sorted(maps.Keys(plain)) {
		if _, ok := streamed[key]; !ok {
			t.Errorf("%s is in the JSON answer and not in the streamed response", key)
		}
	}
}

// lastResponse returns the response of the terminal event.
func lastResponse(t *testing.T, body []byte, f stream.Framing) []byte {
	t.Helper()
	var last struct {
		Response json.RawMessage `json:"response"`
	}
	for data, err := range stream.Events(bytes.NewReader(body), f) {
		if err != nil {
			t.Fatal(err)
		}
		last.Response = nil
		if err := json.Unmarshal(data, &last); err != nil {
			t.Fatal(err)
		}
	}
	return last.Response
}

func (s *suite) continuation(t *testing.T) {
	first := s.completes(t, s.body(`{"input":"Remember the word plum.","store":true}`))
	second := s.completes(t, s.body(fmt.Sprintf(`{"input":"Which word?","previous_response_id":%q}`, first["id"])))
	if second["previous_response_id"] != first["id"] || second["id"] == first["id"] {
		t.Errorf("response %v continues %v, want %v", second["id"], second["previous_response_id"], first["id"])
	}
	if first["previous_response_id"] != nil {
		t.Errorf("the first response continues %v", first["previous_response_id"])
	}
}

func (s *suite) continuationStreamed(t *testing.T) {
	a := s.post(t, s.body(`{"input":"Remember the word plum.","store":true,"stream":true}`))
	if a.status != http.StatusOK {
		t.Fatalf("answered %d: %.500s", a.status, a.body)
	}
	first := checkCompleted(t, lastResponse(t, a.body, stream.SSE))
	s.completes(t, s.body(fmt.Sprintf(`{"input":"Which word?","previous_response_id":%q}`, first["id"])))
}

// echo checks that a response repeats what was asked for.
func (s *suite) echo(t *testing.T) {
	got := s.completes(t, s.body(`{"input":"Hi.","instructions":"Be brief.","metadata":{"k":"v"},"temperature":0.5,"truncation":"auto","parallel_tool_calls":false,
		"max_output_tokens":64,"prompt_cache_key":"key","safety_identifier":"user","tool_choice":"auto",
		"tools":[{"type":"function","name":"f","description":"d","parameters":{"type":"object"}}]}`))
	for key, want := range map[string]any{
		"instructions": "Be brief.", "truncation": "auto", "parallel_tool_calls": false, "tool_choice": "auto",
		"prompt_cache_key": "key", "safety_identifier": "user", "temperature": json.Number("0.5"), "max_output_tokens": json.Number("64"),
		"metadata": map[string]any{"k": "v"},
		"tools":    []any{map[string]any{"type": "function", "name": "f", "description": "d", "parameters": map[string]any{"type": "object"}, "strict": nil}},
	} {
		if !equal(got[key], want) {
			t.Errorf("%s is %v, want %v", key, got[key], want)
		}
	}
}

// echoSchema checks the one key that must not be echoed: the protocol's own
// schema allows only null for it.
func (s *suite) echoSchema(t *testing.T) {
	got := s.completes(t, s.body(`{"input":"Hi.","text":{"format":{"type":"json_schema","name":"n","schema":{"type":"object"},"strict":true}}}`))
	text, _ := got["text"].(map[string]any)
	want := map[string]any{"type": "json_schema", "name": "n", "description": nil, "schema": nil, "strict": true}
	if !equal(text["format"], want) {
		t.Errorf("text.format is %v, want %v", text["format"], want)
	}
}

func (s *suite) refuses(t *testing.T, r refusal) {
	e := s.fails(t, s.post(t, s.body(r.body)), r.statuses...)
	if r.code != "" && e["code"] != r.code || r.param != "" && e["param"] != r.param {
		t.Errorf("code %q and param %q, want %q and %q", e["code"], e["param"], r.code, r.param)
	}
}

// fails checks an error envelope: four keys, all strings, since clients lose
// the message when one is null.
func (s *suite) fails(t *testing.T, a answer, statuses ...int) map[string]any {
	t.Helper()
	if !slices.Contains(statuses, a.status) || a.contentType != "application/json" {
		t.Fatalf("answered %d, %s, want %v and application/json: %.500s", a.status, a.contentType, statuses, a.body)
	}
	var env struct {
		Error map[string]any `json:"error"`
	}
	if err := json.Unmarshal(a.body, &env); err != nil {
		t.Fatalf("the error has no envelope: %v: %.500s", err, a.body)
	}
	for _, key := range []string{"message", "type", "param", "code"} {
		if s, ok := env.Error[key].(string); !ok || s == "" && key != "param" {
			t.Errorf("%s of the error is %v, want a string", key, env.Error[key])
		}
	}
	return env.Error
}
