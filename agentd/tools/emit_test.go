package tools

import (
	"encoding/json"
	"slices"
	"testing"

	"holon/responses"
	"holon/test/expect"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"
	"pgregory.net/rapid"
)

type nestedArgs struct {
	Items []nestedItem `json:"items"`
	Stop  bool         `json:"stop,omitempty"`
}

type nestedItem struct {
	Cmd  string   `json:"cmd" jsonschema:"what to run"`
	Dir  string   `json:"dir,omitempty"`
	Mode string   `json:"mode,omitempty"`
	Tags []string `json:"tags,omitempty"`
}

func nestedDefinition(t testing.TB) Definition {
	t.Helper()
	schema, err := Derive[nestedArgs](map[string]func(*jsonschema.Schema){"items": func(s *jsonschema.Schema) {
		s.MinItems, s.MaxItems = new(1), new(2)
		s.Items.Properties["cmd"].MinLength = new(1)
		s.Items.Properties["mode"].Enum = []any{"a", "b"}
	}})
	expect.NoError(t, err)
	return Definition{Name: "Nested", Parameters: schema}
}

func TestEmit(t *testing.T) {
	def := nestedDefinition(t)
	strict, err := def.StrictParameters()
	expect.NoError(t, err)
	for want, got := range map[string]json.RawMessage{
		`{"type":"object","properties":{"items":{"type":"array","minItems":1,"maxItems":2,
			"items":{"type":"object","properties":{
			"cmd":{"type":"string","description":"what to run","minLength":1},"dir":{"type":"string"},
			"mode":{"type":"string","enum":["a","b"]},"tags":{"type":"array","items":{"type":"string"}}},
			"required":["cmd"],"additionalProperties":false}},"stop":{"type":"boolean"}},"required":["items"],
			"additionalProperties":false}`: def.Parameters,
		`{"type":"object","properties":{"items":{"type":"array","minItems":1,"maxItems":2,
			"items":{"type":"object","properties":{
			"cmd":{"type":"string","description":"what to run"},"dir":{"type":["string","null"]},
			"mode":{"type":["string","null"],"enum":["a","b",null]},
			"tags":{"type":["array","null"],"items":{"type":"string"}}},
			"required":["cmd","dir","mode","tags"],"additionalProperties":false}},"stop":{"type":["boolean",
			"null"]}},"required":["items","stop"],"additionalProperties":false}`: strict,
	} {
		var g, w any
		if json.Unmarshal(got, &g) != nil || json.Unmarshal([]byte(want), &w) != nil {
			t.Fatalf("not JSON: %s", got)
		}
		if diff := cmp.Diff(w, g); diff != "" {
			t.Error(diff)
		}
	}
}

func TestNestedArguments(t *testing.T) {
	params, err := compile(nestedDefinition(t).Parameters, "")
	expect.NoError(t, err)
	bad := []struct{ args, field string }{
		{`{}`, "items"},
		{`{"items":[]}`, "items"},
		{`{"items":{}}`, "items"},
		{`{"items":[{"cmd":"x"},{"cmd":"x"},{"cmd":"x"}]}`, "items"},
		{`{"items":["x"]}`, "items[0]"},
		{`{"items":[{"cmd":"x"},{}]}`, "items[1].cmd"},
		{`{"items":[{"cmd":""}]}`, "items[0].cmd"},
		{`{"items":[{"cmd":null}]}`, "items[0].cmd"},
		{`{"items":[{"cmd":"x","tty":true}]}`, "items[0].tty"},
		{`{"items":[{"cmd":"x","mode":"c"}]}`, "items[0].mode"},
		{`{"items":[{"cmd":"x","tags":[1]}]}`, "items[0].tags[0]"},
		{`{"items":[{"cmd":"x"}],"stop":"yes"}`, "stop"},
	}
	for _, tt := range bad {
		_, e := params.check(json.RawMessage(tt.args))
		if e == nil || e.Kind != KindInvalidInput || e.Details["field"] != tt.field || e.RecoveryHint == "" {
			t.Errorf("%s: %+v, want %s of the field %q with a hint", tt.args, e, KindInvalidInput, tt.field)
		}
	}
	// Arguments in strict form decode to the same values.
	normal, e := params.check(json.RawMessage(`{"items":[{"cmd":"x","dir":null,"mode":null,"tags":null}],"stop":null}`))
	if e != nil {
		t.Fatal(e)
	}
	expect.Equal(t, "normal form", string(normal), `{"items":[{"cmd":"x"}]}`)
}

func TestSubset(t *testing.T) {
	def := nestedDefinition(t)
	r, err := NewRegistry(newEcho(t), misnamed{newEcho(t), def})
	expect.NoError(t, err)
	sub, err := r.Subset([]string{"Nested", "Nested"})
	expect.NoError(t, err)
	if defs := sub.Definitions(); len(defs) != 1 || defs[0].Name != "Nested" {
		t.Errorf("definitions %+v", defs)
	}
	o := sub.Run(t.Context(), Env{}, Call{Name: "Echo", Arguments: json.RawMessage(`{"text":"x"}`)})
	if o.Canonical.Error == nil || o.Canonical.Error.Kind != KindUnknownTool {
		t.Errorf("a tool that was left out: %+v", o.Canonical)
	}
	if _, err := r.Subset([]string{"Nope"}); err == nil {
		t.Error("an unknown name is accepted")
	}
}

// anyJSON draws a value that a tool may put into a result or into details.
func anyJSON(depth int) *rapid.Generator[any] {
	leaf := rapid.OneOf(
		rapid.Custom(func(t *rapid.T) any { return rapid.String().Draw(t, "text") }),
		rapid.Custom(func(t *rapid.T) any { return rapid.Int().Draw(t, "int") }),
		rapid.Custom(func(t *rapid.T) any { return rapid.Float64().Draw(t, "float") }),
		rapid.Just[any](nil), rapid.Just[any](true),
	)
	if depth == 0 {
		return leaf
	}
	inner := anyJSON(depth - 1)
	return rapid.OneOf(leaf,
		rapid.Custom(func(t *rapid.T) any { return rapid.SliceOfN(inner, 0, 4).Draw(t, "list") }),
		rapid.Custom(func(t *rapid.T) any { return rapid.MapOfN(rapid.String(), inner, 0, 4).Draw(t, "object") }),
	)
}

// A canonical result is a fixed point: kept, read back and kept again it has
// the same bytes and the same rendering, and so has its compact form.
func TestCanonicalIsStable(t *testing.T) {
	r := newRegistry(t)
	rapid.Check(t, func(rt *rapid.T) {
		value := rapid.MapOfN(rapid.String(), anyJSON(2), 0, 5).Draw(rt, "value")
		out := Output{Summary: rapid.String().Draw(rt, "summary"), Result: value}
		if rapid.Bool().Draw(rt, "fails") {
			out = Output{Error: &Error{Kind: "k", Message: rapid.String().Draw(rt, "message"), Details: value,
				RecoveryHint: rapid.String().Draw(rt, "hint"), Retryable: rapid.Bool().Draw(rt, "retryable")}}
		}
		for _, name := range []string{"Echo", "NoRenderer"} {
			canonical, err := envelope(name, out)
			expect.NoError(rt, err)
			for _, c := range []Result{canonical, Families{}.Compact(canonical, 2<<10)} {
				first, err := c.Encode()
				expect.NoError(rt, err)
				var back Result
				expect.NoError(rt, json.Unmarshal(first, &back))
				again, err := back.Encode()
				if err != nil || string(again) != string(first) {
					rt.Fatalf("%v\nfirst %s\nagain %s", err, first, again)
				}
				if a, b := r.Render(c, RenderPolicy{}), r.Render(back, RenderPolicy{}); a != b {
					rt.Fatalf("rendered\nfirst %s\nagain %s", a, b)
				}
			}
		}
	})
}

func TestCompactKeepsWhatMatters(t *testing.T) {
	long := slices.Repeat([]string{"a line of output"}, 1000)
	result, err := responses.Marshal(map[string]any{
		"disposition": "completed", "exit_status": 1, "stdout_preview": long,
		"task_handle": map[string]any{"task_id": "task_1"},
		"artifacts":   []any{map[string]any{"path": "tools/call_1/stdout.log"}}, "stdout_artifact": 0,
	})
	expect.NoError(t, err)
	c := Families{}.Compact(Result{ToolName: "ExecCommand", Status: statusSuccess,
		SummaryText: "command exited with status 1", Result: result}, 2<<10)
	var got struct {
		ExitStatus int `json:"exit_status"`
		TaskHandle struct {
			TaskID string `json:"task_id"`
		} `json:"task_handle"`
		Artifacts []Artifact `json:"artifacts"`
	}
	expect.NoError(t, json.Unmarshal(c.Result, &got))
	switch {
	case size(t, c) > 2<<10:
		t.Errorf("size(t, c) = %d, want at most %d", size(t, c), 2<<10)
	case c.SummaryText == "":
		t.Error(`c.SummaryText = "", want another value`)
	case got.ExitStatus != 1:
		t.Errorf("got.ExitStatus = %d, want 1", got.ExitStatus)
	case got.TaskHandle.TaskID != "task_1":
		t.Errorf(`got.TaskHandle.TaskID = %q, want "task_1"`, got.TaskHandle.TaskID)
	case len(got.Artifacts) != 1:
		t.Errorf("len(got.Artifacts) = %d (%+v), want 1", len(got.Artifacts), got.Artifacts)
	}
	e := Families{}.Compact(Result{ToolName: "T", Status: statusError, Error: &Error{
		Kind: "kind", Message: "m", RecoveryHint: "h", Retryable: true,
		Details: map[string]any{"blob": long, "field": "cmd"}}}, 1<<10)
	if size(t, e) > 1<<10 {
		t.Errorf("size(t, e) = %d, want at most %d", size(t, e), 1<<10)
	}
	expect.Equal(t, "e.Error.Kind", e.Error.Kind, "kind")
	expect.Equal(t, "e.Error.Message", e.Error.Message, "m")
	expect.Equal(t, "e.Error.RecoveryHint", e.Error.RecoveryHint, "h")
	expect.Equal(t, "e.Error.Retryable", e.Error.Retryable, true)
}

func size(t *testing.T, r Result) int {
	t.Helper()
	data, err := r.Encode()
	expect.NoError(t, err)
	return len(data)
}
