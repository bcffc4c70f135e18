package mcp

import (
	"encoding/json"
	"testing"

	"holon/agentd/tools"
)

// A list with what the host adds counts that too.
func TestJoin(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ has, more, want string }{
		{`{"tasks":[]}`, `{"tasks":[{}]}`, "1 task"}, {`{"tasks":[{}]}`, `{"tasks":[{},{}]}`, "3 tasks"},
		{`{"tasks":[{}],"omitted":7}`, `{"tasks":[{}]}`, "9 tasks"}, {`{"tasks":[{}]}`, `{"tasks":[]}`, "as it was"},
		{`{"tasks":[{}]}`, `[]`, "as it was"}, {`{"agents":[{}]}`, `{"tasks":[{}]}`, "as it was"},
	} {
		first := tools.Output{Summary: "as it was", Result: json.RawMessage(c.has)}
		if got := join(first, json.RawMessage(c.more)); got.Summary != c.want {
			t.Errorf("%s and %s: %q, want %q", c.has, c.more, got.Summary, c.want)
		}
	}
}
