package agentruntime

import (
	"cmp"
)

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

func checkOutput(f *finding) {
	if f.Type == "output.truncated" {
		kept, _ := f.number("kept_bytes")
		size, ok := f.number("size_bytes")
		f.must(ok && f.field("kept_bytes") != nil && kept <= size, "kept_bytes "+f.shown("kept_bytes")+" of size_bytes "+
			f.shown("size_bytes"), "how much of how much")
		return
	}
	_, ok := f.number("size_bytes")
	f.must(ok, "size_bytes "+f.shown("size_bytes"), "a number")
	f.must(f.field("preview") != nil, "no payload.preview", "a preview")
	f.must(f.IDs[OutputRef] != "" || f.field("output_ref") != nil, "no output_ref", "a reference to all of it")
}
