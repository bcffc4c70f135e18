package record

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"holon/test/expect"

	"holon/responses"
	"holon/responses/turns"
	"holon/state/ledger"
)

// The text of a message is in the log whole, in events within their bound, whatever has to be escaped.
func TestMessage(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("plain \x01\"\\ <é> \U0001F600\u2028", 2000)
	m := &responses.Message{ID: "item", Content: []responses.Part{{Type: responses.PartOutputText, Text: text},
		{Type: responses.PartRefusal, Refusal: "no"}}}
	var parts [2]string
	for _, e := range new(Entries).Message(m, func(s string) string { return s }, time.Now()) {
		var p Text
		expect.NoError(t, json.Unmarshal(e.Data, &p))
		if len(e.Data) > ledger.MaxEventData || p.ItemID != "item" || p.Channel != []string{"text", "refusal"}[p.Part] {
			t.Errorf("%d bytes of %+v", len(e.Data), p)
		}
		parts[p.Part] += p.Delta
	}
	if parts != [2]string{text, "no"} {
		t.Errorf("the log has %d bytes of %d", len(parts[0]), len(text))
	}
}

// The end of a call keeps its payload and says what the call does as far as there is room.
func TestEndOfCall(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ payload, want string }{
		"with a result": {`{"canonical":{"status":"success"},"tool_name":"ExecCommand"}`,
			`{"canonical":{"status":"success"},"tool_name":"ExecCommand","call":"$ make"}`},
		"empty":         {`{}`, `{}`},
		"not an object": {`[]`, `[]`},
		"full":          {`{"x":"` + strings.Repeat("x", 8180) + `"}`, `{"x":"` + strings.Repeat("x", 8180) + `"}`},
	} {
		var entries Entries
		entries.Fact(turns.RuntimeEvent{Type: turns.ToolStarted, Sequence: 1, ToolCallID: "call",
			Payload: json.RawMessage(`{"tool_name":"ExecCommand","safe_args":"{\"cmd\":\"make\"}"}`)})
		e, _, ok := entries.Fact(turns.RuntimeEvent{Type: turns.ToolResult, Sequence: 2, ToolCallID: "call",
			Payload: json.RawMessage(c.payload)})
		if !ok || string(e.Data) != c.want {
			t.Errorf("%s: %s, want %s", name, e.Data, c.want)
		}
	}
}
