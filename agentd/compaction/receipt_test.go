package compaction

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"holon/agentd/model"
	"holon/agentd/tools"
	"holon/responses"
	"holon/test/expect"
)

// ran returns the call number n whose command printed size bytes.
func ran(t testing.TB, n, size int) *responses.ToolCall {
	t.Helper()
	out := strings.Repeat("x", size)
	result, err := json.Marshal(map[string]any{
		"disposition": "completed", "exit_status": 0, "stdout_preview": out, "truncated": true,
		"artifacts": []tools.Artifact{{Path: fmt.Sprintf("tools/call_%d/stdout.log", n)}}, "stdout_artifact": 0,
		"task_handle": map[string]string{"task_id": fmt.Sprintf("task_%d", n)},
	})
	expect.NoError(t, err)
	canonical, err := tools.Result{ToolName: "ExecCommand", Status: "success", SummaryText: "exited with 0",
		Result: result}.Encode()
	expect.NoError(t, err)
	return &responses.ToolCall{ID: fmt.Sprintf("tc_%d", n), CallID: fmt.Sprintf("call_%d", n), Name: "ExecCommand",
		Arguments: `{"cmd":"make"}`, Result: canonical,
		Output: "Process exited with code 0\nstdout:\n" +
			out + fmt.Sprintf("\nFull stdout: /holon/output/turns/t/tools/call_%d/stdout.log", n),
		Media: []responses.Part{{Type: responses.PartInputImage}}, ArtifactDir: "/holon/output/turns/t"}
}

func isReceipt(item responses.Item) bool {
	call, ok := item.(*responses.ToolCall)
	return ok && strings.HasPrefix(call.Output, receiptHead)
}

func TestReceiptsKeepWhatMatters(t *testing.T) {
	call := ran(t, 1, 40_000)
	short, gain := Receipts{}.receipt(call)
	if short == nil || gain != model.EstimateItem(call)-model.EstimateItem(short) {
		t.Fatalf("saves %d", gain)
	}
	for _, want := range []string{"exited with 0", "exit_status: 0", "task_1", "truncated: true", "[output truncated: showing first ",
		"/holon/output/turns/t/tools/call_1/stdout.log", "not shown any more: 1"} {
		if !strings.Contains(short.Output, want) {
			t.Errorf("%q is missing in\n%s", want, short.Output)
		}
	}
	switch {
	case len(short.Output) > 2*receiptBytes:
		t.Errorf("len(short.Output) = %d (%q), want at most %d", len(short.Output), short.Output, 2*receiptBytes)
	case short.Media != nil:
		t.Errorf("short.Media = %+v, want nil", short.Media)
	case short.CallID != call.CallID:
		t.Errorf("short.CallID = %q, want %q", short.CallID, call.CallID)
	case short.Arguments != call.Arguments:
		t.Errorf("short.Arguments = %q, want %q", short.Arguments, call.Arguments)
	case string(short.Result) != string(call.Result):
		t.Errorf("string(short.Result) = %q, want %q", string(short.Result), string(call.Result))
	}
	if again, _ := (Receipts{}).receipt(short); again != nil {
		t.Error("a receipt is shortened again")
	}
	if isReceipt(call) {
		t.Error("the call itself was changed")
	}
}

func TestShorten(t *testing.T) {
	failed, err := tools.Result{ToolName: "X", Status: "error", SummaryText: "no",
		Error: &tools.Error{Kind: "x", Message: strings.Repeat("why ", 2000)}}.Encode()
	expect.NoError(t, err)
	items := []responses.Item{
		&responses.Message{Role: responses.RoleUser,
			Content: []responses.Part{responses.InputText(strings.Repeat("task ", 1000))}},
		&responses.ToolCall{CallID: "bad", Name: "X", Result: failed, Output: strings.Repeat("why ", 2000)},
		// without a canonical result
		&responses.ToolCall{CallID: "odd", Name: "X", Output: strings.Repeat("odd ", 2000)},
		&responses.ToolCall{CallID: "small", Name: "X", Result: json.RawMessage(`{"tool_name":"X","result":{}}`),
			Output: "ok"},
	}
	for n := range 12 {
		call := ran(t, n, 8_000)
		call.Round = fmt.Sprint("round", n/2)
		items = append(items, call)
	}
	one := model.EstimateItem(items[4]) // about what one receipt saves
	before := slices.Clone(items)
	for _, tt := range []struct {
		need, calls int
		spare       bool
	}{{0, 0, false}, {1, 1, false}, {2 * one, 3, false}, {3 * one, 4, false}, {5 * one, 6, false}, {1 << 30, 10, false},
		{1 << 30, 0, true}} {
		r := Receipts{}
		if tt.spare {
			r.Spare = func(*responses.ToolCall) bool { return true }
		}
		got, calls, saved := r.Shorten(items, tt.need)
		if calls != tt.calls || model.EstimateItems(items)-model.EstimateItems(got) != saved {
			t.Errorf("need %d: %d calls are shortened and %d tokens saved", tt.need, calls, saved)
		}
		for i, item := range got {
			if old := i-4 >= 0 && i-4 < tt.calls; isReceipt(item) != old {
				t.Errorf("need %d: item %d: %v", tt.need, i, isReceipt(item))
			}
		}
		if !slices.Equal(items, before) {
			t.Fatal("the conversation was changed")
		}
	}
}

func FuzzReceipt(f *testing.F) {
	f.Add([]byte(`{"tool_name":"x","status":"success","summary_text":"s","result":{"artifacts":[{"path":"tools/a"}]}}`),
		"shown /a/tools/a")
	f.Add([]byte(`{"result":{"artifacts":{}}}`), "")
	f.Add([]byte(`{"result":[[[[1]]]],"error":null}`), strings.Repeat("x", 5000))
	f.Fuzz(func(t *testing.T, result []byte, shown string) {
		call := &responses.ToolCall{CallID: "c", Name: "x", Result: result, Output: shown}
		short, gain := Receipts{}.receipt(call)
		if short != nil && (gain < 1 || len(short.Output) >= len(shown)) {
			t.Errorf("%d bytes became %d", len(shown), len(short.Output))
		}
	})
}
