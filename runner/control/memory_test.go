package control_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"holon/responses/turns"
	"holon/runner/agent/view"
	"holon/runner/control"
	"holon/state"
	"holon/state/ledger"
	"holon/test/expect"
)

// memories has one memory, whose text is what it was searched with.
type memories struct{}

func (memories) origin(agentID string) view.MemoryOrigin {
	return view.MemoryOrigin{Kind: "brief", SourceRef: "mem_1", ScopeKind: view.MemoryScopeAgent, AgentID: agentID,
		UpdatedAt: turns.At(time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)), Metadata: map[string]string{}}
}

func (m memories) Search(_ context.Context, agentID string, q view.MemoryQuery) (view.MemoryResults, error) {
	if strings.TrimSpace(q.Text) == "" {
		return view.MemoryResults{}, &state.Error{Code: "invalid_query", Param: "query", Message: "it is empty"}
	}
	snippet := q.Text
	if q.AllWorkspaces {
		snippet += " everywhere"
	}
	return view.MemoryResults{Results: []view.MemoryResult{{MemoryOrigin: m.origin(agentID), Snippet: snippet,
		Score: float64(q.Limit)}}}, nil
}

func (m memories) Get(_ context.Context, agentID, ref string, limit int) (view.MemorySource, error) {
	if ref != "mem_1" {
		return view.MemorySource{}, &state.Error{Code: ledger.CodeNotFound, Param: "source_ref", Message: "none"}
	}
	return view.MemorySource{MemoryOrigin: m.origin(agentID), Content: strings.Repeat("x", limit)}, nil
}

func (memories) Rebuild(_ context.Context, agentID string) (view.MemoryRebuilt, error) {
	return view.MemoryRebuilt{AgentID: agentID, Sources: 1}, nil
}

func TestMemory(t *testing.T) {
	t.Parallel()
	r := newRig(t, control.Limits{}, tcp())
	ctx, c := t.Context(), r.client()
	found := must(c.SearchMemory(ctx, "main", view.MemoryQuery{Text: "猫 & \"?", Limit: 7, AllWorkspaces: true}))(t)
	expect.Equal(t, "snippet", found.Results[0].Snippet, "猫 & \"? everywhere")
	expect.Equal(t, "limit", found.Results[0].Score, 7)
	expect.Equal(t, "content", must(c.Memory(ctx, "main", "mem_1", 3))(t).Content, "xxx")
	expect.Equal(t, "sources", must(c.RebuildMemory(ctx, "main"))(t).Sources, 1)
	for _, text := range []string{"", " "} {
		if _, err := c.SearchMemory(ctx, "main", view.MemoryQuery{Text: text}); !state.IsCode(err, "invalid_query") {
			t.Errorf("the query %q: %v", text, err)
		}
	}
	found = must(c.SearchMemory(ctx, "main", view.MemoryQuery{Text: "\xff\xfe"}))(t)
	expect.Equal(t, "what is searched for of no UTF-8", found.Results[0].Snippet, "\ufffd")
	if _, err := c.Memory(ctx, "main", "../state", 1); !state.IsCode(err, ledger.CodeNotFound) {
		t.Errorf("a ref that does not exist: %v", err)
	}
}
