package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"holon/state"
	"holon/test/expect"
)

// A run in a container asks a provider that the user configured, with a key that a
// program prints, and falls back to a provider with another API when it fails.
// The agent sees no keys, and of endpoints that of one which failed.
func TestProviders(t *testing.T) {
	t.Parallel()
	const first, second = "sk-first-0123456789abcdef", "sk-second-0123456789abcdef"
	var asked, fallback atomic.Int32
	chat := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the content does not matter
		if r.Header.Get("Authorization") != "Bearer "+first {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if asked.Add(1) > 1 {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprintf(w, `{"error": {"message": "no more for %s"}}`, first)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, `data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","function":{"name":`+
			`"ExecCommand","arguments":"{\"cmd\":\"env; tr '\\\\0' '\\\\n' </proc/1/environ; cat /proc/1/cmdline\"}"}`+
			`}]},"finish_reason":"tool_calls"}]}`, "\n\ndata: [DONE]\n\n")
	}))
	t.Cleanup(chat.Close)
	messages := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the content does not matter
		if r.Header.Get("X-Api-Key") != second {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		fallback.Add(1)
		w.Header().Set("Content-Type", "text/event-stream")
		for _, event := range []string{
			`{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"m",` +
				`"content":[],"stop_reason":null,"usage":{"input_tokens":2,"output_tokens":1}}}`,
			`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"The other one ends it."}}`,
			`{"type":"content_block_stop","index":0}`,
			`{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},` +
				`"usage":{"output_tokens":3}}`,
			`{"type":"message_stop"}`,
		} {
			fmt.Fprintf(w, "data: %s\n\n", event)
		}
	}))
	t.Cleanup(messages.Close)

	h := newHome(t, "ANTHROPIC_API_KEY="+second, "ANTHROPIC_BASE_URL="+messages.URL)
	project := demoProject(t)
	key := filepath.Join(t.TempDir(), "key")
	expect.NoError(t, os.WriteFile(key, []byte(first+"\n"), 0o600))
	for _, args := range [][]string{
		{"providers", "set", "acme", "--base-url", chat.URL + "/v1", "--credential-command",
			fmt.Sprintf(`["cat", %q]`, key)},
		{"config", "set", "model.default", "acme/large"},
		{"config", "set", "model.fallbacks", "anthropic/claude-sonnet-4-5"},
		{"config", "set", "providers.acme.omit", "stream_options"},
	} {
		if r := h.run(project, args...); r.code != 0 {
			t.Fatalf("%v: exit code %d\n%s", args, r.code, r.stderr)
		}
	}
	r := h.run(project, "run", "look around")
	if r.code != 0 || strings.TrimSpace(r.stdout) != "The other one ends it." {
		t.Fatalf("exit code %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	if asked.Load() != 2 || fallback.Load() != 1 {
		t.Errorf("the first was asked %d times, the second %d", asked.Load(), fallback.Load())
	}
	err := filepath.WalkDir(r.dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		for _, secret := range []string{first, second, messages.URL} { // where the first failed is in its diagnostics
			if strings.Contains(string(data), secret) {
				t.Errorf("%s has %s", path, secret)
			}
		}
		return err
	})
	expect.NoError(t, err)
	if text := r.stdout + r.stderr; strings.Contains(text, first) || strings.Contains(text, second) {
		t.Errorf("a key is shown:\n%s", text)
	}
	if logs, _ := filepath.Glob(filepath.Join(r.dir, "tools/*/stdout.log")); len(logs) == 0 { // the pattern is right
		t.Error("the agent did not look around")
	}
}

// The spent part of a budget survives a kill of holon: attach goes on from there.
func TestBudgetSurvivesKill(t *testing.T) {
	t.Parallel()
	const key = "sk-first-0123456789abcdef"
	var asked atomic.Int32
	chat := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the content does not matter
		asked.Add(1)
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, `data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","function":{"name":`+
			`"ExecCommand","arguments":"{\"cmd\":\"touch started; until [ -e go ]; do sleep 0.1; done; `+
			`echo more >> rounds\"}"}}]},"finish_reason":"tool_calls"}]}`, "\n\n",
			`data: {"choices":[],"usage":{"prompt_tokens":3000,"completion_tokens":40,"total_tokens":3040}}`,
			"\n\ndata: [DONE]\n\n")
	}))
	t.Cleanup(chat.Close)
	h, repo := newHome(t, "DEEPSEEK_API_KEY="+key, "DEEPSEEK_BASE_URL="+chat.URL), repository(t, "echo a > a")
	p := h.begin(repo, "run", "--model", "deepseek/m", "--max-requests", "2", "go on and on")
	await(t, "the agent's command", func() bool { return exists(h, "cache/trees/*/*/tree/started") })
	await(t, "the account", func() bool {
		found, _ := filepath.Glob(filepath.Join(h.dir, "runs", "*", state.UsageFile)) // the pattern is right
		if len(found) != 1 {
			return false
		}
		text, err := os.ReadFile(found[0])
		return err == nil && strings.Contains(string(text), `"total_tokens": 3040`) &&
			strings.Contains(string(text), `"estimated_requests": 0`)
	})
	p.kill()
	h.proceed()
	r := h.run(repo, "attach", "last")
	switch {
	case r.code != 1:
		t.Fatalf("r.code = %d, want 1", r.code)
	case !strings.Contains(r.stderr, "(2 of 2 requests)"):
		t.Fatalf(`r.stderr = %q, want it to contain "(2 of 2 requests)"`, r.stderr)
	case asked.Load() != 2:
		t.Fatalf("asked.Load() = %d, want 2", asked.Load())
	}
	switch account := r.manifest.ModelUsage; {
	case account == nil:
		t.Error("account = nil, want a value")
	case account.Requests != 2:
		t.Errorf("account.Requests = %d, want 2", account.Requests)
	case account.Total != 6080:
		t.Errorf("account.Total = %d, want 6080", account.Total)
	}
	checkChanged(t, r, "added go", "added rounds", "added started")
	if exists(h, "runs/*/"+state.UsageFile) {
		t.Error("the account is left in the directory of the run")
	}
}
