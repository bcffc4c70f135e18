package mcp

import (
	"encoding/json"
	"testing"

	"holon/agentd/tools"
)

// A list with what the host adds counts that too.
func TestJoin(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ summary, more, want string }{
		{"0 tasks", `{"tasks":[{}]}`, "1 task"}, {"1 task", `{"tasks":[{},{}]}`, "3 tasks"},
		{"2 tasks", `{"tasks":[]}`, "2 tasks"}, {"2 tasks", `[]`, "2 tasks"}, {"none", `{"tasks":[{}]}`, "none"},
	} {
		first := tools.Output{Summary: c.summary, Result: map[string]any{"tasks": []string{}}}
		if got := join(first, json.RawMessage(c.more)); got.Summary != c.want {
			t.Errorf("%s and %s: %q, want %q", c.summary, c.more, got.Summary, c.want)
		}
	}
}
