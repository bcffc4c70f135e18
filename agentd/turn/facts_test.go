package turn

import "testing"

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
