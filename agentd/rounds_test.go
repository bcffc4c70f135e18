package agentd_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"holon/agentd/config"
	"holon/responses"
	"holon/responses/turns"
	"holon/test/expect"
)

// long is how many rounds of tools the long turns have, and the window that makes them compact: the promise is about
// long turns.
func long() (rounds int, window string) {
	if testing.Short() {
		return 24, "24000/4000"
	}
	return 120, "100000/4000"
}

// recorder is a provider that keeps what it is sent and calls a tool in every
// round but the last: two in every third.
type recorder struct {
	key    string // of the conversation within a body
	stream func(n int, calls []string, usage recordedUsage) string
	big    bool // the tool prints a lot
	rounds int  // of tools

	mu     sync.Mutex
	bodies [][]byte
}

// recordedUsage is what the provider counts: four bytes a token, and as cached
// what it truly was sent before.
type recordedUsage struct{ input, cached int }

func (p *recorder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client is gone
	}
	p.mu.Lock()
	usage := recordedUsage{input: len(body) / 4}
	if n := len(p.bodies); n > 0 {
		usage.cached = shared(unmarked(p.bodies[n-1]), unmarked(body)) / 4
	}
	p.bodies = append(p.bodies, body)
	n := len(p.bodies)
	p.mu.Unlock()
	var calls []string
	if n <= p.rounds {
		calls = append(calls, fmt.Sprintf("call_%d_a", n))
		if n%3 == 0 {
			calls = append(calls, fmt.Sprintf("call_%d_b", n))
		}
	}
	w.Header().Set("Content-Type", "text/event-stream")
	answer := p.stream(n, calls, usage)
	if p.big {
		answer = strings.NewReplacer(longCommand, bigCommand, quote(longCommand), quote(bigCommand)).Replace(answer)
	}
	_, _ = io.WriteString(w, answer) // a client that is gone fails the test
}

// shared is how many bytes two texts begin with in common, give or take a few
// hundred: what is compared is blocks.
func shared(a, b []byte) (n int) {
	const block = 256
	for next := range slices.Chunk(a, block) {
		if !bytes.HasPrefix(b[n:], next) {
			break
		}
		n += len(next)
	}
	return n
}

// unmarked is a body without markers of cacheable prefixes, which move.
func unmarked(body []byte) []byte {
	return bytes.ReplaceAll(body, []byte(`,"cache_control":{"type":"ephemeral"}`), nil)
}

// history is the conversation in a body without its end, and all of the body but
// that.
func (p *recorder) history(t *testing.T, body []byte) (history, frame []byte) {
	t.Helper()
	body = unmarked(body)
	var parts map[string]json.RawMessage
	expect.NoError(t, json.Unmarshal(body, &parts))
	whole := parts[p.key]
	if len(whole) < 2 || !bytes.Contains(body, whole) {
		t.Fatalf("no %s in %.300s", p.key, body)
	}
	return bytes.TrimSuffix(whole, []byte("]")), bytes.Replace(body, whole, nil, 1)
}

const (
	longCommand = `{"cmd":"echo 1"}`
	bigCommand  = `{"cmd":"seq 100 700"}`
	longText    = "Let me look at that."
)

// sseEvents frames events with their types, as the API of Anthropic does.
func sseEvents(list ...string) string {
	var b strings.Builder
	for _, ev := range list {
		fmt.Fprintf(&b, "event: %s\ndata: %s\n\n", responses.EventType([]byte(ev)), ev)
	}
	return b.String()
}

func responsesRound(n int, calls []string, u recordedUsage) string {
	items := []string{
		fmt.Sprintf(`{"type":"reasoning","id":"rs_%d","summary":[],"encrypted_content":"opaque%d"}`, n, n),
		fmt.Sprintf(`{"type":"message","id":"msg_%d","role":"assistant","content":[{"type":"output_text","text":%s,`+
			`"annotations":[]}]}`, n, quote(longText)),
	}
	for _, id := range calls {
		items = append(items, fmt.Sprintf(`{"type":"function_call","id":"fc_%s","call_id":"%s","name":"ExecCommand",`+
			`"arguments":%s,"status":"completed"}`, id, id, quote(longCommand)))
	}
	return sseEvents(fmt.Sprintf(`{"type":"response.completed","response":{"id":"resp_%d","status":"completed",`+
		`"output":[%s],"usage":{"input_tokens":%d,"output_tokens":20,"total_tokens":%d,"input_tokens_details":`+
		`{"cached_tokens":%d},"output_tokens_details":{"reasoning_tokens":0}}}}`,
		n, strings.Join(items, ","), u.input, u.input+20, u.cached))
}

func chatRound(_ int, calls []string, u recordedUsage) string {
	list := []string{`{"id":"c","choices":[{"index":0,"delta":{"reasoning_content":"hm","content":` + quote(longText) +
		`}}]}`}
	for i, id := range calls {
		list = append(list, fmt.Sprintf(`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":%d,"id":"%s",`+
			`"type":"function","function":{"name":"ExecCommand","arguments":%s}}]}}]}`, i, id, quote(longCommand)))
	}
	why := "stop"
	if len(calls) > 0 {
		why = "tool_calls"
	}
	list = append(list, fmt.Sprintf(`{"choices":[{"index":0,"delta":{},"finish_reason":"%s"}],`+
		`"usage":{"prompt_tokens":%d,"completion_tokens":20,"total_tokens":%d,"prompt_tokens_details":`+
		`{"cached_tokens":%d}}}`, why, u.input, u.input+20, u.cached), "[DONE]")
	return "data: " + strings.Join(list, "\n\ndata: ") + "\n\n"
}

func anthropicRound(n int, calls []string, u recordedUsage) string {
	list := []string{fmt.Sprintf(`{"type":"message_start","message":{"id":"msg_%d","usage":{"input_tokens":%d,`+
		`"cache_read_input_tokens":%d,"output_tokens":1}}}`, n, u.input-u.cached, u.cached)}
	blocks := []string{`{"type":"thinking","thinking":"hm","signature":"s"}`,
		`{"type":"text","text":` + quote(longText) + `}`}
	why := "end_turn"
	for _, id := range calls {
		blocks, why = append(blocks, fmt.Sprintf(`{"type":"tool_use","id":"toolu_%s","name":"ExecCommand","input":%s}`,
			id, longCommand)), "tool_use"
	}
	for i, b := range blocks {
		list = append(list, fmt.Sprintf(`{"type":"content_block_start","index":%d,"content_block":%s}`, i, b),
			fmt.Sprintf(`{"type":"content_block_stop","index":%d}`, i))
	}
	return sseEvents(append(list, `{"type":"message_delta","delta":{"stop_reason":"`+why+
		`"},"usage":{"output_tokens":20}}`, `{"type":"message_stop"}`)...)
}

// TestLongTurnIsAppendOnly holds a turn of a hundred and twenty rounds (in the fast tier twenty-four), through every
// transport, to what caches of prompts live on: what a provider is told begins
// with what it was told in the round before, byte by byte, but for compactions.
func TestLongTurnIsAppendOnly(t *testing.T) {
	rounds, window := long()
	t.Parallel()
	for _, by := range []struct {
		name, ref, key string
		stream         func(int, []string, recordedUsage) string
	}{
		{"responses", "openai/gpt-5", "input", responsesRound},
		{"chat", "lab/m", "messages", chatRound},
		{"anthropic", "anthropic/claude-opus-5", "messages", anthropicRound},
	} {
		for _, windows := range []string{by.ref + "=0", by.ref + "=" + window} {
			t.Run(by.name+windows[strings.LastIndexByte(windows, '='):], func(t *testing.T) {
				t.Parallel()
				p := &recorder{key: by.key, stream: by.stream, rounds: rounds,
					big: !strings.HasSuffix(windows, "=0")}
				server := httptest.NewServer(p)
				t.Cleanup(server.Close)
				h := assembled(t, []string{"LAB_BASE_URL=" + server.URL}, func(c *config.Config) {
					c.Models.Default, c.Models.Windows, c.Turns.MaxRounds = by.ref, windows, rounds+1
					c.Models.OpenAIBaseURL, c.Models.OpenAIKey, c.Models.AnthropicBaseURL,
						c.Models.AnthropicKey = server.URL, "sk-test",
						server.URL, "sk-test"
				})
				h.post(`{"input":"go on","holon":{"turn_id":"turn_a"}}`)
				rec := h.record("turn_a")
				if rec.Status != responses.StatusCompleted || rec.Rounds != rounds+1 ||
					rec.ToolCalls.Total != rounds+rounds/3 {
					t.Fatalf("%+v, %+v", rec, rounds)
				}
				cuts := p.cuts(t)
				var recorded []int
				for _, c := range compactions(t, h.file("turn_a", turns.RuntimeFile)) {
					recorded = append(recorded, c.Round)
					if c.ToolResults == 0 || c.TokensAfter >= c.TokensBefore {
						t.Errorf("%+v", c)
					}
				}
				if !slices.Equal(cuts, recorded) {
					t.Errorf("the prefix is another in the rounds %v and compactions are recorded in %v", cuts,
						recorded)
				}
				if wide := strings.HasSuffix(windows, "=0"); wide != (len(cuts) == 0) || len(cuts) > rounds/10 {
					t.Errorf("%d compactions", len(cuts))
				}
				for _, a := range rec.ProviderAttempts.Attempts[2:] { // the first two are short
					broken := cmp.Or(a.Prompt.Broken, "no")
					// The rest of the body counts as missed here, which is most of it in the first twenty rounds.
					missed := broken == "no" && a.Round > 20 && a.Prompt.HitRatio < 0.5
					if missed || slices.Contains(recorded, a.Round) != (broken == turns.CacheCompacted) {
						t.Errorf("round %d: %+v", a.Round, a.Prompt)
					}
				}
			})
		}
	}
}

// cuts returns the rounds in which the provider was told something else than
// before and more. All but the conversation stays the same in any case.
func (p *recorder) cuts(t *testing.T) (list []int) {
	t.Helper()
	var before, frame []byte
	for i, body := range p.bodies {
		history, rest := p.history(t, body)
		if !bytes.HasPrefix(history, before) {
			list = append(list, i+1)
		}
		if frame != nil && !bytes.Equal(rest, frame) {
			t.Fatalf("request %d has another frame:\n%s\n%s", i+1, rest, frame)
		}
		before, frame = history, rest
	}
	return list
}

// compactions returns what a turn's record says of them.
func compactions(t *testing.T, path string) (list []turns.Compaction) {
	t.Helper()
	data, err := os.ReadFile(path)
	expect.NoError(t, err)
	for line := range bytes.Lines(data) {
		ev, err := turns.DecodeRuntimeEvent(line)
		expect.NoError(t, err)
		if ev.Type != turns.ContextCompacted {
			continue
		}
		var c turns.Compaction
		expect.NoError(t, json.Unmarshal(ev.Payload, &c))
		list = append(list, c)
	}
	return list
}
