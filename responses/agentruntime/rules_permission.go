package agentruntime

import (
	"fmt"
	"slices"
	"strings"
)

func permissionRules() []Rule {
	live := func(number int, statement string) Rule {
		return Rule{Number: number, Statement: statement, Why: "needs a live server"}
	}
	return []Rule{
		{Number: 39, On: []string{"process.started"}, check: checkPermitted,
			Statement: "permission.evaluated, unless the tool needs no permission, and sandbox.applied of a tool precede " +
				"its process."},
		{Number: 40, On: []string{"permission.evaluated", "permission.resolved"}, check: checkReason,
			Statement: "Every decision says what it is and where it comes from."},
		live(41, "An explicit deny wins over a hook's allow, and ask over allow."),
		live(42, "In mode `never` an action that would ask fails at once."),
		live(43, "While an action is open the tool that needs it does not run."),
		{Number: 44, Why: "V2 judges `via`, and whether it is true needs a live server",
			Statement: "Only respond_action, policy, expiry or cancellation resolves an action."},
		live(45, "Two answers to an action make one resolution."),
		{Number: 46, Why: "needs the state after a restart",
			Statement: "An open action survives a restart unchanged."},
		{Number: 47, On: []string{"action.resolved"}, check: checkExpired,
			Statement: "Only an action that has an expiry expires."},
		{Number: 48, On: []string{"sandbox.applied"}, check: checkSandbox,
			Statement: "A sandbox states each axis (filesystem, network, process, secret) as enforced, not_enforced or " +
				"unknown."},
		{Number: 49, On: []string{"tool.result", "tool.failed"}, check: checkViolation,
			Statement: "A tool that violated its sandbox ends as tool.failed with sandbox_violation, and no other does."},
		{Number: 50, Why: noProducer,
			Statement: "A failed hook says whether it fails open or closed."},
	}
}

func checkPermitted(f *finding) {
	tool := f.toolOf(f.Event)
	if tool == nil {
		return
	}
	f.must(tool.seen["permission.evaluated"] > 0 || tool.text["policy"] == "allow",
		"no permission.evaluated of "+tool.id, "permission.evaluated, or policy allow in tool.started, before its process")
	before := f.partial && tool.turn == nil // the turn's sandbox may have been told of before the part
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
