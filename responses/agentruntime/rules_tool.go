package agentruntime

import (
	"cmp"
)

func toolRules() []Rule {
	ends := []string{"tool.result", "tool.failed"}
	return []Rule{
		{Number: 31, On: ends, check: checkToolRecord,
			Statement: "Every tool call keeps its arguments, the decision of the policy, and its result or error."},
		{Number: 32, On: ends, check: checkToolEnd,
			Statement: "tool.failed names category and retryability, and a failure is never a tool.result."},
		{Number: 33, On: []string{"process.started", "tool.result"}, check: checkDenied,
			Statement: "A tool that was denied has neither a process nor a result."},
		{Number: 34, On: []string{"tool.progress"}, check: checkOverlap,
			Statement: "Tools that write do not execute at once in a thread: those of which the catalog says is_read_only " +
				"false or is_destructive true."},
		{Number: 35, Why: "needs a live server", Statement: "Cancelling during a tool leaves a fact that says so."},
		{Number: 36, On: []string{"output.spilled", "output.truncated"}, check: checkOutput,
			Statement: "Output over its budget says how much there was, and how much was kept or where all of it is."},
		{Number: 37, Why: "needs a live server",
			Statement: "Input to a process is counted, and to an unknown one refused."},
		{Number: 38, Why: "needs the state after a restart",
			Statement: "After a restart every process is alive, ended or unavailable."},
	}
}

func checkToolRecord(f *finding) {
	tool := f.toolOf(f.Event)
	if tool == nil {
		return
	}
	f.must(tool.seen["args"] > 0, "no arguments of "+tool.id, "safe_args or input_ref")
	f.must(tool.seen["policy"] > 0 || tool.text["decision"] != "", "no decision about "+tool.id,
		"policy in tool.started, or permission.evaluated")
	if f.Type == "tool.result" {
		f.must(f.field("preview") != nil || f.field("result_ref") != nil,
			"no result of "+tool.id, "preview or result_ref")
	}
}

func checkToolEnd(f *finding) {
	if f.field("canonical") != nil {
		f.oneOf("canonical.status", map[string]string{"tool.result": "success", "tool.failed": "error"}[f.Type])
	}
	if f.Type == "tool.failed" {
		f.has("message")
		f.isBool("retryable")
		f.oneOf("failure_category", "invalid_input", "permission_denied", "sandbox_violation", "not_found", "timeout",
			"cancelled", "interrupted", "execution_error", "unavailable")
		return
	}
	f.must(f.field("success") != false, "success false", "tool.failed")
	if f.field("status") != nil {
		f.oneOf("status", "completed", "success")
	}
}

func checkDenied(f *finding) {
	tool := f.toolOf(f.Event)
	f.must(tool == nil || cmp.Or(tool.text["decision"], tool.text["policy"]) != "deny",
		f.Type+" of a tool that was denied", "tool.failed")
}

func checkOverlap(f *finding) {
	tool := f.toolOf(f.Event)
	writes := f.threadOf(f.Event).writes
	executing := f.Phase == "executing" || f.text("phase") == "executing"
	if tool == nil || tool.turn == nil || !executing || !writes[tool.toolName] {
		return
	}
	for part := range tool.turn.parts {
		if part != tool && writes[part.toolName] && part.seen["executing"] > 0 {
			f.report(tool.id+" writes while "+part.id+" does", "one after the other")
		}
	}
}

func checkOutput(f *finding) {
	if f.Type == "output.truncated" {
		kept, _ := f.number("kept_bytes")
		size, ok := f.number("size_bytes")
		f.must(ok && f.field("kept_bytes") != nil && kept <= size, "kept_bytes "+f.said("kept_bytes")+" of size_bytes "+
			f.said("size_bytes"), "how much of how much")
		return
	}
	_, ok := f.number("size_bytes")
	f.must(ok, "size_bytes "+f.said("size_bytes"), "a number")
	f.must(f.field("preview") != nil, "no payload.preview", "a preview")
	f.must(f.IDs[OutputRef] != "" || f.field("output_ref") != nil, "no output_ref", "a reference to all of it")
}
