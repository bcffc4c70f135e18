package agentruntime

import (
	"fmt"
	"slices"
	"strings"
)

func checkPermitted(f *finding) {
	tool := f.toolOf(f.Event)
	if tool == nil {
		return
	}
	f.must(tool.seen["permission.evaluated"] > 0 || tool.text["policy"] == "allow",
		"no permission.evaluated of "+tool.id, "permission.evaluated, or policy allow in tool.started, before its process")
	before := f.partial && tool.turn == nil // the turn's sandbox may be in the log before the part
	f.must(before || tool.seen["sandbox.applied"] > 0 || tool.turn != nil && tool.turn.seen["sandbox.applied"] > 0,
		"no sandbox.applied of "+tool.id, "sandbox.applied of the tool or of its turn before its process")
}

func checkReason(f *finding) {
	f.oneOf("decision_source", "rule", "mode", "hook", "classifier", "human", "host_policy", "sandbox_override",
		"tool_contract")
	words := []string{"allow", "deny", "ask", "sandboxed", "unavailable"}
	if f.Type == "permission.resolved" {
		words = append(words, "timeout", "cancelled")
	}
	f.oneOf("decision", words...)
}

func checkExpired(f *finding) {
	action := f.objectOf(f.Event)
	if action != nil && (f.text("decision") == "expired" || f.text("via") == "expiry") {
		f.must(action.text["expires_at"] != "", "an action without expires_at expired", "expires_at in action.required")
	}
}

func checkSandbox(f *finding) {
	levels := []string{"enforced", "not_enforced", "unknown"}
	axes, _ := f.field("enforcement").(map[string]any)
	for _, axis := range []string{"filesystem", "network", "process", "secret"} {
		f.must(axes[axis] != nil, "no payload.enforcement."+axis, strings.Join(levels, ", "))
	}
	for axis, value := range axes {
		word, _ := value.(string)
		f.must(value == nil || slices.Contains(levels, word), fmt.Sprintf("%.40s %.40v", axis, value),
			strings.Join(levels, ", "))
	}
}

func checkViolation(f *finding) {
	tool := f.toolOf(f.Event)
	if tool == nil {
		return
	}
	violated, says := tool.seen["sandbox.violation"] > 0, f.text("failure_category") == "sandbox_violation"
	f.must(!violated || f.Type == "tool.failed" && says, f.Type+" "+f.text("failure_category"),
		"tool.failed with sandbox_violation")
	f.must(violated || !says, "no sandbox.violation of "+tool.id, "sandbox.violation before its tool.failed")
}
