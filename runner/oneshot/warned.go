package oneshot

import (
	"encoding/json"

	"holon/internal/visible"
	"holon/responses/turns"
	"holon/runner"
)

// maxWarned bounds the warnings of the turn in the manifest. All of them are in its facts.
const maxWarned = 20

// warned is the observer of the turn: it puts what agentd warns of about MCP servers into the manifest, too.
type warned struct {
	Watcher
	run *execution
}

func (r *execution) observer() runner.Observer { return warned{r.spec.Watch, r} }

// Fact implements runner.Observer.
func (w warned) Fact(ev turns.RuntimeEvent) {
	if n, ok := MCPWarning(ev); ok && len(w.run.warned) < maxWarned {
		w.run.warned = append(w.run.warned, n)
	}
	w.Watcher.Fact(ev)
}

// MCPWarning is what a fact warns of about MCP servers, for a person; false for any other fact.
func MCPWarning(ev turns.RuntimeEvent) (string, bool) {
	var n turns.Notice
	if ev.Type != turns.RuntimeWarning || json.Unmarshal(ev.Payload, &n) != nil || n.Component != "mcp" {
		return "", false
	}
	return visible.OneLine(n.Message, 300), true
}
