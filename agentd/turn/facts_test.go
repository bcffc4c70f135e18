package turn

import (
	"encoding/json"
	"strings"
	"testing"

	"holon/agentd/model"
	"holon/agentd/tools"
	"holon/responses/turns"
	"holon/test/expect"
)

// The size of an output that was cut is never less than what the model was shown of it, even when a full disk kept
// less.
func TestSizeOfATruncatedOutput(t *testing.T) {
	for _, c := range []struct {
		kept int64 // in the artifact
		want int64
	}{{9000, 9000}, {10, 300}} {
		s := newStage(t, `{"input":"hi"}`, join(call("call_1", "Run", `{}`), done(model.StopEnd)), answer)
		s.box.say = func(string) tools.Outcome {
			return tools.Outcome{Rendered: strings.Repeat("x", 300), KeptBytes: c.kept,
				Canonical: tools.Result{ToolName: "Run", Status: "success", Result: json.RawMessage(`{"truncated":true}`)},
				Artifacts: []tools.Artifact{{Path: "tools/call_1/output.txt"}}}
		}
		s.run(t, t.Context())
		var got turns.Truncation
		for _, fact := range s.journal.events {
			if fact.Type == turns.OutputTruncated {
				expect.NoError(t, json.Unmarshal(fact.Payload, &got))
			}
		}
		if got.SizeBytes != c.want || got.KeptBytes != 300 {
			t.Errorf("with %d bytes on disk the output has %d bytes, %d of them shown, want %d and 300", c.kept,
				got.SizeBytes, got.KeptBytes, c.want)
		}
	}
}

// The kinds of tools of the container, of the host and of MCP servers have the categories of the standard.
func TestFailureCategory(t *testing.T) {
	for kind, want := range map[string]string{
		"invalid_tool_input": "invalid_input", "invalid_work_item": "invalid_input", "empty_command": "invalid_input",
		"unsafe_path": "sandbox_violation", "execution_root_violation": "sandbox_violation",
		"unknown_tool": "not_found", "not_found": "not_found", "task_not_found": "not_found",
		"command_timeout": "timeout", "canceled": "cancelled",
		"host_unavailable": "unavailable", "mcp_server_unavailable": "unavailable",
		"work_item_completed": "execution_error", "internal_error": "execution_error",
	} {
		if got := failureCategory(kind); got != want {
			t.Errorf("failureCategory(%q) = %q, want %q", kind, got, want)
		}
	}
}
