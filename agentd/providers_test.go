package agentd_test

import (
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"holon/agentd"
	"holon/agentd/config"
	"holon/responses"
	"holon/responses/turns"
	"holon/test/expect"
)

var updateTimelines = flag.Bool("update-timelines", false, "rewrite the golden files of attempts")

// assembled serves with the models of Assemble, configured by variables.
func assembled(t *testing.T, env []string, change func(*config.Config)) *harness {
	t.Helper()
	return assembledIn(t, shortDir(t), env, change)
}

func assembledIn(t *testing.T, dir string, env []string, change func(*config.Config)) *harness {
	t.Helper()
	return startIn(t, dir, func(c *config.Config, p *agentd.Parts) {
		change(c)
		cfg := *c
		cfg.Models.Socket = ""
		models, release, err := agentd.Transports(cfg, env)
		expect.NoError(t, err)
		p.Models = models
		before := p.Close
		p.Close = func() error { defer before(); return release() }
	})
}

// provider plays a script: the n-th request gets the n-th answer, later ones the
// last.
func provider(t *testing.T, answers ...http.HandlerFunc) (base string, asked *atomic.Int32) {
	t.Helper()
	asked = new(atomic.Int32)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // a handler of a test that looks at nothing
		answers[min(int(asked.Add(1)), len(answers))-1](w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL, asked
}

func answers(contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		_, _ = io.WriteString(w, body) // a client that has enough hangs up
	}
}

func fails(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Retry-After-Ms", "1")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body) // a client that has enough hangs up
	}
}

func events(list ...string) string { return "data: " + strings.Join(list, "\n\ndata: ") + "\n\n" }

const (
	chatText = `{"choices":[{"index":0,"delta":{"content":"Done."}}]}`
	chatEnd  = `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":2,` +
		`"completion_tokens":1,"total_tokens":3}}`
	chatCall = `{"choices":[{"index":0,"delta":{"reasoning_content":"I run it.","tool_calls":[{"index":0,"id":"c1",` +
		`"function":{"name":"ExecCommand","arguments":"{\"cmd\":\"echo from-the-tool\"}"}}]},"finish_reason":` +
		`"tool_calls"}]}`

	wholeCall = `{"id":"r1","status":"completed","output":[{"type":"function_call","call_id":"c1",` +
		`"name":"ExecCommand","arguments":"{\"cmd\":\"echo from-the-tool\"}"}],"usage":{"input_tokens":2,` +
		`"output_tokens":1,"total_tokens":3}}`
	wholeText = `{"id":"r2","status":"completed","output":[{"type":"message","content":[{"type":"output_text",` +
		`"text":"Done."}]}],"usage":{"input_tokens":2,"output_tokens":1,"total_tokens":3}}`
)

func chatAnswer(list ...string) http.HandlerFunc {
	return answers("text/event-stream", events(append(list, "[DONE]")...))
}

func streamed(whole string) http.HandlerFunc {
	return answers("text/event-stream", events(`{"type":"response.completed","response":`+whole+`}`))
}

// Any Open Responses server is a provider, another agentd for one.
func TestAnotherAgentdIsAProvider(t *testing.T) {
	t.Parallel()
	behind := start(t, func(c *config.Config, _ *agentd.Parts) { c.Server.Listen = "" })
	ref := behind.scenario("hello", "turns: [{rounds: [{reasoning: Hm., text: Hello from behind.}]}, {rounds: "+
		"[{text: And again.}]}]")
	h := assembled(t, []string{"RESPONSES_BASE_URL=unix://" + behind.cfg.Server.Socket +
		":/v1"}, func(c *config.Config) {
		c.Models.Default = "responses/" + ref
	})
	first := h.post(`{"input":"hi"}`).response(t)
	if first.Status != responses.StatusCompleted || first.OutputText() != "Hello from behind." {
		t.Fatalf("%s %q %+v", first.Status, first.OutputText(), first.Error)
	}
}

// The attempts at providers that fail are on the record, with how each failed.
func TestTimelines(t *testing.T) {
	t.Parallel()
	abort := func(body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, body) // a client that has enough hangs up
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}
	}
	silence := func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	huge := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, err := io.WriteString(w, `data: {"type":"`)
		for piece := strings.Repeat("x", 1<<20); err == nil; { // until the client has enough: it would take 100 MiB
			_, err = io.WriteString(w, piece)
		}
	}
	stream := func(list ...string) http.HandlerFunc { return answers("text/event-stream", events(list...)) }
	// The APIs, each with the beginning of an answer, all of one, and what comes in
	// no order.
	wires := []struct {
		name, contract   string
		begin            []string
		whole            http.HandlerFunc
		garbage          []string
		twice, unordered []string // nil where there is no such thing
	}{
		{name: "", contract: "", begin: []string{chatText}, whole: chatAnswer(chatText, chatEnd),
			garbage: []string{`{"choices":`}},
		{
			name: "responses-", contract: "=responses",
			begin: []string{`{"type":"response.output_item.added","output_index":0,"item":{"type":"message",` +
				`"role":"assistant"}}`, `{"type":"response.output_text.delta","output_index":0,"delta":"Do"}`},
			whole: streamed(wholeText), garbage: []string{`{"type":"response.completed","response":`},
			twice: []string{`{"type":"response.output_item.added","output_index":0,"item":{"type":"message"}}`,
				`{"type":"response.output_item.added","output_index":0,"item":{"type":"message"}}`},
		},
		{
			name: "anthropic-", contract: "=anthropic_messages",
			begin: []string{`{"type":"message_start","message":{"id":"msg_1"}}`,
				`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"Do"}}`},
			whole:   answers("text/event-stream", anthropicRound(1, nil, recordedUsage{input: 3})),
			garbage: []string{`{"type":"message_start","message":`},
			twice: []string{`{"type":"message_start","message":{"id":"msg_1"}}`,
				`{"type":"message_start","message":{"id":"msg_2"}}`},
			unordered: []string{`{"type":"content_block_delta","index":3,` +
				`"delta":{"type":"input_json_delta","partial_json":""}}`},
		},
	}
	type test struct {
		name      string
		first     []http.HandlerFunc
		fallback  bool
		providers string // contract of the first
		status    responses.Status
	}
	var tests []test
	for _, wire := range wires {
		add := func(name string, first []http.HandlerFunc, fallback bool, status responses.Status) {
			tests = append(tests, test{wire.name + name, first, fallback, "first" + wire.contract, status})
		}
		add("rate-limited-then-answers", []http.HandlerFunc{fails(429, `{"error":{"message":"slow down"}}`),
			wire.whole}, false, responses.StatusCompleted)
		add("overloaded-then-fallback", []http.HandlerFunc{fails(503, ``)}, true, responses.StatusCompleted)
		add("unauthorized-then-fallback", []http.HandlerFunc{fails(401, `{"error":{"message":"no"}}`)}, true,
			responses.StatusCompleted)
		add("garbage-then-fallback", []http.HandlerFunc{stream(wire.garbage...)}, true, responses.StatusCompleted)
		add("reset-in-the-middle", []http.HandlerFunc{abort(events(wire.begin...))}, true, responses.StatusCompleted)
		add("reset-before", []http.HandlerFunc{abort("")}, false, responses.StatusFailed)
		add("silence", []http.HandlerFunc{silence}, false, responses.StatusFailed)
		add("too-long", []http.HandlerFunc{fails(400,
			`{"error":{"message":"maximum context length is 8","code":"context_length_exceeded"}}`)}, true, responses.StatusFailed)
		add("bad-request", []http.HandlerFunc{fails(400, `{"error":{"message":"no such field"}}`)}, false,
			responses.StatusFailed)
		add("huge-event", []http.HandlerFunc{huge}, true, responses.StatusCompleted)
		if wire.twice != nil {
			add("twice", []http.HandlerFunc{stream(wire.twice...)}, false, responses.StatusFailed)
		}
		if wire.unordered != nil { // the others take what comes, see their TestTolerance and TestDialects
			add("unordered", []http.HandlerFunc{stream(wire.unordered...)}, false, responses.StatusFailed)
		}
	}
	tests = append(tests, test{"unsupported-then-fallback", []http.HandlerFunc{fails(500, ``)}, true,
		"first=aws_bedrock", responses.StatusCompleted})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			base, _ := provider(t, tt.first...)
			second, _ := provider(t, chatAnswer(chatText, chatEnd))
			env := []string{"FIRST_BASE_URL=" + base, "SECOND_BASE_URL=" + second}
			if strings.HasSuffix(tt.name, "silence") {
				env = append(env, "FIRST_IDLE_TIMEOUT=200ms")
			}
			h := assembled(t, env, func(c *config.Config) {
				c.Models.Default, c.Models.Providers = "first/m", tt.providers
				if tt.fallback {
					c.Models.Fallbacks = "second/m"
				}
			})
			h.post(`{"input":"go","holon":{"turn_id":"turn_a"}}`)
			rec := h.record("turn_a")
			if rec.Status != tt.status {
				t.Fatalf("%s %+v", rec.Status, rec.Error)
			}
			got := struct {
				Attempts *turns.ProviderTimeline `json:"provider_attempts"`
				Failure  *turns.FailureArtifact  `json:"failure_artifact"`
			}{rec.ProviderAttempts, rec.FailureArtifact}
			b, err := json.MarshalIndent(got, "", "  ")
			expect.NoError(t, err)
			file := timelineFile(t, tt.name, string(b))
			report, err := os.ReadFile(h.file("turn_a", turns.FailureFile))
			if failed := tt.status == responses.StatusFailed; failed != (err == nil) {
				t.Errorf("%s: %v", turns.FailureFile, err)
			} else if failed && !(strings.Contains(string(report), `"category"`) &&
				strings.Contains(string(report), `"provider_attempts"`)) {
				t.Errorf("%s: %s", turns.FailureFile, report)
			}
			runtime, err := os.ReadFile(h.file("turn_a", turns.RuntimeFile))
			if n := strings.Count(string(runtime), `"provider_attempt":`); err != nil ||
				n != len(rec.ProviderAttempts.Attempts) {
				t.Errorf("runtime.ndjson has %d attempts and %s %d, %v", n, file, len(rec.ProviderAttempts.Attempts),
					err)
			}
		})
	}
}

// timelineFile compares with a golden file, in which nothing is that changes from
// run to run.
func timelineFile(t *testing.T, name, got string) string {
	t.Helper()
	for pattern, with := range map[string]string{
		`"(started_at|completed_at)": "[^"]*"`: `"$1": "T"`, `"(duration_ms|backoff_ms)": \d+`: `"$1": 1`,
		`\s*"context_build_ms": \d+,`:              "", // absent below a millisecond
		`"((frame_)?fingerprint)": "[0-9a-f]{16}"`: `"$1": "F"`, `"(estimated_tokens|bytes)": \d+`: `"$1": 1`,
		`"((input|total)_tokens)": \d{4,}`:      `"$1": 1000`, // estimates of what was asked
		`127\.0\.0\.1:\d+(->127\.0\.0\.1:\d+)?`: "HOST",
	} {
		got = regexp.MustCompile(pattern).ReplaceAllString(got, with)
	}
	path := filepath.Join("testdata", "timelines", name+".json")
	if *updateTimelines {
		expect.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		expect.NoError(t, os.WriteFile(path, []byte(got+"\n"), 0o600))
	}
	want, err := os.ReadFile(path)
	expect.NoError(t, err)
	if diff := cmp.Diff(string(want), got+"\n"); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
	return path
}

// A provider that ends an answer without a word, or for a call without the call, is asked once more, whatever the form.
func TestEmptyAnswersOfProviders(t *testing.T) {
	t.Parallel()
	sse := func(list ...string) http.HandlerFunc { return answers("text/event-stream", events(list...)) }
	begin, end := `{"type":"message_start","message":{"id":"m"}}`, `{"type":"message_stop"}`
	for name, c := range map[string]struct {
		contract string
		answer   http.HandlerFunc
	}{
		"the mark alone":               {"", sse("[DONE]")},
		"no choices":                   {"", sse(`{"choices":[]}`, `{"choices":[]}`, "[DONE]")},
		"no choices, as a whole":       {"", answers("application/json", `{"choices":[]}`)},
		"text, for a call":             {"", chatAnswer(chatText, strings.Replace(chatEnd, "stop", "tool_calls", 1))},
		"a response without items":     {"=responses", streamed(`{"id":"r","status":"completed","output":[]}`)},
		"a response of the mark alone": {"=responses", sse("[DONE]")},
		"a response that only began":   {"=responses", sse(`{"type":"response.created","response":{"id":"r"}}`, "[DONE]")},
		"a message without blocks":     {"=anthropic_messages", sse(begin, end)},
		"a message, for a call": {"=anthropic_messages", sse(begin, `{"type":"content_block_start","index":0,`+
			`"content_block":{"type":"text","text":"I run it:"}}`,
			`{"type":"message_delta","delta":{"stop_reason":"tool_use"}}`, end)},
		"a message of the mark alone": {"=anthropic_messages", sse("[DONE]")},
	} {
		t.Run(name, func(t *testing.T) {
			base, asked := provider(t, c.answer)
			h := assembled(t, []string{"FIRST_BASE_URL=" + base}, func(set *config.Config) {
				set.Models.Default, set.Models.Providers = "first/m", "first"+c.contract
			})
			got := h.post(`{"input":"hi"}`).response(t)
			if got.Status != responses.StatusIncomplete || got.IncompleteDetails.Reason != responses.ReasonEmptyAnswer {
				t.Errorf("status %s, %+v, error %+v", got.Status, got.IncompleteDetails, got.Error)
			}
			expect.Equal(t, "requests", asked.Load(), 2)
			for _, item := range got.Output {
				expect.Equal(t, "phase", item.(*responses.Message).Phase, responses.PhaseCommentary)
			}
		})
	}
}
