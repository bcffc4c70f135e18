package agentd_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"holon/agentd"
	"holon/agentd/tools"
	"holon/test/expect"
)

var updateReceipts = flag.Bool("update-receipts", false, "rewrite the golden files of receipts")

type object = map[string]any

// oldResults are results of each family that are longer than a receipt, or have something that it must keep.
func oldResults() map[string]tools.Result {
	lines := func(word string, n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "%s %d: {\"ok\": \"yes\"}\n", word, i+1)
		}
		return b.String()
	}
	success := func(tool, summary string, result object) tools.Result {
		return tools.Result{ToolName: tool, Status: "success", SummaryText: summary}.With(result)
	}
	ran := func(exit int, item, out, errs string) object {
		r := object{"disposition": "completed", "exit_status": exit, "stdout_preview": out, "stderr_preview": nil,
			"truncated": false, "artifacts": []object{{"path": "tools/call_1/" + item + "stdout.log"}}, "stdout_artifact": 0}
		if errs != "" {
			r["stderr_preview"], r["stderr_artifact"] = errs, 1
			r["artifacts"] = append(r["artifacts"].([]object), object{"path": "tools/call_1/" + item + "stderr.log"})
		}
		return r
	}
	command := object{"cmd": strings.Repeat("make all && ", 100) + "true", "cmd_preview": "make all", "cmd_digest": "d",
		"workdir": "/w", "login": false, "tty": false, "accepts_input": true, "input_target": "stdin",
		"terminal_reentry": true, "promoted_from_exec_command": true}
	task := object{"task_id": "task_1", "kind": "command_task", "status": "running", "summary": "command is running",
		"created_at": "2026-01-02T03:04:05Z", "updated_at": "2026-01-02T03:04:05Z", "wait_policy": "background",
		"session_id": "s", "turn_id": "t", "command": command}
	var entries, items, files []object
	var paths []string
	for i := range 40 {
		entries = append(entries, object{"id": fmt.Sprintf("task_%d", i), "kind": "command_task", "status": "failed",
			"summary": "command exited with status 1", "updated_at": "2026-01-02T03:04:05Z", "wait_policy": "background",
			"session_id": "s", "command": "make"})
		paths = append(paths, fmt.Sprintf("pkg/file%d.go", i))
		files = append(files, object{"action": "modify", "path": paths[i]})
	}
	for i := range 9 {
		items = append(items, object{"index": i, "cmd": "grep -rn needle " + strings.Repeat("dir ", 40), "status": "completed",
			"result": ran(0, fmt.Sprintf("%d-", i), lines("hit", 60), ""), "duration_ms": 3})
	}
	timedOut := ran(0, "9-", lines("wait", 60), "")
	delete(timedOut, "disposition")
	delete(timedOut, "exit_status")
	items = append(items,
		object{"index": 9, "cmd": "sleep 99", "status": "failed", "error_kind": "command_timeout",
			"error_message": "the command was ended after 50 ms", "error_details": timedOut},
		object{"index": 10, "cmd": "", "status": "rejected", "error_kind": "invalid_tool_input",
			"error_message": "the command is blank", "error_details": object{"field": "cmd"}},
		object{"index": 11, "cmd": "true", "status": "skipped"})
	failedTask := object{"task_id": "task_1", "kind": "command_task", "status": "failed",
		"summary": "command exited with status 2", "output_preview": lines("step", 200), "output_truncated": false,
		"output_bytes": 4892, "artifacts": []object{{"path": "/holon/output/turns/t0/tools/c/stdout.log"}},
		"output_artifact": 0, "exit_status": 2}
	return map[string]tools.Result{
		"exec": success("ExecCommand", "command exited with status 1", ran(1, "", lines("out", 300), lines("err", 30))),
		"exec-cut": success("ExecCommand", "command exited with status 0", ran(0, "", lines("out", 40)+"...\n[output "+
			"truncated: showing first 40 and last 40 lines of 1000, 25893 bytes in all]\n...\n"+lines("end", 40), "")),
		"exec-one-line": success("ExecCommand", "command exited with status 0", ran(0, "", strings.Repeat("ä€😀", 900), "")),
		"exec-promoted": success("ExecCommand", "command promoted to managed task", object{
			"disposition": "promoted_to_task", "task_handle": object{"task_id": "task_1", "kind": "command_task",
				"status": "running"}, "initial_output_preview": lines("boot", 100), "initial_output_truncated": false}),
		"exec-already": success("ExecCommand", "the same command is already running as a task", object{
			"disposition": "already_running", "task_handle": object{"task_id": "task_1", "kind": "command_task",
				"status": "running"}, "command": command, "summary": "command is running", "instructions": "Read it."}),
		"batch": success("ExecCommandBatch", "9 of 12 commands completed, 1 failed, 1 rejected, 1 skipped", object{
			"item_count": 12, "completed_count": 9, "failed_count": 1, "rejected_count": 1, "skipped_count": 1,
			"stop_on_error": true, "items": items}),
		"task-list":   success("TaskList", "45 tasks", object{"tasks": entries, "omitted": 5}),
		"task-status": success("TaskStatus", "task is running", object{"task": task}),
		"task-output": success("TaskOutput", "task is failed",
			object{"retrieval_status": "success", "task": failedTask}),
		"task-input": success("TaskInput", "3 bytes were written", object{"task": task, "accepted_input": true,
			"input_target": "stdin", "bytes_written": 3, "summary_text": "3 bytes were written"}),
		"task-stop": success("TaskStop", "the task was stopped", object{"task": task, "stop_requested": true,
			"force_stop_requested": true, "summary_text": "the task was stopped"}),
		"patch": success("ApplyPatch", "changed 300 files", object{"changed_files": files, "changed_paths": paths,
			"changed_file_count": 300, "ignored_metadata": []object{}, "diagnostics": []object{{"path": paths[0],
				"kind": "fuzz", "message": "found without regard to spaces at line ends"}},
			"summary_text": "changed 300 files", "truncated": true}),
		"image": success("ViewImage", "plot.png", object{"path": "plot.png", "media_type": "image/png", "bytes": 91234,
			"width": 640, "height": 480, "detail": "auto", "shown": true}),
		"mcp": success("mcp__docs__search", "docs answered", object{"family": "mcp", "server": "docs", "tool": "search",
			"content": []object{{"type": "text", "text_preview": lines("found", 200), "bytes": 4890, "artifact": 0},
				{"type": "image", "media_type": "image/png", "bytes": 99, "artifact": 1, "shown": true}},
			"structured_content": object{"hits": strings.Repeat("x", 3000)}, "truncated": false,
			"artifacts": []object{{"path": "tools/call_1/content-0.txt"}, {"path": "tools/call_1/content-1.bin"}}}),
		"mcp-structured": success("query", "db answered", object{"family": "mcp", "server": "db", "tool": "query",
			"content": []object{}, "structured_content": object{"rows": strings.Fields(strings.Repeat("cell ", 300))},
			"truncated": false, "artifacts": []object{}}),
		"unknown": success("Gone", "it was done", object{"note": "kept", "log": lines("log", 200), "count": 3,
			"artifacts": []object{{"path": "tools/call_1/log.txt"}}, "log_artifact": 0}),
		"error": {ToolName: "ExecCommand", Status: "error", SummaryText: "timeout", Error: &tools.Error{
			Kind: "command_timeout", Message: "the command was ended after 50 ms", RecoveryHint: "raise yield_time_ms",
			Retryable: true, Details: object{"timeout_ms": 50.0, "stdout_preview": lines("wait", 300), "truncated": false,
				"artifacts": []any{object{"path": "tools/call_1/stdout.log"}}, "stdout_artifact": 0.0}}},
	}
}

// TestReceiptsOfEachFamily holds the text of old results, which providers cache, to its golden files, and results in
// events to their bound and flags.
func TestReceiptsOfEachFamily(t *testing.T) {
	t.Parallel()
	const dir, limit = "/holon/output/turns/turn_1", 768
	families := agentd.Families()
	for name, result := range oldResults() {
		t.Run(name, func(t *testing.T) {
			got := families.Receipt(result, dir, limit) + "\n"
			file := filepath.Join("testdata", "receipts", name+".txt")
			if *updateReceipts {
				expect.NoError(t, os.WriteFile(file, []byte(got), 0o600))
			}
			want, err := os.ReadFile(file)
			expect.NoError(t, err)
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if again := families.Receipt(decodedAgain(t, result), dir, limit) + "\n"; again != got {
				t.Errorf("after a round trip through JSON the receipt is\n%s\nwant\n%s", again, got)
			}
			if bad := strings.Contains(got, `\"`) || strings.Contains(got, `\n`) || strings.Contains(got, "omitted"); bad {
				t.Errorf("escapes or blanks in\n%s", got)
			}
			checkCompact(t, families, result)
		})
	}
}

// checkCompact holds the compact form of a result, which events have, to its promises.
func checkCompact(t *testing.T, families tools.Families, result tools.Result) {
	t.Helper()
	const limit = 2 << 10
	whole, compact := encodedResult(t, result), families.Compact(result, limit)
	data := encodedResult(t, compact)
	if len(data) > 2*limit || !utf8.Valid(data) {
		t.Errorf("a compact result of %d bytes, want at most %d of valid UTF-8", len(data), 2*limit)
	}
	if again := encodedResult(t, families.Compact(decodedAgain(t, compact), limit)); string(again) != string(data) {
		t.Errorf("compacted again:\n%s\nwant\n%s", again, data)
	}
	if len(data) < len(whole)/2 && compact.ToolName != "TaskStatus" && compact.ToolName != "TaskInput" &&
		!families.Truncated(compact) {
		t.Errorf("%d of %d bytes are left, and no flag says so:\n%s", len(data), len(whole), data)
	}
	if families.Truncated(result) && !families.Truncated(compact) {
		t.Errorf("the flag of a cut result is lost:\n%s", data)
	}
}

func decodedAgain(t *testing.T, r tools.Result) (back tools.Result) {
	t.Helper()
	expect.NoError(t, json.Unmarshal(encodedResult(t, r), &back))
	return back
}

func encodedResult(t *testing.T, r tools.Result) []byte {
	t.Helper()
	data, err := r.Encode()
	expect.NoError(t, err)
	return data
}
