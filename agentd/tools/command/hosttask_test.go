package command

import (
	"strings"
	"testing"

	"holon/agentd/tools"
)

// The model reads of a child what the host says of it; of a command it reads what it read before.
func TestRenderHostTask(t *testing.T) {
	render := func(result string) string {
		return Family{}.Render(tools.Result{ToolName: statusName, Result: []byte(result)}, tools.RenderPolicy{})
	}
	text := render(`{"task":{"task_id":"task_1","status":"running","child_observability":{"phase":"waiting"},` +
		`"child_supervision":{"child_agent_id":"main.abc234"}}}`)
	for _, want := range []string{"task_1", `child_observability: {"phase":"waiting"}`,
		`child_supervision: {"child_agent_id":"main.abc234"}`} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in %s", want, text)
		}
	}
	if text := render(`{"task":{"task_id":"task_2","status":"completed"}}`); strings.Contains(text, "child_") {
		t.Errorf("a command is rendered as %s", text)
	}
}
