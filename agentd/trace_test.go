package agentd_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"holon/agentd/mcp"
	"holon/internal/tracecontext"
	"holon/responses/turns"
)

// traced is an MCP server over HTTP that keeps what the calls of its tool came with.
type traced struct {
	mu            sync.Mutex
	headers, meta []string
}

func serveTraced(t *testing.T) (*traced, string) {
	t.Helper()
	seen := new(traced)
	s := sdk.NewServer(&sdk.Implementation{Name: "traced", Version: "1"}, nil)
	s.AddTool(&sdk.Tool{Name: "look", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			seen.mu.Lock()
			defer seen.mu.Unlock()
			meta, _ := r.Params.Meta["traceparent"].(string)
			seen.headers, seen.meta = append(seen.headers, r.Extra.Header.Get("Traceparent")), append(seen.meta, meta)
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "seen"}}}, nil
		})
	web := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, nil))
	t.Cleanup(web.Close)
	return seen, web.URL
}

// The trace of a request is that of its facts, each with the span that it is about, and MCP servers are told the span
// of the call. A request without a trace, or a malformed one, leaves no ids and tells nothing.
func TestTraceOfTurn(t *testing.T) {
	t.Parallel()
	seen, url := serveTraced(t)
	h := start(t, withServers("", map[string]mcp.Server{"s": {URL: url}}))
	model := h.scenario("traced", "rounds:\n  - calls: [{tool: mcp__s__look}]\n  - text: Done.\n")
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for id, header := range map[string]string{"turn_traced": parent, "turn_plain": "", "turn_malformed": parent + "!"} {
		above := tracecontext.Parse(header)
		turn := above.Child(id)
		h.post(`{"model":"`+model+`","input":"go","holon":{"turn_id":"`+id+`"}}`, "Traceparent", header).response(t)
		call := tracecontext.Span{}
		for _, ev := range h.runtimeEvents(id, "?follow=true") {
			span := turn
			if about := ev.ModelRequestID + ev.ToolCallID; about != "" {
				span = turn.Child(about)
			}
			if ev.ToolCallID != "" {
				call = span
			}
			if ev.TraceID != above.TraceID() || ev.SpanID != span.SpanID() {
				t.Errorf("%s: %s has trace %q and span %q, want %q and %q", id, ev.Type, ev.TraceID, ev.SpanID,
					above.TraceID(), span.SpanID())
			}
			if ev.Type == turns.TurnSubmitted {
				var p turns.Submitted
				if err := json.Unmarshal(ev.Payload, &p); err != nil || p.Traceparent != above.String() {
					t.Errorf("%s: it is noted that %q asked for it (%v), want %q", id, p.Traceparent, err, above)
				}
			}
		}
		seen.mu.Lock()
		if n := len(seen.meta); n == 0 || seen.meta[n-1] != call.String() || seen.headers[n-1] != call.String() {
			t.Errorf("%s: the server was told %q and in headers %q, want %q at last", id, seen.meta, seen.headers, call)
		}
		seen.mu.Unlock()
	}
}
