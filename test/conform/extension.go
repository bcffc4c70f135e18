package conform

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"holon/responses/stream"
)

// runCommand asks for a command that the server itself runs.
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

func hidden(ctx context.Context, s *Suite) error {
	r, events, err := s.streamed(ctx, s.request(`{%s,"stream":true}`, runCommand), stream.SSE)
	if err != nil {
		return err
	}
	return errors.Join(completed(r),
		expect(!bytes.Contains(bytes.Join(events, nil), []byte(`"holon:`)), "an extension is on the stream"),
		expect(r.first("function_call") == nil, "the server's own call came out as a function_call"))
}

// shown runs the command with its calls shown and returns the response.
func (s *Suite) shown(ctx context.Context, extra string) (resource, error) {
	a, err := s.post(ctx, s.request(`{%s,"include":["holon:tool_calls"],"stream":true%s}`, runCommand, extra))
	if err != nil {
		return nil, err
	}
	plain := &Suite{Target: s.Target} // the document knows no extensions
	plain.Schemas = nil
	r, _, err := plain.checkStream(a, stream.SSE, &Checker{Extensions: true})
	return r, err
}

func toolCalls(ctx context.Context, s *Suite) error {
	r, err := s.shown(ctx, "")
	if err != nil {
		return err
	}
	call := r.first("holon:tool_call")
	output, _ := call["output"].(string)
	return errors.Join(completed(r),
		expect(call["status"] == "completed" && call["call_id"] != nil && call["name"] != nil, "the call is %v", call),
		expect(strings.Contains(output, "conformance"), "its output is %q", output))
}

func toolCallsBack(ctx context.Context, s *Suite) error {
	r, err := s.shown(ctx, `,"store":false`)
	if err != nil {
		return err
	}
	if r.first("holon:tool_call") == nil {
		return errors.New("no tool call was shown")
	}
	input := append(user("Run the command: echo conformance"), r["output"].([]any)...)
	input = append(input, user("Say hello.")...)
	if _, err := s.completes(ctx, s.request(`{"store":false,"input":%s}`, encode(input))); err != nil {
		return fmt.Errorf("the conversation sent back: %w", err)
	}
	return nil
}

func idempotent(ctx context.Context, s *Suite) error {
	key := fmt.Sprintf("conformance-%d", time.Now().UnixNano())
	send := func(input string) (answer, error) {
		return s.post(ctx, s.request(`{"input":%s}`, quote(input)), "Idempotency-Key", key)
	}
	first, err := send("Say hello.")
	if err != nil {
		return err
	}
	again, err := send("Say hello.")
	if err != nil {
		return err
	}
	if first.status != http.StatusOK || !bytes.Equal(first.body, again.body) {
		return fmt.Errorf("answered %d: %.300s, and then %d: %.300s", first.status, first.body, again.status,
			again.body)
	}
	other, err := send("Say something else.")
	return failed(other, err, http.StatusConflict)
}
