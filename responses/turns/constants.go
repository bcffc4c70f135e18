package turns

import (
	"holon/internal/redact"
	"holon/responses"
)

// ToolNames are the constants that the names of a turn's tools are.
func ToolNames(names []string) redact.Constants {
	return redact.Constants{"name": names, "tool_name": names, "source": names}
}

// NamesOfTools returns the names of tools, and of those that items call. Redaction leaves them alone.
func NamesOfTools(tools []responses.Tool, items []responses.Item) (names []string) {
	for _, tool := range tools {
		names = append(names, tool.Name)
	}
	for _, item := range items {
		switch item := item.(type) {
		case *responses.FunctionCall:
			names = append(names, item.Name)
		case *responses.ToolCall:
			names = append(names, item.Name)
		}
	}
	return names
}

// Structure is Constants, and the members of the wire and of the files of a turn whose
// values are ids, times, paths, digests or names of models. They stay whatever they
// are: without them a record cannot be read.
var Structure = Recorded.With(members(redact.Any, "path"))

// Recorded is what stays in the record of an agent: Structure without the paths of files, which an agent may name as it
// likes.
var Recorded = Constants.With(members(redact.Any, "id", "item_id", "call_id", "response_id", "previous_response_id",
	"session_id", "turn_id", "event_id", "causation_id", "runtime_id", "thread_id", "step_id", "task_id", "run_id",
	"tool_call_id", "cause_tool_call_id", "model_request_id", "process_id", "trace_id", "span_id", "traceparent",
	"action_id", "payload_ref", "text_ref",
	"egress_id", "input_id", "skill_id", "native_request_id", "instance", "version", "agentd_version", "epoch", "time",
	"timestamp", "created_at", "started_at", "completed_at", "updated_at", "turn_dir", "work_dir",
	"artifact_dir", "stdout_path", "stderr_path", "output_path", "entrypoint_path", "sha256", "digest", "revision",
	"inventory_ref", "cmd_digest", "request_digest", "fingerprint", "frame_fingerprint", "encrypted_content", "model",
	"model_name", "model_ref", "active_model_ref", "requested_model_ref", "winning_model_ref", "provider",
	"provider_name"))

// members returns constants that are all values of a kind of the members.
func members(kind string, names ...string) redact.Constants {
	all := make(redact.Constants)
	for _, name := range names {
		all[name] = []string{kind}
	}
	return all
}

// Constants are the members of the wire and of the files of a turn whose values are words that a format defines. A
// secret that equals one of them does not make them unreadable: it is hidden everywhere else.
var Constants = members(redact.Word, "type", "tool_choice", "mode", "summary", "host", "policy", "runtime_owner",
	"interrupt_behavior", "decision", "decision_source", "axis", "by", "action_type", "resolved_by", "via",
	"filesystem", "network", "process", "secret", "status", "role", "phase", "object", "code", "reason", "category",
	"failure", "failure_category", "outcome", "cache_broken", "truncation", "kind", "task_kind", "wait_policy",
	"retrieval_status", "disposition",
).With(members(redact.Any, "schema", "schema_version", "task_id"))
