package command

import (
	"encoding/json"
	"strings"
	"testing"

	"holon/agentd/tools"
)

// A batch with several long outputs shows the beginning and the end of as many as there is room for, and of those that
// failed first.
func TestCompactBatch(t *testing.T) {
	long := func(exit int) *completedResult {
		out := "begin\n" + strings.Repeat("line\n", 400) + "end\n"
		return &completedResult{ExitStatus: exit, StdoutPreview: &out}
	}
	short := "short\n"
	batch := batchResult{ItemCount: 6, Items: []itemResult{{Index: 0, Result: long(0)}, {Index: 1, Result: long(0)},
		{Index: 2, Result: &completedResult{StdoutPreview: &short}}, {Index: 3, Result: long(0)}, {Index: 4, Result: long(2)},
		{Index: 5, Result: long(0)}}}
	data, err := json.Marshal(batch)
	if err != nil {
		t.Fatal(err)
	}
	small, ok := Family{}.Compact(tools.Result{ToolName: batchName, Status: "success", Result: data},
		tools.Bounds{Text: 600, List: 64})
	if !ok {
		t.Fatal("the batch is not the family's")
	}
	got, _ := decoded[batchResult](small)
	shown, total := 0, 0
	for _, it := range got.Items {
		p := it.Result.StdoutPreview
		total += sizeOf(p)
		switch {
		case p == nil && it.Result.Truncated:
		case p == nil, it.Index != 2 && (!strings.HasPrefix(*p, "begin\n") || !strings.HasSuffix(*p, "end\n")):
			t.Errorf("item %d shows %v, want its beginning and end", it.Index, p)
		default:
			shown++
		}
	}
	if shown < 4 || got.Items[4].Result.StdoutPreview == nil || total > 650 {
		t.Errorf("%d items are shown in %d bytes, that which failed: %v, want at least 4 of them in about 600", shown, total,
			got.Items[4].Result.StdoutPreview != nil)
	}
}
