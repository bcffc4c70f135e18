package pool_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"holon/responses/turns"
	"holon/runner/pool"
	"holon/state"
	"holon/test/expect"
)

// A preview starts a container for an agent that has none and leaves no turn. While a turn runs it is answered by the
// container of the turn, which goes on.
func TestPreview(t *testing.T) {
	t.Parallel()
	l := newLab(t, "local", `
rounds:
  - calls: [{tool: ExecCommand, arguments: {cmd: "while [ ! -e go ]; do sleep 0.02; done", yield_time_ms: 900000}}]
  - text: done
`)
	id := l.agent("ada")
	expect.NoError(t, os.WriteFile(filepath.Join(l.home.AgentDir(id), "AGENTS.md"), []byte("Be kind.\n"), 0o600))
	k := l.pool()
	ask := func() (turns.Preview, error) {
		turn := continuing("", "hello")
		turn.Request.PromptCacheKey = new("key")
		return k.Preview(t.Context(), pool.Turn{AgentID: id, Turn: turn})
	}
	first, err := ask()
	expect.NoError(t, err)
	if !strings.Contains(first.Instructions, "Be kind.") || len(first.Input) != 1 || first.PromptCacheKey != "key" {
		t.Errorf("the preview is %+v, want AGENTS.md, one item and the key", first)
	}
	l.only()
	if left, err := os.ReadDir(filepath.Join(l.home.AgentPrivateDir(id), "session", "output", "turns")); len(left) > 0 {
		t.Errorf("a preview leaves %v (%v), want no turn", left, err)
	}
	during := make(chan turns.Preview, 1)
	failed := make(chan error, 1)
	w := &lines{onRun: func() {
		p, err := ask()
		during <- p
		failed <- err
		l.write("go")
	}}
	r, err := k.Turn(t.Context(), turnOf(id, "turn_1", "wait"), w.begin, w)
	expect.NoError(t, err)
	expect.NoError(t, <-failed)
	if p := <-during; p.Instructions != first.Instructions || !slices.EqualFunc(p.Tools, first.Tools,
		func(a, b turns.PreviewTool) bool { return a.Name == b.Name }) {
		t.Errorf("during a turn the preview is %+v, want %+v", p, first)
	}
	expect.Equal(t, "the turn says", r.Answer, "done")
	if _, err := k.Preview(t.Context(), pool.Turn{AgentID: "nobody"}); !state.IsCode(err, pool.CodeNoHome) {
		t.Errorf("of an agent without a home: %v, want %s", err, pool.CodeNoHome)
	}
}
