package chat_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"holon/agentd/model"
	"holon/agentd/model/chat"
	"holon/responses"
)

const fixtures = "../../../../shared/fixtures/provider-streams/"

// recordings are the recorded answers of the Chat Completions API.
func recordings() []string {
	return []string{"deepseek-reasoning", "deepseek-tool-call", "openai-text"}
}

func fixture(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.FromSlash(fixtures + name))
	if err != nil {
		t.Skip("the recorded streams (../shared/fixtures/provider-streams) are not here")
	}
	return string(data)
}

// Every recorded stream gives the right text, reasoning, calls, usage and end,
// wherever its bytes are cut.
func TestRecordedStreams(t *testing.T) {
	for _, name := range recordings() {
		t.Run(name, func(t *testing.T) {
			lines := strings.Split(strings.TrimSpace(fixture(t, name+".chunks.txt")), "\n")
			body := streamOf(append(lines, "[DONE]")...)
			var sent []string
			tr := serve(t, func(w http.ResponseWriter, r *http.Request) {
				pieces("text/event-stream; charset=utf-8", sent...)(w, r)
			})
			want := expected(t, lines)
			sent = []string{body}
			first, failed := ask(t.Context(), t, tr, model.Request{})
			if failed != nil {
				t.Fatal(failed)
			}
			if got := (sums{first.Text, strings.Join(first.Summary, ""), strings.Join(first.Calls, "\n"),
				first.Usage}); got != want {
				t.Errorf("got %+v\nwant %+v", got, want)
			}
			rapid.Check(t, func(rt *rapid.T) {
				cuts := rapid.SliceOfN(rapid.IntRange(1, len(body)), 1, 40).Draw(rt, "cuts")
				sent = split(body, cuts)
				again, failed := ask(t.Context(), t, tr, model.Request{})
				if failed != nil || fmt.Sprint(again) != fmt.Sprint(first) {
					rt.Fatalf("cut into %d pieces: %+v, %v", len(sent), again, failed)
				}
			})
			first.Text = digest(first.Text)
			for i := range first.Summary {
				first.Summary[i] = digest(first.Summary[i])
			}
			golden(t, name+".json", first)
		})
	}
}

// An answer that comes as one object says what a stream says, whether it was
// asked for or the server does not stream.
func TestRecordedWhole(t *testing.T) {
	for _, name := range recordings() {
		for _, whole := range []bool{true, false} {
			text := fixture(t, name+".json")
			var message struct {
				Choices []struct {
					Message struct {
						Content          string
						ReasoningContent string `json:"reasoning_content"`
						ToolCalls        []struct {
							ID       string
							Function struct{ Name, Arguments string }
						} `json:"tool_calls"`
					}
				}
			}
			if err := json.Unmarshal([]byte(text), &message); err != nil {
				t.Fatal(err)
			}
			tr := serve(t, pieces("application/json", text), func(o *chat.Options) { o.Whole = whole })
			got, failed := ask(t.Context(), t, tr, model.Request{})
			m := message.Choices[0].Message
			calls := ""
			for _, c := range m.ToolCalls {
				calls += c.ID + " " + c.Function.Name + " " + c.Function.Arguments
			}
			if failed != nil || got.Text != m.Content || strings.Join(got.Summary, "") != m.ReasoningContent ||
				strings.Join(got.Calls, "") != calls || got.Usage.OutputTokens == 0 {
				t.Errorf("%s: %+v, %v", name, got, failed)
			}
		}
	}
}

// split cuts text at the given places.
func split(text string, cuts []int) (pieces []string) {
	at := make([]bool, len(text)+1)
	for _, c := range cuts {
		at[c] = true
	}
	from := 0
	for i := 1; i <= len(text); i++ {
		if at[i] || i == len(text) {
			pieces = append(pieces, text[from:i])
			from = i
		}
	}
	return pieces
}

// sums are what a stream says in all.
type sums struct {
	text, thought, calls string
	usage                responses.Usage
}

// expected reads the chunks in another way than the transport does.
func expected(t *testing.T, lines []string) (want sums) {
	t.Helper()
	for _, line := range lines {
		var c map[string]any
		if err := json.Unmarshal([]byte(line), &c); err != nil {
			t.Fatal(err)
		}
		number := func(m map[string]any, key string) int64 { n, _ := m[key].(float64); return int64(n) }
		if u, ok := c["usage"].(map[string]any); ok {
			in, _ := u["prompt_tokens_details"].(map[string]any)
			out, _ := u["completion_tokens_details"].(map[string]any)
			want.usage = responses.Usage{InputTokens: number(u, "prompt_tokens"),
				OutputTokens: number(u, "completion_tokens"), TotalTokens: number(u, "total_tokens")}
			want.usage.InputTokenDetails.CachedTokens,
				want.usage.OutputTokenDetails.ReasoningTokens = number(in, "cached_tokens"),
				number(out, "reasoning_tokens")
		}
		choices, _ := c["choices"].([]any)
		if len(choices) == 0 {
			continue
		}
		d := choices[0].(map[string]any)["delta"].(map[string]any)
		text := func(m map[string]any, key string) string { s, _ := m[key].(string); return s }
		want.text += text(d, "content")
		want.thought += text(d, "reasoning_content")
		calls, _ := d["tool_calls"].([]any)
		for _, call := range calls {
			m := call.(map[string]any)
			f := m["function"].(map[string]any)
			if id := text(m, "id"); id != "" {
				want.calls += id + " " + text(f, "name") + " "
			}
			want.calls += text(f, "arguments")
		}
	}
	return want
}

// digest stands for a long text in a golden file.
func digest(s string) string {
	if len(s) <= 40 {
		return s
	}
	return fmt.Sprintf("%d bytes, sha256 %x", len(s), sha256.Sum256([]byte(s)))
}
