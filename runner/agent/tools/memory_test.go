package tools_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"holon/runner/agent/memorysearch"
	"holon/runner/agent/tools"
	"holon/runner/agent/view"
	"holon/runner/hosttools"
	"holon/state"
	"holon/state/ledger"
	"holon/test/expect"
)

// remembered has one memory, and keeps what it was asked.
type remembered struct {
	query view.MemoryQuery
	limit int
}

func (m *remembered) Search(_ context.Context, _ string, q view.MemoryQuery) (view.MemoryResults, error) {
	if m.query = q; strings.TrimSpace(q.Text) == "" {
		return view.MemoryResults{}, errors.Join(&state.Error{Code: memorysearch.CodeInvalidQuery, Param: "query"})
	}
	return view.MemoryResults{Results: []view.MemoryResult{{Snippet: "it is\x1b[31m blue",
		MemoryOrigin: view.MemoryOrigin{Kind: "brief", SourceRef: "mem_1", Title: "a title"}}}}, nil
}

func (m *remembered) Get(_ context.Context, _, ref string, limit int) (view.MemorySource, error) {
	if m.limit = limit; ref != "mem_1" {
		return view.MemorySource{}, errors.Join(&state.Error{Code: ledger.CodeNotFound, Param: "source_ref"})
	}
	return view.MemorySource{MemoryOrigin: view.MemoryOrigin{Kind: "brief", Title: "a title"}, Content: "it is blue",
		Truncated: true}, nil
}

func TestMemoryTools(t *testing.T) {
	t.Parallel()
	r, m := newRig(t), new(remembered)
	named := make(map[string]hosttools.Tool)
	for _, tool := range tools.New(tools.Options{AgentID: "main", Scheduler: r.scheduler, Ledger: r.store, Memory: m}) {
		named[tool.Name] = tool
	}
	for _, c := range []struct {
		tool, arguments string
		text, kind      string // of the result, or of the error
		field           string
	}{
		{"MemorySearch", `{"query":"blue","limit":50}`, "1 found\nmem_1 brief, 0001-01-01: a title\n  it is", "", ""},
		{"MemorySearch", `{"query":"\" OR NEAR("}`, "1 found", "", ""},
		{"MemorySearch", `{"query":"a \ud800 lone surrogate"}`, "1 found", "", ""},
		{"MemorySearch", `{"query":" "}`, "", "invalid_query", "query"},
		{"MemorySearch", `{"query":""}`, "", "invalid_query", "query"},
		{"MemorySearch", `{"query":"a","limit":0}`, "", hosttools.KindInvalidInput, "limit"},
		{"MemorySearch", `{"query":"a","limit":51}`, "", hosttools.KindInvalidInput, "limit"},
		{"MemorySearch", `{"query":"a","limit":1.5}`, "limit can't be this number", hosttools.KindInvalidInput, "limit"},
		{"MemorySearch", `{"query":["a"]}`, "query can't be a JSON array", hosttools.KindInvalidInput, "query"},
		{"MemoryGet", `{"source_ref":"mem_1"}`, "brief, a title, its beginning\nit is blue", "", ""},
		{"MemoryGet", `{"source_ref":"brf_1"}`, "", "not_found", "source_ref"},
		{"MemoryGet", `{"source_ref":""}`, "", hosttools.KindInvalidInput, "source_ref"},
		{"MemoryGet", `{"source_ref":"mem_1","max_chars":0}`, "", hosttools.KindInvalidInput, "max_chars"},
		{"MemoryGet", `{"source_ref":"mem_1","max_chars":50001}`, "", hosttools.KindInvalidInput, "max_chars"},
	} {
		result, err := named[c.tool].Call(t.Context(), hosttools.Call{ID: "c1", Arguments: json.RawMessage(c.arguments)})
		if bad, ok := errors.AsType[*hosttools.ToolError](err); ok {
			expect.Equal(t, c.tool+c.arguments, bad.Kind+" "+bad.Field, c.kind+" "+c.field)
			if !strings.HasPrefix(bad.Message, c.text) {
				t.Errorf("%s %s: %q", c.tool, c.arguments, bad.Message)
			}
			continue
		}
		expect.NoError(t, err)
		if c.kind != "" || !strings.HasPrefix(result.Text, c.text) || strings.Contains(result.Text, "\x1b") {
			t.Errorf("%s %s: %q", c.tool, c.arguments, result.Text)
		}
	}
	expect.Equal(t, "the default bound", m.limit, view.DefaultMemoryChars)
	expect.Equal(t, "the default number", m.query.Limit, view.DefaultMemories)
}
