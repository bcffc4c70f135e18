package openai_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"holon/agentd/model"
	"holon/agentd/model/openai"
	"holon/responses"
	"holon/test/expect"
	"holon/test/modeltest"
)

func inFreeform(o *openai.Options) { o.Freeform = true }

var patchTool = model.Tool{
	Name: "ApplyPatch", Description: "JSON.", Parameters: json.RawMessage(`{"type":"object"}`),
	Freeform: &model.Freeform{Argument: "patch", Description: "Text.", Syntax: "lark", Definition: "start: /x/"},
}

// A tool in free form is sent with its grammar where that is asked for and may
// be known, and as a function everywhere else; so are the calls before.
func TestFreeformRequest(t *testing.T) {
	req := model.Request{
		Model: "gpt-5.2-codex", Tools: []model.Tool{patchTool, {Name: "Run"}},
		ToolChoice: responses.ToolChoice{Allowed: []string{"Run", "ApplyPatch"}},
		Input: []responses.Item{
			&responses.ToolCall{CallID: "c1", Name: "ApplyPatch", Arguments: `{"patch":"*** a\n<\"ü\">"}`,
				Output: "done"},
			&responses.ToolCall{CallID: "c2", Name: "ApplyPatch", Arguments: `{"patch":7}`, Output: "bad"},
			&responses.ToolCall{CallID: "c3", Name: "ApplyPatch", Arguments: `{"patch":"x","more":"y"}`, Output: "bad"},
			&responses.ToolCall{CallID: "c4", Name: "ApplyPatch", Arguments: `not JSON`, Output: "bad"},
			&responses.ToolCall{CallID: "c5", Name: "Run", Arguments: `{"patch":"x"}`, Output: "ran"},
		},
	}
	type body struct {
		Input      json.RawMessage
		Tools      json.RawMessage
		ToolChoice json.RawMessage `json:"tool_choice"`
	}
	sent := func(req model.Request, change ...func(*openai.Options)) (b body) {
		t.Helper()
		text, _, _ := sentFor(t, false, req, change...)
		expect.NoError(t, json.Unmarshal([]byte(text), &b))
		return b
	}
	const rest = `{"type":"function_call","call_id":"c2","name":"ApplyPatch","arguments":"{\"patch\":7}"},` +
		`{"type":"function_call_output","call_id":"c2","output":"bad"},` +
		`{"type":"function_call","call_id":"c3","name":"ApplyPatch","arguments":"{\"patch\":\"x\",\"more\":\"y\"}"},` +
		`{"type":"function_call_output","call_id":"c3","output":"bad"},` +
		`{"type":"function_call","call_id":"c4","name":"ApplyPatch","arguments":"not JSON"},` +
		`{"type":"function_call_output","call_id":"c4","output":"bad"},` +
		`{"type":"function_call","call_id":"c5","name":"Run","arguments":"{\"patch\":\"x\"}"},` +
		`{"type":"function_call_output","call_id":"c5","output":"ran"}]`
	const run = `{"type":"function","name":"Run","parameters":{"type":"object","properties":{}},"strict":false}]`
	free := sent(req, inFreeform)
	for _, c := range []struct{ what, got, want string }{
		{"the tools", string(free.Tools), `[{"type":"custom","name":"ApplyPatch","description":"Text.",` +
			`"format":{"type":"grammar","syntax":"lark","definition":"start: /x/"}},` + run},
		{"the choice", string(free.ToolChoice),
			`{"type":"allowed_tools","tools":[{"type":"function","name":"Run"},{"type":"custom",` +
				`"name":"ApplyPatch"}],"mode":"auto"}`},
		{"the input", string(free.Input), `[{"type":"custom_tool_call","call_id":"c1","name":"ApplyPatch",` +
			`"input":"*** a\n<\"ü\">"},{"type":"custom_tool_call_output","call_id":"c1","output":"done"},` + rest},
	} {
		expect.Equal(t, c.what, cmp.Diff(canon(t, c.want), canon(t, c.got)), "")
	}
	req.ToolChoice = responses.ToolChoice{Name: "ApplyPatch"}
	expect.Equal(t, "the choice of one", canon(t, string(sent(req, inFreeform).ToolChoice)),
		`{"name":"ApplyPatch","type":"custom"}`)
	// A conversation that grows at its end is sent in the same bytes.
	req.Input = append(req.Input, &responses.ToolCall{CallID: "c6", Name: "ApplyPatch", Arguments: `{"patch":"z"}`,
		Output: "done"})
	if longer := sent(req, inFreeform); !strings.HasPrefix(string(longer.Input),
		strings.TrimSuffix(string(free.Input), "]")+",") {
		t.Errorf("the history is told in other words: %s", longer.Input)
	}
	function := `[{"type":"function","name":"ApplyPatch","description":"JSON.","parameters":{"type":"object"},` +
		`"strict":false},` + run
	got := sent(req)
	expect.Equal(t, "without being asked for: canon(t, string(got.Tools))", canon(t, string(got.Tools)),
		canon(t, function))
	if strings.Contains(string(got.Input), "custom_tool_call") {
		t.Errorf(`without being asked for: string(got.Input) = %q, want it without "custom_tool_call"`,
			string(got.Input))
	}
	expect.Equal(t, "canon(t, string(got.ToolChoice))", canon(t, string(got.ToolChoice)),
		`{"name":"ApplyPatch","type":"function"}`)
	for name, want := range map[string]bool{
		"gpt-5": true, "gpt-5.2-codex": true, "openai/gpt-6": true, "house-model": true,
		"gpt-4.1": false, "gpt-4o-mini": false, "o3": false, "o4-mini": false, "gpt-oss-120b": false,
		"chatgpt-4o-latest": false, "gpt-3.5-turbo": false,
	} {
		req.Model = name
		expect.Equal(t, name, strings.Contains(string(sent(req, inFreeform).Tools), `"custom"`), want)
	}
}

// The call of a custom tool arrives as a call in JSON, and goes back as it came.
func TestFreeformStream(t *testing.T) {
	req := model.Request{Tools: []model.Tool{{Name: "write_sql",
		Freeform: &model.Freeform{Argument: "query", Syntax: "regex", Definition: "SELECT .+"}}}}
	stream := strings.TrimSpace(modeltest.File(t, "responses/custom-tool.ndjson"))
	for _, events := range answers(strings.Split(stream, "\n")) {
		got, failed := ask(t.Context(), t, serve(t, false, replay(events, true), inFreeform), req)
		if failed != nil || !slices.Equal(got.Calls,
			[]string{`call_sql write_sql {"query":"SELECT * FROM users WHERE age > 25"}`}) {
			t.Errorf("%q, %v", got.Calls, failed)
		}
		req.Input = []responses.Item{&responses.ToolCall{CallID: "call_sql", Name: "write_sql",
			Arguments: `{"query":"SELECT * FROM users WHERE age > 25"}`, Output: "1"}}
		if body, _, _ := sentFor(t, false, req, inFreeform); !strings.Contains(body,
			`"input":"SELECT * FROM users WHERE age > 25"`) {
			t.Errorf("it goes back as %s", body)
		}
	}
}

// However a provider says the text of a call in free form, the pieces of the
// arguments are those of the whole, and are JSON.
func TestFreeformCalls(t *testing.T) {
	const text = "*** Begin Patch\n+\"é\\\" 😀<&>\t\u2028\n"
	const want = `{"patch":"*** Begin Patch\n+\"é\\\" 😀<&>\t\u2028\n"}`
	quote := func(s string) string {
		data, err := json.Marshal(s)
		expect.NoError(t, err)
		return string(data)
	}
	begin := func(i int) string {
		return fmt.Sprintf(`{"type":"response.output_item.added","output_index":%d,`+
			`"item":{"type":"custom_tool_call","call_id":"c%d","name":"ApplyPatch","input":""}}`, i, i)
	}
	piece := func(i int, quoted string) string {
		return fmt.Sprintf(`{"type":"response.custom_tool_call_input.delta","output_index":%d,"delta":%s}`, i, quoted)
	}
	whole := func(i int) string {
		return fmt.Sprintf(`{"type":"response.custom_tool_call_input.done","output_index":%d,"input":%s}`, i,
			quote(text))
	}
	item := func(i int, input string) string {
		return fmt.Sprintf(`{"type":"response.output_item.done","output_index":%d,"item":{"type":"custom_tool_call",`+
			`"call_id":"c%d","name":"ApplyPatch","status":"completed","input":%s}}`, i, i, quote(input))
	}
	var runes []string
	for _, r := range text {
		runes = append(runes, piece(0, quote(string(r))))
	}
	first, second, _ := strings.Cut(text, "😀")
	for name, events := range map[string][]string{
		"rune by rune":           append(append([]string{begin(0)}, runes...), whole(0), item(0, text)),
		"at once, at the end":    {begin(0), whole(0), item(0, text)},
		"in the item alone":      {item(0, text)},
		"a part, then the whole": {begin(0), piece(0, quote(first)), whole(0), item(0, text)},
		"half a character": {begin(0), piece(0, strings.TrimSuffix(quote(first), `"`)+`\ud83d"`),
			piece(0, `"\ude00`+quote(second)[1:]), item(0, text)},
		"half, then the whole": {begin(0), piece(0, strings.TrimSuffix(quote(first), `"`)+`\ud83d"`), item(0, text)},
		"without an end":       {begin(0), piece(0, quote(text))},
		"interleaved with itself": {begin(0), begin(1), piece(1, quote(text)), piece(0, quote(text)), item(1, text),
			item(0, text)},
	} {
		got, failed := ask(t.Context(), t, serve(t, false, replay(append(events, completed), true), inFreeform),
			model.Request{Tools: []model.Tool{patchTool}})
		if failed != nil || len(got.Calls) == 0 {
			t.Errorf("%s: %q, %v", name, got.Calls, failed)
		}
		for _, call := range got.Calls {
			_, arguments, _ := strings.Cut(call, " ApplyPatch ")
			expect.Equal(t, name+": arguments", arguments, want)
		}
	}
	got, failed := ask(t.Context(), t, serve(t, false, replay([]string{begin(0), item(0, ""), completed}, false),
		inFreeform), model.Request{Tools: []model.Tool{patchTool}})
	if failed != nil || !slices.Equal(got.Calls, []string{`c0 ApplyPatch {"patch":""}`}) {
		t.Errorf("empty: %q, %v", got.Calls, failed)
	}
	// A model may call by the function form although it was offered the other.
	function := `{"type":"response.output_item.done","output_index":0,"item":{"type":"function_call","call_id":"c0",` +
		`"name":"ApplyPatch","arguments":"{\"patch\":\"x\"}"}}`
	got, failed = ask(t.Context(), t, serve(t, false, replay([]string{function, completed}, false), inFreeform),
		model.Request{Tools: []model.Tool{patchTool}})
	if failed != nil || !slices.Equal(got.Calls, []string{`c0 ApplyPatch {"patch":"x"}`}) {
		t.Errorf("as a function: %q, %v", got.Calls, failed)
	}
}
