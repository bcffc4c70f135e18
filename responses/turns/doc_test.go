package turns_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holon/responses/turns"
	"holon/test/expect"
)

// The page that describes these files shows a real record. It and the page of
// egress, which has the host's events, name every key and every class there is.
func TestDocumentation(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", "turn.md"))
	expect.NoError(t, err)
	_, rest, _ := strings.Cut(string(page), "```json\n")
	example, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("the page has no example")
	}
	if _, err := turns.DecodeRecord([]byte(example)); err != nil {
		t.Errorf("the example is not a record: %v", err)
	}
	names := []string{"sequence", "event_id", "runtime_id", "thread_id", "process_id", "model_request_id"}
	for _, v := range []any{finished(), turns.Artifact{}, turns.ToolCalls{}} {
		var m map[string]json.RawMessage
		expect.NoError(t, json.Unmarshal(encode(t, v), &m))
		for key := range m {
			names = append(names, key)
		}
	}
	for _, e := range everyEvent() {
		names = append(names, e.Type)
		var m map[string]json.RawMessage
		expect.NoError(t, json.Unmarshal(e.Payload, &m))
		for key := range m {
			names = append(names, key)
		}
	}
	egress, err := os.ReadFile(filepath.Join("..", "..", "docs", "guides", "egress.md"))
	expect.NoError(t, err)
	pages := string(page) + string(egress)
	for _, name := range names {
		if !strings.Contains(pages, "`"+name+"`") {
			t.Errorf("the pages do not name %s", name)
		}
	}
}
