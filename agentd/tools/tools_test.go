package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holon/responses"
	"holon/test/expect"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"
)

type echoArgs struct {
	Text  string   `json:"text" jsonschema:"what to say"`
	Times int      `json:"times,omitempty"`
	Tags  []string `json:"tags,omitempty"`
}

// echo is a tool whose behaviour is chosen by its text.
type echo struct{ schema json.RawMessage }

type echoResult struct {
	Said string `json:"said"`
}

func newEcho(t testing.TB) echo {
	t.Helper()
	one := 1.0
	schema, err := Derive[echoArgs](map[string]func(*jsonschema.Schema){"times": func(s *jsonschema.Schema) {
		s.Minimum = &one
	}})
	expect.NoError(t, err)
	return echo{schema}
}

func (e echo) Definition() Definition {
	return Definition{Name: "Echo", Description: "says it", Parameters: e.schema}
}

func (e echo) Run(_ context.Context, env Env, call Call) Output {
	args, bad := Decode[echoArgs](call)
	if bad != nil {
		return Fail(bad)
	}
	switch args.Text {
	case "panic":
		panic("secret detail")
	case "nothing":
		return Output{}
	case "both":
		return Output{Result: echoResult{}, Error: internal().Error}
	case "big error":
		return Fail(&Error{Kind: "too_much", Message: "m",
			Details: map[string]any{"field": "text", "blob": strings.Repeat("x", 1<<20)}, Retryable: true})
	case "artifact":
		if _, err := env.Artifacts.Write("full.txt", []byte("everything")); err != nil {
			return Fail(&Error{Kind: KindInternal, Message: err.Error()})
		}
		return Output{Summary: "kept", Result: echoResult{Said: "see file"}}
	}
	return Output{Summary: "said " + args.Text, Result: echoResult{Said: args.Text}}
}

func (e echo) Render(c Result, _ RenderPolicy) string { return "Echo: " + c.SummaryText }

func newRegistry(t testing.TB) *Registry {
	t.Helper()
	r, err := NewRegistry(newEcho(t))
	expect.NoError(t, err)
	return r
}

func TestDerivedSchema(t *testing.T) {
	got := string(newEcho(t).schema)
	want := `{"type":"object","required":["text"],"properties":{"text":{"type":"string","description":"what to ` +
		`say"},"times":{"type":"integer","minimum":1},"tags":{"type":"array","items":{"type":"string"}}},` +
		`"additionalProperties":false}`
	var g, w any
	if json.Unmarshal([]byte(got), &g) != nil || json.Unmarshal([]byte(want), &w) != nil {
		t.Fatal("not JSON:", got)
	}
	if diff := cmp.Diff(w, g); diff != "" {
		t.Error(diff)
	}
}

func TestEnvelopeBytes(t *testing.T) {
	r := newRegistry(t)
	tests := []struct{ name, args, canonical, rendered string }{
		{"Echo", `{"text":"a <b>"}`,
			`{"tool_name":"Echo","status":"success","summary_text":"said a <b>","result":{"said":"a <b>"},` +
				`"error":null}`,
			"Echo: said a <b>"},
		{"Echo", `{}`,
			`{"tool_name":"Echo","status":"error","summary_text":"argument \"text\" is missing","result":null,` +
				`"error":{"kind":"invalid_tool_input","message":"argument \"text\" is missing",` +
				`"details":{"field":"text"},"recovery_hint":"add it; required are: text","retryable":false}}`,
			`{"ok":false,"tool_name":"Echo","kind":"invalid_tool_input","message":"argument \"text\" is ` +
				`missing","hint":"add it; required are: text","field":"text","retryable":false,` +
				`"details":{"field":"text"}}`},
		{"Nope", `{}`,
			`{"tool_name":"Nope","status":"error","summary_text":"there is no tool named \"Nope\"",` +
				`"result":null,"error":{"kind":"unknown_tool","message":"there is no tool named \"Nope\"",` +
				`"details":{"available":["Echo"],"requested":"Nope"},"recovery_hint":"use one of: Echo",` +
				`"retryable":false}}`,
			`{"ok":false,"tool_name":"Nope","kind":"unknown_tool","message":"there is no tool named \"Nope\"",` +
				`"hint":"use one of: Echo","retryable":false,"details":{"available":["Echo"],"requested":"Nope"}}`},
	}
	for _, tt := range tests {
		o := r.Run(t.Context(), Env{}, Call{ID: "c", Name: tt.name, Arguments: json.RawMessage(tt.args)})
		got, err := responses.Marshal(o.Canonical)
		expect.NoError(t, err)
		if diff := cmp.Diff(tt.canonical, string(got)); diff != "" {
			t.Errorf("%s %s: canonical\n%s", tt.name, tt.args, diff)
		}
		if diff := cmp.Diff(tt.rendered, o.Rendered); diff != "" {
			t.Errorf("%s %s: rendered\n%s", tt.name, tt.args, diff)
		}
		// The text can be made again from the record alone.
		var back Result
		expect.NoError(t, json.Unmarshal(got, &back))
		if again := r.Render(back, RenderPolicy{}); again != o.Rendered {
			t.Errorf("rendered again: %q, first %q", again, o.Rendered)
		}
	}
}

func TestBadArguments(t *testing.T) {
	r := newRegistry(t)
	tests := []struct{ args, field, part string }{
		{`{"text":1}`, "text", `has type "integer", want "string"`},
		{`{"text":null}`, "text", `want "string"`},
		{`{"Text":"x"}`, "Text", "unknown argument"},
		{`{"text":"x","times":0}`, "times", "less than 1"},
		{`{"text":"x","times":1.5}`, "times", `want "integer"`},
		{`{"text":"x","tags":["a",2]}`, "tags[1]", `want "string"`},
		{`{"text":"x","extra":1}`, "extra", "unknown argument"},
		{`{"text":"x","text":"y"}`, "", "text is repeated"},
		{`{"text":"x","tags":[{"a":1,"a":2}]}`, "", "tags[0].a is repeated"},
		{`["text"]`, "", "must be a JSON object"},
		{`null`, "", "must be a JSON object"},
		{`{"text":"x"} {}`, "", "must be a JSON object"},
		{`{"text":"x`, "", "unexpected"},
		{"{\"text\":\"\xff\"}", "", "valid UTF-8"},
		{`{"text":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`, "", "nested deeper"},
		{`{"text":` + strings.Repeat(" ", maxArgumentBytes) + `"x"}`, "", "the limit is"},
		{`{"text":["` + strings.Repeat("long", 10_000) + `"]}`, "text", "want"},
	}
	for _, tt := range tests {
		o := r.Run(t.Context(), Env{}, Call{Name: "Echo", Arguments: json.RawMessage(tt.args)})
		e := o.Canonical.Error
		if e == nil || e.Kind != KindInvalidInput {
			t.Errorf("%.60s: %+v, want invalid_tool_input", tt.args, o.Canonical)
			continue
		}
		if field, _ := e.Details["field"].(string); field != tt.field || !strings.Contains(e.Message, tt.part) {
			t.Errorf("%.60s: field %q message %q, want %q and %q", tt.args, field, e.Message, tt.field, tt.part)
		}
		if e.RecoveryHint == "" || len(e.Message) > 700 {
			t.Errorf("%.60s: hint %q, message of %d bytes", tt.args, e.RecoveryHint, len(e.Message))
		}
	}
	o := r.Run(t.Context(), Env{}, Call{Name: "Echo",
		Arguments: json.RawMessage(`{"text":"x","times":null,"tags":null}`)})
	if o.Canonical.Status != statusSuccess {
		t.Errorf("nulls for optional arguments: %+v", o.Canonical.Error)
	}
}

func TestMisbehavingTools(t *testing.T) {
	r := newRegistry(t)
	for _, text := range []string{"panic", "nothing", "both"} {
		o := r.Run(t.Context(), Env{}, Call{Name: "Echo", Arguments: json.RawMessage(`{"text":"` + text + `"}`)})
		switch {
		case o.Canonical.Error == nil:
			t.Errorf("%s: o.Canonical.Error = nil, want a value", text)
		case o.Canonical.Error.Kind != KindInternal:
			t.Errorf("%s: o.Canonical.Error.Kind = %q, want %q", text, o.Canonical.Error.Kind, KindInternal)
		case o.Fault == nil:
			t.Errorf("%s: o.Fault = nil, want a value", text)
		}
		expect.Equal(t, fmt.Sprintf("%s: o.Canonical.Result", text), string(o.Canonical.Result), "")
		if strings.Contains(o.Rendered, "secret") || !strings.HasPrefix(o.Rendered, `{"ok":false`) {
			t.Errorf("%s: rendered %s", text, o.Rendered)
		}
	}
}

func TestLargeDetailsBecomeAPreview(t *testing.T) {
	o := newRegistry(t).Run(t.Context(), Env{}, Call{Name: "Echo", Arguments: json.RawMessage(`{"text":"big error"}`)})
	if n := len(o.Rendered); n > 4<<10 {
		t.Errorf("the receipt is %d bytes", n)
	}
	var got receipt
	expect.NoError(t, json.Unmarshal([]byte(o.Rendered), &got))
	var details struct {
		Bytes  int
		SHA256 string
	}
	if err := json.Unmarshal(got.Details, &details); err != nil || details.Bytes < 1<<20 || len(details.SHA256) != 64 {
		t.Errorf("details %s", got.Details)
	}
	expect.Equal(t, "got.Field", got.Field, "text")
	expect.Equal(t, "got.Retryable", got.Retryable, true)
	expect.Equal(t, "got.OK", got.OK, false)
}

func TestArtifacts(t *testing.T) {
	r := newRegistry(t)
	out := t.TempDir()
	logs := filepath.Join(out, "tools")
	expect.NoError(t, os.Mkdir(logs, 0o700))
	var paths []string
	for _, id := range []string{"call_1", "call_1", "../../etc", "", ".hidden", strings.Repeat("x", 300), "a/b",
		"a\x00b"} {
		o := r.Run(t.Context(), Env{LogDir: logs},
			Call{ID: id, Name: "Echo", Arguments: json.RawMessage(`{"text":"artifact"}`)})
		if len(o.Artifacts) != 1 || o.Fault != nil {
			t.Fatalf("id %q: %+v", id, o)
		}
		path := o.Artifacts[0].Path
		paths = append(paths, path)
		data, err := os.ReadFile(filepath.Join(out, path))
		switch {
		case err != nil:
			t.Errorf("%.120q: unexpected error: %v", id, err)
		case string(data) != "everything":
			t.Errorf(`%.120q: string(data) = %q, want "everything"`, id, string(data))
		case !filepath.IsLocal(path):
			t.Errorf("%.120q: filepath.IsLocal(path) = false, want true", id)
		case !strings.HasPrefix(path, "tools/"):
			t.Errorf(`%.120q: path = %q, want it to begin with "tools/"`, id, path)
		}
	}
	if paths[0] != "tools/call_1/full.txt" || paths[1] != "tools/call_1-2/full.txt" {
		t.Errorf("paths %q", paths[:2])
	}
	a := newArtifacts(logs, "c", nil)
	for _, name := range []string{"../x", "a/b", "", ".", "..", "-x"} {
		if path, err := a.Reserve(name); err == nil {
			t.Errorf("reserved %q as %q", name, path)
		}
	}
}

type misnamed struct {
	Tool
	def Definition
}

func (m misnamed) Definition() Definition { return m.def }

func TestNewRegistryRefuses(t *testing.T) {
	good := newEcho(t)
	tests := map[string][]Tool{
		"twice":     {good, good},
		"name":      {misnamed{good, Definition{Name: "a b", Parameters: good.schema}}},
		"no schema": {misnamed{good, Definition{Name: "a"}}},
		"open":      {misnamed{good, Definition{Name: "a", Parameters: json.RawMessage(`{"type":"object"}`)}}},
		"array": {misnamed{good, Definition{Name: "a",
			Parameters: json.RawMessage(`{"type":"array","additionalProperties":false}`)}}},
	}
	for name, list := range tests {
		if _, err := NewRegistry(list...); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// Every call that a model can send has exactly one well-formed outcome.
func FuzzRun(f *testing.F) {
	for _, s := range []string{`{"text":"x"}`, `{"text":"x","text":1}`, `{`, `[]`, `{"tags":null}`, "\xff",
		`{"a":{"b":[{}]}}`, ``, `}`, `{"text":"panic"}`} {
		f.Add("Echo", s)
	}
	f.Add("Other", `{}`)
	r := newRegistry(f)
	f.Fuzz(func(t *testing.T, name, args string) {
		o := r.Run(t.Context(), Env{}, Call{ID: name, Name: name, Arguments: json.RawMessage(args)})
		c := o.Canonical
		if (c.Status == statusSuccess) != (c.Error == nil) || (c.Error == nil) == (c.Result == nil) {
			t.Fatalf("envelope %+v", c)
		}
		if data, err := responses.Marshal(c); err != nil || !json.Valid(data) {
			t.Fatalf("envelope %s: %v", data, err)
		}
		if c.Error != nil && !json.Valid([]byte(o.Rendered)) {
			t.Fatalf("receipt %q", o.Rendered)
		}
		var args2 echoArgs
		if c.Error == nil && json.Unmarshal([]byte(args), &args2) != nil {
			t.Fatalf("accepted what cannot be decoded: %q", args)
		}
	})
}

// purse is a disk.
type purse struct{ left int64 }

func (p *purse) Take(n int64) int64 {
	got := min(n, p.left)
	p.left -= got
	return got
}

func (p *purse) Give(n int64) { p.left += n }

// What is written draws on the turn's disk, whole or not at all, and what is not
// written is given back.
func TestArtifactsDrawOnTheDisk(t *testing.T) {
	logs := filepath.Join(t.TempDir(), "tools")
	expect.NoError(t, os.Mkdir(logs, 0o700))
	disk := &purse{left: 10}
	a := newArtifacts(logs, "c", disk)
	switch at, err := a.Write("six", []byte("123456")); {
	case err != nil:
		t.Fatalf("unexpected error: %v", err)
	case at == nil:
		t.Fatal("at = nil, want a value")
	case *at != 0:
		t.Fatalf("*at = %d, want 0", *at)
	case disk.left != 4:
		t.Fatalf("disk.left = %d, want 4", disk.left)
	}
	switch at, err := a.Write("five", []byte("12345")); {
	case !errors.Is(err, ErrNoSpace):
		t.Errorf("err = %v, want %v", err, ErrNoSpace)
	case at != nil:
		t.Errorf("at = %+v, want nil", at)
	case disk.left != 4:
		t.Errorf("disk.left = %d, want 4", disk.left)
	}
	if at, err := a.Write("six", []byte("1")); err == nil || at != nil || disk.left != 4 {
		t.Errorf("a name twice: %v, %v, %d left", at, err, disk.left)
	}
	switch at, err := a.Write("four", []byte("1234")); {
	case err != nil:
		t.Errorf("unexpected error: %v", err)
	case at == nil:
		t.Error("at = nil, want a value")
	case *at != 1:
		t.Errorf("*at = %d, want 1", *at)
	case disk.left != 0:
		t.Errorf("disk.left = %d, want 0", disk.left)
	}
	entries, err := os.ReadDir(filepath.Join(logs, "c"))
	if err != nil || len(entries) != 2 || len(a.List()) != 2 {
		t.Errorf("%v, %v, listed %v", entries, err, a.List())
	}
}
