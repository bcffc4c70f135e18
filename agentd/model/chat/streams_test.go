package chat_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"holon/agentd/model"
	"holon/agentd/model/chat"
	"holon/test/expect"
	"holon/test/modeltest"
)

// Every stream gives the right text, reasoning, calls, usage and end, or the right
// error, wherever its bytes are cut.
func TestStreams(t *testing.T) {
	for _, stream := range modeltest.Streams(t, "chat") {
		t.Run(stream.Name, func(t *testing.T) {
			body := streamOf(stream.Events...)
			if stream.Name != "truncated" {
				body += streamOf("[DONE]")
			}
			var sizes []int
			tr := serve(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("X-Request-Id", "req_header")
				w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
				modeltest.Write(w, body, sizes...)
			})
			first, failed := ask(t.Context(), t, tr, model.Request{})
			modeltest.Golden(t, stream.Name+".json", first)
			if failed == nil {
				want := expected(t, stream.Events)
				want.Stop, want.RequestID, want.Opaque = first.Stop, first.RequestID, first.Opaque
				if diff := cmp.Diff(want, first); diff != "" {
					t.Errorf("not what the chunks say (-want +got):\n%s", diff)
				}
			}
			for _, sizes = range modeltest.Cuts(t) {
				again, _ := ask(t.Context(), t, tr, model.Request{})
				if diff := cmp.Diff(first, again); diff != "" {
					t.Errorf("in pieces of %v it is another answer (-whole +cut):\n%s", sizes, diff)
				}
			}
		})
	}
}

// An answer that comes as one object says what a stream says, whether it was
// asked for or the server does not stream.
func TestWholeFiles(t *testing.T) {
	for _, name := range []string{"text", "reasoning", "tool-call"} {
		for _, whole := range []bool{true, false} {
			text := modeltest.File(t, "chat/"+name+".json")
			var message struct {
				Choices []struct{ Message map[string]any }
				Usage   map[string]any
			}
			expect.NoError(t, json.Unmarshal([]byte(text), &message))
			var want modeltest.Answer
			add(&want, message.Choices[0].Message)
			setUsage(&want, message.Usage)
			tr := serve(t, pieces("application/json", text), func(o *chat.Options) { o.Whole = whole })
			got, failed := ask(t.Context(), t, tr, model.Request{})
			if failed != nil {
				t.Errorf("%s, whole %t: %v", name, whole, failed)
				continue
			}
			want.Stop, want.RequestID, want.Opaque = got.Stop, got.RequestID, got.Opaque
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s, whole %t (-want +got):\n%s", name, whole, diff)
			}
		}
	}
}

// expected reads the chunks in another way than the transport does.
func expected(t *testing.T, lines []string) (want modeltest.Answer) {
	t.Helper()
	for _, line := range lines {
		var c map[string]any
		expect.NoError(t, json.Unmarshal([]byte(line), &c))
		if u, ok := c["usage"].(map[string]any); ok {
			setUsage(&want, u)
		}
		if choices, _ := c["choices"].([]any); len(choices) > 0 {
			add(&want, choices[0].(map[string]any)["delta"].(map[string]any))
		}
	}
	return want
}

// add adds a message, or a part of one, to an answer.
func add(a *modeltest.Answer, m map[string]any) {
	text := func(m map[string]any, key string) string { s, _ := m[key].(string); return s }
	a.Text += text(m, "content")
	a.Refusal += text(m, "refusal")
	if thought := text(m, "reasoning_content"); thought != "" {
		a.Summary = []string{strings.Join(a.Summary, "") + thought}
	}
	calls, _ := m["tool_calls"].([]any)
	for _, call := range calls {
		c := call.(map[string]any)
		f := c["function"].(map[string]any)
		if id := text(c, "id"); id != "" {
			a.Calls = append(a.Calls, id+" "+text(f, "name")+" ")
		}
		a.Calls[len(a.Calls)-1] += text(f, "arguments")
	}
}

func setUsage(a *modeltest.Answer, u map[string]any) {
	number := func(m map[string]any, key string) int64 { n, _ := m[key].(float64); return int64(n) }
	in, _ := u["prompt_tokens_details"].(map[string]any)
	out, _ := u["completion_tokens_details"].(map[string]any)
	a.Usage.InputTokens, a.Usage.OutputTokens = number(u, "prompt_tokens"), number(u, "completion_tokens")
	a.Usage.TotalTokens = number(u, "total_tokens")
	a.Usage.InputTokenDetails.CachedTokens = number(in, "cached_tokens")
	a.Usage.OutputTokenDetails.ReasoningTokens = number(out, "reasoning_tokens")
}
