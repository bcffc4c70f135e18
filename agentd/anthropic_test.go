package agentd_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"holon/agentd"
	"holon/agentd/config"
	"holon/agentd/model"
	"holon/agentd/model/anthropic"
	"holon/responses"
)

// claude is a provider that speaks the Messages API. It refuses what the real one
// refuses, and answers one request after the other.
type claude struct {
	mu      sync.Mutex
	answers []func(w http.ResponseWriter, r *http.Request)
	bodies  []string
	faults  []string
}

// claudeRequest is what the provider reads of a request.
type claudeRequest struct {
	MaxTokens int `json:"max_tokens"`
	Tools     []struct{ Name string }
	Messages  []claudeMessage
}

type claudeMessage struct {
	Role    string
	Content []claudeBlock
}

type claudeBlock struct {
	Type, Text, ID, Thinking, Signature string
	ToolUseID                           string `json:"tool_use_id"`
}

func (c *claude) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	c.mu.Lock()
	c.bodies = append(c.bodies, string(body))
	fault := c.check(r, body)
	if err != nil || len(c.answers) == 0 {
		fault = fmt.Sprint("not expected: ", err)
	}
	if fault != "" {
		c.faults = append(c.faults, fault)
		c.mu.Unlock()
		http.Error(w, `{"type":"error","error":{"type":"invalid_request_error","message":"`+fault+`"}}`,
			http.StatusBadRequest)
		return
	}
	next := c.answers[0]
	c.answers = c.answers[1:]
	c.mu.Unlock()
	next(w, r)
}

// check returns what the API would say against a request.
func (c *claude) check(r *http.Request, body []byte) string {
	var q claudeRequest
	if err := json.Unmarshal(body, &q); err != nil {
		return err.Error()
	}
	switch {
	case r.URL.Path != "/v1/messages" || r.Header.Get("X-Api-Key") == "" || r.Header.Get("Anthropic-Version") == "":
		return "no such call, or no key"
	case q.MaxTokens < 1 || len(q.Messages) == 0 || q.Messages[0].Role != "user":
		return "max_tokens and a first message of the user are needed"
	case bytes.Count(body, []byte("cache_control")) > 4:
		return "a maximum of 4 blocks with cache_control may be provided"
	}
	ids := make(map[string]bool)
	var open []string // calls of the message before
	for i, m := range q.Messages {
		fault := q.checkOrder(i)
		if fault == "" {
			fault = m.checkBlocks(open, ids)
		}
		if fault != "" {
			return fmt.Sprintf("messages.%d: %s", i, fault)
		}
		open = nil
		for _, b := range m.Content {
			if b.Type == "tool_use" {
				open, ids[b.ID] = append(open, b.ID), true
			}
		}
	}
	return ""
}

// checkOrder returns what is wrong with the place of message i.
func (q *claudeRequest) checkOrder(i int) string {
	before, role := "assistant", q.Messages[i].Role
	if i > 0 {
		before = q.Messages[i-1].Role
	}
	last, fits := i == len(q.Messages)-1, true
	switch role {
	case "user":
		fits = before == "assistant"
	case "assistant":
		fits = before != "assistant" && !last
	case "system":
		fits = before == "user" && (last || q.Messages[i+1].Role == "assistant")
	}
	if fits {
		return ""
	}
	return fmt.Sprintf("a message of %s after one of %s", role, before)
}

// checkBlocks returns what is wrong with the blocks of a message that follows one
// with the calls open; ids are those of all calls before.
func (m claudeMessage) checkBlocks(open []string, ids map[string]bool) string {
	for j, b := range m.Content {
		switch {
		case b.Type == "text" && strings.TrimSpace(b.Text) == "":
			return "text content blocks must contain non-whitespace text"
		case b.Type == "thinking" && b.Signature != "signed:"+b.Thinking:
			return "invalid signature in thinking block"
		case b.Type == "tool_use" && ids[b.ID]:
			return "tool_use ids must be unique"
		case b.Type == "tool_result" && (j >= len(open) || open[j] != b.ToolUseID):
			return "unexpected tool_result"
		case len(open) > j && b.Type != "tool_result":
			return "tool_use ids were found without tool_result blocks immediately after"
		}
	}
	if len(open) > len(m.Content) {
		return "a tool_result is missing"
	}
	return ""
}

// says queues an answer: blocks in JSON, each whole.
func (c *claude) says(stop string, blocks ...string) {
	c.answers = append(c.answers, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		send := func(event string) {
			name, _, _ := strings.Cut(strings.TrimPrefix(event, `{"type":"`), `"`)
			_, _ = fmt.Fprintf(w, "event: %s\ndata: %s\n\n", name, event) // a client that is gone fails the test
		}
		send(fmt.Sprintf(`{"type":"message_start","message":{"id":"msg_%d","usage":{"input_tokens":10,`+
			`"cache_read_input_tokens":90,"output_tokens":1}}}`, len(c.bodies)))
		for i, b := range blocks {
			send(fmt.Sprintf(`{"type":"content_block_start","index":%d,"content_block":%s}`, i, b))
			send(fmt.Sprintf(`{"type":"content_block_stop","index":%d}`, i))
		}
		send(`{"type":"message_delta","delta":{"stop_reason":"` + stop +
			`"},"usage":{"output_tokens":20,"output_tokens_details":{"thinking_tokens":5}}}`)
		send(`{"type":"message_stop"}`)
	})
}

// startClaude serves with a model of the provider's as the default.
func startClaude(t *testing.T, c *claude) *harness {
	t.Helper()
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	transport, err := anthropic.New(anthropic.Options{BaseURL: server.URL, APIKey: "sk-test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := transport.Close(); err != nil {
			t.Error(err)
		}
		for _, fault := range c.faults {
			t.Errorf("the provider refused a request: %s", fault)
		}
	})
	return start(t, func(cfg *config.Config, parts *agentd.Parts) {
		cfg.Models.Default = "anthropic/claude-opus-5"
		parts.Models, err = model.NewResolver(model.Options{
			Transports: map[string]model.Transport{"anthropic": transport}, Default: cfg.Models.Default,
			Retry: model.Policy{Retries: 2, Base: time.Millisecond, MaxPause: time.Second},
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

const (
	claudeThinks = `{"type":"thinking","thinking":"I must look.","signature":"signed:I must look."}`
	claudeTalks  = `{"type":"text","text":"I look."}`
)

func claudeCalls(id, name, input string) string {
	return fmt.Sprintf(`{"type":"tool_use","id":%q,"name":%q,"input":%s}`, id, name, input)
}

// A whole turn with thoughts, calls of the container and of the client, over two
// requests, as the provider wants it; whether the client names the response before
// or sends everything back itself.
func TestTurnWithAnthropic(t *testing.T) {
	t.Parallel()
	c := &claude{}
	h := startClaude(t, c)
	h.http.Transport = h.http.Transport.(*validator).next // the protocol's schemas know no items of ours
	const fields = `"tools":[{"type":"function","name":"ask"}],"include":["holon:tool_calls",` +
		`"reasoning.encrypted_content"]`
	const input = `{"role":"user","content":"go"}`
	script := func() {
		c.says("tool_use", claudeThinks, claudeTalks, claudeCalls("toolu_1", "ExecCommand", `{"cmd":"echo one"}`),
			claudeCalls("toolu_2", "ExecCommand", `{"cmd":"echo two"}`))
		c.says("tool_use", claudeThinks, claudeCalls("toolu_3", "ask", `{"q":1}`),
			claudeCalls("toolu_4", "ExecCommand", `{"cmd":"echo three"}`))
		c.says("end_turn", `{"type":"text","text":"Done."}`)
	}
	send := func(body string) *responses.Response {
		t.Helper()
		resp, err := responses.DecodeResponse(h.post(body).body)
		if err != nil || resp.Status != responses.StatusCompleted {
			t.Fatalf("%+v, %v", resp, err)
		}
		return resp
	}
	outputTo := func(resp *responses.Response) string {
		for _, item := range resp.Output {
			if call, ok := item.(*responses.FunctionCall); ok {
				return `{"type":"function_call_output","call_id":"` + call.CallID + `","output":"42"}`
			}
		}
		t.Fatal("the client was not asked")
		return ""
	}

	script()
	first := send(`{"input":[` + input + `],` + fields + `}`)
	if kinds := types(first.Output); kinds != "reasoning message holon:tool_call holon:tool_call reasoning "+
		"function_call holon:tool_call" {
		t.Errorf("the output is %s", kinds)
	}
	if u := first.Usage; u.InputTokens != 200 || u.OutputTokens != 40 || u.InputTokenDetails.CachedTokens != 180 ||
		u.OutputTokenDetails.ReasoningTokens != 10 {
		t.Errorf("usage %+v", u)
	}
	last := send(`{"input":[` + outputTo(first) + `],"previous_response_id":"` + first.ID + `",` + fields + `}`)
	if m, ok := last.Output[0].(*responses.Message); !ok || m.Text() != "Done." ||
		m.Phase != responses.PhaseFinalAnswer {
		t.Errorf("%+v", m)
	}

	script()
	alone := send(`{"store":false,"input":[` + input + `],` + fields + `}`)
	back, err := json.Marshal(alone.Output)
	if err != nil {
		t.Fatal(err)
	}
	send(`{"store":false,"input":[` + input + `,` + strings.Trim(string(back), "[]") + `,` + outputTo(alone) + `],` +
		fields + `}`)

	var bodies []string
	for _, b := range c.bodies {
		bodies = append(bodies, strings.TrimSuffix(strings.ReplaceAll(b, `,"cache_control":{"type":"ephemeral"}`, ""),
			"]}\n"))
	}
	if len(bodies) != 6 {
		t.Fatalf("the provider was asked %d times", len(bodies))
	}
	if !strings.HasPrefix(bodies[1], bodies[0]) || !strings.HasPrefix(bodies[2], bodies[1]) {
		t.Errorf("a round does not begin with the one before:\n%s", strings.Join(bodies[:3], "\n"))
	}
	for _, want := range []string{`"name":"ExecCommand","input":{"cmd":"echo two"}}]},{"role":"user",` +
		`"content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"`, `{"type":"tool_result",` +
		`"tool_use_id":"toolu_3","content":"42"},{"type":"tool_result","tool_use_id":"toolu_4"`} {
		if !strings.Contains(bodies[2], want) {
			t.Errorf("%s is not in %s", want, bodies[2])
		}
	}
}
