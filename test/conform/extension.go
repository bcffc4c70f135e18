package conform

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"time"

	"holon/responses/stream"
)

const runCommand = `"input":"Run the command: echo conformance"`

func extensionCases() []Case {
	return []Case{
		{"extensions/hidden", Extension, "what the server does itself is not on the standard stream", hidden},
		{"extensions/tool calls", Extension, "a request that asks sees the server's own tool calls", toolCalls},
		{"extensions/idempotency key", Extension, "a request that is sent again with its key is the same turn",
			idempotent},
		{"extensions/round trip", Extension, "tool calls are accepted back as input", toolCallsBack},
	}
}

func hidden(t *trial) {
	r, events := t.streamed(`{%s,"stream":true}`, runCommand)
	t.completed(r)
	t.expect(!bytes.Contains(bytes.Join(events, nil), []byte(`"holon:`)), "an extension is on the stream")
	t.expect(r.first("function_call") == nil, "the server's own call came out as a function_call")
}

// shown runs the command with its calls shown and returns the response.
func (t *trial) shown(extra string) resource {
	a := t.post(t.request(`{%s,"include":["holon:tool_calls"],"stream":true%s}`, runCommand, extra))
	r, _ := t.checkStream(a, stream.SSE, &Checker{Extensions: true})
	t.demand(r.first("holon:tool_call") != nil, "no tool call was shown")
	return r
}

func toolCalls(t *trial) {
	r := t.shown("")
	t.completed(r)
	call := r.first("holon:tool_call")
	output, _ := call["output"].(string)
	t.expect(call["status"] == "completed" && call["call_id"] != nil && call["name"] != nil, "the call is %v", call)
	t.expect(strings.Contains(output, "conformance"), "its output is %q", output)
}

func toolCallsBack(t *trial) {
	r := t.shown(`,"store":false`)
	input := append(user("Run the command: echo conformance"), r["output"].([]any)...)
	input = append(input, user("Say hello.")...)
	t.completes(`{"store":false,"input":%s}`, encode(input))
}

func idempotent(t *trial) {
	key := fmt.Sprintf("conformance-%d", time.Now().UnixNano())
	send := func(input string) answer {
		return t.post(t.request(`{"input":%s}`, quote(input)), "Idempotency-Key", key)
	}
	first, again := send("Say hello."), send("Say hello.")
	t.expect(first.status == http.StatusOK && bytes.Equal(first.body, again.body),
		"answered %d: %.300s, and then %d: %.300s", first.status, first.body, again.status, again.body)
	t.fails(send("Say something else."), http.StatusConflict)
}
